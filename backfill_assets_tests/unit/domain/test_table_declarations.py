"""A mistake in a declaration fails when the domain loads, naming the table and the mistake."""

from __future__ import annotations

import sys
from dataclasses import replace
from datetime import date
from functools import partial
from pathlib import Path
from types import ModuleType

import pytest
from pyspark.sql.types import (
    DateType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from backfill_assets.calendar.partitions import DayRange
from backfill_assets.core.errors import InvalidDeclaration, UnknownName
from backfill_assets.domain import (
    DeclaredChange,
    Gate,
    RetentionRule,
    Window,
    accepted,
    append,
    daily,
    days,
    expression,
    merge,
    monthly,
    not_null,
    reads,
    reads_self,
    unique_key,
    warm_up_proof,
)
from backfill_assets.domain.declarations import check_conditions
from backfill_assets.domain.domain import load_domain
from backfill_assets_tests.domains.states import moves
from backfill_assets_tests.domains.weeks import DOMAIN as WEEKS
from backfill_assets_tests.domains.weeks import balances
from backfill_assets_tests.support.advice import advised
from backfill_assets_tests.support.declared import (
    EVENTS,
    Mistakes,
    check_named,
    derived,
    domain,
    other_arguments,
    same_arguments,
    source,
)

KEYED = StructType(
    [
        StructField("day", DateType(), nullable=False),
        StructField("name", StringType(), nullable=False),
        StructField("amount", LongType()),
    ]
)


def merged(mode: DeclaredChange) -> object:
    return derived(source(), key=("name",), schema=KEYED, publish=mode)


kept = replace(balances, name="silver.kept", keep=RetentionRule(days=30))


def stateful(**changed: object) -> object:
    events = source()
    return derived(events, **{"inputs": {"state": reads_self(), "events": events}, **changed})


MISTAKES: Mistakes = {
    "a state that is not the first argument": (
        lambda: stateful(),
        "the function of version 1.0.0 takes (events, ctx) where its inputs ask for (state, events, ctx)",
    ),
    "a state with a window": (
        lambda: stateful(window=Window(days_back=1)),
        "silver.daily: it keeps state, so that its inputs are read since the first day, without a window",
    ),
    "a state that is merged": (
        lambda: stateful(schema=KEYED, key=("name",), publish=merge(on=("name",))),
        "silver.daily: it keeps state and merges changes; a merge cannot replace a state",
    ),
    "a state that is proven by a longer window": (
        lambda: stateful(gates=(warm_up_proof(3),)),
        "silver.daily: it keeps state, which is proven from an earlier snapshot, not by a longer window",
    ),
    "a state twice": (
        lambda: stateful(inputs={"state": reads_self(), "other": reads_self(), "events": source()}),
        "silver.daily: it reads its own state as 'state' and as 'other'",
    ),
    "a state that begins on a text": (
        lambda: stateful(inputs={"state": reads_self(since="2024-10-01"), "events": source()}),  # type: ignore[arg-type]
        "silver.daily: since must be a date, such as date(2024, 10, 1)",
    ),
    "a snapshot every few days without a first one": (
        lambda: stateful(inputs={"state": reads_self(every=7), "events": source()}),
        "silver.daily: it keeps a snapshot every 7 days, which takes a daily table and the first day: "
        "reads_self(since=date(...), every=7)",
    ),
    "a snapshot every few days of a table of months": (
        lambda: stateful(
            inputs={"state": reads_self(since=date(2024, 10, 1), every=7), "events": source()}, partition=monthly("day")
        ),
        "silver.daily: it keeps a snapshot every 7 days, which takes a daily table and the first day: "
        "reads_self(since=date(...), every=7)",
    ),
    **{
        f"a snapshot every {every}": (
            partial(
                stateful,
                inputs={"state": reads_self(since=date(2024, 10, 1), every=every), "events": source()},  # type: ignore[arg-type]
            ),
            f"silver.daily: every must be a number of days from 1 on, not {every!r}",
        )
        for every in (0, True, "7", 7.0)
    },
    "snapshots that are kept by a number": (
        lambda: stateful(inputs={"state": reads_self(keep=90), "events": source()}),  # type: ignore[arg-type]
        "silver.daily: keep must be RetentionRule(...), such as RetentionRule(days=90, then='month')",
    ),
    "the last snapshot of each month of months": (
        lambda: stateful(
            inputs={"state": reads_self(keep=RetentionRule(days=90, then="month")), "events": source()},
            partition=monthly("day"),
        ),
        "silver.daily: it has one snapshot a month, so that the last one of each month are all: "
        "keep=RetentionRule(days=90, then='quarter'), or 'year'",
    ),
    "snapshots that expire of a table that only adds": (
        lambda: stateful(
            inputs={"state": reads_self(keep=RetentionRule(days=90)), "events": source()}, publish=append()
        ),
        "silver.daily: it only adds partitions, which stay as they were added, so that no snapshot can expire",
    ),
    "a window that is longer than snapshots are kept": (
        lambda: derived(moves, inputs={"events": reads(kept, days_back=20, days_ahead=11)}),
        "silver.daily: it reads 'events' up to 31 days before its newest snapshot, and silver.kept keeps every "
        "snapshot of 30 days only",
    ),
    "a state over the state of a table that does not keep all of it": (
        lambda: stateful(inputs={"state": reads_self(), "events": kept}),
        "silver.daily: it keeps state, which rests on every snapshot of 'events', and silver.kept does not keep all of "
        "them",
    ),
    "a window that holds no snapshot on some days": (
        lambda: derived(moves, inputs={"events": reads(balances, days_back=3, days_ahead=2)}),
        "silver.daily: it reads 'events' with Window(days_back=3, days_ahead=2), and silver.balances has a snapshot "
        "every 7 days: read at least 7 days, so that each window has a snapshot",
    ),
    "a version with other snapshots": (
        lambda: replace(
            WEEKS, derived=(balances, replace(balances.beside("silver.balances_v2"), since=date(2026, 1, 4)))
        ),
        "silver.balances_v2: it is a version of silver.balances, and has another key or other partitions",
    ),
    "a publish mode that is none": (
        lambda: derived(source(), publish="append"),
        "silver.daily: publish must be replace(), append(), merge(on=...) or versioned(of=...)",
    ),
    "changes merged on something else than the key": (
        lambda: merged(merge(on=("amount",))),
        "silver.daily: it merges on ('amount',), which has to be its key: ('name',), or with 'day' besides",
    ),
    "changes merged on a text": (
        lambda: merged(merge(on="name")),  # type: ignore[arg-type]
        "silver.daily: it merges on 'name', which has to be its key: ('name',), or with 'day' besides",
    ),
    "a version that can be null": (
        lambda: merged(merge(on=("name",), version="amount")),
        "silver.daily: it merges by amount, which can be null: declare them nullable=False",
    ),
    "a version that is not a column": (
        lambda: merged(merge(on=("name",), version="nobody")),
        "silver.daily: the version of a key 'nobody' is not a column of its schema",
    ),
    "deletes by a column of the table": (
        lambda: merged(merge(on=("name",), deletes="amount")),
        "silver.daily: it deletes by 'amount', which has to be a column that only changes have",
    ),
    "older versions without a version": (
        lambda: merge(on=("name",), older="ignore"),
        "a merge with version=None cannot treat older ones with 'ignore'",
    ),
    "rows that are perhaps kept": (
        lambda: merge(on=("name",), keeps_withdrawn="no"),  # type: ignore[arg-type]
        "a merge with keeps_withdrawn='no', which is neither True nor False",
    ),
    "a key column that is not in the schema": (
        lambda: derived(source(), key=("nobody",)),
        "silver.daily: key column 'nobody' is not a column of its schema",
    ),
    "an input that is no table": (
        lambda: derived(source(), inputs={"events": reads("bronze.events")}),  # type: ignore[arg-type]
        "silver.daily: its input 'events' is 'bronze.events' and not a table",
    ),
    "a gate on a missing column": (
        lambda: derived(source(), gates=(not_null("nobody"),)),
        "silver.daily: gate not_null_nobody: column 'nobody' is not a column",
    ),
    "an expression over a missing column": (
        lambda: check_conditions(derived(source(), gates=(expression("positive", "nobody > 0"),))),
        "silver.daily: gate positive: column 'nobody' is not a column",
    ),
    "an expression over a member of a missing column": (
        lambda: check_conditions(derived(source(), gates=(expression("positive", "payment.count > 0"),))),
        "silver.daily: gate positive: column 'payment' is not a column",
    ),
    "an expression that is not SQL": (
        lambda: check_conditions(derived(source(), gates=(expression("positive", "count > > ("),))),
        "the condition of gate positive is not SQL",
    ),
    "accepted values of a number": (
        lambda: derived(source(), gates=(accepted("count", ["1"]),)),
        "silver.daily: gate accepted_count lists strings, but 'count' is int",
    ),
    "two gates of one name": (
        lambda: derived(source(), gates=(not_null("state"), not_null("state"))),
        "silver.daily: two gates are named 'not_null_state'",
    ),
    "a function with other arguments": (
        lambda: derived(source(), earlier={"0.9.0": other_arguments}),
        "silver.daily: the function of version 0.9.0 takes (rows, ctx) where its inputs ask for (events, ctx)",
    ),
    "a version that is registered twice": (
        lambda: derived(source(), earlier={"1.0.0": same_arguments}),
        "silver.daily: a version is registered twice",
    ),
    "a partition column that is no date": (
        lambda: derived(source(), partition=daily("state")),
        "silver.daily: its partition column 'state' is not a date",
    ),
    "a name without a layer": (lambda: source(name="events"), "layer.table"),
    "a name that leaves the lake": (lambda: source(name="../x.events"), "layer.table"),
    "an event time that is no time": (
        lambda: source(event_time="event_id"),
        "bronze.events: its event time 'event_id' is string, and not a date or a timestamp",
    ),
    "a lineage that is none": (
        lambda: derived(source(), lineage="some"),
        "silver.daily: lineage must be 'run' or 'full'",
    ),
    "the name of the table of lineage": (
        lambda: derived(source(), name="lineage.runs"),
        "lineage.runs: its name is kept for the lineage of runs",
    ),
    "a column kept for lineage": (
        lambda: source(schema=StructType([*EVENTS.fields, StructField("_run_id", StringType())])),
        "bronze.events: columns that begin with _ are kept for lineage: _run_id",
    ),
    "two tables of one name": (
        lambda: domain(*[derived(events) for events in [source()] * 2], sources=(source(),)),
        "silver.daily",
    ),
    "an input that is not declared": (
        lambda: domain(derived(source()), sources=()),
        "silver.daily: it reads bronze.events as 'events', which the domain does not declare",
    ),
    "a version that is a number": (
        lambda: derived(source(), version=1),
        "silver.daily: 1 is not a version: write it as a text, such as '1.0.0'",
    ),
    "an earlier version that is a number": (
        lambda: derived(source(), earlier={1: same_arguments}),
        "silver.daily: 1 is not a version",
    ),
    "a key that is a text": (
        lambda: derived(source(), key="day"),
        "silver.daily: key must be a tuple of column names",
    ),
    "a key of numbers": (lambda: source(key=(1,)), "bronze.events: key must be a tuple of"),
    "a schema that is a text": (
        lambda: derived(source(), schema="day date"),
        "silver.daily: schema must be a StructType",
    ),
    "gates without a tuple": (
        lambda: derived(source(), gates=not_null("state")),
        "gates must be a tuple of gates, such as (unique_key(),)",
    ),
    "gates by name": (lambda: derived(source(), gates=("unique",)), "gates must be a tuple of gates"),
    "inputs that are no mapping": (
        lambda: derived(source(), inputs=(source(),)),
        "silver.daily: its inputs are (SourceTable(",
    ),
    "an input that is a name": (
        lambda: derived(source(), inputs={"events": "bronze.events"}),
        "silver.daily: its input 'events' is 'bronze.events' and not a table",
    ),
    "a partition that is a column": (
        lambda: derived(source(), partition="day"),
        "silver.daily: partition must be daily(COLUMN) or monthly(COLUMN)",
    ),
    "references that are a text": (
        lambda: derived(source(), references="calendar"),
        "silver.daily: references must be a tuple of names",
    ),
    "a name that is a number": (lambda: source(name=1), "a table is named layer.table"),
    "a gap that is a text": (
        lambda: source(plausible_gap_days="31"),
        "bronze.events: plausible_gap_days must be a number of days",
    ),
    "a lateness that is a number": (
        lambda: source(lateness=3),
        "bronze.events: lateness must be days(N)",
    ),
    "a lateness of less than no days": (lambda: source(lateness=days(-1)), "days(-1) is not a lateness"),
    "a gap of less than nothing": (lambda: source(plausible_gap_days=-1), "bronze.events: plausible_gap_days is -1"),
    "one name in two layers": (
        lambda: domain(sources=(source(), source(name="raw.events"))),
        "raw.events: bronze.events has the same name in another layer",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_named_with_its_table(mistake: str) -> None:
    check_named(MISTAKES[mistake])


def test_an_undeclared_reference_is_named() -> None:
    events = source()
    with pytest.raises(InvalidDeclaration, match=r"silver\.daily: it uses reference 'calendar'"):
        domain(derived(events, references=("calendar",)), sources=(events,))


def test_two_tables_of_the_same_name_are_refused() -> None:
    events = source()
    with pytest.raises(InvalidDeclaration, match=r"two tables are named silver\.daily"):
        domain(derived(events), derived(events), sources=(events,))


def test_every_table_has_the_gates_that_make_a_publication_safe() -> None:
    names = [gate.name for gate in derived(source()).gates]
    assert names == ["schema", "unique_key", "compared_with_accepted", "warm_up"]
    assert [gate.name for gate in source().gates] == ["schema", "unique_key", "compared_with_accepted"]


def test_declared_gates_keep_their_order_and_the_key_is_filled_in() -> None:
    gates: tuple[Gate, ...] = (not_null("state"), unique_key(blocking=False))
    declared = derived(source(), gates=gates).gates
    names = [gate.name for gate in declared]
    assert names == ["schema", "not_null_state", "unique_key", "compared_with_accepted", "warm_up"]
    unique = declared[2]
    assert (unique.columns, unique.blocking) == (("day",), False)


def test_a_table_is_found_with_and_without_its_layer() -> None:
    events = source()
    declared = domain(derived(events), sources=(events,))
    assert declared.table("daily") is declared.table("silver.daily")
    with pytest.raises(UnknownName, match=r"there is no table 'nobody'; the tables are bronze\.events, silver\.daily"):
        declared.table("nobody")
    with pytest.raises(UnknownName, match="built from landed files"):
        declared.derived_table("events")
    with pytest.raises(UnknownName) as refusal:
        declared.derived_table("events", days=DayRange.inclusive(date(2026, 1, 3), date(2026, 1, 4)))
    assert advised(refusal.value) == "backfill load events --from 2026-01-03 --to 2026-01-04 --by NAME"


def test_conditions_are_checked_when_a_domain_is_loaded_but_not_to_look(monkeypatch: pytest.MonkeyPatch) -> None:
    events = source()
    module = ModuleType("mistaken_domain")
    module.__dict__["DOMAIN"] = domain(
        derived(events, gates=(expression("positive", "nobody > 0"),)), sources=(events,)
    )
    monkeypatch.setitem(sys.modules, module.__name__, module)
    with pytest.raises(InvalidDeclaration, match="gate positive: column 'nobody' is not a column"):
        load_domain(module.__name__)
    assert load_domain(module.__name__, conditions=False) is module.__dict__["DOMAIN"]


def test_a_domain_that_python_cannot_parse_is_refused_with_the_line_in_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    file = tmp_path / "not_python.py"
    file.write_text("A = 1\nB = = 2\n")
    with pytest.raises(InvalidDeclaration) as refusal:
        load_domain("not_python")
    assert f"SyntaxError: invalid syntax ({file}, line 2)" in str(refusal.value)
    assert "frozen" not in str(refusal.value)


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("Domain(name='Two words', package='my_own_shop', sources=(), derived=())", "a declaration"),
        ("DerivedTable()", "TypeError"),
        ("import nothing_of_the_kind", "it imports 'nothing_of_the_kind', which is not installed"),
        ("json.loads('{')", "JSONDecodeError"),
    ],
)
def test_a_domain_that_cannot_be_loaded_is_to_be_corrected_in_the_file_of_its_author(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statement: str, said: str
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    package = tmp_path / "my_own_shop"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "declared.py").write_text("import my_own_shop.tables\n")
    file = package / "tables.py"
    file.write_text(f"import json\nfrom backfill_assets.domain import DerivedTable, Domain\n\n{statement}\n")
    try:
        with pytest.raises(InvalidDeclaration) as refusal:
            load_domain("my_own_shop.declared")
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == "my_own_shop"]:
            del sys.modules[name]
    assert said in str(refusal.value) or said == "a declaration"
    assert f"{file}, line 4" in advised(refusal.value)
    assert "BACKFILL_DOMAIN" not in advised(refusal.value)


def test_a_module_without_a_domain_is_to_be_corrected_in_its_file() -> None:
    with pytest.raises(InvalidDeclaration) as refusal:
        load_domain("backfill_assets.core.errors")
    assert advised(refusal.value) == f"correct {sys.modules['backfill_assets.core.errors'].__file__}"


def test_a_condition_on_a_member_of_a_struct_is_about_the_column() -> None:
    gate = expression("paid", "payment.paid.amount > fee AND exists(items, each -> each.count > 0)")
    assert gate.columns == ("fee", "items", "payment")


def test_gates_on_other_values_have_other_words_by_which_a_manifest_pins_them() -> None:
    given: tuple[list[str], ...] = (["a", "b"], ["a, b"], ['"a', 'b"'], ['"a, b"'], [""])
    assert len({accepted("state", each).demands for each in given}) == len(given)
    assert accepted("state", ["a", "b"]).demands == "state is one of a, b"
