"""What does a change touch, and what exactly was agreed? Pure: no I/O, no Spark, no Delta, no database."""
