"""What the gates measure, against a plain reading of the same rows."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DateType, DoubleType, IntegerType, StringType, StructField, StructType

from backfill_assets.core.identity import EMPTY_FILE_SET
from backfill_assets.domain import (
    DerivedTable,
    TransformContext,
    UniqueKey,
    accepted,
    compared,
    daily,
    derived_table,
    expression,
    not_null,
)
from backfill_assets.gates.judge import Findings, Verdict, judge
from backfill_assets.gates.measure import compare, compare_keys, contents, measure
from backfill_assets.gates.measured import NONE_OF_THESE, Measured, equal_partitions
from backfill_assets.gates.sample import failing_keys, most_moved, sample_rows
from backfill_assets.lake.checksums import NO_ROWS
from backfill_assets.ledger.findings import Finding, SampledRow
from backfill_assets.ledger.records import CandidatePartition
from backfill_assets.report.words.verdicts import verdict_words
from backfill_assets_tests.domains.example import sales

SCHEMA = StructType(
    [
        StructField("day", DateType(), nullable=False),
        StructField("id", StringType(), nullable=False),
        StructField("state", StringType()),
        StructField("count", IntegerType()),
        StructField("share", DoubleType()),
    ]
)
FIRST = date(2026, 1, 1)

Value = tuple[date, str, str | None, int | None, float | None]


@derived_table(
    name="silver.measured",
    inputs={"sales": sales},
    key=("day", "id"),
    partition=daily("day"),
    schema=SCHEMA,
    version="1",
    gates=(not_null("state"), accepted("state", ("open", "closed")), expression("positive", "count > 0")),
)
def measured_table(sales: DataFrame, ctx: TransformContext) -> DataFrame:
    return sales


TABLE: DerivedTable = measured_table


def frame(spark: SparkSession, rows: Sequence[Value]) -> DataFrame:
    nullable = StructType([replace_nullable(field) for field in SCHEMA.fields])
    return spark.createDataFrame(list(rows), nullable)


def replace_nullable(field: StructField) -> StructField:
    return StructField(field.name, field.dataType, nullable=True)


def no_rows(_day: date) -> Sequence[SampledRow]:
    return ()


def random_rows(chance: random.Random, *, doubled: bool) -> list[Value]:
    rows: list[Value] = []
    for day in range(3):
        for number in range(6):
            if chance.random() < 0.7:
                row = (
                    FIRST + timedelta(days=day),
                    f"k{number}",
                    chance.choice(["open", "closed", "odd", None]),
                    chance.choice([1, 2, 0, None]),
                    chance.choice([0.5, None, 0.0]),
                )
                rows.append(row)
                if doubled and chance.random() < 0.2:
                    rows.append(row)
    return rows


def plainly(new: Sequence[Value], old: Sequence[Value], day: date) -> dict[str, Any]:
    fresh = [row for row in new if row[0] == day]
    before = {row[1]: row for row in old if row[0] == day}
    after = {row[1]: row for row in fresh}
    names = SCHEMA.fieldNames()
    moved = Counter(
        names[i] for key in after.keys() & before.keys() for i in range(2, 5) if after[key][i] != before[key][i]
    )
    return {
        "rows": len(fresh),
        "accepted_rows": len(before),
        "surplus": len(fresh) - len(after),
        "added": len(after.keys() - before.keys()),
        "removed": len(before.keys() - after.keys()),
        "changed": sum(after[key] != before[key] for key in after.keys() & before.keys()),
        "unchanged": sum(after[key] == before[key] for key in after.keys() & before.keys()),
        "changed_columns": dict(moved),
        "state_moves": plain_state_moves(before, after),
        "violations": {
            "schema": 0,
            "not_null_state": sum(row[2] is None for row in fresh),
            "accepted_state": sum(row[2] == "odd" for row in fresh),
            "positive": sum(row[3] is None or row[3] <= 0 for row in fresh),
        },
    }


def plain_state_moves(before: Mapping[str, Value], after: Mapping[str, Value]) -> dict[tuple[str | None, ...], int]:
    """By the state before and after, how many keys differ; None for the side that a key is not on."""
    named = {"open": "open", "closed": "closed"}
    return Counter(
        tuple(named.get(str(side[key][2]), NONE_OF_THESE) if key in side else None for side in (before, after))
        for key in before.keys() | after.keys()
        if before.get(key) != after.get(key)
    )


def measured_as(found: Measured, name: str) -> Any:
    if name != "state_moves":
        return getattr(found, name)
    return {(each.before, each.after): each.rows for each in found.state_moves if each.column == "state"}


@pytest.mark.parametrize("seed", range(4))
def test_one_pass_measures_what_a_plain_reading_counts(spark: SparkSession, seed: int) -> None:
    chance = random.Random(seed)
    new, old = random_rows(chance, doubled=True), random_rows(chance, doubled=False)
    found = measure(frame(spark, new), frame(spark, old), TABLE, schema=SCHEMA)
    for day in sorted({row[0] for row in (*new, *old)}):
        expected = plainly(new, old, day)
        assert {name: measured_as(found[day], name) for name in expected} == expected, (seed, day)


def test_without_accepted_rows_everything_is_added(spark: SparkSession) -> None:
    rows: list[Value] = [(FIRST, "a", "open", 1, None), (FIRST, "b", "open", 1, None)]
    found = measure(frame(spark, rows), None, TABLE, schema=SCHEMA)[FIRST]
    assert (found.rows, found.added, found.accepted_rows, found.changed) == (2, 2, 0, 0)


def test_a_partition_that_lost_all_rows_is_all_removed(spark: SparkSession) -> None:
    rows: list[Value] = [(FIRST, "a", "open", 1, None)]
    found = measure(frame(spark, []), frame(spark, rows), TABLE, schema=SCHEMA)[FIRST]
    assert (found.rows, found.removed, found.accepted_rows) == (0, 1, 1)
    assert found.checksum == NO_ROWS


@pytest.mark.long
def test_the_checksum_depends_on_the_rows_and_not_on_their_order(spark: SparkSession) -> None:
    rows = random_rows(random.Random(7), doubled=False)
    shuffled = random.Random(8).sample(rows, len(rows))
    one = measure(frame(spark, rows), None, TABLE, schema=SCHEMA)
    other = measure(frame(spark, shuffled).repartition(5), None, TABLE, schema=SCHEMA)
    assert {day: m.checksum for day, m in one.items()} == {day: m.checksum for day, m in other.items()}


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((FIRST, "a", None, 1, None), (FIRST, "a", "open", None, None)),
        ((FIRST, "a", "open", 1, None), (FIRST, "a", "open", 1, 0.0)),
        ((FIRST, "a", "open", 1, 0.5), (FIRST, "a", "open", 2, 0.5)),
    ],
)
def test_rows_that_differ_have_other_checksums(spark: SparkSession, left: Value, right: Value) -> None:
    one, other = (measure(frame(spark, [row]), None, TABLE, schema=SCHEMA)[FIRST] for row in (left, right))
    assert one.checksum != other.checksum


@pytest.mark.long
def test_a_row_and_its_double_are_not_the_same_as_none(spark: SparkSession) -> None:
    # An exclusive or alone would let two equal rows vanish.
    row: Value = (FIRST, "a", "open", 1, None)
    checksums = {
        measure(frame(spark, [row] * times), None, TABLE, schema=SCHEMA)[FIRST].checksum for times in (1, 2, 3)
    }
    assert len(checksums) == 3


def test_zeros_and_nans_are_one_value_each(spark: SparkSession) -> None:
    zero, minus_zero = ([(FIRST, "a", "open", 1, value)] for value in (0.0, -0.0))
    one, other = (measure(frame(spark, rows), None, TABLE, schema=SCHEMA)[FIRST] for rows in (zero, minus_zero))
    assert one.checksum == other.checksum


def test_a_missing_required_value_fails_the_schema_gate(spark: SparkSession) -> None:
    rows: list[Value] = [(FIRST, "a", "open", 1, None), (FIRST, None, "open", 1, None)]  # type: ignore[list-item]
    found = measure(frame(spark, rows), None, TABLE, schema=SCHEMA)
    candidate = CandidatePartition(run_id="run", partition=FIRST, files=EMPTY_FILE_SET, rows=2)
    results = {result.gate: result for result in judge(TABLE.gates, [candidate], Findings(measured=found))}
    assert not results["schema"].passed
    assert "1 of 2 rows lack a value" in verdict_words(results["schema"])
    assert results["accepted_state"].passed


def test_every_gate_has_a_result_for_an_empty_partition() -> None:
    candidate = CandidatePartition(run_id="run", partition=FIRST, files=EMPTY_FILE_SET, rows=0)
    results = judge(TABLE.gates, [candidate], Findings())
    assert [result.gate for result in results] == [gate.name for gate in TABLE.gates]
    assert all(result.passed for result in results)


def test_files_with_other_columns_fail_the_schema_gate_with_the_reason() -> None:
    candidate = CandidatePartition(run_id="run", partition=FIRST, files=EMPTY_FILE_SET, rows=0)
    observed = {"file": "part-0", "differing": "id is missing"}
    other = Verdict(passed=False, finding=Finding.OTHER_COLUMNS, observed=observed)
    results = {r.gate: r for r in judge(TABLE.gates, [candidate], Findings(wrong_columns={FIRST: other}))}
    assert (results["schema"].passed, verdict_words(results["schema"])) == (
        False,
        "part-0 has other columns than declared: id is missing",
    )


def test_the_sample_shows_rows_before_and_after_and_is_the_same_every_time(spark: SparkSession) -> None:
    chance = random.Random(3)
    new, old = random_rows(chance, doubled=False), random_rows(chance, doubled=False)
    first = sample_rows(frame(spark, new), frame(spark, old), TABLE, most=5)
    again = sample_rows(frame(spark, new).repartition(4), frame(spark, old), TABLE, most=5)
    assert first == again
    assert len(first) == 5
    for row in first:
        assert row.before != row.after
        assert set(row.key) == {"day", "id"}


def test_the_sample_has_rows_of_every_kind_of_difference(spark: SparkSession) -> None:
    """However many of one kind there are, and however little the others move the measure."""
    old: list[Value] = [(FIRST, f"k{n:02}", "open", 1, 0.5) for n in range(60)]
    moved: list[Value] = [(FIRST, f"k{n:02}", "open", 9, 0.5) for n in range(50)]
    few: list[Value] = [(FIRST, "k50", "closed", 1, 0.5), (FIRST, "new", "open", 1, 0.5)]
    kept = [row for row in old if row[1] in ("k51", "k52")]
    sample = sample_rows(frame(spark, [*moved, *few, *kept]), frame(spark, old), TABLE)
    states = [row.key["id"] for row in sample if row.before and row.after and row.before["state"] != row.after["state"]]
    kinds = (sum(row.before is None for row in sample), sum(row.after is None for row in sample))
    assert (len(sample), states, kinds) == (20, ["k50"], (1, 7))


def test_the_partitions_that_move_most_are_sampled() -> None:
    days = [FIRST + timedelta(days=offset) for offset in range(4)]
    measured = {day: Measured(partition=day, changed=changed) for day, changed in zip(days, (1, 0, 9, 5), strict=True)}
    assert most_moved(measured, most=2) == (days[2], days[3])


def test_a_gate_that_fails_names_up_to_five_keys(spark: SparkSession) -> None:
    rows: list[Value] = [(FIRST, f"k{number}", "odd", 1, None) for number in range(9)]
    rows += [(FIRST, "twice", "open", 1, None)] * 3
    rows += [(FIRST + timedelta(days=1), "null", None, 0, None), (FIRST + timedelta(days=1), "good", "open", 1, None)]
    staged = frame(spark, rows)
    measured = measure(staged, None, TABLE, schema=SCHEMA)
    candidates = [CandidatePartition(run_id="r", partition=day, files=EMPTY_FILE_SET, rows=1) for day in measured]
    results = judge(TABLE.gates, candidates, Findings(measured=measured))
    named: dict[str, list[tuple[str, str]]] = {}
    for found in failing_keys(staged, TABLE, results, no_rows):
        assert found.key["day"] == str(found.partition)
        named.setdefault(found.gate, []).append((str(found.partition), str(found.key["id"])))
    first, second = str(FIRST), str(FIRST + timedelta(days=1))
    assert named == {
        "unique_key": [(first, "twice")],
        "not_null_state": [(second, "null")],
        "accepted_state": [(first, f"k{number}") for number in range(5)],
        "positive": [(second, "null")],
    }
    assert "twice" not in str([result.observed for result in results]), "keys can be erased"


def test_accepted_rows_that_would_disappear_are_named_too(spark: SparkSession) -> None:
    table = replace(TABLE, gates=(compared(max_removed_percent=10),))
    old = frame(spark, [(FIRST, f"k{number}", "open", 1, None) for number in range(7)])
    new = frame(spark, [(FIRST, "k0", "open", 1, None)])
    measured = measure(new, old, table, schema=SCHEMA)
    candidate = CandidatePartition(run_id="r", partition=FIRST, files=EMPTY_FILE_SET, rows=1)
    results = judge(table.gates, [candidate], Findings(measured=measured))
    found = failing_keys(new, table, results, lambda day: sample_rows(new, old, table, most=5))
    assert {row.gate for row in found} == {"compared_with_accepted"}
    assert len({row.key["id"] for row in found}) == 5


@pytest.mark.long
def test_columns_of_any_name_are_compared_and_shown(spark: SparkSession) -> None:
    """A key of columns that are called like what the comparison adds to rows."""
    names = ("place", "kind", "gate", "nth", "before", "after", "rows", "low")
    fields = [StructField(name, StringType(), nullable=False) for name in names]
    schema = StructType([SCHEMA["day"], *fields, StructField("count", IntegerType())])
    table = replace(TABLE, key=("day", *names), schema=schema, gates=(expression("positive", "count > 0"), UniqueKey()))
    values = tuple(f"{name} of the key" for name in names)
    nullable = StructType([replace_nullable(field) for field in schema.fields])
    old, new = (spark.createDataFrame([(FIRST, *values, count)], nullable) for count in (1, -1))
    (shown,) = sample_rows(new, old, table)
    assert shown.key == {"day": str(FIRST), **dict(zip(names, values, strict=True))}
    assert (shown.before, shown.after) == ({"count": "1"}, {"count": "-1"})
    candidate = CandidatePartition(run_id="r", partition=FIRST, files=EMPTY_FILE_SET, rows=2)
    twice = new.unionAll(new)
    measured = measure(twice, None, table, schema=schema)
    results = judge(table.gates, [candidate], Findings(measured=measured))
    found = failing_keys(twice, table, results, no_rows)
    assert [(row.gate, row.key) for row in found] == [("positive", shown.key)] * 2 + [("unique_key", shown.key)]


def test_where_every_gate_passes_no_row_is_looked_at(spark: SparkSession) -> None:
    rows = frame(spark, [(FIRST, "k0", "open", 1, None)])
    candidate = CandidatePartition(run_id="r", partition=FIRST, files=EMPTY_FILE_SET, rows=1)
    measured = measure(rows, None, TABLE, schema=SCHEMA)
    results = judge(TABLE.gates, [candidate], Findings(measured=measured))
    assert failing_keys(rows, TABLE, results, no_rows) == ()


@pytest.mark.parametrize("seed", range(3))
def test_accepted_rows_of_equal_partitions_need_not_be_read(spark: SparkSession, seed: int) -> None:
    chance = random.Random(seed)
    second = FIRST + timedelta(days=1)
    old = random_rows(chance, doubled=False)
    new = [row for row in old if row[0] == second] + [
        row for row in random_rows(chance, doubled=True) if row[0] != second
    ]
    everything = measure(frame(spark, new), frame(spark, old), TABLE, schema=SCHEMA)
    before = {day: each.accepted_checksum for day, each in everything.items()}
    found = contents(frame(spark, new), TABLE, schema=SCHEMA)
    equal = equal_partitions(found, before)
    assert second in equal
    rest = frame(spark, [row for row in old if row[0] not in equal])
    by_key = compare_keys(frame(spark, new), rest, TABLE, schema=SCHEMA)
    assert compare(found, before, by_key, TABLE) == everything


def test_rows_of_equal_partitions_that_share_a_key_are_still_counted(spark: SparkSession) -> None:
    rows = frame(spark, [(FIRST, "a", "open", 1, None)] * 3 + [(FIRST, "b", "open", 1, None)])
    found = contents(rows, TABLE, schema=SCHEMA)
    before = {FIRST: found[FIRST].checksum}
    measured = compare(found, before, compare_keys(rows, None, TABLE, schema=SCHEMA), TABLE)[FIRST]
    assert (measured.surplus, measured.unchanged, measured.rows, measured.accepted_rows) == (2, 2, 4, 4)
    candidate = CandidatePartition(run_id="run", partition=FIRST, files=EMPTY_FILE_SET, rows=4)
    results = {result.gate: result for result in judge(TABLE.gates, [candidate], Findings(measured={FIRST: measured}))}
    assert not results["unique_key"].passed


@pytest.mark.long
@pytest.mark.parametrize("kept", [1, 2])
def test_a_key_of_which_one_of_two_accepted_rows_is_gone_has_changed(spark: SparkSession, kept: int) -> None:
    old = frame(spark, [(FIRST, "a", "open", 1, None), (FIRST, "a", "open", 2, None)])
    new = frame(spark, [(FIRST, "a", "open", kept, None)])
    found = measure(new, old, TABLE, schema=SCHEMA)[FIRST]
    assert (found.changed, found.unchanged, found.accepted_rows) == (1, 0, 2)
