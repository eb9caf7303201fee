"""Lake tables: versions of a Delta or an Iceberg table that others write become landed files."""
