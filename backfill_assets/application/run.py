"""Requests that concern one run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from backfill_assets.application.parts import Part
from backfill_assets.application.recorder import Acting
from backfill_assets.application.resolve_outcome import rollback_under_way, settle, undone
from backfill_assets.core.people import require_person
from backfill_assets.domain import SourceTable
from backfill_assets.ledger.records import Action, PublicationRecord, RunRecord
from backfill_assets.publication.approve import approve_run
from backfill_assets.publication.publish import rollback_run
from backfill_assets.report.publications import PublicationDocument, RollbackDocument, publication_document
from backfill_assets.report.recovered import ErasedSamples
from backfill_assets.report.report import RunReport, run_report
from backfill_assets.report.runs import RunSummary, interrupted, run_document
from backfill_assets.restatements.undo import complete_rollback, rollback_with_dependents
from backfill_assets.workspace import Workspace

if TYPE_CHECKING:
    from backfill_assets.upkeep.reproduce import ReproductionReport


def erase_samples(ws: Workspace, run_ids: Sequence[str], *, by: str, reason: str) -> int:
    """Permanently deletes the values of rows that the ledger holds of some runs; events record by whom and why.

    Returns:
        How many samples were erased.
    """
    with ws.ledger.write() as tx:
        erased = tx.samples.erase(*run_ids, by=by, reason=reason)
    ws.ledger.compact_log()
    return erased


@dataclass(frozen=True, slots=True)
class Run:
    """One run by its id.

    Raises (every method):
        UnknownName: There is no such run.
    """

    ws: Workspace
    run_id: str

    @property
    def record(self) -> RunRecord:
        """The run as the ledger has it now."""
        with self.ws.ledger.read() as tx:
            return tx.runs.get(self.run_id)

    @property
    def run_ids(self) -> tuple[str, ...]:
        """The run itself."""
        return (self.run_id,)

    def document(self) -> RunSummary:
        """The state of the run."""
        return run_document(self.ws, self.run_id)

    def report(self) -> RunReport:
        """The report for a reviewer: what changes, which gates passed, some rows before and after."""
        return run_report(self.ws, self.run_id)

    def approve(self, *, by: str, note: str, place: str = "") -> RunSummary:
        """Records that another person approves exactly this manifest; see `publication.approve.approve_run`."""
        approve_run(self.ws, self.run_id, by=by, note=note, place=place)
        return self.document()

    def cancel(self, *, by: str, reason: str) -> RunSummary:
        """Cancels the run, which is not visible to readers, permanently; its process stops at its next step."""
        with self.ws.ledger.write() as tx:
            tx.runs.cancel(self.run_id, by=by, reason=reason)
        return self.document()

    def stage(self, acting: Acting) -> RunReport:
        """Stages and gates the run, by default on behalf of its requester; a load of landed files is published too."""
        self.compute(acting)
        return self.report()

    def compute(self, acting: Acting) -> None:
        """The same, without the report for a reviewer, which reads much of the ledger."""
        # Imported where rows are computed: what is asked of a run otherwise is answered without Spark's functions.
        from backfill_assets.candidates.stage import require_stageable

        record = self.record
        require_stageable(self.ws, record)
        # Before the run is claimed: a Spark that cannot start leaves the run as it was.
        self.ws.spark()
        is_load = isinstance(self.ws.domain.table(record.manifest.table), SourceTable)
        by = acting.by or record.manifest.requested_by
        self.execute(replace(acting, by=by), tuple(Part) if is_load else (Part.STAGE, Part.GATE))

    def publish(self, acting: Acting) -> PublicationDocument:
        """Makes the gated and approved run visible to readers; see `publication.publish.publish_run`.

        If an earlier attempt did not learn its outcome, that is found out first.
        """
        from backfill_assets.application.execute import require_ready

        landed = settle(self.ws, self.run_ids, acting)
        if not any(record.intent.action is Action.PUBLISH for record in landed):
            require_ready(self.ws, self.run_id)
            self.execute(acting, (Part.PUBLISH,))
        return publication_document(self._latest_publication())

    def rollback(self, acting: Acting, *, reason: str, with_dependents: bool) -> RollbackDocument:
        """Undoes the publication; with dependents, first those that would be left without their input.

        If an earlier attempt did not learn its outcome, that is found out first.
        """
        require_person("the one who rolls back", acting.by)
        begun = rollback_under_way(self.ws, self.run_id) if with_dependents else None
        landed = undone(settle(self.ws, (self.run_id, *(begun.dependents if begun else ())), acting))
        records: Sequence[PublicationRecord] = ()
        if begun:
            records = complete_rollback(self.ws, begun)
        elif all(record.intent.run_id != self.run_id for record in landed):
            if with_dependents:
                records = rollback_with_dependents(self.ws, self.run_id, by=acting.by, reason=reason)
            else:
                records = (rollback_run(self.ws, self.run_id, by=acting.by, reason=reason),)
        for record in records:
            acting.recorder.landed(self.ws, record)
        *dependents, own = map(publication_document, (*landed, *records))
        return RollbackDocument(publication=own, dependents=tuple(dependents))

    def reproduce(self, acting: Acting, *, sample: int | None) -> ReproductionReport:
        """Rebuilds the published run, or a sample of it, and compares it with what it published."""
        from backfill_assets.upkeep.reproduce import reproduce_run

        return reproduce_run(self.ws, self.run_id, by=acting.by, sample=sample, listener=acting.listener)

    def erase(self, *, by: str, reason: str) -> ErasedSamples:
        """Deletes the values of rows that were kept for its reviewers.

        Raises:
            Refused: It is not stated by whom and why, or there are none.
        """
        erased = erase_samples(self.ws, self.run_ids, by=by, reason=reason)
        return ErasedSamples(run_id=self.run_id, set_id=None, erased=erased)

    def execute(self, acting: Acting, parts: Sequence[Part]) -> None:
        """Executes parts of the run through the recorder.

        Raises:
            Interrupted: Ctrl-C; finished work is kept.
        """
        try:
            acting.recorder.execute(self.ws, self.run_id, parts, by=acting.by, listener=acting.listener)
        except KeyboardInterrupt:
            raise interrupted(self.ws, self.run_id) from None

    def _latest_publication(self) -> PublicationRecord:
        with self.ws.ledger.read() as tx:
            own = [r for r in tx.publications.records(run_id=self.run_id) if r.intent.action is Action.PUBLISH]
        return max(own, key=lambda record: record.started_at)
