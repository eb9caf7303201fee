"""Which repairs are published without a person: only those whose every partition has exactly the rows that were
recorded. Each part of the comparison is left out in turn here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from backfill_assets.core.identity import DataFile, FileSet, attempt_of
from backfill_assets.core.people import POLICY
from backfill_assets.ledger.records import LOST, CandidatePartition, PartitionVersion
from backfill_assets.ledger.states import RunState, VersionState
from backfill_assets.planning.kinds.merge import Merge
from backfill_assets.planning.manifest_parts import RunPurpose
from backfill_assets.requests.verdict import brings_back_what_was_recorded, has_recorded_rows

DAYS = (date(2026, 1, 1), date(2026, 1, 2))
CHECKSUM = "xx64:2:1:2:3"


def files(attempt: str, contract: int = 1) -> FileSet:
    path = f"_runs/{attempt_of(attempt, contract)}/day=2026-01-01/part.parquet"
    return FileSet.of([DataFile(path=path, size_bytes=10, rows=2)])


ACCEPTED = PartitionVersion(
    table="silver.sums",
    partition=DAYS[0],
    version=1,
    state=VersionState.ACCEPTED,
    run_id="first",
    publication_id="pub-1",
    files=files("first"),
    rows=2,
    checksum=CHECKSUM,
    replaces=0,
    delta_version=1,
    accepted_at=datetime(2026, 1, 3, tzinfo=UTC),
)
STAGED = CandidatePartition(run_id="repair", partition=DAYS[0], files=files("again"), rows=2, checksum=CHECKSUM)


def test_rows_are_those_that_were_recorded_whatever_files_they_are_in() -> None:
    assert has_recorded_rows(STAGED, ACCEPTED)


OTHERWISE: Mapping[str, tuple[CandidatePartition, PartitionVersion]] = {
    "other content": (replace(STAGED, checksum="xx64:2:1:2:4"), ACCEPTED),
    "another number of rows": (replace(STAGED, rows=3), ACCEPTED),
    "a checksum in the form of another release": (replace(STAGED, checksum=CHECKSUM.replace("xx64", "xx63")), ACCEPTED),
    "columns of another contract": (replace(STAGED, files=files("again", 2)), ACCEPTED),
    "not measured": (replace(STAGED, checksum=""), replace(ACCEPTED, checksum="")),
}


@pytest.mark.parametrize("what", OTHERWISE)
def test_what_differs_in_any_part_of_what_was_recorded_is_not_those_rows(what: str) -> None:
    assert not has_recorded_rows(*OTHERWISE[what])


def repair(
    staged: Sequence[CandidatePartition],
    accepted: Sequence[PartitionVersion],
    *,
    kind: RunPurpose = RunPurpose.REPAIR,
    state: RunState = RunState.PASSED,
    approved_by: str | None = None,
    agreed: bool = True,
    keys_move: bool = False,
) -> bool:
    """What is said of a run over two days, of which these partitions are staged and accepted."""
    run: Any = SimpleNamespace(
        run_id="repair",
        state=state,
        approved_by=approved_by,
        manifest=SimpleNamespace(
            kind=kind, table=ACCEPTED.table, partitions=DAYS, change=Merge(on=("key",), keys_move=keys_move)
        ),
    )
    tx: Any = SimpleNamespace(
        versions=SimpleNamespace(accepted=lambda _table, _partitions: {each.partition: each for each in accepted}),
        candidates=SimpleNamespace(of_run=lambda _run: {each.partition: each for each in staged}),
        bases=SimpleNamespace(is_computed_as_agreed=lambda *_: agreed),
    )
    return brings_back_what_was_recorded(tx, run)


LOST_ONE = replace(STAGED, compared_checksum=f"{LOST}{CHECKSUM}")
BOTH_STAGED = tuple(replace(LOST_ONE, partition=day) for day in DAYS)
ONE_IS_THERE = (BOTH_STAGED[0], replace(BOTH_STAGED[1], compared_checksum=CHECKSUM))
BOTH_ACCEPTED = tuple(replace(ACCEPTED, partition=day) for day in DAYS)


def test_a_repair_of_which_every_partition_is_as_recorded_needs_nobody() -> None:
    assert repair(BOTH_STAGED, BOTH_ACCEPTED)
    assert repair((), (), state=RunState.PUBLISHED, approved_by=f"{POLICY}repair"), "it needed nobody"
    assert repair(ONE_IS_THERE, BOTH_ACCEPTED, keys_move=True), "all partitions are computed together"


def test_a_repair_with_anything_else_waits_for_a_person() -> None:
    assert not repair(BOTH_STAGED, BOTH_ACCEPTED, kind=RunPurpose.RESTATEMENT), "it is no repair"
    assert not repair((BOTH_STAGED[0], replace(BOTH_STAGED[1], rows=3)), BOTH_ACCEPTED), "one partition differs"
    assert not repair(BOTH_STAGED[:1], BOTH_ACCEPTED), "one partition is not staged"
    assert not repair(BOTH_STAGED, BOTH_ACCEPTED[:1]), "one partition had no accepted rows"
    assert not repair((), (), state=RunState.PUBLISHED, approved_by="ben"), "a person agreed to it"
    assert not repair(ONE_IS_THERE, BOTH_ACCEPTED), "of one partition nothing was lost"
    assert not repair(BOTH_STAGED, BOTH_ACCEPTED, agreed=False), "other code or references have computed it"
    intact = tuple(replace(each, compared_checksum=CHECKSUM) for each in BOTH_STAGED)
    assert not repair(intact, BOTH_ACCEPTED, keys_move=True), "nothing was lost"
