"""A shop whose sales are a table of PostgreSQL; where that is, the environment says."""

from __future__ import annotations

import os

from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DecimalType,
    IntegerType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from backfill_assets.domain import (
    POSTGRES_COLUMNS,
    POSTGRES_OPERATIONS,
    Domain,
    PostgresTable,
    SourceTable,
    daily,
)

SALES = (
    StructField("sale_id", IntegerType(), nullable=False),
    StructField("sold_at", TimestampType(), nullable=False),
    StructField("amount", DecimalType(12, 2)),
    StructField("paid", BooleanType()),
    StructField("note", StringType()),
    StructField("seal", BinaryType()),
)

sales = SourceTable(
    name="bronze.sales",
    description="What became of every sale.",
    key=("sale_id",),
    event_time="sold_at",
    partition=daily("sold_on"),
    schema=StructType([*SALES, *POSTGRES_COLUMNS]),
    order=("pg_lsn", "pg_position"),
    operation=POSTGRES_OPERATIONS,
    capture=PostgresTable(
        table="public.sales",
        database=os.environ.get("TEST_SHOP_DATABASE", "shop"),
        host="127.0.0.1",
        port=int(os.environ.get("TEST_SHOP_PORT", "9")),
        user="capture",
        slot=os.environ.get("TEST_SHOP_SLOT", "sales"),
        chunk=int(os.environ.get("TEST_SHOP_CHUNK", "65536")),
        secrets={"password": "TEST_SHOP_PASSWORD"},
    ),
)

DOMAIN = Domain(name="database", package="backfill_assets_tests.domains.database", sources=(sales,), derived=())
