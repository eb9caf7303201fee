"""Kinesis: a range of sequence numbers of a stream becomes landed files."""
