"""How is an author's function called? Context, references, schema enforcement, lineage columns."""
