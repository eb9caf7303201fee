"""A report made by hand: what tests of pages and reviews vary."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

from backfill_assets.calendar.partitions import Grain, Partitions
from backfill_assets.core.next_steps import ANOTHER_PERSON, Command, do, step
from backfill_assets.core.tariff import Cost
from backfill_assets.ledger.findings import FailingKey, SampledRow
from backfill_assets.ledger.records import Action, PublicationHeader, SetRecord
from backfill_assets.ledger.states import PublicationState, RunState, SetState
from backfill_assets.planning.manifest_parts import PinnedReference, ReferenceSemantics
from backfill_assets.planning.safeguards import A_PERSON
from backfill_assets.planning.sets import SetManifest
from backfill_assets.planning.stages import Agree
from backfill_assets.report.cost import CostDocument
from backfill_assets.report.measured import (
    GateSummary,
    PartitionMoves,
    RowDiff,
    StateMove,
    moves_of_some,
)
from backfill_assets.report.publications import Moment
from backfill_assets.report.report import DependentCell, DependentMoves, Level, RunReport, RunVersions
from backfill_assets.report.runs import RunSummary, SetDocument
from backfill_assets.report.usual import BreakdownDocument, MeasuredCell
from backfill_assets_tests.support.ledger_examples import a_manifest, a_run

NOON = datetime(2026, 1, 3, 12, tzinfo=UTC)
HOSTILE = (
    "\"'><script>alert(1)</script><img src=http://evil.example/x onerror=alert(1)>{{ 7*7 }}`*_|[x](http://evil)\u202e"
)
FIRST = date(2006, 7, 1)
JULY = Partitions.of(Grain.MONTHLY, [FIRST])


def days(count: int) -> list[date]:
    return [FIRST + timedelta(days=place) for place in range(count)]


def moves(changed: int = 1) -> RowDiff:
    return RowDiff(rows=10, accepted_rows=10, added=0, removed=0, changed=changed, unchanged=10 - changed)


def parts(count: int, *, new: int = 0) -> tuple[PartitionMoves, ...]:
    return tuple(
        PartitionMoves(
            partition=day, moves=moves(place % 10), checksum=f"x{place}", equal=False, new_empty=False, new=place < new
        )
        for place, day in enumerate(days(count))
    )


def gate(
    name: str, count: int, failed: tuple[date, ...] = (), *, blocking: bool = True, said: str = "no"
) -> GateSummary:
    return GateSummary(
        gate=name,
        demands=said,
        blocking=blocking,
        passed_partitions=count - len(failed),
        outcome=f"{len(failed)} failed",
        first_failure=f"{failed[0]}: {said}" if failed else None,
        failed=Partitions.of(Grain.DAILY, failed),
    )


def summary(state: RunState = RunState.PASSED, *, said: str = "deadlines") -> RunSummary:
    manifest = a_manifest(
        "bf-1",
        table="silver.orders",
        days=days(3),
        requested_by="ana",
        requested_at=NOON,
        reason=said,
        transform="orders",
        transform_version="2.0.0",
        references=(
            PinnedReference(name="calendar", version="2005", sha256="0" * 64, semantics=ReferenceSemantics.AS_RECORDED),
        ),
    )
    return RunSummary(record=a_run(manifest, state), next_step=step(do(Command.APPROVE, "bf-1", by=ANOTHER_PERSON)))


def restatement(state: SetState) -> SetDocument:
    manifest = SetManifest(
        set_id="set.20261122-1a2b3c4d",
        name="carnival",
        because="bronze.case_events:2025-03-10..2025-03-10",
        reason="a late event",
        requested_by="ana",
        requested_at=NOON,
        members=(),
    )
    return SetDocument(
        record=SetRecord(
            set_id=manifest.set_id, manifest=manifest, digest=manifest.digest, state=state, updated_at=NOON
        ),
        changed_by=(),
        approved_by="ben",
        versions={},
        runs=(),
        next_step=step(do(Command.PUBLISH, manifest.set_id, by="NAME")),
    )


def an_act(action: Action, state: PublicationState, hour: int, table: str = "silver.orders") -> PublicationHeader:
    return PublicationHeader(
        publication_id=f"pub-{hour}",
        run_id="bf-1",
        table=table,
        action=action,
        by="ben",
        reason="",
        undoes=None,
        sequence=hour,
        state=state,
        started_at=NOON + timedelta(hours=hour),
        finished_at=NOON + timedelta(hours=hour, minutes=1),
        delta_version=hour,
    )


def cell(month: str, shop: str | None) -> MeasuredCell:
    return MeasuredCell(
        month=month,
        by={"shop": shop},
        before={"rows": 10, "amount": 7.5},
        after={"rows": 10, "amount": 9},
        differs=True,
    )


def report(count: int = 3, *, said: str = "deadlines", new: int = 0) -> RunReport:
    partitions = parts(count, new=new)
    row = SampledRow(
        partition=FIRST, key={"id": said}, before={"total": said, "x": None}, after={"total": "2", "x": "3"}
    )
    return RunReport(
        run=summary(said=said),
        level=Level.ATTENTION,
        plan=(Agree(of=said, requested_by=said, demand=A_PERSON),),
        from_versions=("1.0.0",),
        goes_back=(),
        moved_on=(),
        other_code=(),
        rejected=(),
        left_behind=(),
        no_rows_of=None,
        instead=(),
        to_comment=(),
        comment=said,
        approved_for=None,
        manifest={"target": {"grain": "daily"}},
        versions=RunVersions(planned={"python": "3.11"}, staged=None),
        totals=moves(),
        restated=moves_of_some(Grain.DAILY, [part for part in partitions if not part.new]),
        new=moves_of_some(Grain.DAILY, [part for part in partitions if part.new]),
        partitions=partitions,
        equal_partitions=0,
        new_empty_partitions=0,
        breakdown=BreakdownDocument(
            dimensions=("shop",),
            measures=("rows", "amount"),
            too_many=False,
            restated=tuple(cell(f"2006-{month:02d}", shop) for month in range(1, 13) for shop in (said, None)),
            new=(cell("2006-07", said),),
        ),
        changed_columns={said: 3},
        state_moves=(
            StateMove(column="state", before="open", after=said, rows=54),
            StateMove(column="state", before="open", after="open", rows=7),
            StateMove(column="state", before=None, after="open", rows=2),
            StateMove(column="state", before=said, after=None, rows=1),
        ),
        gates=(gate("unique_key", count, said=said), gate("wary", count, (FIRST,), said=said)),
        sample=(row,),
        failing_keys=(FailingKey(gate="wary", partition=FIRST, key={"id": said}),),
        samples_erased=None,
        dependents=(
            DependentMoves(
                table="gold.monthly",
                partitions=JULY,
                cells=(DependentCell(by={"shop": said}, partitions=JULY),),
            ),
        ),
        unpublished=(),
        cost=CostDocument(
            chunks=1,
            input_rows=5,
            output_rows=5,
            read_bytes=2**21,
            files=1,
            size_bytes=2**20,
            rows_per_second=3,
            staging_seconds=1.5,
            gating_seconds=None,
            comparing_seconds=None,
            proving_seconds=None,
            publishing_seconds=None,
            spent=Cost(core_seconds=3.0, amount=None, currency=""),
            expected=None,
        ),
        timeline=(Moment(at=NOON, by=said, what="requested", note=said),),
        chunks=(),
        publications=(),
    )


def reviewed(partitions: tuple[PartitionMoves, ...], *gates: GateSummary) -> RunReport:
    """A report of what a review is about: what moves, and what the gates found."""
    return replace(
        report(),
        partitions=partitions,
        new=moves_of_some(Grain.DAILY, [part for part in partitions if part.new]),
        restated=moves_of_some(Grain.DAILY, [part for part in partitions if not part.new]),
        gates=gates,
        dependents=(),
    )
