"""Capture: a bounded range of a source becomes landed files."""
