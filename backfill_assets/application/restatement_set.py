"""Requests that concern a restatement set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from backfill_assets.application.parts import Part
from backfill_assets.application.recorder import Acting
from backfill_assets.application.resolve_outcome import rollback_under_way, settle
from backfill_assets.application.run import Run, erase_samples
from backfill_assets.core.people import require_person
from backfill_assets.core.progress import Progress
from backfill_assets.ledger.errors import UnfitState
from backfill_assets.ledger.records import RunRecord
from backfill_assets.ledger.sets import members_of
from backfill_assets.ledger.states import EVER_PUBLISHED, RunState, SetState
from backfill_assets.planning.partitions import describe
from backfill_assets.report.recovered import ErasedSamples
from backfill_assets.report.set_report import SetReport, set_report
from backfill_assets.report.sets import SetDocument, set_document
from backfill_assets.restatements.approve import approve_set
from backfill_assets.restatements.errors import ReproducedOneByOne
from backfill_assets.restatements.publish import is_outdated, publish_set, rollback_set
from backfill_assets.restatements.undo import complete_rollback, rollback_with_dependents
from backfill_assets.workspace import Workspace

if TYPE_CHECKING:
    from backfill_assets.upkeep.reproduce import ReproductionReport

_SEEN = (RunState.PUBLISHING, RunState.PUBLISHED, RunState.SUPERSEDED)
_GATED = (RunState.PASSED, RunState.ROLLED_BACK)


@dataclass(frozen=True, slots=True)
class RestatementSet:
    """A set by its id: several runs that are approved, published and undone together.

    Raises (every method):
        UnknownName: There is no such set.
    """

    ws: Workspace
    set_id: str

    @property
    def members(self) -> Sequence[RunRecord]:
        """The runs of the set in the order of publication, as the ledger has them now."""
        with self.ws.ledger.read() as tx:
            return members_of(tx.runs, tx.sets.get(self.set_id))

    @property
    def run_ids(self) -> tuple[str, ...]:
        """The runs of the set."""
        return tuple(member.run_id for member in self.members)

    def document(self) -> SetDocument:
        """The state of the set."""
        return set_document(self.ws, self.set_id)

    def report(self) -> SetReport:
        """The state of the set, and the report of each of its runs."""
        return set_report(self.ws, self.set_id)

    def approve(self, *, by: str, note: str, place: str = "") -> SetDocument:
        """Records that another person approves every run of the set; see `restatements.approve.approve_set`."""
        approve_set(self.ws, self.set_id, by=by, note=note, place=place)
        return self.document()

    def cancel(self, *, by: str, reason: str) -> SetDocument:
        """Cancels the set, which is not visible to readers, permanently."""
        with self.ws.ledger.write() as tx:
            tx.sets.cancel(self.set_id, by=by, reason=reason)
        return self.document()

    def stage(self, acting: Acting) -> SetDocument:
        """Stages and gates the runs of the set, in order. A blocked run stops those that read it.

        A run that has passed is staged again only if its inputs have been staged again since.

        Raises:
            IllegalTransition: The set is cancelled.
        """
        with self.ws.ledger.read() as tx:
            state = tx.sets.get(self.set_id).state
        if state is SetState.CANCELLED:
            raise UnfitState(name=self.set_id, state=state, why="it cannot be staged")
        members = self.members
        for place, member in enumerate(members):
            if member.state in _SEEN or (member.state in _GATED and not is_outdated(self.ws, member)):
                continue
            manifest, run = member.manifest, Run(self.ws, member.run_id)
            partitions = describe(manifest.grain, manifest.partitions)
            sentence = f"run {place + 1} of {len(members)} of the set, {partitions}"
            acting.listener(
                Progress(step="prepare", done=place, total=len(members), line=sentence, table=manifest.table)
            )
            run.compute(acting)
            if run.record.state is RunState.BLOCKED:
                break
        return self.document()

    def publish(self, acting: Acting) -> SetDocument:
        """Publishes the runs of the set in order, each recorded separately; see `restatements.publish.publish_set`.

        If an earlier attempt did not learn the outcome of one, that is found out first.
        """
        settle(self.ws, self.run_ids, acting)

        def publish_one(run_id: str) -> None:
            Run(self.ws, run_id).execute(acting, (Part.PUBLISH,))

        publish_set(self.ws, self.set_id, by=acting.by, publish=publish_one)
        return self.document()

    def reproduce(self, acting: Acting, *, sample: int | None) -> ReproductionReport:  # noqa: ARG002 - as of a run
        """Refused: its runs are rebuilt one by one."""
        published = tuple(member.run_id for member in self.members if member.state in EVER_PUBLISHED)
        raise ReproducedOneByOne(set_id=self.set_id, published=published)

    def erase(self, *, by: str, reason: str) -> ErasedSamples:
        """Deletes the values of rows that were kept for the reviewers of its runs.

        Raises:
            Refused: It is not stated by whom and why, or there are none.
        """
        erased = erase_samples(self.ws, self.run_ids, by=by, reason=reason)
        return ErasedSamples(run_id=None, set_id=self.set_id, erased=erased)

    def rollback(self, acting: Acting, *, reason: str, with_dependents: bool) -> SetDocument:
        """Rolls back every table of the set, dependents first.

        If an earlier attempt did not learn the outcome of one, that is found out first.
        """
        require_person("the one who rolls back", acting.by)
        begun = rollback_under_way(self.ws, self.set_id) if with_dependents else None
        settle(self.ws, (*self.run_ids, *(begun.dependents if begun else ())), acting)
        undo = rollback_with_dependents if with_dependents else rollback_set
        records = (
            complete_rollback(self.ws, begun) if begun else undo(self.ws, self.set_id, by=acting.by, reason=reason)
        )
        for record in records:
            acting.recorder.landed(self.ws, record)
        return self.document()
