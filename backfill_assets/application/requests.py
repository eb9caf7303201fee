"""Requests: whatever somebody asks for and somebody agrees to, by its id; what an id names is decided here, once.

A restatement of one or several runs, an act on a version of a table, a capture and a replay are approved and cancelled
in one way. What else is done with each is a method of its class; where one has none of its own, it is refused. Captures
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
from backfill_assets.ledger.errors import PartOfSet, UnfitState
from backfill_assets.ledger.records import Action, PublicationRecord, ReplayRecord, RunRecord
from backfill_assets.ledger.states import EVER_PUBLISHED, GATED, VISIBLE, RequestKind, RunState, SetState
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.sets import is_set
from backfill_assets.report.errors import NotDoneWith
from backfill_assets.report.follow import ErasedSamples
from backfill_assets.report.publications import PublicationDocument, RollbackDocument, publication_documents
from backfill_assets.report.releases import references_moved_on
from backfill_assets.report.runs import RunSummary, SetDocument, interrupted, restatement_document, set_document
from backfill_assets.report.versions import ActDocument, act_document
from backfill_assets.requests.authority import approve, approvers_read, grounds_to_leave
from backfill_assets.requests.errors import ReproducedOneByOne
from backfill_assets.requests.obstacles import Publishing, not_stopped, obstacles, outdated, require_none
from backfill_assets.requests.rollout import complete_rollback, publish_restatement, rollback, rollback_with_dependents
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
        """Records that another person agrees to exactly what was asked for; see `requests.authority.approve`.

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
        from backfill_assets.requests.table_acts import carry_out

        carry_out(self.ws, self.name, by=acting.by)
        return self.document()

    def rollback(self, acting: Acting, *, reason: str, with_dependents: bool) -> ActDocument:
        """Shows readers the table again that they were shown before a cut-over."""
        from backfill_assets.requests.table_acts import undo

        undo(self.ws, self.name, by=acting.by, reason=reason)
        return self.document()


