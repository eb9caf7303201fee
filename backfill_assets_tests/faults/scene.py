"""What do the actors act on? A lake and a ledger with a short history, prepared once and copied for every run.

Two tables of the example domain. `first` is published over the days 1 to 3, `second` over 2 and 3 again. Day 1 has two
files, day 3 was empty before `second`, days 4 to 6 were never published. The runs below are gated and wait:

| run | days | why |
|---|---|---|
| backfill | 1 to 4 | restates; leaves day 3 without rows; finds no rows for day 4 |
| live | 2, 5 | the live writer on one of the same days; its table's policy approves it |
| other | 4, 6 | shares with `backfill` only a day that is empty before and after |
| equal | 1, 6 | finds day 1 as it is, so does not exchange it but relies on it |
| one, month | 5; the month | a restatement set over both tables |
| two, same | 7; the month | another one, published already, that had found the month equal |
| newer | 31 December | restates what `corrected` has published, which gold has not followed yet |

December is complete: 30 days by `december`, the last one by another run. Gold followed before it was `corrected`.

Files are written with pyarrow; no Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pyarrow.parquet as pq
from deltalake import DeltaTable

from backfill_assets.calendar.partitions import Grain
from backfill_assets.core.clock import Clock
from backfill_assets.core.crash_points import Point
from backfill_assets.core.errors import Refused
from backfill_assets.core.identity import FileSet
from backfill_assets.core.settings import Settings
from backfill_assets.lake.tables import Lake
from backfill_assets.ledger.errors import Unavailable
from backfill_assets.ledger.findings import GateResult
from backfill_assets.ledger.records import CandidatePartition, PartitionVersion
from backfill_assets.ledger.states import UNPUBLISHED, ApprovalState, RunState
from backfill_assets.ledger.store import Ledger
from backfill_assets.ledger.transactions import ReadTransaction, WriteTransaction
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.manifest_parts import A_PERSON, WHAT_LANDED, GateTerm, Mode, RunPurpose
from backfill_assets.planning.sets import SetManifest, SetMember
from backfill_assets.requests.publish import publish_run
from backfill_assets.workspace import Workspace
from backfill_assets_tests.conftest import NOON
from backfill_assets_tests.domains import example as example_domain
from backfill_assets_tests.faults.turn_scheduler import no_stops, stop
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.hand_made import (
    COLUMN,
    GOLD,
    SILVER,
    RowsOf,
    all_passed,
    append_results,
    compared,
    make_tables,
    written,
)
from backfill_assets_tests.support.lakes import folder_of
from backfill_assets_tests.support.ledger_examples import a_manifest
from backfill_assets_tests.support.operations import publish_set
from backfill_assets_tests.support.shop import shop_environment

DAYS = tuple(date(2026, 1, 2) + timedelta(days=number) for number in range(8))
"""`DAYS[1]` is day 1 of the table above; day 0 belongs to the foreign writer alone."""
MONTH = date(2026, 1, 1)
DECEMBER = date(2025, 12, 1)
DECEMBERS = tuple(DECEMBER + timedelta(days=number) for number in range(31))
"""The month that is complete in silver, so that gold follows it."""
GATE = GateTerm(name="unique", demands="no key twice", blocking=True)
SET_ID = "set.monthly"
EQUAL_SET_ID = "set.equal"
LEASE = timedelta(minutes=10)
OPENED = "lake: has a handle of the table"
BEFORE_WRITE = "ledger: is about to write"

WAITING: Mapping[str, tuple[str, RowsOf]] = {
    "backfill": (SILVER, {DAYS[1]: (31,), DAYS[2]: (32,), DAYS[3]: (), DAYS[4]: ()}),
    "live": (SILVER, {DAYS[2]: (42,), DAYS[5]: (45,)}),
    "other": (SILVER, {DAYS[4]: (), DAYS[6]: (56,)}),
    "equal": (SILVER, {DAYS[1]: (11, 12), DAYS[6]: (66,)}),
    "one": (SILVER, {DAYS[5]: (75,)}),
    "month": (GOLD, {MONTH: (100,)}),
    "newer": (SILVER, {DECEMBERS[-1]: (9,)}),
    "two": (SILVER, {DAYS[7]: (87,)}),
    "same": (GOLD, {MONTH: (50,)}),
}
SETS: Mapping[str, tuple[str, str]] = {SET_ID: ("one", "month"), EQUAL_SET_ID: ("two", "same")}

HISTORY: Mapping[str, tuple[str, RowsOf]] = {
    "december": (SILVER, {day: (2,) if day == DECEMBER else () for day in DECEMBERS[:-1]}),
    "eve": (SILVER, {DECEMBERS[-1]: (7,)}),
    "first": (SILVER, {DAYS[1]: (11, 12), DAYS[2]: (12,), DAYS[3]: ()}),
    "second": (SILVER, {DAYS[2]: (22,), DAYS[3]: (23,)}),
    "january": (GOLD, {MONTH: (50,)}),
    "corrected": (SILVER, {DECEMBERS[-1]: (8,)}),
}
RUNS = {**HISTORY, **WAITING}


@dataclass(frozen=True, slots=True, kw_only=True)
class Gated:
    """What the gates of a run saw: its files, and the file sets that it was compared with, by partition value."""

    new: Mapping[str, FileSet]
    compared: Mapping[str, str]


class PacedLedger(Ledger):
    """The real ledger, whose writers stop before their turn and not in it."""

    @contextmanager
    def write(self) -> Iterator[WriteTransaction]:
        """A writer; with the order to fail, the database cannot be reached."""
        stop(BEFORE_WRITE, fails_with=Unavailable(why="it is away"))
        with no_stops(), super().write() as writer:
            yield writer

    @contextmanager
    def read(self) -> Iterator[ReadTransaction]:
        """A reader."""
        with no_stops(), super().read() as reader:
            yield reader


class PacedLake(Lake):
    """The real lake; an actor that has opened a table stops before it uses the handle."""

    def open(self, table: str) -> DeltaTable:
        """A handle that is about to grow old."""
        handle = super().open(table)
        stop(OPENED)
        return handle


def reached(point: Point) -> None:
    """A stop at every crash point."""
    stop(point.value)


@dataclass(kw_only=True)
class Scene:
    """One copy of the history, and what the test knows of it."""

    ws: Workspace
    #: What the gates saw, for every run, in the order of gating.
    gated: dict[str, list[Gated]] = field(default_factory=dict)
    attempts: int = 0  #: How many times something was staged.

    @property
    def later(self) -> Workspace:
        """The workspace when every horizon has passed."""
        return sharing(self.ws, clock=ticking(NOON + timedelta(days=2_000)))

    @property
    def soon(self) -> Workspace:
        """The workspace when every lease has ended that was not renewed."""
        return sharing(self.ws, clock=ticking(NOON + timedelta(days=1, hours=1)))

    def rows_of(self, run_id: str) -> tuple[str, RowsOf]:
        """What a run stages; a follow-up the sum of the days that it has pinned."""
        if run_id in RUNS:
            return RUNS[run_id]
        with self.ws.ledger.read() as reader:
            (pinned,) = reader.runs.get(run_id).manifest.inputs
            versions = reader.versions.pinned(SILVER, [(pin.partition, pin.version) for pin in pinned.partitions])
        return GOLD, {DECEMBER: (self.total(version.files for version in versions.values()),)}

    def total(self, file_sets: Iterable[FileSet]) -> int:
        """The sum of all rows of silver in some files."""
        root = folder_of(self.ws.lake, SILVER)
        paths = [root / path for files in file_sets for path in files.paths]
        return sum(row["amount"] for path in paths for row in pq.read_table(path, columns=["amount"]).to_pylist())

    def follow(self) -> None:
        """Gold follows whatever asks it to, as far as that is possible."""
        operations.plan_follow_ups(self.ws, by="follow")
        with self.ws.ledger.read() as reader:
            waiting = reader.outbox.unfinished_follow_ups(UNPUBLISHED)
        refusal: Refused | None = None
        for run in waiting:
            try:
                if run.state is not RunState.PASSED:
                    self.gate(run.run_id, restage=True)
                publish_run(self.ws, run.run_id, by="follow")
            except Refused as error:
                refusal = error
        if refusal is not None:
            raise refusal

    def gate(self, run_id: str, *, restage: bool = False) -> None:
        """Gates a run against what the ledger accepts now; with files of its own again if need be."""
        table, rows = self.rows_of(run_id)
        ledger = self.ws.ledger
        if not restage:
            with ledger.read() as reader:
                restage = reader.runs.get(run_id).state not in (RunState.PASSED, RunState.BLOCKED)
        if restage:
            self.stage(run_id, table, rows)
        self.attempts += 1
        name = f"g{self.attempts}"
        with ledger.write() as writer:
            writer.runs.take(run_id, RunState.GATING, actor="ana", attempt=name, lease=LEASE)
        reached(Point.GATE_BEGUN)
        with ledger.read() as reader:
            staged = reader.candidates.of_run(run_id)
            accepted = reader.versions.accepted(table)
            manifest = reader.runs.get(run_id).manifest
        results = all_passed(staged, manifest.gates)
        append_results(self.ws.lake, manifest, results, name)
        with ledger.write() as writer:
            self._gated(writer, run_id, staged, accepted, results, name)

    def stage(self, run_id: str, table: str, rows: RowsOf) -> None:
        """Stages a run in new files."""
        self.attempts += 1
        name = f"a{self.attempts}"
        with self.ws.ledger.write() as writer:
            writer.runs.take(run_id, RunState.STAGING, actor="ana", attempt=name, lease=LEASE)
            writer.candidates.clear(run_id)
            writer.candidates.start_chunk(run_id, 1, tuple(rows), attempt=name)
        reached(Point.STAGE_BEGUN)
        candidates = list(written(self.ws.lake, table, run_id, name, rows).values())
        with self.ws.ledger.write() as writer:
            writer.candidates.finish_chunk(
                run_id, 1, input_rows=1, output_rows=1, candidates=candidates, attempt=name, checksum="x"
            )
            writer.runs.move(run_id, RunState.STAGED, actor="ana", attempt=name)

    def _gated(
        self,
        writer: WriteTransaction,
        run_id: str,
        staged: Mapping[date, CandidatePartition],
        accepted: Mapping[date, PartitionVersion],
        results: Sequence[GateResult],
        attempt: str,
    ) -> None:
        candidates = compared(staged, accepted)
        writer.candidates.record_gates(run_id, candidates, results, actor="ana", attempt=attempt)
        writer.runs.move(run_id, RunState.PASSED, actor="ana", attempt=attempt)
        known = Gated(
            new={day.isoformat(): candidate.files for day, candidate in staged.items()},
            compared={c.partition.isoformat(): str(c.compared_digest) for c in candidates},
        )
        self.gated.setdefault(run_id, []).append(known)

    def approve(self, run_id: str) -> None:
        """Ben approves a run that has no approval."""
        with self.ws.ledger.write() as writer:
            if writer.runs.get(run_id).approval is ApprovalState.DRAFT:
                writer.requests.approve(run_id, by="ben")

    def plan(self, run_id: str) -> Manifest:
        """A manifest without inputs: what a run was computed from is not what is raced for here."""
        table, rows = RUNS[run_id]
        is_live = run_id == "live"
        manifest = a_manifest(
            run_id,
            table=table,
            days=tuple(rows),
            domain="example",
            grain=Grain.MONTHLY if table == GOLD else Grain.DAILY,
            partition_column=COLUMN[table],
            kind=RunPurpose.LIVE if is_live else RunPurpose.RESTATEMENT,
            mode=Mode.LIVE if is_live else Mode.BACKFILL,
            cause=WHAT_LANDED if is_live else A_PERSON,
            requested_by="ana",
            gates=(GATE,),
            request_id=next((set_id for set_id, members in SETS.items() if run_id in members), None),
        )
        with self.ws.ledger.write() as writer:
            writer.runs.add(manifest, actor="ana")
        return manifest


def build(ws: Workspace) -> Scene:
    """Writes the history of the module's docstring into an empty lake and ledger."""
    scene = Scene(ws=ws)
    make_tables(ws.lake)
    manifests: dict[str, Manifest] = {}
    for run_id in RUNS:
        manifests[run_id] = scene.plan(run_id)
        scene.gate(run_id, restage=True)
        if run_id in HISTORY:
            scene.approve(run_id)
            publish_run(ws, run_id, by="ben")
        if run_id == "eve":
            scene.follow()
    for set_id, members in SETS.items():
        _add_set(ws, set_id, [manifests[run_id] for run_id in members])
    publish_set(ws, EQUAL_SET_ID, by="ben")
    for run_id in ("backfill", "live", "other", "equal", "newer"):
        scene.approve(run_id)
    return scene


