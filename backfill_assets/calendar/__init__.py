"""Calendar: days, partitions, windows and the days of a zone."""
