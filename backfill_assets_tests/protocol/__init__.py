"""The publication protocol as a model small enough to be searched completely."""
