"""What of a declaration may not be loosened by its author alone, and what counts as looser."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import DataFrame
from pyspark.sql.types import DateType, LongType, StringType, StructField, StructType

from backfill_assets.domain import (
    Breakdown,
    DerivedTable,
    Gate,
    RetentionRule,
    SourceTable,
    TransformContext,
    accepted,
    append,
    compared,
    daily,
    days,
    derived_table,
    expression,
    moved,
    not_null,
    phases,
    row_count,
    tolerance,
    usual,
    versioned,
    warm_up_proof,
)
from backfill_assets.domain.safeguards import safeguards_of
from backfill_assets.planning.safeguards import Agreed, Safeguard
from backfill_assets_tests.support.declared import source

GATES: Mapping[str, tuple[Gate, ...]] = {
    "row_count": (row_count(at_least=5, at_most=100),),
    "accepted_state": (accepted("state", ["new", "old"]),),
    "not_null_state": (not_null("state"),),
    "plausible": (expression("plausible", "amount < 10"),),
    "compared_with_accepted": (compared(max_removed_percent=1, max_changed_percent=5),),
    "moved_rows": (moved("rows", percent=5, at_least=10),),
    "moved_rows_by_state": (moved("rows", by=("state",), percent=5),),
    "usual_rows": (usual("rows", then="comment", at_least=10),),
    "warm_up": (warm_up_proof(partitions=5, extra_days=7),),
}


def a_table(*gates: Gate) -> DerivedTable:
    @derived_table(
        name="silver.t",
        inputs={"events": source()},
        key=("day",),
        partition=daily("day"),
        schema=StructType(
            [
                StructField("day", DateType(), nullable=False),
                StructField("state", StringType()),
                StructField("amount", LongType()),
            ]
        ),
        gates=gates,
        version="1",
        breakdown=Breakdown(by=("state",)),
    )
    def t(events: DataFrame, ctx: TransformContext) -> DataFrame:
        return events

    return t


def loosened(was: DerivedTable | SourceTable, now: DerivedTable | SourceTable) -> tuple[str, ...]:
    return Agreed(safeguards=(safeguards_of(was),)).loosened_by(safeguards_of(now))


@pytest.mark.parametrize("name", GATES)
def test_a_gate_that_is_gone_or_only_informs_is_looser(name: str) -> None:
    (gate,) = GATES[name]
    there, without = a_table(gate), a_table(warm_up_proof(partitions=0)) if name == "warm_up" else a_table()
    assert loosened(there, there) == ()
    assert loosened(there, without) == (f"gate {name}",)
    # What a table has with gates that it did not declare is the usual proof and comparison.
    assert loosened(without, there) == ()
    if gate.blocking:
        assert loosened(there, a_table(replace(gate, blocking=False))) == (f"gate {name}",)


@pytest.mark.parametrize(
    ("name", "looser"),
    [
        ("row_count", row_count(at_least=4, at_most=100)),
        ("row_count", row_count(at_least=5, at_most=101)),
        ("row_count", row_count(at_least=5)),
        ("accepted_state", accepted("state", ["new", "old", "other"])),
        ("plausible", expression("plausible", "amount < 11")),
        ("compared_with_accepted", compared(max_removed_percent=2, max_changed_percent=5)),
        ("compared_with_accepted", compared(max_removed_percent=1)),
        ("moved_rows", moved("rows", percent=6, at_least=10)),
        ("moved_rows", moved("rows", percent=5, at_least=11)),
        ("moved_rows_by_state", moved("rows", percent=5)),
        ("usual_rows", usual("rows", then="comment", at_least=11)),
        ("usual_rows", usual("rows", then="comment", at_least=10, most=4.5)),
        ("usual_rows", usual("rows", then="comment", at_least=10, fewest=6)),
        ("usual_rows", usual("rows", then="warn", at_least=10)),
        ("usual_rows", usual("rows", then="comment", at_least=10, same=None)),
        ("warm_up", warm_up_proof(partitions=4, extra_days=7)),
        ("warm_up", warm_up_proof(partitions=5, extra_days=6)),
    ],
)
def test_a_gate_with_a_wider_bound_is_looser(name: str, looser: Gate) -> None:
    assert loosened(a_table(*GATES[name]), a_table(looser)) == (f"gate {name}",)


@pytest.mark.parametrize(
    ("name", "stricter"),
    [
        ("row_count", row_count(at_least=6, at_most=99)),
        ("accepted_state", accepted("state", ["new"])),
        ("compared_with_accepted", compared(max_removed_percent=0, max_changed_percent=5)),
        ("moved_rows", moved("rows", percent=4, at_least=0)),
        ("usual_rows", usual("rows", then="block", most=3, fewest=4)),
        ("warm_up", warm_up_proof(partitions=6, extra_days=8)),
    ],
)
def test_a_gate_with_a_narrower_bound_is_not(name: str, stricter: Gate) -> None:
    assert loosened(a_table(*GATES[name]), a_table(stricter)) == ()


TABLE = a_table()


def reading(events: SourceTable) -> DerivedTable:
    return replace(TABLE, inputs={"events": events})


def _schema(**nullable: bool) -> StructType:
    return StructType([StructField(f.name, f.dataType, nullable.get(f.name, f.nullable)) for f in TABLE.schema])


def measured(paid: str, *gates: Gate) -> DerivedTable:
    return replace(a_table(), breakdown=Breakdown(measures={"paid": paid}), gates=gates)


PAID = tolerance("paid", percent=1, owner="finance")
TOLERATED = replace(TABLE, tolerance=tolerance("rows", percent=1, owner="finance"))
V1 = replace(TABLE, name="silver.v", publish=versioned(of="silver.t", clean_days=3, differs=("amount",)))


@pytest.mark.parametrize(
    ("name", "strict", "loose"),
    [
        ("column day", TABLE, replace(TABLE, schema=_schema(day=True), gates=TABLE.gates)),
        ("column amount", replace(TABLE, schema=_schema(amount=False)), TABLE),
        ("gate moved_paid", measured("amount", moved("paid", percent=5)), measured("0", moved("paid", percent=5))),
        ("gate usual_paid", measured("amount", usual("paid")), measured("0", usual("paid"))),
        ("tolerance", replace(measured("amount"), tolerance=PAID), replace(measured("0"), tolerance=PAID)),
        ("publish", TABLE, replace(TABLE, publish=append())),
        ("publish", replace(TABLE, publish=append()), TABLE),
        ("publish", TABLE, replace(TABLE, publish=versioned(of="silver.u"))),
        ("cut over", V1, replace(V1, publish=versioned(of="silver.t", clean_days=2, differs=("amount",)))),
        ("cut over", V1, replace(V1, publish=versioned(of="silver.t", clean_days=3, differs=("amount", "state")))),
        ("cut over", V1, replace(V1, publish=versioned(of="silver.t", clean_days=3, explained="state is null"))),
        ("tolerance", TABLE, TOLERATED),
        ("tolerance", TOLERATED, replace(TABLE, tolerance=tolerance("rows", percent=2, owner="finance"))),
        ("tolerance", TOLERATED, replace(TABLE, tolerance=tolerance("rows", percent=1, owner="ops"))),
        ("undetermined first as x", TABLE, replace(TABLE, undetermined={"first as x": "all are equal"})),
        ("phases", replace(TABLE, phases=phases(hold_hours=24)), replace(TABLE, phases=phases(hold_hours=1))),
        ("phases", replace(TABLE, phases=phases(hold_hours=24)), TABLE),
        *(("unknown bronze.events", TABLE, reading(source(unknown=policy))) for policy in ("keep", "drop")),
        ("lateness", source(), source(lateness=days(3))),
        ("lateness", source(lateness=days(3)), source(lateness=days(4))),
        ("rounds", source(), source(rounds=True)),
        ("ties", source(order=("at",)), source(order=("at",), ties="arrival")),
        ("unknown", source(), source(unknown="drop")),
        ("plausible_gap_days", source(), source(plausible_gap_days=32)),
        ("most_withdrawn_percent", source(), source(most_withdrawn_percent=20.5)),
    ],
)
def test_a_declaration_that_permits_more_is_looser_and_one_that_permits_less_is_not(
    name: str, strict: DerivedTable | SourceTable, loose: DerivedTable | SourceTable
) -> None:
    assert name in loosened(strict, loose)
    assert loosened(strict, strict) == loosened(loose, loose) == ()
    if name not in ("publish", "tolerance", "cut over", "gate moved_paid", "gate usual_paid"):
        assert loosened(loose, strict) == ()


def test_a_column_that_is_gone_or_new_loosens_nothing_and_one_that_is_back_is_compared_with_what_it_was() -> None:
    fewer = replace(TABLE, schema=StructType(TABLE.schema.fields[:2]))
    strict = replace(TABLE, schema=_schema(amount=False))
    assert loosened(strict, fewer) == loosened(fewer, TABLE) == ()
    both = Agreed(safeguards=(safeguards_of(strict), safeguards_of(fewer)))
    assert both.loosened_by(safeguards_of(TABLE)) == ("column amount",)


COUNTED = {
    "gates",
    "policy",
    "publish",
    "tolerance",
    "replay",
    "phases",
    "keep",
    "undetermined",
    "lateness",
    "rounds",
    "ties",
    "unknown",
}
COUNTED |= {"plausible_gap_days", "most_withdrawn_percent", "schema", "breakdown"}
OF_ROWS = {
    *("name", "key", "partition", "description", "transform", "inputs", "window", "windows", "changes"),
    *("releases", "references", "reference_window", "lineage", "state", "since", "every", "event_time"),
    *(
        "json_columns",
        "timezone",
        "bounds",
        "row_number",
        "order",
        "operation",
        "capture",
        "drop",
        "upstream",
        "envelope",
        "earlier",
        "lift",
    ),
    *("reads", "columns", "earlier_columns", "formats", "ahead", "planned", "repeated_hour"),
}
"""What says which rows there are: that they change is what runs, their gates and their approvals are about. A replay
to what was there before takes another person each time."""


def test_whatever_a_table_can_declare_is_a_safeguard_or_says_which_rows_there_are() -> None:
    declared = {each.name for table in (DerivedTable, SourceTable) for each in fields(table) if each.init}
    assert declared == COUNTED | OF_ROWS
    assert not COUNTED & OF_ROWS


def test_fewer_kept_snapshots_are_looser() -> None:
    def kept(keep: RetentionRule | None) -> tuple[Safeguard, ...]:
        return safeguards_of(replace(TABLE, state=None, keep=keep)) if keep is None else _with_keep(keep)

    def _with_keep(keep: RetentionRule) -> tuple[Safeguard, ...]:
        table = replace(TABLE)
        object.__setattr__(table, "keep", keep)
        return safeguards_of(table)

    for was, now in [
        (None, RetentionRule(days=90)),
        (RetentionRule(days=90), RetentionRule(days=89)),
        (RetentionRule(days=90), RetentionRule(days=90, then="year")),
    ]:
        assert Agreed(safeguards=(kept(was),)).loosened_by(kept(now)) == ("keep",)
        assert Agreed(safeguards=(kept(now),)).loosened_by(kept(was)) == ()


BOUNDS = st.dictionaries(st.sampled_from(["a", "b"]), st.none() | st.integers(-9, 9).map(float))
GUARDS = st.builds(
    Safeguard,
    name=st.sampled_from(["x", "y"]),
    permits=st.booleans(),
    least=BOUNDS,
    most=BOUNDS,
    among=st.dictionaries(st.just("v"), st.sets(st.sampled_from("pqr")).map(lambda some: tuple(sorted(some)))),
    exactly=st.dictionaries(st.just("e"), st.sampled_from("mn")),
)


@given(GUARDS)
def test_a_safeguard_is_read_back_as_it_was_and_is_not_looser_than_itself(guard: Safeguard) -> None:
    read = Safeguard.parse(guard.document)
    assert read.document == guard.document
    assert not guard.is_looser(read)


@given(GUARDS, GUARDS)
def test_what_is_looser_is_surely_so_or_cannot_be_compared(one: Safeguard, other: Safeguard) -> None:
    assert one.is_looser(other) == (one.is_surely_looser(other) or one.is_other(other))
    if one.is_other(other):
        assert one.is_looser(other) and other.is_looser(one)


def test_an_edited_condition_is_not_surely_looser_and_one_that_only_informs_is() -> None:
    was, edited = (a_table(expression("plausible", words)) for words in ("amount < 10", "amount < 9"))
    informs = a_table(expression("plausible", "amount < 9", blocking=False))
    agreed = Agreed(safeguards=(safeguards_of(was),))
    for now, surely in ((edited, frozenset()), (informs, {"gate plausible"}), (a_table(), {"gate plausible"})):
        assert agreed.loosened_by(safeguards_of(now)) == ("gate plausible",)
        assert agreed.surely_loosened_by(safeguards_of(now)) == surely


@given(GUARDS, GUARDS)
def test_two_safeguards_that_are_not_looser_than_each_other_are_the_same(one: Safeguard, other: Safeguard) -> None:
    if not one.is_looser(other) and not other.is_looser(one):
        same = replace(other, name=one.name, permits=one.permits)
        assert {name: some for name, some in one.among.items() if some} == {k: v for k, v in same.among.items() if v}
        assert (one.least, one.most, one.exactly) == (same.least, same.most, same.exactly)


def known_rows_of(*rows: str) -> Safeguard:
    return Safeguard(name="golden rows of rows", holds={"rows": rows})


KNOWN = st.frozensets(st.sampled_from(("a", "b", "c")))


@given(was=KNOWN, now=KNOWN)
def test_known_rows_are_loosened_by_a_version_that_lacks_one_and_by_no_other(
    was: frozenset[str], now: frozenset[str]
) -> None:
    """Whatever is added, and however a version orders them."""
    before, after = (safeguards_of(a_table(), known=[known_rows_of(*some)]) for some in (was, now))
    found = Agreed(safeguards=(before,)).loosened_by(after)
    lacking = len(was - now)
    assert found == ((f"golden rows of rows: {lacking} of {len(was)} are gone or changed",) if lacking else ())
    assert all(
        Safeguard.parse(each.document) == each for each in safeguards_of(a_table(), known=[known_rows_of("a", "b")])
    )


def test_a_table_without_the_known_rows_that_were_agreed_to_is_looser_and_one_with_the_first_is_not() -> None:
    known = safeguards_of(a_table(), known=[known_rows_of("a")])
    assert Agreed(safeguards=(known,)).loosened_by(safeguards_of(a_table())) == ("golden rows of rows",)
    assert Agreed(safeguards=(safeguards_of(a_table()),)).loosened_by(known) == ()