class Restatement(Request["RunSummary | SetDocument"]):
    """A restatement of one or several tables: its runs are approved, published and undone together.

    The id of a restatement of one run is that of the run; a run that is one of several is staged, reported on and
    reproduced by its own id as well, and a phase is published by it.
    """

    @property
    def runs(self) -> Sequence[RunRecord]:
        """Its runs in the order of publication, as the ledger has them now."""
        with self.ws.ledger.read() as tx:
            return self._runs(tx)

    @property
    def run_ids(self) -> tuple[str, ...]:
        if not is_set(self.name):
            return (self.name,)
        with self.ws.ledger.read() as tx:
            return tx.sets.get(self.name).run_ids

    def _runs(self, tx: ReadTransaction) -> Sequence[RunRecord]:
        return tx.requests.runs(self.name)

    def document(self) -> RunSummary | SetDocument:
        return restatement_document(self.ws, self.name)

    def report(self) -> RunReport | SetReport:
        """The report for a reviewer: what changes, which gates passed, some rows before and after; of several runs
        their state together, and the report of each."""
        from backfill_assets.report.report import run_report, set_report

        return set_report(self.ws, self.name) if is_set(self.name) else run_report(self.ws, self.name)

    def stage(self, acting: Acting) -> RunReport | SetDocument:
        """Stages and gates its runs, in order; a load of landed files is published too.

        Of several runs, a blocked one stops those that read it, and one that has passed is staged again only if its
        inputs have been staged again since.

        Raises:
            IllegalTransition: It is cancelled.
        """
        if not is_set(self.name):
            compute(self.ws, self.name, acting)
            from backfill_assets.report.report import run_report

            return run_report(self.ws, self.name)
        with self.ws.ledger.read() as tx:
            state = tx.sets.get(self.name).state
        if state is SetState.CANCELLED:
            raise UnfitState(name=self.name, state=state, why="it cannot be staged")
        runs = self.runs
        for place, run in enumerate(runs):
            if run.state in VISIBLE or (run.state in GATED and not _is_outdated(self.ws, run)):
                continue
            sentence = f"run {place + 1} of {len(runs)} of the set, {_partitions_of(run)}"
            acting.listener(Progress(step="prepare", done=place, total=len(runs), line=sentence, table=run.table))
            compute(self.ws, run.run_id, acting)
            if run_of(self.ws, run.run_id).state is RunState.BLOCKED:
                break
        return set_document(self.ws, self.name)

    def publish(self, acting: Acting) -> PublicationDocument | SetDocument:
        """Makes its gated and approved runs visible to readers, in order, or its next phase; each is recorded
        separately. See `requests.rollout.publish_restatement`.

        If an earlier attempt did not learn the outcome of one, that is found out first. Where all of it was verified
        there is nothing to publish.
        """
        first = self.runs[0]
        with self.ws.ledger.read() as tx:
            is_phase = first.request_id != self.name and tx.sets.get(first.request_id).manifest.phases is not None
        if first.request_id != self.name and not is_phase:
            why = f"belongs to set {first.request_id}; its runs are published together"
            raise PartOfSet(run_id=self.name, set_id=first.request_id, act="publish", why=why)
        whole = Restatement(self.ws, first.request_id) if is_phase else self
        changed = tuple(
            found
            for run in whole.runs
            if run.run_id == self.name or not is_phase
            for found in references_moved_on(self.ws, run)
        )
        landed = resolve_outcomes(self.ws, whole.run_ids, acting)
        published = first.is_alone and any(record.action is Action.PUBLISH for record in landed)
        if not published and not all(run.state is RunState.VERIFIED for run in whole.runs):
            _checked(whole.runs, acting, "publish", "swapped")

            def publish_one(run_id: str) -> None:
                execute(self.ws, run_id, acting, (Part.PUBLISH,))

            publish_restatement(
                self.ws, whole.name, by=acting.by, publish=publish_one, phase=self.name if is_phase else None
            )
        if is_set(self.name):
            return replace(set_document(self.ws, self.name), changed_references=changed)
        return replace(self._published(), changed_references=changed)

    def _published(self) -> PublicationDocument:
        with self.ws.ledger.read() as tx:
            made = tx.publications.headers(run_id=self.name)
            return publication_documents(self.ws, tx, [each for each in made if each.action is Action.PUBLISH][:1])[0]

    def rollback(self, acting: Acting, *, reason: str, with_dependents: bool) -> RollbackDocument | SetDocument:
        """Undoes its publications, dependents before their inputs; with dependents, first those that would be left
        without their input.

        If an earlier attempt did not learn the outcome of one, that is found out first.
        """
        require_person("the one who rolls back", acting.by)
        said = _checked(self.runs, acting, "rollback", "restored")
        begun = rollback_under_way(self.ws, self.name) if with_dependents else None
        landed = undone(resolve_outcomes(self.ws, (*self.run_ids, *(begun.dependents if begun else ())), acting))
        records: Sequence[PublicationRecord] = ()
        if begun:
            records = complete_rollback(self.ws, begun)
        elif is_set(self.name) or all(record.run_id != self.name for record in landed):
            undo = rollback_with_dependents if with_dependents else rollback
            records = undo(self.ws, self.name, by=acting.by, reason=reason)
        said()
        for record in records:
            acting.recorder.landed(self.ws, record)
        if is_set(self.name):
            return set_document(self.ws, self.name)
        with self.ws.ledger.read() as tx:
            with_it = [record.publication_id for record in (*landed, *records) if record.run_id != self.name]
            # Asked of the ledger: a process that was stopped before it noted the end has left nothing to bring back.
            headers = [*map(tx.publications.header, with_it), tx.publications.rollbacks(self.run_ids)[self.name]]
            *dependents, own = publication_documents(self.ws, tx, headers)
        return RollbackDocument(publication=own, dependents=tuple(dependents))

    def reproduce(self, acting: Acting, *, sample: int | None, from_raw: bool = False) -> ReproductionReport:
        """Rebuilds a published run, or a sample of it, and compares it with what it published.

        Raises:
            Refused: It has several runs, which are rebuilt one by one.
        """
        from backfill_assets.upkeep.reproduce import reproduce_run

        if is_set(self.name):
            published = tuple(run.run_id for run in self.runs if run.state in EVER_PUBLISHED)
            raise ReproducedOneByOne(set_id=self.name, published=published)
        return reproduce_run(
            self.ws, self.name, by=acting.by, sample=sample, from_raw=from_raw, listener=acting.listener
        )

    def erase_samples(self, *, by: str, reason: str) -> ErasedSamples:
        """Permanently deletes the values of rows that were kept for reviewers of its runs."""
        with self.ws.ledger.write() as tx:
            erased = tx.samples.erase(*self.run_ids, by=by, reason=reason)
        self.ws.ledger.compact_log()
        return ErasedSamples(request_id=self.name, erased=erased)


