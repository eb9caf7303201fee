"""Kinds of change: what a run does to the accepted partitions of its table, a class each."""
