"""Queries: status, staleness, history, the whereabouts of a period, and the audit.

They change nothing. Each question imports its own room: `status` needs neither Spark's functions nor the readers of
files, and is answered in the time that they take to import.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from backfill_assets.calendar.partitions import DayRange, Days, partition_text, partitions_over
from backfill_assets.core.errors import InvalidRange, is_full_disk
from backfill_assets.ledger.publications import PublicationFilter
from backfill_assets.report.errors import CannotUse, Malformed, WordWithoutValue
from backfill_assets.workspace import Workspace

if TYPE_CHECKING:
    from backfill_assets.application.metrics import MetricsDocument
    from backfill_assets.application.requests import AnyDocument
    from backfill_assets.core.progress import Listener
    from backfill_assets.ledger.records import CandidatePartition, EventRecord
    from backfill_assets.planning.graph import TableNode
    from backfill_assets.report.code import CodeDifference, CodeDocument
    from backfill_assets.report.event_counts import EventCounts
    from backfill_assets.report.history import PartitionHistory, TableHistory
    from backfill_assets.report.publications import PublicationDocument
    from backfill_assets.report.stale import StaleDocument
    from backfill_assets.report.status import StatusDocument
    from backfill_assets.report.trace import Trace
    from backfill_assets.staleness.decide import Staleness
    from backfill_assets.upkeep.audit import AuditReport, LastAudit
    from backfill_assets.upkeep.check import CheckReport
    from backfill_assets.upkeep.doctor import DoctorReport

_MOST_EVENTS = 500
MOST_PUBLICATIONS = 100
"""How many publications a page of them has."""

MOST_FOLLOWED = 500
"""So many rows of each table are followed at most from a number to its sources."""


def status(ws: Workspace, name: str | None) -> StatusDocument | AnyDocument:
    """The status of everything, or of what has an id."""
    if name is None:
        from backfill_assets.report.status import status as status_of_everything

        return status_of_everything(ws)
    from backfill_assets.application.requests import request_of

    return request_of(ws, name).document()


def stale(ws: Workspace, table: str | None, days: Days | None) -> StaleDocument:
    """The stale partitions, with reasons."""
    from backfill_assets.report.gates_since import not_measured
    from backfill_assets.report.sources import read_before
    from backfill_assets.report.stale import stale_document
    from backfill_assets.report.waiting import not_known_of
    from backfill_assets.staleness.find import stale_tables

    name = None if table is None else ws.domain.table(table).name
    found = stale_tables(ws, table=name, days=days)
    read = {edge.table for edge in ws.graph.table(name).inputs} | {name} if name else None
    with ws.ledger.read() as tx:
        sources = [each for each in ws.domain.sources if read is None or each.name in read]
        unknown, earlier = not_known_of(tx, sources), read_before(tx, sources)
        chosen = [ws.domain.tables[name]] if name else ws.domain.tables.values()
        since = not_measured(ws, tx, chosen, days)
    return stale_document(
        found,
        table=name,
        days=days,
        sources=[source.name for source in ws.domain.sources],
        kept={each.table for each in found if _is_kept(ws.graph.table(each.table), each, asked=name)},
        unknown=unknown,
        read_before=earlier,
        not_measured=since,
    )


def _is_kept(node: TableNode, found: Staleness, *, asked: str | None) -> bool:
    """True if what is stale of a table stays as it is: no run changes it, or it is beside what readers are shown and
    was not asked for."""
    return bool(node.change.fixed(set(found.partitions))) or (node.is_beside and node.name != asked)


def history(ws: Workspace, table: str, days: DayRange | None) -> TableHistory | PartitionHistory:
    """The versions of a table, or of the partition that some days lie in.

    Raises:
        Malformed: The days are those of several partitions.
    """
    from backfill_assets.report.history import partition_history, table_history

    if days is None:
        return table_history(ws, table)
    return partition_history(ws, table, _of_one_partition(ws, table, days))


def _of_one_partition(ws: Workspace, table: str, days: DayRange) -> date:
    """The first of some days that lie in one partition of a table."""
    declared = ws.domain.table(table)
    if len(partitions_over(declared.partition.grain, days)) > 1:
        noun = declared.partition.grain.noun
        first = partition_text(declared.partition.grain, days.start)
        raise Malformed(what="the partition", value=str(days), form=f"one {noun} of {declared.name}", example=first)
    return days.start


def check(ws: Workspace, listener: Listener) -> CheckReport:
    """Checks that published tables can follow the domain, and that every transform can read its inputs."""
    from backfill_assets.upkeep.check import check as check_everything

    return check_everything(ws, listener)


def doctor(ws: Workspace, listener: Listener) -> DoctorReport:
    """Checks that everything is there that the commands need."""
    from backfill_assets.upkeep.doctor import examine

    return examine(ws, listener)


def audit(ws: Workspace, listener: Listener, *, head: str | None, is_quick: bool) -> AuditReport:
    """Audits the home: compares the ledger, the tables and the landed files."""
    from backfill_assets.upkeep.audit import audit as audit_everything
    from backfill_assets.upkeep.audit import record_audit

    found = audit_everything(ws, head=head, is_quick=is_quick, listener=listener)
    kept = record_audit(ws.settings.home, found, at=ws.clock(), is_quick=is_quick)
    return replace(found, recorded_in=str(kept) if kept else None)


def last_audit(ws: Workspace) -> LastAudit | None:
    """The findings of the last audit, and what is known of the time after it; None without an audit."""
    from backfill_assets.upkeep.audit import last_audit_now

    return last_audit_now(ws)


def staleness(ws: Workspace) -> tuple[Staleness, ...]:
    """The stale partitions of every table, as input for `calendar`."""
    from backfill_assets.staleness.find import stale_tables

    return stale_tables(ws)


def metrics(ws: Workspace, counts: EventCounts | None, stale: Sequence[Staleness] | None) -> MetricsDocument:
    """The present values of the watched metrics.

    Args:
        counts: What the events added up to when they were counted last; None to count all of them.
        stale: What is stale; None where that is not known now.
    """
    from backfill_assets.application.metrics import metrics as metrics_now
    from backfill_assets.report.event_counts import EventCounts

    return metrics_now(ws, counts or EventCounts(), stale)


def publications(ws: Workspace, table: str | None, before: int | None) -> tuple[PublicationDocument, ...]:
    """A page of publications and rollbacks, the last begun first, and one more where the list goes on."""
    from backfill_assets.report.publications import publication_documents

    chosen = PublicationFilter(limit=MOST_PUBLICATIONS + 1)
    if table:
        chosen["table"] = table
    if before is not None:
        chosen["before"] = before
    with ws.ledger.read() as tx:
        return publication_documents(ws, tx, tx.publications.headers(**chosen))


def events(ws: Workspace, entity_id: str) -> tuple[EventRecord, ...]:
    """The first events of a run or a set; none of something that the ledger does not know."""
    with ws.ledger.read() as tx:
        return tuple(islice(tx.events.entries(entity_id=entity_id), _MOST_EVENTS))


def seen_at(ws: Workspace, at: datetime | DayRange | None) -> datetime | None:
    """The instant at which somebody asks what readers saw: the end of days, or a time; a whole second, as pages show
    times, counts to its end.

    Raises:
        InvalidRange: It is in the future.
    """
    if at is None:
        return None
    now = ws.now()
    begins = datetime.combine(at.start, time(), tzinfo=UTC) if isinstance(at, DayRange) else at
    if begins > now:
        raise InvalidRange.coded(
            "in_the_future",
            "{at} UTC is in the future: what readers see then is not known yet.",
            then="name a time that has passed, or leave it out for now",
            at=f"{begins:%Y-%m-%d %H:%M:%S}",
        )
    if isinstance(at, DayRange):
        return min(now, datetime.combine(at.end, time(), tzinfo=UTC) - timedelta(microseconds=1))
    return at if at.microsecond else at + timedelta(seconds=1, microseconds=-1)


def shown(ws: Workspace, table: str, at: datetime | DayRange | None) -> str:
    """The table that the readers of a name see, now or at a time: another version of it, once they are cut over.

    Raises:
        InvalidRange: The time is in the future.
    """
    with ws.ledger.read() as tx:
        return tx.acts.shown(ws.domain.table(table).name, seen_at(ws, at))


def trace(
    ws: Workspace,
    table: str,
    days: date | DayRange,
    key: Mapping[str, str],
    at: datetime | DayRange | None,
    *,
    most: int | None = None,
) -> Trace:
    """From the row of a key to the publications behind it, and to the rows and records that it was computed from.

    Raises:
        Malformed: The days are those of several partitions, or there are too many rows to follow.
        InvalidRange: The time is in the future.
    """
    from backfill_assets.report.trace import MOST_ROWS, trace_of

    if most is not None and not 0 < most <= MOST_FOLLOWED:
        raise Malformed(what="the number of rows", value=str(most), form=f"1 to {MOST_FOLLOWED}", example="100")
    day = _of_one_partition(ws, table, days) if isinstance(days, DayRange) else days
    found = trace_of(ws, table, day, key, seen_at(ws, at), most=most or MOST_ROWS)
    is_day = isinstance(days, DayRange) and len(days) == 1
    return replace(found, asked_day=day if is_day and found.partition != str(day) else None)


def code(ws: Workspace, named: str, *, texts: bool, folder: Path | None) -> CodeDocument:
    """The archived code behind a code digest or a run.

    Args:
        texts: With the lines that count.
        folder: A new folder, to which the modules are written whole.

    Raises:
        Refused: No such code is archived, or the folder exists or cannot be written.
    """
    from backfill_assets.report.code import code_document, code_named, sources_of

    found = code_named(ws, named)
    if folder is not None:
        sources = list(sources_of(ws, found))
        try:
            folder.mkdir(parents=True)
            for path, content in sources:
                file = folder.joinpath(*path.split("/"))
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(content.encode())
        except OSError as error:
            if is_full_disk(error):
                raise
            why = str(error.strerror or error)
            raise CannotUse(what=f"the folder {folder}", why=why, instead="a folder that does not exist") from error
    return code_document(ws, found, texts=texts, folder=str(folder.resolve()) if folder else None)


def code_difference(ws: Workspace, before: str, after: str) -> CodeDifference:
    """The difference between the code of two digests or runs."""
    from backfill_assets.report.code import code_difference as difference
    from backfill_assets.report.code import code_named

    return difference(ws.reference_archive, code_named(ws, before), code_named(ws, after))


def word_without_value(ws: Workspace, table: str, days: DayRange, word: str) -> WordWithoutValue:
    """The refusal of a word of a key that is no `COLUMN=VALUE`, with an example."""
    from backfill_assets.report.history import word_without_value as refusal

    return refusal(ws, table, _of_one_partition(ws, table, days), word)


def accepted_rows(ws: Workspace, table: str) -> int:
    """The number of accepted rows of a table."""
    with ws.ledger.read() as tx:
        return sum(claim.rows for claim in tx.versions.claims(table).values())


def staged_partitions(ws: Workspace, run_id: str) -> Mapping[date, CandidatePartition]:
    """The partitions that a run has staged so far, according to the ledger."""
    with ws.ledger.read() as tx:
        return tx.candidates.of_run(run_id)
