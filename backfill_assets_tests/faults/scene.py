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

Files are written with pyarrow; no Spark.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from pyspark.sql.types import StructType

from backfill_assets.clock import Clock
from backfill_assets.crash_points import Point
from backfill_assets.errors import Retryable
from backfill_assets.identity import EMPTY_FILE_SET, DataFile, FileSet
from backfill_assets.lake.tables import Lake
from backfill_assets.ledger.records import CandidatePartition, GateResult, PartitionVersion
from backfill_assets.ledger.states import ApprovalState, RunState
from backfill_assets.ledger.store import Ledger, LedgerReader, LedgerWriter
from backfill_assets.planning.manifest import A_PERSON, WHAT_LANDED, GateTerm, Kind, Manifest, Mode
from backfill_assets.planning.partitions import Grain
from backfill_assets.planning.sets import SetManifest, SetMember
from backfill_assets.publication.publish import publish_run
from backfill_assets.publication.sets import publish_set
from backfill_assets.settings import Settings
from backfill_assets.workspace import Workspace
from backfill_assets_tests import example_domain
from backfill_assets_tests.conftest import NOON
from backfill_assets_tests.faults.baton import no_stops, stop
from backfill_assets_tests.ledger_examples import a_manifest
from backfill_assets_tests.shop import shop_environment

SILVER, GOLD = "silver.recent_sales", "gold.sales_monthly"
COLUMN = {SILVER: "day", GOLD: "month"}
SCHEMA = {SILVER: example_domain.RECENT_SALES, GOLD: example_domain.SALES_MONTHLY}
DAYS = tuple(date(2026, 1, 2) + timedelta(days=number) for number in range(8))
"""`DAYS[1]` is day 1 of the table above; day 0 is nobody's but the foreign writer's."""
MONTH = date(2026, 1, 1)
GATE = GateTerm(name="unique", demands="no key twice", blocking=True)
SET_ID = "set.monthly"
EQUAL_SET_ID = "set.equal"
LEASE = timedelta(minutes=10)
OPENED = "lake: has a handle of the table"
BEFORE_WRITE = "ledger: is about to write"

RowsOf = Mapping[date, tuple[int, ...]]
"""The rows of each file of a partition; none for a partition without rows."""

WAITING: Mapping[str, tuple[str, RowsOf]] = {
    "backfill": (SILVER, {DAYS[1]: (31,), DAYS[2]: (32,), DAYS[3]: (), DAYS[4]: ()}),
    "live": (SILVER, {DAYS[2]: (42,), DAYS[5]: (45,)}),
    "other": (SILVER, {DAYS[4]: (), DAYS[6]: (56,)}),
    "equal": (SILVER, {DAYS[1]: (11, 12), DAYS[6]: (66,)}),
    "one": (SILVER, {DAYS[5]: (75,)}),
    "month": (GOLD, {MONTH: (100,)}),
    "two": (SILVER, {DAYS[7]: (87,)}),
    "same": (GOLD, {MONTH: (50,)}),
}
SETS: Mapping[str, tuple[str, str]] = {SET_ID: ("one", "month"), EQUAL_SET_ID: ("two", "same")}