def run_of(ws: Workspace, run_id: str) -> RunRecord:
    """A run as the ledger has it now."""
    with ws.ledger.read() as tx:
        return tx.runs.get(run_id)


def compute(ws: Workspace, run_id: str, acting: Acting) -> None:
    """Stages and gates a run, and publishes a load; without a report, which reads much of the ledger."""
    # Imported where rows are computed: what is asked of a run otherwise is answered without Spark's functions.
    from backfill_assets.candidates.stage import require_stageable

    run = run_of(ws, run_id)
    # Before the run is claimed: a Spark that cannot start leaves the run as it was.
    session = require_stageable(ws, run)
    is_load = isinstance(ws.domain.table(run.table), SourceTable)
    with ws.one_session(session):
        execute(ws, run_id, acting, tuple(Part) if is_load else STAGED_AND_GATED)


def execute(ws: Workspace, run_id: str, acting: Acting, parts: Sequence[Part]) -> None:
    """Executes parts of a run through the recorder.

    Raises:
        Interrupted: Ctrl-C; finished work is kept.
    """
    try:
        acting.recorder.execute(ws, run_id, parts, by=acting.by, listener=acting.listener)
    except KeyboardInterrupt:
        raise interrupted(ws, run_id) from None


def _checked(runs: Sequence[RunRecord], acting: Acting, step: str, before: str) -> Callable[[], None]:
    """Says what is checked, which may refuse it, and gives what says that it is done."""
    alone = runs[0] if len(runs) == 1 else None
    total = len(alone.manifest.partitions) if alone else len(runs)
    what, table = (_partitions_of(alone), alone.table) if alone else ("its runs", "")

    def say(done: int, text: str) -> None:
        acting.listener(Progress(step=step, done=done, total=total, line=text, table=table))

    say(0, f"checking {what} before anything is {before}")
    return lambda: say(total, "rolled back") if alone else None


def _partitions_of(run: RunRecord) -> str:
    return describe(run.manifest.grain, run.manifest.partitions)


def _is_outdated(ws: Workspace, run: RunRecord) -> bool:
    with ws.ledger.read() as tx:
        return outdated(Publishing(ws=ws, tx=tx, run=run)) is not None


def request_of(ws: Workspace, name: str) -> AnyRequest:
    """The request with this id; its first request checks that the ledger has it."""
    match RequestKind.of_id(name):
        case RequestKind.RUN | RequestKind.SET:
            return Restatement(ws, name)
        case RequestKind.ACT:
            return Act(ws, name)
        case RequestKind.CAPTURE | RequestKind.REPLAY:
            return CaptureOrReplay(ws, name)


AnyRequest = Restatement | Act | CaptureOrReplay
AnyDocument = RunSummary | SetDocument | ActDocument | CaptureRecord | ReplayRecord