def _add_set(ws: Workspace, set_id: str, manifests: Iterable[Manifest]) -> None:
    members = tuple(SetMember(run_id=m.run_id, table=m.table, manifest_digest=m.digest) for m in manifests)
    manifest = SetManifest(
        set_id=set_id,
        name="monthly",
        reason="both were wrong",
        requested_by="ana",
        requested_at=datetime(2026, 1, 15, tzinfo=UTC),
        because="",
        members=members,
    )
    with ws.ledger.write() as writer:
        writer.sets.add(manifest, actor="ana")
        writer.requests.approve(set_id, by="ben")


def open_home(home: Path, ledger_url: str | None = None) -> Workspace:
    """A workspace of the example domain whose ledger and lake stop for their turn."""
    # A copy of the home is the history as it was, so that its ledger is in it, whatever other tests use.
    kept_in = {"BACKFILL_LEDGER_URL": ledger_url or f"sqlite:///{home / 'ledger.db'}"}
    kept = {"BACKFILL_ROLLBACK_DAYS": "30", "BACKFILL_REPRODUCTION_DAYS": "30"}
    environment = {**shop_environment(home), **kept_in, **kept, "BACKFILL_FIRST_DAY": DECEMBER.isoformat()}
    settings = Settings.from_environment(environment)
    clock = ticking(NOON)
    ws = Workspace(settings=settings, domain=example_domain.DOMAIN, clock=clock, reached=reached)
    ledger = Ledger.open(settings.ledger_url, clock=clock, most_behind=settings.clock_behind)
    return sharing(ws, clock=clock, ledger=ledger)


def sharing(ws: Workspace, *, clock: Clock, ledger: Ledger | None = None) -> Workspace:
    """The same workspace with another clock; the ledger's engine is shared."""
    held = ledger or ws.ledger
    made = replace(ws, clock=clock)
    made.__dict__["ledger"] = PacedLedger(held._engine, clock, ws.settings.clock_behind)
    made.__dict__["lake"] = PacedLake(root=ws.settings.lake, access=ws.settings.access)
    for name in ("references", "graph", "code"):
        made.__dict__[name] = getattr(ws, name)
    return made


def ticking(start: datetime) -> Clock:
    looks = iter(range(10_000_000))
    return lambda: start + timedelta(seconds=next(looks))
