"""Restatement sets: several runs that are planned, approved, published and undone together."""
