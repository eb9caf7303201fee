"""Subjects: whether an id names a run or a set is decided here, once; both accept the same requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from backfill_assets.application.recorder import Acting
from backfill_assets.application.restatement_set import RestatementSet
from backfill_assets.application.run import Run
from backfill_assets.planning.sets import is_set
from backfill_assets.report.publications import PublicationDocument, RollbackDocument
from backfill_assets.report.recovered import ErasedSamples
from backfill_assets.report.report import RunReport
from backfill_assets.report.runs import RunSummary
from backfill_assets.report.set_report import SetReport
from backfill_assets.report.sets import SetDocument
from backfill_assets.workspace import Workspace

if TYPE_CHECKING:
    from backfill_assets.upkeep.reproduce import ReproductionReport


class Subject(Protocol):
    """A run or a restatement set. Every method raises `UnknownName` when the ledger does not have it."""

    @property
    def run_ids(self) -> tuple[str, ...]:
        """The run itself, or the runs of the set."""

    def document(self) -> RunSummary | SetDocument:
        """Its state."""

    def report(self) -> RunReport | SetReport:
        """The report for a reviewer."""

    def approve(self, *, by: str, note: str, place: str = "") -> RunSummary | SetDocument:
        """Records that another person approves it, with their note and the place where they did."""

    def cancel(self, *, by: str, reason: str) -> RunSummary | SetDocument:
        """Cancels permanently what is not visible to readers."""

    def stage(self, acting: Acting) -> RunReport | SetDocument:
        """Stages and gates."""

    def publish(self, acting: Acting) -> PublicationDocument | SetDocument:
        """Makes it visible to readers."""

    def rollback(self, acting: Acting, *, reason: str, with_dependents: bool) -> RollbackDocument | SetDocument:
        """Restores exactly the files that were replaced."""

    def reproduce(self, acting: Acting, *, sample: int | None) -> ReproductionReport:
        """Rebuilds what was published and compares it; the runs of a set are rebuilt one by one."""

    def erase(self, *, by: str, reason: str) -> ErasedSamples:
        """Permanently deletes the values of rows that the ledger holds; events record by whom and why."""


def subject_of(ws: Workspace, name: str) -> Subject:
    """The run or the set with that id; its first request checks that the ledger has it."""
    return RestatementSet(ws, name) if is_set(name) else Run(ws, name)
