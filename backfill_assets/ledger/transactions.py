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
from backfill_assets.ledger.approvals import ApprovalWrites
from backfill_assets.ledger.bases import BasisReads
from backfill_assets.ledger.candidates import CandidateReads, CandidateWrites
from backfill_assets.ledger.captures import CaptureReads, CaptureWrites
from backfill_assets.ledger.checks import CheckReads, CheckWrites
from backfill_assets.ledger.comparisons import ComparisonReads, ComparisonWrites
from backfill_assets.ledger.events import EventLog, EventReads, EventWrites
from backfill_assets.ledger.freezes import FreezeReads, FreezeWrites
from backfill_assets.ledger.imports import ImportReads, ImportWrites
from backfill_assets.ledger.leases import LeaseReads, TurnWrites
from backfill_assets.ledger.outbox import OutboxReads, OutboxWrites, StuckReads, StuckWrites
from backfill_assets.ledger.publications import PublicationReads
from backfill_assets.ledger.replays import ReplayReads, ReplayWrites
from backfill_assets.ledger.row_digests import RowChecks
from backfill_assets.ledger.runs import RunReads, RunWrites
from backfill_assets.ledger.samples import SampleReads, SampleWrites
from backfill_assets.ledger.sets import SetReads, SetWrites
from backfill_assets.ledger.table_acts import TableActReads, TableActWrites
from backfill_assets.ledger.versions import VersionReads, VersionWrites
from backfill_assets.ledger.views import ViewReads
from backfill_assets.ledger.write_publications import PublicationWrites


class ReadTransaction:
    """One state of the ledger.

    Attributes:
        runs: What was agreed, and how far it is.
        leases: Which process works on what.
        candidates: What was staged and measured for a run, and what its approver has to comment on.
        checks: What gates found in accepted rows later, and with which gates these were measured.
        samples: Values of rows that reviewers are shown.
        publications: Swaps that were intended, and what became of them.
        versions: What readers see, and saw before.
        bases: What accepted partitions were computed from.
        outbox: What publications ask of dependents, and which runs follow it.
        sets: Runs that were agreed together.
        stuck: Work that sensors have given up.
        freezes: Partitions over which runs wait.
        captures: Periods of streams that were captured, and the files that hold them.
        replays: What was sent to topics again.
        imports: Landed files.
        agreements: Under which declaration the rows of a table were last agreed to.
        acts: Which tables the readers of names are shown, and which versions are kept up to date.
        comparisons: How versions of a table differ from the one that readers are shown.
        events: Events, as a chain, and whether that is as it was written.
        row_checks: Whether the rows are as the events left them.
        views: Runs and publications as other programs read them.
    """

    def __init__(self, connection: Connection, clock: LedgerClock) -> None:
        self._clock = clock
        self.runs = RunReads(connection)
        self.leases = LeaseReads(connection)
        self.candidates = CandidateReads(connection)
        self.checks = CheckReads(connection)
        self.samples = SampleReads(connection)
        self.publications = PublicationReads(connection)
        self.versions = VersionReads(connection)
        self.bases = BasisReads(connection)
        self.outbox = OutboxReads(connection)
        self.sets = SetReads(connection)
        self.stuck = StuckReads(connection)
        self.freezes = FreezeReads(connection)
        self.captures = CaptureReads(connection)
        self.replays = ReplayReads(connection)
        self.imports = ImportReads(connection)
        self.acts = TableActReads(connection)
        self.agreements = AgreementReads(connection)
        self.comparisons = ComparisonReads(connection)
        self.events = EventReads(connection)
        self.row_checks = RowChecks(connection)
        self.views = ViewReads(connection)

    @cached_property
    def now(self) -> datetime:
        """The present instant: that of the last event, where the clock is behind it."""
        return self._clock.present(self.events.last_at())[0]


class WriteTransaction(ReadTransaction):
    """The one writer at its turn, who can ask on the way.

    Attributes:
        approvals: Who agreed to a run's manifest, and to an act, a capture or a replay.
        turns: Which process lands files of which source.
    """

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
    imports: ImportWrites
    acts: TableActWrites
    comparisons: ComparisonWrites
    events: EventWrites

    def __init__(self, connection: Connection, clock: LedgerClock, most_behind: timedelta) -> None:
        super().__init__(connection, clock)
        log = EventLog(connection, clock, most_behind)
        self.now = log.now  # the instant at which everything in the transaction happens
        self.runs = RunWrites(log)
        self.approvals = ApprovalWrites(log)
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
        self.turns = TurnWrites(log)
        self.events = EventWrites(log)
        self.require_recorded = log.require_recorded
