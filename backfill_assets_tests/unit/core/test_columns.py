from __future__ import annotations

import pytest
from pyspark.sql.types import ArrayType, IntegerType, LongType, StringType, StructField, StructType

from backfill_assets.core.columns import ColumnChange, column_changes, differing_columns, needs_rule
from backfill_assets.report.words.plans import columns_words

DECLARED = [("day", "date"), ("amount", "bigint"), ("shop", "string")]


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (DECLARED, None),
        (DECLARED[:2], "shop is missing"),
        ([*DECLARED, ("till", "int")], "till is not declared"),
        ([("day", "date"), ("amount", "int"), ("shop", "int")], "amount is int where bigint is declared, shop is int"),
        ([DECLARED[1], DECLARED[0], DECLARED[2]], "amount stands where day is declared"),
        ([("day", "string"), ("till", "int"), ("shop", "string")], "amount is missing, till is not declared, day is"),
    ],
)
def test_every_column_that_differs_is_named(found: list[tuple[str, str]], said: str | None) -> None:
    sentence = differing_columns(found, DECLARED)
    assert sentence is None if said is None else sentence is not None and sentence.startswith(said)


HELD = StructType(
    [
        StructField("day", StringType(), nullable=False),
        StructField("amount", IntegerType(), nullable=False),
        StructField("note", StringType()),
        StructField("_run_id", StringType()),
    ]
)
NOTE, RISK = StructField("note", StringType()), StructField("risk", StringType())


def with_rows_of(*fields: StructField, held: set[str] | None = None) -> tuple[str, tuple[ColumnChange, ...]]:
    """What is said of rows with these columns besides the day, and the record of it."""
    changes = column_changes(HELD, StructType([HELD["day"], *fields]), held=held)
    return columns_words(changes), changes


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ((HELD["amount"], NOTE), ""),
        ((NOTE, HELD["amount"], StructField("_kind", StringType())), ""),
        ((HELD["amount"], NOTE, RISK), "adds risk (string)"),
        ((HELD["amount"],), "no longer has note"),
        ((StructField("amount", LongType(), nullable=False), NOTE), "amount was int and is bigint"),
        ((StructField("amount", IntegerType()), NOTE), "amount allows null where it did not"),
        ((StructField("amount", LongType()), NOTE), "amount was int and is bigint, and allows null where it did not"),
        ((StructField("amount", LongType()), RISK), "adds risk (string); no longer has note; amount was int and is"),
        ((HELD["amount"], StructField("note", StringType(), nullable=False)), ""),
    ],
    ids=str,
)
def test_the_columns_that_change_for_readers_are_named_and_those_of_lineage_are_not(
    fields: tuple[StructField, ...], said: str
) -> None:
    found, changes = with_rows_of(*fields)
    assert found.startswith(said)
    assert bool(found) is bool(said) is bool(changes)


def test_parts_of_a_column_that_can_be_null_now_are_a_change_and_comments_are_none() -> None:
    def line(*, nullable: bool, comment: str) -> StructType:
        number = StructField("no", IntegerType(), nullable=nullable, metadata={"comment": comment})
        return StructType([StructField("lines", ArrayType(StructType([number])))])

    strict = line(nullable=False, comment="Counted from 1.")
    assert column_changes(strict, line(nullable=False, comment="Counted.")) == ()
    assert columns_words(column_changes(strict, line(nullable=True, comment="Counted."))) == (
        "lines allows null where it did not"
    )


def test_a_column_that_the_rows_before_did_not_have_either_is_not_said_to_be_gone() -> None:
    assert with_rows_of(HELD["amount"], held={"day", "amount"})[0] == ""
    assert with_rows_of(HELD["amount"], held={"day", "amount", "note"})[0] == "no longer has note"


def test_what_a_table_may_become_without_a_rule_is_what_is_said_of_it() -> None:
    wider = StructType([HELD["day"], StructField("amount", LongType(), nullable=False), NOTE, RISK])
    assert not needs_rule(HELD, StructType([*wider.fields, HELD["_run_id"]]))
    assert [(each.column, each.was, each.becomes) for each in column_changes(HELD, wider)] == [
        ("amount", "int", "bigint"),
        ("risk", None, "string"),
    ]
