"""Transforms: how an author's function is called, with its context, references, schema check and lineage columns."""
