"""Lake tables: versions of a Delta or an Iceberg table that others write become landed files."""

from backfill_assets.capture.families import Family

FAMILY = Family(name="lake", package=__name__, streams=("LakeTable", "IcebergTable"), sniffs=True)
