"""HTTP APIs: a period of their records becomes landed files."""
