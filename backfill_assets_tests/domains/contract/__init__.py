"""A shop whose source changes its contract: a column added, one renamed, one widened, in that order."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql.types import (
    DataType,
    DateType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from backfill_assets.domain import Domain, Lift, SourceTable, Transform, daily, derived_table, lifts
from backfill_assets.domain.contracts import Compute
from backfill_assets_tests.domains.contract.transforms import of_amount, of_net


def contract(amount: str, kind: DataType, *more: StructField) -> StructType:
    """What a sale says, with the amount under one name and type."""
    return StructType(
        [
            StructField("sale_id", StringType(), nullable=False),
            StructField("sold_at", TimestampType(), nullable=False),
            StructField(amount, kind),
            StructField("place", StringType()),
            *more,
        ]
    )


CHANNEL = StructField("channel", StringType(), nullable=False)
VERSIONS = {
    1: contract("amount", IntegerType()),
    2: contract("amount", IntegerType(), CHANNEL),
    3: contract("net", IntegerType(), CHANNEL),
    4: contract("net", LongType(), CHANNEL),
}
LIFTS: Mapping[int, Lift] = {1: lifts(defaults={"channel": "shop"}), 2: lifts(renamed={"amount": "net"})}


def shop_of(
    version: int,
    *,
    versions: Mapping[int, StructType] = VERSIONS,
    lift: Mapping[int, Lift | Compute] = LIFTS,
    release: tuple[str, Transform] | None = None,
    earlier: Mapping[str, Transform] | None = None,
) -> Domain:
    """The domain as its author has it while a version of the contract is the present one.

    Args:
        version: The version.
        versions: All versions.
        lift: All lifts.
        release: The present release of the transform; by default one that reads the amount by its name.
        earlier: Releases before it.
    """
    by_name = {"amount": ("1.0.0", of_amount), "net": ("2.0.0", of_net)}
    named, function = release or by_name["net" if "net" in versions[version].fieldNames() else "amount"]
    sales = SourceTable(
        name="bronze.sales",
        key=("sale_id",),
        event_time="sold_at",
        partition=daily("sold_on"),
        schema=versions[version],
        earlier={each: known for each, known in versions.items() if each < version},
        lift={each: known for each, known in lift.items() if each < version},
        plausible_gap_days=400,
    )
    totals = derived_table(
        name="silver.totals",
        inputs={"sales": sales},
        key=("day",),
        partition=daily("day"),
        schema=StructType([StructField("day", DateType(), nullable=False), StructField("amount", LongType())]),
        version=named,
        transform="totals",
        earlier=earlier or ({"1.0.0": of_amount} if function is of_net else {}),
    )(function)
    return Domain(name="contracts", package=__name__, sources=(sales,), derived=(totals,))


DOMAIN = shop_of(1)
