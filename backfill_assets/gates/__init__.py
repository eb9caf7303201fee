"""Gates: the conditions of a candidate, measured in its written files, and judged."""