HISTORY: Mapping[str, tuple[str, RowsOf]] = {
    "first": (SILVER, {DAYS[1]: (11, 12), DAYS[2]: (12,), DAYS[3]: ()}),
    "second": (SILVER, {DAYS[2]: (22,), DAYS[3]: (23,)}),
    "january": (GOLD, {MONTH: (50,)}),
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
    def write(self) -> Iterator[LedgerWriter]:
        """A writer; told to fail, the database cannot be reached."""
        stop(BEFORE_WRITE, fails_with=Retryable("the ledger could not be used", next_step="try again"))
        with no_stops(), super().write() as writer:
            yield writer

    @contextmanager
    def read(self) -> Iterator[LedgerReader]:
        """A reader."""
        with no_stops(), super().read() as reader:
            yield reader


class PacedLake(Lake):
    """The real lake; whoever has opened a table stops before doing something with the handle."""

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
    """One copy of the history, and what the test knows of it.

    Attributes:
        gated: What the gates saw, for every run, in the order of gating.
        attempts: How many times something was staged.
    """

    ws: Workspace
    gated: dict[str, list[Gated]] = field(default_factory=dict)
    attempts: int = 0

    @property
    def later(self) -> Workspace:
        """The workspace when every horizon has passed."""
        return _sharing(self.ws, clock=_ticking(NOON + timedelta(days=2_000)))

    @property
    def soon(self) -> Workspace:
        """The workspace when every lease has ended that nobody renewed."""
        return _sharing(self.ws, clock=_ticking(NOON + timedelta(days=1, hours=1)))

    def gate(self, run_id: str, *, restage: bool = False) -> None:
        """Gates a run against what the ledger accepts now; with files of its own again if need be."""
        table, _ = RUNS[run_id]
        ledger = self.ws.ledger
        if not restage:
            with ledger.read() as reader:
                restage = reader.run(run_id).state not in (RunState.PASSED, RunState.BLOCKED)
        if restage:
            self.stage(run_id)
        self.attempts += 1
        name = f"g{self.attempts}"
        with ledger.write() as writer:
            writer.take_run(run_id, RunState.GATING, actor="ana", attempt=name, lease=LEASE)
        reached(Point.GATE_BEGUN)
        with ledger.read() as reader:
            staged = reader.candidates(run_id)
            accepted = reader.accepted(table)
        with ledger.write() as writer:
            self._gated(writer, run_id, {day: c.files for day, c in staged.items()}, accepted, name)

    def stage(self, run_id: str) -> None:
        """Stages a run in files that nobody has written yet."""
        table, rows = RUNS[run_id]
        self.attempts += 1
        name = f"a{self.attempts}"
        with self.ws.ledger.write() as writer:
            writer.take_run(run_id, RunState.STAGING, actor="ana", attempt=name, lease=LEASE)
            writer.clear_candidates(run_id)
            writer.start_chunk(run_id, 1, tuple(rows), attempt=name)
        reached(Point.STAGE_BEGUN)
        files = write_files(self.ws.lake, table, run_id, name, rows)
        candidates = [CandidatePartition(run_id=run_id, partition=day, files=files[day], rows=1) for day in rows]
        with self.ws.ledger.write() as writer:
            writer.finish_chunk(
                run_id, 1, input_rows=1, output_rows=1, candidates=candidates, attempt=name, checksum="x"
            )
            writer.move_run(run_id, RunState.STAGED, actor="ana", attempt=name)

    def _gated(
        self,
        writer: LedgerWriter,
        run_id: str,
        files: Mapping[date, FileSet],
        accepted: Mapping[date, PartitionVersion],
        attempt: str,
    ) -> None:
        _, rows = RUNS[run_id]
        candidates, results = [], []
        for day, of_day in files.items():
            before = accepted.get(day)
            candidates.append(
                CandidatePartition(
                    run_id=run_id,
                    partition=day,
                    files=of_day,
                    rows=len(rows[day]),
                    checksum=checksum_of(rows[day]),
                    compared_version=before.version if before else 0,
                    compared_digest=(before.files if before else EMPTY_FILE_SET).digest,
                    compared_checksum=before.checksum if before else "",
                )
            )
            results.append(
                GateResult(
                    run_id=run_id,
                    partition=day,
                    gate=GATE.name,
                    blocking=True,
                    passed=True,
                    digest=of_day.digest,
                    verdict="all different",
                )
            )
        writer.record_gates(run_id, candidates, results, actor="ana", attempt=attempt)
        writer.move_run(run_id, RunState.PASSED, actor="ana", attempt=attempt)
        known = Gated(
            new={day.isoformat(): of_day for day, of_day in files.items()},
            compared={c.partition.isoformat(): str(c.compared_digest) for c in candidates},
        )
        self.gated.setdefault(run_id, []).append(known)

    def approve(self, run_id: str) -> None:
        """Ben agrees to a run, unless somebody has."""
        with self.ws.ledger.write() as writer:
            if writer.run(run_id).approval is ApprovalState.DRAFT:
                writer.approve(run_id, by="ben")

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
            kind=Kind.LIVE if is_live else Kind.RESTATEMENT,
            mode=Mode.LIVE if is_live else Mode.BACKFILL,
            cause=WHAT_LANDED if is_live else A_PERSON,
            requested_by="ana",
            gates=(GATE,),
            member_of=next((set_id for set_id, members in SETS.items() if run_id in members), None),
        )
        with self.ws.ledger.write() as writer:
            writer.add_manifest(manifest, actor="ana")
        return manifest


def checksum_of(rows: Iterable[int]) -> str:
    """Stands for the content checksum of a partition, which begins with the number of rows."""
    held = sorted(rows)
    return f"{len(held)}:{held}"


