"""Gates: the conditions of a candidate, measured in one pass over its written files, and judged."""
