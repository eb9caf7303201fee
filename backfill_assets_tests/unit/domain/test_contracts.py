"""Contracts have versions: what may follow, what needs a lift, and what is refused when the domain loads."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql.types import ArrayType, IntegerType, StructField, StructType

from backfill_assets.core.columns import needs_rule, widened, widens
from backfill_assets.core.errors import InvalidDeclaration
from backfill_assets.domain import SourceTable, daily, lifts


def schema(text: str) -> StructType:
    """A schema from names and types; a column whose type ends in ! cannot be null."""
    columns = (column.split(" ") for column in text.split(", "))
    fields = [{"name": n, "type": JSON.get(t.rstrip("!"), t.rstrip("!")), "nullable": t[-1] != "!"} for n, t in columns]
    return StructType.fromJson({"fields": [{**each, "metadata": {}} for each in fields]})


JSON = {"int": "integer", "bigint": "long", "smallint": "short", "tinyint": "byte"}
"""Types that Spark's JSON of a schema calls by another name than its SQL."""


FIRST = "event_id string!, at timestamp!, amount int, note string, price decimal(7,2)"


def source(present: str, *earlier: str, **changed: Any) -> SourceTable:
    declared: dict[str, Any] = {
        "name": "bronze.events",
        "key": ("event_id",),
        "event_time": "at",
        "partition": daily("event_date"),
        "schema": schema(present),
        "earlier": {number: schema(text) for number, text in enumerate(earlier, start=1)},
    }
    return SourceTable(**{**declared, **changed})


LONGER = FIRST.replace("amount int", "amount bigint")

REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "a column is gone": (
        FIRST.replace(", note string", ""),
        {},
        "from version 1 to 2 without a lift: note is no longer",
    ),
    "a column is renamed": (FIRST.replace("note", "remark"), {}, "without a lift: note is no longer there"),
    "a type is narrower": (FIRST.replace("int", "smallint"), {}, "amount was int and is smallint, which holds less"),
    "a type is another": (FIRST.replace("int", "string"), {}, "amount was int and is string"),
    "a decimal loses digits": (FIRST.replace("(7,2)", "(8,4)"), {}, r"price was decimal\(7,2\) and is decimal\(8,4\)"),
    "a column is required": (FIRST.replace("note string", "note string!"), {}, "note could be null and no longer can"),
    "a new column is required": (f"{FIRST}, place string!", {}, "place is new and cannot be null"),
    "the key is another": (f"{FIRST}, no bigint", {"key": ("event_id", "no")}, "no belongs to the key, and version 1"),
    "the event time is another": (f"{FIRST}, seen timestamp", {"event_time": "seen"}, "seen belongs to the event time"),
    "the event time was a text": (
        FIRST,
        {"earlier": {1: schema(FIRST.replace("at timestamp", "at string"))}},
        "at was string and is timestamp",
    ),
    "a type is changed by a lift": (
        FIRST.replace("int", "string"),
        {"lift": {1: lifts(lambda record: {"amount": record["amount"].cast("string")})}},
        "amount is int in version 1 and string in version 2; files of both are read as one column",
    ),
    "a rename leads nowhere": (
        FIRST.replace("note", "remark"),
        {"lift": {1: lifts(renamed={"note": "comment"})}},
        "its lift from version 1 to 2: it renames note to comment and names comment, which the later",
    ),
    "a rename narrows": (
        FIRST.replace("amount int", "cents smallint"),
        {"lift": {1: lifts(renamed={"amount": "cents"})}},
        "it renames amount to cents, which was int and is smallint",
    ),
    "both names are there": (
        f"{FIRST}, remark string",
        {"lift": {1: lifts(renamed={"note": "remark"})}},
        "it renames note to remark, and note is a column of both versions",
    ),
    "a default is of another type": (
        f"{FIRST}, place string!",
        {"lift": {1: lifts(defaults={"place": 3})}},
        "the default of place is 3, which is not a string",
    ),
    "a default is for an old column": (
        FIRST,
        {"lift": {1: lifts(defaults={"note": "none"})}},
        "it has a default for note, which is not a column that the later version adds",
    ),
    "a dropped column is still there": (
        FIRST,
        {"lift": {1: lifts(dropped=("note",))}},
        "it drops note, which is not a column of the earlier version alone",
    ),
    "a lift starts nowhere": (FIRST, {"lift": {2: lifts()}}, "a lift for version 2, which is not among its earlier"),
    "a version is left out": (
        FIRST,
        {"earlier": {2: schema(FIRST)}},
        "earlier versions are 2; they are counted from",
    ),
    "a version is no number": (FIRST, {"earlier": {"1": schema(FIRST)}}, "earlier must be schemas by version"),
    "an earlier version holds the partition": (
        f"{FIRST}",
        {"earlier": {1: schema(f"{FIRST}, event_date date")}, "lift": {1: lifts(dropped=("event_date",))}},
        "version 1 of bronze.events: its partition column 'event_date' is derived",
    ),
    "an earlier version holds a reserved name": (
        FIRST,
        {"earlier": {1: schema(f"{FIRST}, _row bigint")}, "lift": {1: lifts(dropped=("_row",))}},
        "version 1 of bronze.events: columns that begin with _ are kept for lineage: _row",
    ),
}


