"""Transactions of the ledger: one aggregate per subject, each of which can be passed separately.

`XReads` and `XWrites` are what a transaction offers of an aggregate. `XSteps` are changes that several aggregates
share: a publication moves a run, withdraws an approval and announces itself in the outbox. No transaction offers them,
so that code outside of the ledger cannot take a step that an aggregate would refuse.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import cached_property

from sqlalchemy import Connection

from backfill_assets.core.clock import LedgerClock
from backfill_assets.ledger.agreements import AgreementReads
from backfill_assets.ledger.bases import BasisReads
from backfill_assets.ledger.candidates import CandidateReads, CandidateWrites, SampleReads, SampleWrites
from backfill_assets.ledger.captures import CaptureReads, CaptureWrites
from backfill_assets.ledger.checks import CheckReads, CheckWrites
from backfill_assets.ledger.events import EventLog, EventReads, EventWrites
from backfill_assets.ledger.freezes import FreezeReads, FreezeWrites
from backfill_assets.ledger.imports import ImportReads, ImportWrites
from backfill_assets.ledger.leases import LeaseReads, TurnWrites
from backfill_assets.ledger.outbox import OutboxReads, OutboxWrites, StuckReads, StuckWrites
from backfill_assets.ledger.publication_checks import PublicationChecks
from backfill_assets.ledger.replays import ReplayReads, ReplayWrites
from backfill_assets.ledger.requests import RequestReads, RequestWrites
from backfill_assets.ledger.row_digests import RowChecks
from backfill_assets.ledger.runs import RunReads, RunWrites
from backfill_assets.ledger.sets import SetReads, SetWrites
from backfill_assets.ledger.table_acts import ComparisonReads, ComparisonWrites, TableActReads, TableActWrites
from backfill_assets.ledger.versions import VersionReads, VersionWrites
from backfill_assets.ledger.views import ViewReads
from backfill_assets.ledger.write_publications import PublicationWrites


class ReadTransaction:
    """One state of the ledger."""

    def __init__(self, connection: Connection, clock: LedgerClock) -> None:
        self._clock = clock
        self.runs = RunReads(connection)  #: What was agreed, and how far it is.
        self.leases = LeaseReads(connection)  #: Which process works on what.
        #: What was staged and measured for a run, and what its approver has to comment on.
        self.candidates = CandidateReads(connection)
        #: What gates found in accepted rows later, and with which gates these were measured.
        self.checks = CheckReads(connection)
        self.samples = SampleReads(connection)  #: Values of rows that reviewers are shown.
        self.publications = PublicationChecks(connection)  #: Swaps that were intended, and what became of them.
        self.versions = VersionReads(connection)  #: What readers see, and saw before.
        self.bases = BasisReads(connection)  #: What accepted partitions were computed from.
        self.outbox = OutboxReads(connection)  #: What publications ask of dependents, and which runs follow it.
        self.sets = SetReads(connection)  #: Runs that were agreed together.
        self.stuck = StuckReads(connection)  #: Work that sensors have given up.
        self.freezes = FreezeReads(connection)  #: Partitions over which runs wait.
        #: Periods of streams that were captured, and the files that hold them.
        self.captures = CaptureReads(connection)
        self.replays = ReplayReads(connection)  #: What was sent to topics again.
        self.imports = ImportReads(connection)  #: Landed files.
        #: Which tables the readers of names are shown, and which versions are kept up to date.
        self.acts = TableActReads(connection)
        self.requests = RequestReads(connection)  #: What was asked for and agreed to, of any kind, by its id.
        #: Under which declaration the rows of a table were last agreed to.
        self.agreements = AgreementReads(connection)
        #: How versions of a table differ from the one that readers are shown.
        self.comparisons = ComparisonReads(connection)
        self.events = EventReads(connection)  #: Events, as a chain, and whether that is as it was written.
        self.row_checks = RowChecks(connection)  #: Whether the rows are as the events left them.
        self.views = ViewReads(connection)  #: Runs and publications as other programs read them.

    @cached_property
    def now(self) -> datetime:
        """The present instant: that of the last event, where the clock is behind it."""
        return self._clock.present(self.events.last_at())[0]


class WriteTransaction(ReadTransaction):
    """The one writer at its turn, who can ask on the way."""

    runs: RunWrites
    candidates: CandidateWrites
    checks: CheckWrites
    samples: SampleWrites
    publications: PublicationWrites
    versions: VersionWrites
    outbox: OutboxWrites
    sets: SetWrites
    stuck: StuckWrites
    freezes: FreezeWrites
    captures: CaptureWrites
    replays: ReplayWrites
    requests: RequestWrites
    imports: ImportWrites
    acts: TableActWrites
    comparisons: ComparisonWrites
    events: EventWrites

    def __init__(self, connection: Connection, clock: LedgerClock, most_behind: timedelta) -> None:
        super().__init__(connection, clock)
        log = EventLog(connection, clock, most_behind)
        self.now = log.now  # the instant at which everything in the transaction happens
        self.runs = RunWrites(log)
        self.requests = RequestWrites(log)
        self.candidates = CandidateWrites(log)
        self.checks = CheckWrites(log)
        self.samples = SampleWrites(log)
        self.publications = PublicationWrites(log)
        self.versions = VersionWrites(log)
        self.outbox = OutboxWrites(log)
        self.sets = SetWrites(log)
        self.stuck = StuckWrites(log)
        self.freezes = FreezeWrites(log)
        self.captures = CaptureWrites(log)
        self.replays = ReplayWrites(log)
        self.imports = ImportWrites(log)
        self.acts = TableActWrites(log)
        self.comparisons = ComparisonWrites(log)
        self.turns = TurnWrites(log)  #: Which process lands files of which source.
        self.events = EventWrites(log)
        self.require_recorded = log.require_recorded
