"""Kinds of change: a table of all of them, which a kind has to be in."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import get_args

import pytest

from backfill_assets.domain.gates import AddsOnly, ComparedWithAccepted, Merged, OnlyExpired, OutsideScope
from backfill_assets.gates.agreed import gates_of
from backfill_assets.planning.kinds.any_change import AnyChange, parse_change
from backfill_assets.planning.kinds.append import append
from backfill_assets.planning.kinds.change import CHANGE, Change, Scope
from backfill_assets.planning.kinds.expire import Expire, RetentionRule
from backfill_assets.planning.kinds.load import Load
from backfill_assets.planning.kinds.merge import merge
from backfill_assets.planning.kinds.pilot import Pilot
from backfill_assets.planning.kinds.replace import REPLACE, VersionOf
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.manifest_parts import Limits
from backfill_assets.planning.state import AcceptedPartition
from backfill_assets.report.words.plans import kept_words, publish_words
from backfill_assets.report.words.stages import WORDS
from backfill_assets_tests.unit.gates.test_of_accepted import TABLE
from backfill_assets_tests.unit.planning.test_manifest import MANIFEST

FIRST = date(2026, 3, 1)
DAYS = tuple(FIRST + timedelta(days=n) for n in range(5))
RUN, ALL = DAYS[:3], frozenset(DAYS)
TWO_AT_ONCE = Limits(chunk_partitions=2)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A change of the first three of five accepted days, in chunks of two, and what follows from its kind."""

    change: AnyChange
    #: Its tag in documents.
    tag: str
    chunks: tuple[int, ...] = (2, 1)
    #: How many days at each end are proven, where its table declares one.
    proven: int = 1
    #: What a run over the first three days covers.
    covers: frozenset[date] = frozenset(RUN)
    computed: tuple[date, ...] = RUN
    fixed: frozenset[date] = frozenset()
    #: The accepted days that it merges with; None where it merges with none.
    merges: tuple[date, ...] | None = None
    #: Those that the content of the second day follows from.
    second: tuple[date, ...] | None = None
    scope: Scope | None = None
    keeps_rows: bool = False
    #: Whether a run over two days of which one is lost is nothing but a repair.
    repairs_with_others: bool = False
    is_configuration: bool = False
    gates: tuple[type, ...] = ()


ACME = Scope(where=(("tenant", "acme"), ("plan", "a=b")))
MOVING = replace(merge(on=("key",), deletes="gone", version="n", older="ignore"), keys_move=True)
CASES = {
    "replace": Case(change=REPLACE, tag="REPLACE"),
    "versioned": Case(change=replace(REPLACE, version_of=VersionOf(table="silver.other")), tag="REPLACE"),
    "append": Case(change=append(), tag="APPEND", fixed=ALL),
    "merge": Case(change=merge(on=("day", "key")), tag="MERGE", merges=RUN, second=(DAYS[1],), is_configuration=True),
    "merge that keeps withdrawn rows": Case(
        change=merge(on=("day", "key"), keeps_withdrawn=True),
        tag="MERGE",
        merges=RUN,
        second=(DAYS[1],),
        keeps_rows=True,
        is_configuration=True,
    ),
    "merge of keys that move": Case(
        change=MOVING,
        tag="MERGE",
        chunks=(3,),
        proven=3,
        covers=ALL,
        merges=DAYS,
        second=DAYS,
        repairs_with_others=True,
        is_configuration=True,
    ),
    "merge of keys that move, with withdrawn rows": Case(
        change=replace(MOVING, keeps_withdrawn=True),
        tag="MERGE",
        chunks=(3,),
        proven=3,
        merges=DAYS,
        second=DAYS,
        keeps_rows=True,
        repairs_with_others=True,
        is_configuration=True,
    ),
    "pilot": Case(
        change=Pilot(rows=ACME),
        tag="PILOT",
        merges=RUN,
        second=(DAYS[1],),
        scope=ACME,
        keeps_rows=True,
        is_configuration=True,
        gates=(OutsideScope,),
    ),
    "expire": Case(
        change=Expire(keep=RetentionRule(days=90, then="quarter")),
        tag="EXPIRE",
        computed=(),
        gates=(ComparedWithAccepted, OnlyExpired),
    ),
    "load": Case(change=Load(imports=("imp-000001",), declared_empty=DAYS[1:2]), tag="LOAD"),
}
every = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def accepted(partitions: Sequence[date] | None) -> Mapping[date, AcceptedPartition]:
    claim = AcceptedPartition(version=1, run_id="r-1", digest="d" * 64, rows=1, file_count=1, size_bytes=1)
    return dict.fromkeys(DAYS if partitions is None else partitions, claim)


def test_every_kind_is_in_the_table_is_a_case_of_any_change_and_has_words() -> None:
    kinds = set(get_args(AnyChange))
    assert {type(case.change) for case in CASES.values()} == kinds
    assert {kind.__name__ for kind in Change.__subclasses__()} == {kind.__name__ for kind in kinds}
    assert WORDS.keys() == kinds
    assert {kind.kind for kind in kinds} == {case.tag for case in CASES.values()}


@every
def test_a_manifest_carries_a_change_of_every_kind(case: Case) -> None:
    manifest = replace(MANIFEST, change=case.change, partitions=RUN)
    assert case.change.document["kind"] == case.tag
    assert parse_change(json.loads(json.dumps(case.change.document))) == case.change.pinned == case.change
    assert Manifest.parse(manifest.text) == manifest
    assert manifest.computed == case.computed
    assert case.change.configuration == ({CHANGE: case.change.document} if case.is_configuration else {})


@every
def test_how_a_change_is_computed_follows_from_its_kind(case: Case) -> None:
    change = case.change
    assert change.chunks(RUN, {}, TWO_AT_ONCE) == case.chunks
    assert change.is_divisible == (case.chunks != (3,))
    assert change.proven(1, RUN) == case.proven
    assert change.completed(set(RUN), lambda: ALL) == case.covers
    assert change.completed(set(), lambda: ALL) == set()
    assert change.scope == case.scope


@every
def test_what_a_change_does_to_accepted_rows_follows_from_its_kind(case: Case) -> None:
    change, lineage = case.change, {"_run_id": "r-1"}
    merged = change.claims_merged(accepted, RUN)
    assert (None if merged is None else tuple(merged)) == case.merges
    assert change.merges_with(DAYS[1], DAYS) == case.second
    assert change.fixed(ALL) == case.fixed
    assert change.keeps_rows == case.keeps_rows
    assert change.constant_columns(lineage) == (lineage if case.merges is None else {})
    assert change.is_repaired({FIRST}, {FIRST}) and not change.is_repaired(set(), {FIRST})
    assert change.is_repaired({FIRST}, set(DAYS[:2])) == case.repairs_with_others


@every
def test_a_change_has_gates_and_words_of_its_kind(case: Case) -> None:
    others = (AddsOnly, Merged)
    own = [gate for gate in gates_of(TABLE, case.change) if gate not in TABLE.gates or not case.computed]
    assert tuple(map(type, own)) == case.gates
    assert not any(isinstance(gate, others) for gate in own), "a table declares these itself"
    assert publish_words(replace(MANIFEST, change=case.change))
    assert kept_words(case.change)


def test_a_document_of_another_kind_is_no_change() -> None:
    with pytest.raises(ValueError, match="no known kind of change: VERSIONED"):
        parse_change({"kind": "VERSIONED", "of": "silver.other"})
