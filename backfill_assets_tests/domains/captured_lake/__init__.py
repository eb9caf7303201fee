"""The shop of `domains/example` whose sales are captured from a lake table; which one, the environment says."""

from __future__ import annotations

import os
from dataclasses import replace

from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

from backfill_assets.domain import Domain, IcebergTable, LakeTable, Operations
from backfill_assets_tests.domains import example as example_domain

plain = replace(
    example_domain.sales,
    gates=(),
    capture=LakeTable(url=os.environ.get("TEST_LAKE_TABLE", "/nowhere"), chunk=100),
)

with_changes = replace(
    plain,
    order=("lake_version",),
    operation=Operations(column="op", create="c", update="u", delete="d", snapshot="r", at="lake_committed_at"),
    schema=StructType(
        [
            *example_domain.sales.schema.fields,
            StructField("op", StringType(), nullable=False),
            StructField("lake_version", LongType(), nullable=False),
            StructField("lake_committed_at", TimestampType()),
        ]
    ),
)

if "TEST_ICEBERG_CATALOG" in os.environ:
    catalog = {"type": "sql", "uri": os.environ["TEST_ICEBERG_CATALOG"], "name": "theirs"}
    with_changes = replace(with_changes, capture=IcebergTable(table="shop.sales", catalog=catalog, chunk=100))

DOMAIN = Domain(
    name="captured",
    package="backfill_assets_tests.domains.captured_lake",
    sources=(plain if os.environ.get("TEST_LAKE_PLAIN") else with_changes,),
    derived=(),
)
