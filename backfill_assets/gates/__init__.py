"""What must a candidate satisfy? Measured in one pass over the files as they were written."""
