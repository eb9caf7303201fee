"""Subjects: the requests that concern a run or a set; which of the two an id names is decided here, once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from backfill_assets.application.parts import STAGED_AND_GATED, Part
from backfill_assets.application.recorder import Acting
from backfill_assets.application.resolve_outcome import resolve_outcomes, rollback_under_way, undone
from backfill_assets.core.people import require_person
from backfill_assets.core.progress import Progress
from backfill_assets.domain import SourceTable
from backfill_assets.ledger.errors import UnfitState
from backfill_assets.ledger.records import Action, PublicationRecord, RunRecord
from backfill_assets.ledger.sets import members_of
from backfill_assets.ledger.states import EVER_PUBLISHED, GATED, VISIBLE, AskedKind, RunState, SetState
from backfill_assets.planning.partitions import describe
from backfill_assets.planning.sets import is_set
from backfill_assets.publication.authority import approve_run, approve_set, approvers_read, grounds_to_leave
from backfill_assets.publication.obstacles import Publishing, not_stopped, obstacles, outdated, require_none
from backfill_assets.publication.publish import rollback_run
from backfill_assets.report.publications import PublicationDocument, RollbackDocument, publication_documents
from backfill_assets.report.recovered import ErasedSamples
from backfill_assets.report.releases import references_moved_on
from backfill_assets.report.runs import RunSummary, SetDocument, interrupted, run_document, set_document
from backfill_assets.restatements.errors import ReproducedOneByOne
from backfill_assets.restatements.publish import publish_set
from backfill_assets.restatements.undo import complete_rollback, rollback_set, rollback_with_dependents
from backfill_assets.workspace import Workspace

if TYPE_CHECKING:
    # What moves rows is slow to import, and most of what is asked needs none of it.
    from backfill_assets.application.asked import Asked, AskedDocument
    from backfill_assets.report.report import RunReport, SetReport
    from backfill_assets.upkeep.reproduce import ReproductionReport

    NamedDocument = RunSummary | SetDocument | AskedDocument


@dataclass(frozen=True, slots=True)
class Run:
    """One run by its id. Raises (every method): UnknownName: There is no such run."""

    ws: Workspace
    run_id: str

    @property
    def record(self) -> RunRecord:
        with self.ws.ledger.read() as tx:
            return tx.runs.get(self.run_id)

    @property
    def run_ids(self) -> tuple[str, ...]:
        return (self.run_id,)

    def document(self) -> RunSummary:
        return run_document(self.ws, self.run_id)

    def report(self) -> RunReport:
        """The report for a reviewer: what changes, which gates passed, some rows before and after."""
        from backfill_assets.report.report import run_report

        return run_report(self.ws, self.run_id)

    def approve(self, *, by: str, note: str, place: str = "") -> RunSummary:
        """Records that another person approves exactly this manifest; see `publication.authority.approve_run`.

        A run may be approved before it is measured, but not while its gates block it.
        """
        _require_not_stopped(self.ws, [self.record])
        approve_run(self.ws, self.run_id, by=by, note=note, place=place)
        return self.document()

    def cancel(self, *, by: str, reason: str, leave: bool = False) -> RunSummary:
        """Cancels the run, which is not visible to readers, permanently; its process stops at its next step.

        Args:
            leave: An owner accepts the difference that the run has found: the accepted rows count as up to date.
        """
        with approvers_read(self.ws), self.ws.ledger.write() as tx:
            leaves = grounds_to_leave(self.ws, tx, [tx.runs.get(self.run_id)], by) if leave else None
            tx.runs.cancel(self.run_id, by=by, reason=reason, leaves=leaves)
        return self.document()

    def stage(self, acting: Acting) -> RunReport:
        """Stages and gates the run; a load of landed files is published too."""
        self.compute(acting)
        return self.report()

    def compute(self, acting: Acting) -> None:
        """Computes the run without a report for the reviewer, which reads much of the ledger."""
        # Imported where rows are computed: what is asked of a run otherwise is answered without Spark's functions.
        from backfill_assets.candidates.stage import require_stageable

        record = self.record
        # Before the run is claimed: a Spark that cannot start leaves the run as it was.
        session = require_stageable(self.ws, record)
        is_load = isinstance(self.ws.domain.table(record.manifest.table), SourceTable)
        with self.ws.one_session(session):
            self.execute(acting, tuple(Part) if is_load else STAGED_AND_GATED)

    def publish(self, acting: Acting) -> PublicationDocument:
        """Makes the gated and approved run visible to readers; see `publication.publish.publish_run`.

        If an earlier attempt did not learn its outcome, that is found out first. Of a run that was verified there is
        nothing to publish.
        """
        from backfill_assets.application.execute import require_ready

        with self.ws.ledger.read() as tx:
            its_set = tx.sets.of_run(self.run_id)
        if its_set and its_set.manifest.phases:
            RestatementSet(self.ws, its_set.set_id).publish(acting, phase=self.run_id)
            return self._published()
        changed = references_moved_on(self.ws, self.record)
        landed = resolve_outcomes(self.ws, self.run_ids, acting)
        if self.record.state is not RunState.VERIFIED and not any(record.action is Action.PUBLISH for record in landed):
            require_ready(self.ws, self.run_id)
            self._said(acting, "publish", "checking {} before anything is swapped")
            self.execute(acting, (Part.PUBLISH,))
        return replace(self._published(), changed_references=changed)

    def _published(self) -> PublicationDocument:
        with self.ws.ledger.read() as tx:
            made = tx.publications.headers(run_id=self.run_id)
            return publication_documents(self.ws, tx, [each for each in made if each.action is Action.PUBLISH][:1])[0]

    def rollback(self, acting: Acting, *, reason: str, with_dependents: bool) -> RollbackDocument:
        """Undoes the publication; with dependents, first those that would be left without their input.

        If an earlier attempt did not learn its outcome, that is found out first.
        """
        require_person("the one who rolls back", acting.by)
        said = self._said(acting, "rollback", "checking {} before anything is restored")
        begun = rollback_under_way(self.ws, self.run_id) if with_dependents else None
        landed = undone(resolve_outcomes(self.ws, (self.run_id, *(begun.dependents if begun else ())), acting))
        records: Sequence[PublicationRecord] = ()
        if begun:
            records = complete_rollback(self.ws, begun)
        elif all(record.run_id != self.run_id for record in landed):
            if with_dependents:
                records = rollback_with_dependents(self.ws, self.run_id, by=acting.by, reason=reason)
            else:
                records = (rollback_run(self.ws, self.run_id, by=acting.by, reason=reason),)
        said("rolled back")
        for record in records:
            acting.recorder.landed(self.ws, record)
        with self.ws.ledger.read() as tx:
            with_it = [record.publication_id for record in (*landed, *records) if record.run_id != self.run_id]
            # Asked of the ledger: a process that was stopped before it noted the end has left nothing to bring back.
            headers = [*map(tx.publications.header, with_it), tx.publications.rollbacks(self.run_ids)[self.run_id]]
            *dependents, own = publication_documents(self.ws, tx, headers)
        return RollbackDocument(publication=own, dependents=tuple(dependents))

    def _said(self, acting: Acting, step: str, line: str) -> Callable[[str], None]:
        """Says what is checked, which may refuse it, and gives what says that it is done."""
        manifest = self.record.manifest
        total, partitions = len(manifest.partitions), describe(manifest.grain, manifest.partitions)

        def say(done: int, text: str) -> None:
            acting.listener(Progress(step=step, done=done, total=total, line=text, table=manifest.table))

        say(0, line.format(partitions))
        return lambda text: say(total, text)

    def reproduce(self, acting: Acting, *, sample: int | None, from_raw: bool = False) -> ReproductionReport:
        """Rebuilds the published run, or a sample of it, and compares it with what it published."""
        from backfill_assets.upkeep.reproduce import reproduce_run

        return reproduce_run(
            self.ws, self.run_id, by=acting.by, sample=sample, from_raw=from_raw, listener=acting.listener
        )

    def execute(self, acting: Acting, parts: Sequence[Part]) -> None:
        """Executes parts of the run through the recorder.

        Raises:
            Interrupted: Ctrl-C; finished work is kept.
        """
        try:
            acting.recorder.execute(self.ws, self.run_id, parts, by=acting.by, listener=acting.listener)
        except KeyboardInterrupt:
            raise interrupted(self.ws, self.run_id) from None


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
        return tuple(member.run_id for member in self.members)

    def document(self) -> SetDocument:
        return set_document(self.ws, self.set_id)

    def report(self) -> SetReport:
        """The state of the set, and the report of each of its runs."""
        from backfill_assets.report.report import set_report

        return set_report(self.ws, self.set_id)

    def approve(self, *, by: str, note: str, place: str = "") -> SetDocument:
        """Records that another person approves every run of the set; see `publication.authority.approve_set`.

        Refused while the gates of one of them block it.
        """
        _require_not_stopped(self.ws, self.members)
        approve_set(self.ws, self.set_id, by=by, note=note, place=place)
        return self.document()

    def cancel(self, *, by: str, reason: str, leave: bool = False) -> SetDocument:
        """Cancels the set, which is not visible to readers, permanently.

        Args:
            leave: As for a run, of every run that has found other rows.
        """
        with approvers_read(self.ws), self.ws.ledger.write() as tx:
            leaves = grounds_to_leave(self.ws, tx, members_of(tx.runs, tx.sets.get(self.set_id)), by) if leave else None
            tx.sets.cancel(self.set_id, by=by, reason=reason, leaves=leaves)
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
            if member.state in VISIBLE or (member.state in GATED and not _is_outdated(self.ws, member)):
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

    def publish(self, acting: Acting, *, phase: str | None = None) -> SetDocument:
        """Publishes the runs of the set in order, each recorded separately; see `restatements.publish.publish_set`.

        If an earlier attempt did not learn the outcome of one, that is found out first.
        """
        resolve_outcomes(self.ws, self.run_ids, acting)
        if self.document().record.state is SetState.VERIFIED:
            return self.document()
        waiting = [each for each in self.members if each.run_id == phase or phase is None]
        changed = tuple(found for each in waiting for found in references_moved_on(self.ws, each))
        line = "checking its runs before anything is swapped"
        acting.listener(Progress(step="publish", done=0, total=len(self.run_ids), line=line))

        def publish_one(run_id: str) -> None:
            Run(self.ws, run_id).execute(acting, (Part.PUBLISH,))

        publish_set(self.ws, self.set_id, by=acting.by, publish=publish_one, phase=phase)
        return replace(self.document(), changed_references=changed)

    def reproduce(self, acting: Acting, *, sample: int | None, from_raw: bool = False) -> ReproductionReport:  # noqa: ARG002 - as of a run
        """Refused: its runs are rebuilt one by one."""
        published = tuple(member.run_id for member in self.members if member.state in EVER_PUBLISHED)
        raise ReproducedOneByOne(set_id=self.set_id, published=published)

    def rollback(self, acting: Acting, *, reason: str, with_dependents: bool) -> SetDocument:
        """Rolls back every table of the set, dependents first.

        If an earlier attempt did not learn the outcome of one, that is found out first.
        """
        require_person("the one who rolls back", acting.by)
        begun = rollback_under_way(self.ws, self.set_id) if with_dependents else None
        resolve_outcomes(self.ws, (*self.run_ids, *(begun.dependents if begun else ())), acting)
        undo = rollback_with_dependents if with_dependents else rollback_set
        records = (
            complete_rollback(self.ws, begun) if begun else undo(self.ws, self.set_id, by=acting.by, reason=reason)
        )
        for record in records:
            acting.recorder.landed(self.ws, record)
        return self.document()


def _is_outdated(ws: Workspace, run: RunRecord) -> bool:
    with ws.ledger.read() as tx:
        return outdated(Publishing(ws=ws, tx=tx, run=run)) is not None


Subject = Run | RestatementSet
"""What an id names: both accept the same requests."""


def _require_not_stopped(ws: Workspace, runs: Iterable[RunRecord]) -> None:
    """Refuses early what publication refuses whoever has approved it, so that no reviewer agrees to it by mistake."""
    for run in runs:
        with ws.ledger.read() as tx:
            require_none(obstacles(Publishing(ws=ws, tx=tx, run=run), (not_stopped,)))


def subject_of(ws: Workspace, name: str) -> Subject:
    """The run or the set with that id; its first request checks that the ledger has it."""
    return RestatementSet(ws, name) if is_set(name) else Run(ws, name)


def named(ws: Workspace, name: str) -> Subject | Asked:
    """The subject with this id; its first request checks that the ledger has it."""
    if AskedKind.of_id(name):
        from backfill_assets.application.asked import Asked

        return Asked(ws, name)
    return subject_of(ws, name)


def erase_samples(subject: Subject, *, by: str, reason: str) -> ErasedSamples:
    """Permanently deletes the values of rows that were kept for reviewers of a run, or of the runs of a set."""
    ws = subject.ws
    with ws.ledger.write() as tx:
        erased = tx.samples.erase(*subject.run_ids, by=by, reason=reason)
    ws.ledger.compact_log()
    if isinstance(subject, Run):
        return ErasedSamples(run_id=subject.run_id, set_id=None, erased=erased)
    return ErasedSamples(run_id=None, set_id=subject.set_id, erased=erased)
