"""PostgreSQL: a snapshot of a table, and then its changes, become landed files."""

from backfill_assets.capture.families import Family

FAMILY = Family(
    name="postgresql",
    package=__name__,
    streams=("PostgresTable",),
    parts=("POSTGRES_COLUMNS", "POSTGRES_OPERATIONS"),
)