@pytest.mark.parametrize("change", REFUSED)
def test_a_change_that_no_rule_explains_is_refused_with_the_column_and_both_versions(change: str) -> None:
    present, changed, sentence = REFUSED[change]
    with pytest.raises(InvalidDeclaration, match=sentence) as refused:
        source(present, FIRST, **changed)
    assert "bronze.events" in str(refused.value)


def test_a_refused_change_names_the_way_out() -> None:
    with pytest.raises(InvalidDeclaration) as refused:
        source(FIRST.replace("note", "remark"), FIRST)
    assert "lifts(renamed=" in refused.value.message


@pytest.mark.parametrize(
    "present",
    [
        f"{FIRST}, place string",
        FIRST.replace("amount int", "amount bigint"),
        FIRST.replace("amount int", "amount decimal(12,2)"),
        FIRST.replace("(7,2)", "(10,4)"),
        FIRST.replace("at timestamp!", "at timestamp"),
    ],
)
def test_columns_are_added_widened_and_made_nullable_without_a_lift(present: str) -> None:
    declared = source(present, FIRST)
    assert declared.contract_version == 2
    assert declared.read_as(1) == 2
    assert declared.at(1).schema == schema(FIRST)
    assert declared.at(2) is declared


def test_a_nested_type_may_let_its_parts_be_null_and_no_more() -> None:
    def of(name: str = "no", *, element: bool = False, member: bool = False, comment: str = "") -> ArrayType:
        fields = [StructField(name, IntegerType(), nullable=member, metadata={"comment": comment} if comment else {})]
        return ArrayType(StructType(fields), containsNull=element)

    assert widens(of(), of(element=True, member=True, comment="counted from 1"))
    assert not widens(of(element=True), of())
    assert not widens(of(member=True), of())
    assert not widens(of(), of("number"))
    assert not widens(of(), ArrayType(IntegerType(), containsNull=True))


def test_a_table_knows_what_it_was_in_every_version() -> None:
    renamed = FIRST.replace("event_id", "number").replace("note", "remark")
    declared = source(
        f"{renamed.replace('amount int', 'amount bigint')}, place string!",
        FIRST,
        renamed,
        renamed.replace("amount int", "amount bigint"),
        key=("number",),
        json_columns=("remark",),
        lift={1: lifts(renamed={"event_id": "number", "note": "remark"}), 3: lifts(defaults={"place": "here"})},
    )
    assert [declared.at(version).key for version in (1, 2, 4)] == [("event_id",), ("number",), ("number",)]
    assert [declared.at(version).json_columns for version in (1, 2)] == [("note",), ("remark",)]
    assert [declared.read_as(version) for version in (1, 2, 3, 4)] == [1, 3, 3, 4]
    assert declared.at(3).earlier.keys() == {1, 2}


def test_a_function_alone_is_a_lift_that_changes_values() -> None:
    changed = FIRST.replace("amount int", "cents bigint")
    declared = source(changed, FIRST, lift={1: lambda record: {"cents": record["amount"] * 100}})
    assert not declared.lift_from(1).keeps_values
    assert source(changed, FIRST, lift={1: lifts(dict, keeps_values=True)}).lift_from(1).keeps_values
    assert lifts(renamed={"a": "b"}).keeps_values


def test_a_default_is_a_value_of_its_column() -> None:
    added = f"{FIRST}, seen timestamp!, is_open boolean!, share double!"
    defaults = {"seen": datetime(2026, 1, 1, tzinfo=UTC), "is_open": False, "share": 1}
    assert source(added, FIRST, lift={1: lifts(defaults=defaults)}).contract_version == 2
    with pytest.raises(InvalidDeclaration, match="the default of share is True"):
        source(added, FIRST, lift={1: lifts(defaults={**defaults, "share": True})})


def test_types_widen_in_one_direction() -> None:
    order = [field.dataType for field in schema("a tinyint, b smallint, c int, d bigint, e decimal(20,0)").fields]
    for number, old in enumerate(order):
        for other, new in enumerate(order):
            assert widens(old, new) == (number <= other)


def test_a_table_keeps_the_columns_of_files_that_have_them() -> None:
    found, wanted = schema(FIRST), schema(LONGER.replace("note string", "remark string!"))
    both = widened(found, wanted, former={"note"})
    assert both == schema(f"{LONGER}, remark string")
    assert widened(both, wanted, former={"note"}) == both
    with pytest.raises(KeyError):
        widened(found, wanted)


def test_what_a_change_needs_a_rule_for_names_each_column() -> None:
    assert needs_rule(schema("a int, b int"), schema("a smallint, c int!")) == (
        "b is no longer there",
        "a was int and is smallint, which holds less",
        "c is new and cannot be null",
    )
