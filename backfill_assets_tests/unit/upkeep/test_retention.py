"""What retention removes, against a plain reading of who may still need a file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.core.identity import DataFile, FileSet
from backfill_assets.ledger.records import PartitionVersion
from backfill_assets.ledger.states import OPEN_STATES, RunState, VersionState
from backfill_assets.planning.manifest_parts import PinnedInput, PinnedPartition
from backfill_assets.upkeep.vacuum import Facts, HeldRun, Horizons, LeftAlone, Why, decide

TABLES = ("bronze.a", "silver.b")
DAYS = (date(2026, 1, 1), date(2026, 1, 2))
NOW = datetime(2026, 6, 1, tzinfo=UTC)
HORIZONS = Horizons(as_of=NOW, rollback_days=90, reproduction_days=200)
AGES = st.integers(min_value=0, max_value=400).map(lambda days: NOW - timedelta(days=days))


def path_of(run_id: str, day: date, attempt: str = "0001") -> str:
    return f"_runs/{run_id}/{attempt}/day={day}/part.parquet"


def one_file(path: str) -> FileSet:
    return FileSet.of([DataFile(path=path, size_bytes=1, rows=1)])


def a_version(
    table: str, day: date, version: int, run_id: str, *, state: VersionState, replaces: int, at: datetime
) -> PartitionVersion:
    return PartitionVersion(
        table=table,
        partition=day,
        version=version,
        state=state,
        run_id=run_id,
        publication_id=f"pub-{run_id}",
        files=one_file(path_of(run_id, day)),
        rows=1,
        checksum="",
        replaces=replaces,
        delta_version=version,
        accepted_at=at,
    )


@st.composite
def histories(draw: st.DrawFn) -> tuple[Facts, Mapping[str, Sequence[str]]]:
    """Any ledger: some of it could not come about, and retention must be careful all the same."""
    runs: list[HeldRun] = []
    versions: list[PartitionVersion] = []
    listed: dict[str, list[str]] = {table: [f"_runs/foreign/0001/day={DAYS[0]}/part.parquet"] for table in TABLES}
    live: dict[str, frozenset[str]] = dict.fromkeys(TABLES, frozenset())
    for number in range(draw(st.integers(1, 6))):
        table = draw(st.sampled_from(TABLES))
        run_id = f"run-{number}"
        days = draw(st.sets(st.sampled_from(DAYS), min_size=1))
        pins = draw(st.lists(st.tuples(st.sampled_from(DAYS), st.integers(1, 3)), max_size=3))
        other = f"run-{draw(st.integers(0, 5))}"
        from_run = draw(st.booleans())
        staged = {day: frozenset({path_of(run_id, day)}) for day in days if draw(st.booleans())}
        runs.append(
            HeldRun(
                run_id=run_id,
                table=table,
                state=draw(st.sampled_from(RunState)),
                changed_at=draw(AGES),
                published_at=draw(st.none() | AGES),
                is_trial=draw(st.booleans()) and draw(st.booleans()),
                staged=staged,
                inputs=(
                    PinnedInput(
                        argument="rows",
                        table=TABLES[0],
                        partitions=tuple(
                            PinnedPartition(
                                partition=day, version=version, digest="", from_run=other if from_run else None
                            )
                            for day, version in dict(pins).items()
                        ),
                    ),
                ),
            )
        )
        for day in days:
            present = [v for v in versions if (v.table, v.partition) == (table, day)]
            if draw(st.booleans()):
                versions.append(
                    a_version(
                        table,
                        day,
                        len(present) + 1,
                        run_id,
                        state=draw(st.sampled_from(VersionState)),
                        replaces=draw(st.integers(0, len(present))),
                        at=draw(AGES),
                    )
                )
            listed[table] += [path_of(run_id, day), path_of(run_id, day, "0009-of-a-dead-process")]
            listed[table] += [f"_runs/{run_id}/0001/_SUCCESS", f"_runs/{run_id}/0001/._SUCCESS.crc"]
            if draw(st.integers(0, 9)) == 0:
                live[table] |= {path_of(run_id, day)}
    left_alone = dict.fromkeys(
        draw(st.sets(st.sampled_from(TABLES), max_size=1)) if draw(st.booleans()) else (), LeftAlone.MOVED_ON
    )
    facts = Facts(runs=tuple(runs), versions=tuple(versions), live=live, left_alone=left_alone)
    return facts, {table: sorted(set(paths)) for table, paths in listed.items()}


def needed(facts: Facts) -> set[tuple[str, str]]:
    """Plainly: every file that may still be asked for."""
    by_key = {(v.table, v.partition, v.version): v for v in facts.versions}
    found: set[tuple[str, str]] = {(table, path) for table, paths in facts.live.items() for path in paths}

    def hold(table: str, paths: Iterable[str]) -> None:
        found.update((table, path) for path in paths)

    for version in facts.versions:
        if version.state in (VersionState.ACCEPTED, VersionState.EXPIRED):
            hold(version.table, version.files.paths)
            last = version
            while last.replaces and (NOW - last.accepted_at).days <= 90:
                last = by_key[last.table, last.partition, last.replaces]
                hold(last.table, last.files.paths)
    for run in facts.runs:
        if run.state is RunState.CANCELLED:
            continue
        open_ = run.state in OPEN_STATES
        if run.is_trial and run.state not in (RunState.STAGING, RunState.GATING):
            open_ = (NOW - run.changed_at).days <= 90
        undone = run.state is RunState.ROLLED_BACK and (NOW - run.changed_at).days <= 90 and not run.is_trial
        recent = run.published_at is not None and (NOW - run.published_at).days <= 200
        if open_ or undone or (recent and not run.is_trial):
            for paths in run.staged.values():
                hold(run.table, paths)
        if open_ or undone or recent:
            for pin in (pin for pinned in run.inputs for pin in pinned.partitions):
                if pin.from_run is None:
                    version_read = by_key.get((TABLES[0], pin.partition, pin.version))
                    if version_read:
                        hold(TABLES[0], version_read.files.paths)
                else:
                    for other in facts.runs:
                        if other.run_id == pin.from_run:
                            hold(other.table, other.staged.get(pin.partition, ()))
    return found


@given(histories())
def test_nothing_that_may_be_needed_is_ever_removed_and_everything_else_is(
    history: tuple[Facts, Mapping[str, Sequence[str]]],
) -> None:
    facts, listed = history
    decision = decide(facts, listed, HORIZONS)
    removed = {(table, path) for table, paths in decision.removed.items() for path in paths}
    kept = {(table, path) for table, paths in decision.kept.items() for path in paths}
    wanted = needed(facts)
    assert not removed & wanted
    assert not removed & kept
    assert not {table for table, _ in removed} & facts.left_alone.keys()
    every = {(table, path) for table, paths in listed.items() for path in paths if table not in facts.left_alone}
    assert removed | kept == every
    writing = {run.run_id for run in facts.runs if run.state in (RunState.STAGING, RunState.GATING)}
    for table, path in every - wanted:
        run_id = path.split("/")[1]
        is_data = path.endswith(".parquet")
        if is_data:
            assert ((table, path) in removed) == (run_id not in writing and run_id != "foreign")
    gone = {(v.table, v.partition, v.version) for v in facts.versions if (v.table, v.files.paths[0]) in removed}
    assert set(decision.versions) == gone


def facts_of(*runs: HeldRun, versions: Sequence[PartitionVersion] = ()) -> Facts:
    return Facts(runs=tuple(runs), versions=tuple(versions), live={})


def a_run(run_id: str = "run", **changed: object) -> HeldRun:
    usual: dict[str, object] = {"table": TABLES[1], "state": RunState.FAILED, "changed_at": NOW}
    return HeldRun(run_id=run_id, **{**usual, **changed})  # type: ignore[arg-type]


def whys(facts: Facts, *paths: str, table: str = TABLES[1]) -> list[Why]:
    decision = decide(facts, {table: paths}, HORIZONS)
    both = {**decision.kept.get(table, {}), **decision.removed.get(table, {})}
    return [both[path] for path in paths]


def test_what_spark_leaves_beside_kept_files_is_kept_with_them() -> None:
    run = a_run(staged={DAYS[0]: frozenset({path_of("run", DAYS[0])})})
    folder = f"_runs/run/0001/day={DAYS[0]}"
    kept = (f"{folder}/.part.parquet.crc", "_runs/run/0001/_SUCCESS", "_runs/run/0001/._SUCCESS.crc")
    assert whys(facts_of(run), *kept) == [Why.CANDIDATE] * 3
    gone = (f"{folder}/.other.parquet.crc", "_runs/run/0002/_SUCCESS", "_runs/run/0002/_temporary/0/part.parquet")
    assert whys(facts_of(run), *gone) == [Why.ATTEMPT] * 3


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("20260531T120000Z-ab", Why.IN_USE),
        ("20260530T120000Z-ab", Why.SCRATCH),
        ("somebody's", Why.UNKNOWN),
    ],
)
def test_scratch_goes_when_no_reproduction_can_be_using_it(name: str, why: Why) -> None:
    assert whys(facts_of(), f"_runs/_reproduced/{name}/0001/part.parquet") == [why]


def test_quarantined_records_are_kept_as_the_log_says_and_while_they_are_written() -> None:
    table = "quarantine.a"
    facts = Facts(
        runs=(),
        versions=(),
        live={table: frozenset({"_runs/imp-1/x/part.parquet"})},
        quarantines=frozenset({table}),
        imports={"imp-1": False, "imp-2": True},
    )
    paths = (
        "_runs/imp-1/x/part.parquet",
        "_runs/imp-1/old/part.parquet",
        "_runs/imp-2/x/part.parquet",
        "_runs/imp-9/x",
    )
    assert whys(facts, *paths, table=table) == [Why.LIVE, Why.NOT_LIVE, Why.WRITING, Why.UNKNOWN]


def test_every_version_that_rollbacks_could_reach_one_after_the_other_is_kept() -> None:
    ages = {1: 300, 2: 80, 3: 10}
    versions = [
        a_version(
            TABLES[1],
            DAYS[0],
            number,
            f"run-{number}",
            state=VersionState.ACCEPTED if number == 3 else VersionState.SUPERSEDED,
            replaces=number - 1,
            at=NOW - timedelta(days=age),
        )
        for number, age in ages.items()
    ]
    runs = [a_run(f"run-{number}", state=RunState.SUPERSEDED) for number in ages]
    paths = [path_of(f"run-{number}", DAYS[0]) for number in ages]
    assert whys(facts_of(*runs, versions=versions), *paths) == [Why.REPLACED, Why.REPLACED, Why.ACCEPTED]
    later = Horizons(as_of=NOW + timedelta(days=15), rollback_days=90, reproduction_days=200)
    decision = decide(facts_of(*runs, versions=versions), {TABLES[1]: paths}, later)
    assert decision.removed == {TABLES[1]: {paths[0]: Why.PAST}}
    assert decision.versions == ((TABLES[1], DAYS[0], 1),)


def test_a_version_of_a_run_that_was_cancelled_after_its_rollback_goes_because_of_that() -> None:
    path = path_of("undone", DAYS[0])
    version = a_version(TABLES[1], DAYS[0], 1, "undone", state=VersionState.ROLLED_BACK, replaces=0, at=NOW)
    run = a_run("undone", state=RunState.CANCELLED, staged={DAYS[0]: frozenset({path})}, published_at=NOW)
    assert whys(facts_of(run, versions=[version]), path) == [Why.CANCELLED]
