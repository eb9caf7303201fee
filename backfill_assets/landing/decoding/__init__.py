"""Decoding: what a file of another form than the readers take is made into, before Spark reads it."""
