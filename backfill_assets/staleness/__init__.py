"""Staleness: published partitions that are out of date with their inputs, code, configuration or references."""
