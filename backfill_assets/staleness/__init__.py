"""Staleness: which published partitions no longer follow from their inputs, code, configuration and references."""
