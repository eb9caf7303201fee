"""HTTP APIs: a period of their records becomes landed files."""

from backfill_assets.capture.families import Family

FAMILY = Family(
    name="http",
    package=__name__,
    streams=("HttpApi",),
    parts=(
        *("Basic", "Cursor", "IdRange", "InBody", "InHeader", "LinkHeader", "NextUrl", "Offset", "PageNumber"),
        *("TimeWindow", "Token"),
    ),
    sniffs=True,
)
