"""Decoding: rewrites a file of another form as one that the readers take, before Spark reads it."""
