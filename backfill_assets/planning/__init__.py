"""Planning: which partitions a change affects, and the manifest that is agreed. No I/O, Spark, Delta or database."""
