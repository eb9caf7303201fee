"""Upkeep: what is kept, what is removed, and whether everything still agrees and can be reproduced."""
