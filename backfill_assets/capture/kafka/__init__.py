"""Kafka: a range of offsets of a topic becomes landed files."""
