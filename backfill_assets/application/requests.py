"""Requests: whatever somebody asks for and somebody agrees to, by its id; what an id names is decided here, once.

A run of its own, a set of runs, an act on a version of a table, a capture and a replay are approved and cancelled in
one way. What else is done with each is a method of its class; where one has none of its own, it is refused. Captures
and replays have none: the command that asked for one goes on with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from backfill_assets.application.parts import STAGED_AND_GATED, Part
from backfill_assets.application.recorder import Acting
from backfill_assets.application.resolve_outcome import resolve_outcomes, rollback_under_way, undone
from backfill_assets.calendar.partitions import describe
from backfill_assets.core.people import require_person
from backfill_assets.core.progress import Progress
from backfill_assets.domain import SourceTable
from backfill_assets.ledger.captures import CaptureRecord
from backfill_assets.ledger.errors import UnfitState
from backfill_assets.ledger.records import Action, PublicationRecord, ReplayRecord, RunRecord
from backfill_assets.ledger.sets import members_of
from backfill_assets.ledger.states import EVER_PUBLISHED, GATED, VISIBLE, RequestKind, RunState, SetState
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.sets import is_set
from backfill_assets.publication.authority import approve, approvers_read, grounds_to_leave
from backfill_assets.publication.obstacles import Publishing, not_stopped, obstacles, outdated, require_none
from backfill_assets.publication.publish import rollback_run
from backfill_assets.report.errors import NotDoneWith
from backfill_assets.report.follow import ErasedSamples
from backfill_assets.report.publications import PublicationDocument, RollbackDocument, publication_documents
from backfill_assets.report.releases import references_moved_on
from backfill_assets.report.runs import RunSummary, SetDocument, interrupted, run_document, set_document
from backfill_assets.report.versions import ActDocument, act_document
from backfill_assets.restatements.errors import ReproducedOneByOne
from backfill_assets.restatements.publish import publish_set
from backfill_assets.restatements.undo import complete_rollback, rollback_set, rollback_with_dependents
from backfill_assets.workspace import Workspace

if TYPE_CHECKING:
    # What moves rows is slow to import, and most of what is asked needs none of it.
    from backfill_assets.report.report import RunReport, SetReport
    from backfill_assets.upkeep.reproduce import ReproductionReport


Document = TypeVar("Document")


class Request(Generic[Document]):
    """One request by its id.

    Raises (every method):
        UnknownName: There is none of this id.
        Refused: It is not done with its kind.
    """

    can_be_cancelled: ClassVar[bool] = True

    def __init__(self, ws: Workspace, name: str) -> None:
        self.ws = ws
        self.name = name

    def document(self) -> Document:
        """The document that people and programs read about it."""
        raise NotImplementedError

    def approve(self, *, by: str, note: str, place: str = "") -> Document:
        """Records that another person agrees to exactly what was asked for; see `publication.authority.approve`.

        Refused early is what publication refuses whoever has approved it, so that no reviewer agrees to it by mistake.
        """
        with self.ws.ledger.read() as tx:
            for run in self._runs(tx):
                require_none(obstacles(Publishing(ws=self.ws, tx=tx, run=run), (not_stopped,)))
        approve(self.ws, self.name, by=by, note=note, place=place)
        return self.document()

    def cancel(self, *, by: str, reason: str, leave: bool = False) -> Document:
        """Ends permanently what readers see nothing of; the process of a run stops at its next step.

        Args:
            by: The person who decides.
            reason: Why.
            leave: An owner accepts the difference that runs have found: the accepted rows count as up to date.
        """
        if not self.can_be_cancelled:
            raise NotDoneWith(name=self.name, deed="cancelled")
        with approvers_read(self.ws), self.ws.ledger.write() as tx:
            if leave and not self._runs(tx):
                raise NotDoneWith(name=self.name, deed="declined for a difference that is accepted")
            leaves = grounds_to_leave(self.ws, tx, self._runs(tx), by) if leave else None
            tx.requests.cancel(self.name, by=by, reason=reason, leaves=leaves)
        return self.document()

    def _runs(self, tx: ReadTransaction) -> Sequence[RunRecord]:
        """The runs that are agreed to with it, in the order of publication."""
        return ()

    def report(self) -> RunReport | SetReport:
        raise NotDoneWith(name=self.name, deed="reported on")

    def stage(self, acting: Acting) -> RunReport | SetDocument:
        raise NotDoneWith(name=self.name, deed="staged")

    def publish(self, acting: Acting) -> PublicationDocument | Document:
        raise NotDoneWith(name=self.name, deed="published")

    def rollback(self, acting: Acting, *, reason: str, with_dependents: bool) -> RollbackDocument | Document:
        raise NotDoneWith(name=self.name, deed="rolled back")

    def reproduce(self, acting: Acting, *, sample: int | None, from_raw: bool = False) -> ReproductionReport:
        raise NotDoneWith(name=self.name, deed="reproduced")


class CaptureOrReplay(Request[CaptureRecord | ReplayRecord]):
    """A capture, which ends with its period, or a replay, which is closed."""

    can_be_cancelled = False

    def document(self) -> CaptureRecord | ReplayRecord:
        with self.ws.ledger.read() as tx:
            return tx.captures.get(self.name) if self._is_capture else tx.replays.get(self.name)

    @property
    def _is_capture(self) -> bool:
        return RequestKind.of_id(self.name) is RequestKind.CAPTURE


class Act(Request[ActDocument]):
    """An act on a version of a table: a cut-over of readers, or the end of a version."""

    def document(self) -> ActDocument:
        with self.ws.ledger.read() as tx:
            return act_document(tx, tx.acts.get(self.name))

    def publish(self, acting: Acting) -> ActDocument:
        """Does what was asked for: readers are shown the other version from here on."""
        # Imported where readers are shown another table: most requests need none of what compares versions.
        from backfill_assets.publication.table_acts import carry_out

        carry_out(self.ws, self.name, by=acting.by)
        return self.document()

    def rollback(self, acting: Acting, *, reason: str, with_dependents: bool) -> ActDocument:
        """Shows readers the table again that they were shown before a cut-over."""
        from backfill_assets.publication.table_acts import undo

        undo(self.ws, self.name, by=acting.by, reason=reason)
        return self.document()


class Run(Request[RunSummary]):
    """One run by its id. Raises (every method): UnknownName: There is no such run."""

    @property
    def run_id(self) -> str:
        return self.name

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

    def _runs(self, tx: ReadTransaction) -> Sequence[RunRecord]:
        return tx.requests.runs(self.name)

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


class RestatementSet(Request[SetDocument]):
    """A set by its id: several runs that are approved, published and undone together."""

    @property
    def set_id(self) -> str:
        return self.name

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

    def _runs(self, tx: ReadTransaction) -> Sequence[RunRecord]:
        return tx.requests.runs(self.name)

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

    def reproduce(self, acting: Acting, *, sample: int | None, from_raw: bool = False) -> ReproductionReport:
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


def restatement_of(ws: Workspace, name: str) -> Run | RestatementSet:
    """The run or the set with that id; its first request checks that the ledger has it."""
    return RestatementSet(ws, name) if is_set(name) else Run(ws, name)


def request_of(ws: Workspace, name: str) -> AnyRequest:
    """The request with this id; its first request checks that the ledger has it."""
    match RequestKind.of_id(name):
        case RequestKind.RUN | RequestKind.SET:
            return restatement_of(ws, name)
        case RequestKind.ACT:
            return Act(ws, name)
        case RequestKind.CAPTURE | RequestKind.REPLAY:
            return CaptureOrReplay(ws, name)


AnyRequest = Run | RestatementSet | Act | CaptureOrReplay
AnyDocument = RunSummary | SetDocument | ActDocument | CaptureRecord | ReplayRecord


def erase_samples(restatement: Run | RestatementSet, *, by: str, reason: str) -> ErasedSamples:
    """Permanently deletes the values of rows that were kept for reviewers of a run, or of the runs of a set."""
    ws = restatement.ws
    with ws.ledger.write() as tx:
        erased = tx.samples.erase(*restatement.run_ids, by=by, reason=reason)
    ws.ledger.compact_log()
    if isinstance(restatement, Run):
        return ErasedSamples(run_id=restatement.run_id, set_id=None, erased=erased)
    return ErasedSamples(run_id=None, set_id=restatement.set_id, erased=erased)
