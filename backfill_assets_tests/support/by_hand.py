"""Two tables of the example domain whose runs are staged and gated by hand: real Delta and a real ledger, no Spark.

Silver has a row for every day of January 2026, gold one for the month, with the sum of the days.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

from backfill_assets.calendar.partitions import DayRange, Grain
from backfill_assets.core.settings import Settings
from backfill_assets.ledger.states import RunState
from backfill_assets.planning.manifest import Manifest, chunks_of
from backfill_assets.planning.sets import Phases, SetManifest, SetMember
from backfill_assets.workspace import Workspace
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.hand_made import (
    GOLD,
    SILVER,
    all_passed,
    append_results,
    compared,
    make_tables,
    written,
)
from backfill_assets_tests.support.ledger_examples import a_manifest
from backfill_assets_tests.support.shop import shop_environment, ticking_clock

JANUARY = DayRange.inclusive(date(2026, 1, 1), date(2026, 1, 31))
MONTH = JANUARY.start
LATER = datetime(2026, 3, 10, 12, tzinfo=UTC)
TEN_MINUTES = timedelta(minutes=10)
PLAIN = Phases()

_numbers = count(1)


@dataclass(frozen=True, kw_only=True)
class Hand:
    """A home in which runs are staged by hand."""

    ws: Workspace

    def silver(self, amounts: Mapping[date, int], **given: Any) -> str:
        """A run of silver that only has to be published; it reads nothing."""
        run_id = f"silver-{next(_numbers)}"
        days = tuple(sorted(amounts))
        manifest = a_manifest(
            run_id, table=SILVER, days=days, domain="example", partition_column="day", transform="recent_sales", **given
        )
        with self.ws.ledger.write() as writer:
            writer.runs.add(manifest, actor="ana")
        self.stage(run_id, amounts)
        with self.ws.ledger.write() as writer:
            writer.requests.approve(run_id, by="ben")
        return run_id

    def set_of(self, amounts: Mapping[date, int]) -> str:
        """A set of both tables that only has to be published; it reads nothing."""
        number = next(_numbers)
        set_id = f"set.{number}"
        months = {MONTH: sum(amounts.values())}
        parts = ((SILVER, "day", Grain.DAILY, amounts), (GOLD, "month", Grain.MONTHLY, months))
        manifests = [
            a_manifest(
                f"{table}-{number}",
                table=table,
                days=tuple(sorted(rows)),
                domain="example",
                grain=grain,
                partition_column=column,
                request_id=set_id,
            )
            for table, column, grain, rows in parts
        ]
        return self._as_set(set_id, manifests, [rows for *_, rows in parts], name="both", reason="both were wrong")

    def phased(self, *parts: Mapping[date, int], phases: Phases = PLAIN) -> str:
        """A set of silver whose runs are phases, staged by hand, and not approved."""
        number = next(_numbers)
        set_id = f"set.{number}"
        manifests = [
            a_manifest(
                f"{SILVER}-{number}-{place}",
                table=SILVER,
                days=tuple(sorted(part)),
                domain="example",
                partition_column="day",
                request_id=set_id,
            )
            for place, part in enumerate(parts, start=1)
        ]
        return self._as_set(set_id, manifests, parts, name="in phases", reason="January was wrong", phases=phases)

    def _as_set(
        self,
        set_id: str,
        manifests: Sequence[Manifest],
        rows: Sequence[Mapping[date, int]],
        *,
        name: str,
        reason: str,
        phases: Phases | None = None,
    ) -> str:
        """Writes runs and their set down, and stages the runs."""
        members = tuple(SetMember(run_id=m.run_id, table=m.table, manifest_digest=m.digest) for m in manifests)
        with self.ws.ledger.write() as writer:
            for manifest in manifests:
                writer.runs.add(manifest, actor="ana")
            writer.sets.add(
                SetManifest(
                    set_id=set_id,
                    name=name,
                    reason=reason,
                    requested_by="ana",
                    requested_at=LATER,
                    because="",
                    members=members,
                    phases=phases,
                ),
                actor="ana",
            )
        for manifest, some in zip(manifests, rows, strict=True):
            self.stage(manifest.run_id, some)
        return set_id

    def published(self, amounts: Mapping[date, int]) -> str:
        """The publication of a run of silver."""
        return self.publish(self.silver(amounts))

    def publish(self, run_id: str) -> str:
        """The publication of a run."""
        return operations.publish(self.ws, run_id, by="ben").publication_id

    def undo(self, publication_id: str) -> None:
        """Rolls the run of a publication back."""
        with self.ws.ledger.read() as reader:
            run_id = reader.publications.get(publication_id).run_id
        operations.rollback(self.ws, run_id, by="ben", reason="was right before")

    def month(self, run_id: str) -> str:
        """A planned run of gold, staged and gated with the sum of what silver holds."""
        rows = self.ws.lake.open(SILVER).to_pyarrow_table(columns=["amount"]).to_pylist()
        self.stage(run_id, {MONTH: sum(row["amount"] for row in rows)})
        return run_id

    def total(self) -> int | None:
        """What readers see of the month in gold."""
        rows = self.ws.lake.open(GOLD).to_pyarrow_table(columns=["amount"]).to_pylist()
        return rows[0]["amount"] if rows else None

    def stage(self, run_id: str, amounts: Mapping[date, int]) -> None:
        """Stages and gates a planned run, one row per partition; every gate passes."""
        attempt = f"a{next(_numbers)}"
        with self.ws.ledger.write() as writer:
            manifest = writer.runs.get(run_id).manifest
            writer.runs.take(run_id, RunState.STAGING, actor="ana", attempt=attempt)
            writer.candidates.clear(run_id)
        amounts_of = {day: (amounts[day],) for day in manifest.partitions}
        staged = written(self.ws.lake, manifest.table, run_id, attempt, amounts_of)
        results = all_passed(staged, manifest.gates)
        append_results(self.ws.lake, manifest, results, attempt)
        with self.ws.ledger.write() as writer:
            for chunk in chunks_of(manifest):
                of_chunk = [staged[day] for day in chunk.partitions]
                writer.candidates.start_chunk(run_id, chunk.number, chunk.partitions, attempt=attempt)
                writer.candidates.finish_chunk(
                    run_id,
                    chunk.number,
                    input_rows=1,
                    output_rows=len(of_chunk),
                    candidates=of_chunk,
                    attempt=attempt,
                    checksum="x",
                )
            writer.runs.move(run_id, RunState.STAGED, actor="ana", attempt=attempt)
            writer.runs.take(run_id, RunState.GATING, actor="ana", attempt=attempt)
            accepted = writer.versions.accepted(manifest.table, manifest.partitions)
            writer.candidates.record_gates(run_id, compared(staged, accepted), results, actor="ana", attempt=attempt)
            writer.runs.move(run_id, RunState.PASSED, actor="ana", attempt=attempt)


def open_by_hand(home: Path) -> Hand:
    """January of 10 a day in silver, and the month in gold, which followed; made where the home is not there yet."""
    is_there = home.exists()
    settings = Settings.from_environment(shop_environment(home))
    hand = Hand(ws=Workspace.open(settings, clock=ticking_clock(LATER + is_there * TEN_MINUTES)))
    if is_there:
        return hand
    make_tables(hand.ws.lake)
    hand.published(dict.fromkeys(JANUARY, 10))
    (run,) = operations.plan_follow_ups(hand.ws, by="ops").runs
    hand.publish(hand.month(run.run_id))
    assert operations.plan_follow_ups(hand.ws, by="ops").runs == ()
    assert run.manifest.grain is Grain.MONTHLY
    return hand
