"""A domain whose tables are published in different modes: a journal that only adds with totals that follow from it,
accounts that can move to another day, and balances that stay on theirs.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import date

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import BooleanType, DateType, LongType, StringType, StructField, StructType, TimestampType

from backfill_assets.domain import (
    DerivedTable,
    Domain,
    Operations,
    RetentionRule,
    SourceTable,
    TransformContext,
    Window,
    append,
    daily,
    derived_table,
    merge,
    monthly,
    reads_self,
    warm_up_proof,
)
from backfill_assets.domain.tables import Release

entries = SourceTable(
    name="bronze.entries",
    key=("entry_id",),
    event_time="at",
    partition=daily("entered_on"),
    schema=StructType(
        [
            StructField("entry_id", StringType(), nullable=False),
            StructField("at", TimestampType(), nullable=False),
            StructField("account", StringType(), nullable=False),
            StructField("amount", LongType(), nullable=False),
            StructField("version", LongType(), nullable=False),
            StructField("gone", BooleanType(), nullable=False),
        ]
    ),
)


def _doubled(entries: DataFrame, ctx: TransformContext) -> DataFrame:
    return entries.select(
        sf.col("entered_on").alias("day"), "entry_id", (2 * sf.col("amount")).cast("long").alias("amount")
    )


@derived_table(
    name="silver.journal",
    inputs={"entries": entries},
    key=("day", "entry_id"),
    partition=daily("day"),
    schema=StructType(
        [
            StructField("day", DateType(), nullable=False),
            StructField("entry_id", StringType(), nullable=False),
            StructField("amount", LongType(), nullable=False),
        ]
    ),
    version="1.0.0",
    earlier={"0.9.0": _doubled},
    publish=append(),
)
def journal(entries: DataFrame, ctx: TransformContext) -> DataFrame:
    """Every entry, as it was when its day was closed. Grain: one row per entry."""
    return entries.select(sf.col("entered_on").alias("day"), "entry_id", "amount")


@derived_table(
    name="gold.totals",
    inputs={"journal": journal},
    key=("day",),
    partition=daily("day"),
    schema=StructType(
        [StructField("day", DateType(), nullable=False), StructField("amount", LongType(), nullable=False)]
    ),
    version="1.0.0",
)
def totals(journal: DataFrame, ctx: TransformContext) -> DataFrame:
    """What was entered on a day. Grain: one row per day."""
    return journal.groupBy("day").agg(sf.sum("amount").alias("amount")).select("day", "amount")


ACCOUNTS = StructType(
    [
        StructField("day", DateType(), nullable=False),
        StructField("account", StringType(), nullable=False),
        StructField("amount", LongType(), nullable=False),
        StructField("version", LongType(), nullable=False),
    ]
)


@derived_table(
    name="silver.accounts",
    inputs={"entries": entries},
    key=("account",),
    partition=daily("day"),
    schema=ACCOUNTS,
    version="1.0.0",
    publish=merge(on=("account",), deletes="gone", version="version", older="ignore"),
)
def accounts(entries: DataFrame, ctx: TransformContext) -> DataFrame:
    """The latest entry of every account, on its day. Grain: one row per account. Returns changes."""
    return entries.select(sf.col("entered_on").alias("day"), "account", "amount", "version", "gone")


@derived_table(
    name="silver.balances",
    inputs={"entries": entries},
    key=("day", "account"),
    partition=daily("day"),
    schema=ACCOUNTS,
    version="1.0.0",
    publish=merge(on=("day", "account"), deletes="gone", version="version"),
)
def balances(entries: DataFrame, ctx: TransformContext) -> DataFrame:
    """The latest entry of every account of a day. Grain: one row per day and account. Returns changes."""
    latest = entries.groupBy("entered_on", "account").agg(
        sf.max(sf.struct("version", "amount", "gone")).alias("latest")
    )
    return latest.select(sf.col("entered_on").alias("day"), "account", "latest.amount", "latest.version", "latest.gone")


def _without_a(entries: DataFrame, ctx: TransformContext) -> DataFrame:
    return balances.releases[0].function(entries.where("account <> 'a'"), ctx)


latest = replace(
    balances,
    name="silver.latest",
    publish=merge(on=("day", "account"), deletes="gone", version="version", older="ignore"),
    releases=(*balances.releases, Release(version="0.9.0", function=_without_a)),
)
"""The same, where an older entry counts when the later one was taken back."""


def _by_month(entries: DataFrame, ctx: TransformContext) -> DataFrame:
    """The latest entry of every account of a month. Grain: one row per month and account. Returns changes."""
    month = sf.trunc("entered_on", "month").alias("day")
    newest = sf.max(sf.struct("version", "amount", "gone")).alias("latest")
    found = entries.groupBy(month, "account").agg(newest)
    return found.select("day", "account", "latest.amount", "latest.version", "latest.gone")


by_month = derived_table(
    name="silver.by_month",
    inputs={"entries": entries},
    key=("day", "account"),
    partition=monthly("day"),
    schema=ACCOUNTS,
    version="1.0.0",
    publish=latest.publish,
)(_by_month)


@derived_table(
    name="gold.of_latest",
    inputs={"latest": latest},
    key=("day", "account"),
    partition=daily("day"),
    schema=ACCOUNTS,
    version="1.0.0",
    publish=merge(on=("day", "account")),
)
def of_latest(latest: DataFrame, ctx: TransformContext) -> DataFrame:
    """The same rows, of the table before. Grain: one row per day and account. Returns changes."""
    return latest.select("day", "account", "amount", "version")


_keeping = merge(on=("day", "account"), deletes="gone", version="version", older="ignore", keeps_withdrawn=True)
keeping_latest = replace(latest, name="silver.keeping_latest", publish=_keeping)
"""The same, which keeps rows that no entry gives any more."""


def _sums(entries: DataFrame, ctx: TransformContext) -> DataFrame:
    """What was entered for an account on a day and the day before, and how often. Grain: a row per day and account."""
    days = ctx.frame([(day,) for day in ctx.output_partitions], "day date")
    within = sf.col("entered_on").between(sf.date_sub("day", 1), sf.col("day"))
    return (
        days.join(entries, within)
        .groupBy("day", "account")
        .agg(sf.sum("amount").alias("amount"), sf.count("*").alias("version"))
        .select("day", "account", "amount", "version")
    )


sums = derived_table(
    name="silver.sums",
    inputs={"entries": entries},
    window=Window(days_back=1),
    key=("day", "account"),
    partition=daily("day"),
    schema=ACCOUNTS,
    gates=(warm_up_proof(partitions=0),),
    version="1.0.0",
)(_sums)
"""A table whose partitions are replaced."""

closed = replace(sums, name="silver.closed", publish=append())
"""The same sums, as they were when their day was closed."""


@derived_table(
    name="silver.running",
    inputs={"state": reads_self(keep=RetentionRule(days=1, then="month")), "entries": entries},
    key=("day", "account"),
    partition=daily("day"),
    schema=ACCOUNTS,
    version="1.0.0",
)
def running(state: DataFrame, entries: DataFrame, ctx: TransformContext) -> DataFrame:
    """What was entered for an account until the end of a day, and how often. Grain: one row per account and day.

    Only the snapshots of the last two days are kept, and the last one of each month.
    """
    more = entries.select("account", "amount", sf.lit(1).cast("long").alias("version"))
    return (
        state.select("account", "amount", "version")
        .unionByName(more)
        .groupBy("account")
        .agg(sf.sum("amount").alias("amount"), sf.sum("version").alias("version"))
        .select(sf.lit(ctx.output_partitions[-1]).alias("day"), "account", "amount", "version")
    )


running_by_two = replace(running, name="silver.running_by_two", since=date(2026, 1, 1), every=2, keep=None)
"""The same at the end of every second day; all of these are kept."""


DOMAIN = Domain(
    name="modes",
    package="backfill_assets_tests.domains.modes",
    sources=(entries,),
    derived=(journal, totals, accounts, balances),
)

EVERY_MODE = Domain(
    name="every_mode",
    package="backfill_assets_tests.domains.modes",
    sources=(entries,),
    derived=(sums, closed, accounts, balances, running, running_by_two),
)
"""One table of each mode over the same entries."""

changes_of_entries = replace(
    entries,
    name="bronze.changes_of_entries",
    order=("number",),
    operation=Operations(column="op", create="c", update="u", delete="d"),
    schema=StructType(
        [
            *entries.schema.fields,
            StructField("op", StringType(), nullable=False),
            StructField("number", LongType(), nullable=False),
        ]
    ),
)
"""The same entries as changes of a database, which says what it deletes."""


def _merging(source: SourceTable) -> tuple[DerivedTable, ...]:
    """The tables that merge, over one source."""
    found = {t.name: replace(t, inputs={"entries": source}) for t in (accounts, latest, by_month, keeping_latest)}
    return (*found.values(), replace(of_latest, inputs={"latest": found[latest.name]}))


def taken_back(source: SourceTable) -> Domain:
    """Tables that merge what a source says and takes back."""
    return Domain(
        name="taken_back",
        package="backfill_assets_tests.domains.modes",
        sources=(source,),
        derived=_merging(source),
    )
