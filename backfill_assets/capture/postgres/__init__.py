"""PostgreSQL: a snapshot of a table, and then its changes, become landed files."""