def write_files(lake: Lake, table: str, run_id: str, attempt: str, rows: RowsOf) -> dict[date, FileSet]:
    """One file per number, below `_runs/`."""
    root = lake.path(table)
    made: dict[date, FileSet] = {}
    for day, numbers in rows.items():
        files = []
        for position, number in enumerate(numbers):
            path = root / "_runs" / run_id / attempt / f"{COLUMN[table]}={day}" / f"part-{position}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            held = {"shop": ["only"]} if table == SILVER else {}
            pq.write_table(pa.table({**held, "amount": pa.array([number], pa.int64())}), path)
            relative = path.relative_to(root).as_posix()
            files.append(DataFile(path=relative, size_bytes=path.stat().st_size, rows=1))
        made[day] = FileSet.of(files)
    return made


class LedgerServer(Protocol):
    """A database that is not a file in the home, and so has to be copied in its own way."""

    @property
    def url(self) -> str:
        """Where the ledger is."""
        ...

    def remember(self) -> None:
        """Keeps a copy of the ledger as it is now."""

    def bring_back(self) -> None:
        """Makes the ledger what it was when it was remembered."""


@dataclass(kw_only=True)
class Prepared:
    """The history on disk, and copies of it, one at a time, always in the same place.

    The same place keeps the ledger's engine, and with it the statements that it has compiled.
    """

    folder: Path
    ws: Workspace
    gated: Mapping[str, list[Gated]]
    attempts: int
    server: LedgerServer | None = None

    @staticmethod
    def make(folder: Path, server: LedgerServer | None = None) -> Prepared:
        """Builds the history in a folder, with a SQLite ledger there or one on a server."""
        home = folder / "home"
        ws = open_home(home, server.url if server else None)
        scene = build(ws)
        ws.ledger._engine.dispose()
        shutil.copytree(home, folder / "master")
        if server:
            server.remember()
        return Prepared(folder=folder, ws=ws, gated=scene.gated, attempts=scene.attempts, server=server)

    def copy(self) -> Scene:
        """The history as it was, for one run."""
        home = self.folder / "home"
        self.ws.ledger._engine.dispose()
        shutil.rmtree(home)
        shutil.copytree(self.folder / "master", home)
        if self.server:
            self.server.bring_back()
        ws = _sharing(self.ws, clock=_ticking(NOON + timedelta(days=1)))
        return Scene(ws=ws, gated={run: list(seen) for run, seen in self.gated.items()}, attempts=self.attempts)

    def close(self) -> None:
        """Lets go of the ledger."""
        self.ws.close()


def build(ws: Workspace) -> Scene:
    """Writes the history of the module's docstring into an empty lake and ledger."""
    scene = Scene(ws=ws)
    for table, schema in SCHEMA.items():
        ws.lake.ensure(table, StructType(schema.fields), COLUMN[table])
    manifests: dict[str, Manifest] = {}
    for run_id in RUNS:
        manifests[run_id] = scene.plan(run_id)
        scene.gate(run_id, restage=True)
        if run_id in HISTORY:
            scene.approve(run_id)
            publish_run(ws, run_id, by="ben")
    for set_id, members in SETS.items():
        _add_set(ws, set_id, [manifests[run_id] for run_id in members])
    publish_set(ws, EQUAL_SET_ID, by="ben")
    for run_id in ("backfill", "other", "equal"):
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
        writer.add_set(manifest, actor="ana")
        writer.approve_set(set_id, by="ben")


def open_home(home: Path, ledger_url: str | None = None) -> Workspace:
    """A workspace of the example domain whose ledger and lake stop for the baton."""
    elsewhere = {"BACKFILL_LEDGER_URL": ledger_url} if ledger_url else {}
    environment = {**shop_environment(home), **elsewhere, "BACKFILL_ROLLBACK_DAYS": "30"}
    settings = Settings.from_environment({**environment, "BACKFILL_REPRODUCTION_DAYS": "30"})
    clock = _ticking(NOON)
    ws = Workspace(settings=settings, domain=example_domain.DOMAIN, clock=clock, reached=reached)
    ledger = Ledger.open(settings.ledger_url, clock=clock)
    return _sharing(ws, clock=clock, ledger=ledger)


def _sharing(ws: Workspace, *, clock: Clock, ledger: Ledger | None = None) -> Workspace:
    """The same workspace with another clock; the ledger's engine is shared."""
    held = ledger or ws.ledger
    made = replace(ws, clock=clock)
    made.__dict__["ledger"] = PacedLedger(held._engine, clock)
    made.__dict__["lake"] = PacedLake(root=ws.settings.lake, storage_options=ws.settings.storage_options)
    for name in ("references", "graph", "code"):
        made.__dict__[name] = getattr(ws, name)
    return made


def _ticking(start: datetime) -> Clock:
    looks = iter(range(10_000_000))
    return lambda: start + timedelta(seconds=next(looks))
