"""Landing: raw files are archived unchanged, recorded, checked, and built into bronze."""
