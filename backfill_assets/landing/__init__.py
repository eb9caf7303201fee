"""How do raw files come in? Copied as they came, recorded, checked, and built into bronze."""
