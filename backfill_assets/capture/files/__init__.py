"""Files: what a person gives, or a producer drops, becomes landed files."""
