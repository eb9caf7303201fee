"""Capture, then land: a period of a stream becomes landed files, and these land as those of any person.

First every piece of the period is a durable file with a row in the ledger, then the files land. From the row on the
stream is not needed again: a capture that was stopped goes on at the next piece, and files that had not landed land
with the next capture.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time
from itertools import groupby

from backfill_assets.application.land import landed_report, landing
from backfill_assets.application.recorder import Acting
from backfill_assets.application.statements import require_another
from backfill_assets.calendar.partitions import DayRange, count_of
from backfill_assets.capture.landed_files import Format, LandedFile
from backfill_assets.capture.stream_files import StreamCapture, capture_piece
from backfill_assets.capture.streams import (
    Captured,
    CapturePeriod,
    FollowsPinned,
    HasGroups,
    KeepsRecords,
    Pace,
    Resolution,
    Settles,
    Span,
    Stream,
    Written,
)
from backfill_assets.core.crash_points import Point
from backfill_assets.core.errors import Refused
from backfill_assets.core.progress import Progress
from backfill_assets.domain import SourceTable
from backfill_assets.domain.external import open_stream
from backfill_assets.landing.attempt import Landed, Landing, new_lease
from backfill_assets.landing.days import last_day
from backfill_assets.landing.extract import Extract, land_extract
from backfill_assets.landing.imports import OnDuplicate, landed_since
from backfill_assets.landing.land import land_files
from backfill_assets.ledger.captures import CapturedFile, CaptureRecord, reached_by
from backfill_assets.ledger.states import COUNTING
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.report.captured import CapturePlan, CaptureReport, capture_plan
from backfill_assets.report.landed import LandReport, StatedExtract
from backfill_assets.requests.authority import asked_demand, demand_to_ask, require_may_approve
from backfill_assets.workspace import Workspace

_NO_RECORDS = Written(records=0, first_at=None, last_at=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureRange:
    """The days that a capture is asked for."""

    first: date | None  #: The first day; None to continue where the captures of each partition end.
    last: date | None  #: The last day; None for everything that is there now.
    is_whole: bool = False  #: Whether everything is captured that the source holds now, of all days or of these.
    #: Another person, who confirms that more is withdrawn than the source allows; None without one.
    confirmed_by: str | None = None

    def period(self, source: SourceTable) -> CapturePeriod:
        """The instants of the days, as clocks show them where the source is."""
        return CapturePeriod(
            start=None if self.first is None else _begins(source, self.first),
            end=None if self.last is None else source.days.instants(DayRange.inclusive(self.last, self.last))[1],
            is_whole=self.is_whole,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Resolved:
    """A period of an open stream."""

    stream: Stream
    period: CapturePeriod
    resolution: Resolution
    left: Mapping[str, Sequence[Span]]
    plan: CapturePlan
    captured: Sequence[Captured]

    @property
    def positions(self) -> Sequence[tuple[str, str]]:
        """The positions without their partitions."""
        return [(each.range_from, each.range_to) for each in self.resolution.spans]


def plan_capture(ws: Workspace, source: str, asked: CaptureRange) -> CapturePlan:
    """Plans a capture: what it would read. Writes nothing."""
    with _resolved(ws, _captured_source(ws, source), asked) as found:
        return found.plan


def capture(
    ws: Workspace,
    source: str,
    asked: CaptureRange,
    acting: Acting,
    *,
    reason: str,
    pace: Pace,
    builds: bool,
    on_schedule: bool = False,
) -> CaptureReport:
    """Captures a period, lands its files and builds the days that they touch.

    Args:
        pace: How fast the stream may be read.
        builds: Whether the bronze days that the files touch are built.
        on_schedule: It is the LIVE path, and no person.
    """
    table = _captured_source(ws, source)
    require_another(table, asked.confirmed_by, acting)
    if builds:
        ws.references  # noqa: B018 - read now, because building bronze through Dagster needs every asset's window
    work = landing(ws, table, acting.by, on_schedule=on_schedule)
    own = replace(work, lease=new_lease(ws.settings))
    with own.turn(), _resolved(ws, table, asked) as found:
        has_changed = any(found.left.values())
        if pace.group:
            pace.behind = _behind(found, pace, acting)
            pace.took(0, 0)
        begun, found, overtaken = _begun(ws, own, table, found, acting, asked=asked, reason=reason)
        waits = begun is not None and begun.waits and begun.approved_by is None
        began = ws.clock()
        files = () if begun is None or waits else _captured(ws, own, table, found, begun, acting, pace=pace)
        seconds = (ws.clock() - began).total_seconds()
    # What has the same positions as ever is what the source holds now, whatever has landed since it was read.
    present = None if begun is None or has_changed else begun.capture_id
    landed = _land(ws, table, work, acting, confirmed_by=asked.confirmed_by, builds=builds, present=present)
    if begun is not None and files:
        # Last: a record that cannot be written keeps nothing from landing, and is caught up with later.
        acting.recorder.captured(ws, table, begun.capture_id)
    return CaptureReport(
        capture_id=None if begun is None else begun.capture_id,
        waits=waits,
        overtaken=overtaken,
        plan=found.plan,
        captured=sum(each.records for each in files),
        captured_bytes=sum(each.size_bytes for each in files),
        seconds=seconds,
        files=files,
        landed=landed,
    )


def _captured_source(ws: Workspace, source: str) -> SourceTable:
    table = ws.domain.source_table(source)
    if table.capture is None:
        raise Refused.coded(
            "not_captured_from_a_stream",
            "{source} is not captured from a stream: files of people land in it.",
            then="land its files instead, with their paths after it: [land {short} by=NAME]",
            source=table.name,
            short=table.name.partition(".")[2],
        )
    return table


@contextmanager
def _resolved(ws: Workspace, table: SourceTable, asked: CaptureRange) -> Iterator[_Resolved]:
    """The positions of a period, asked of the stream."""
    with closing(open_stream(table, home=ws.settings.home, as_of=ws.clock())) as stream:
        with ws.ledger.read() as tx:
            before = tx.captures.records(table.name, limit=1)
            captured = tx.captures.captured(table.name, before[0].stream) if before else ()
        if before:
            stream.require_same(before[0].stream)
            if isinstance(stream, FollowsPinned):
                stream.follow(before[0].pinned)
        period = asked.period(table)
        if period.is_whole and isinstance(stream, Settles):
            period = stream.settled(period)
        resolution = stream.resolve(period, captured)
        if before and resolution.stream != before[0].stream:  # declared to be another one
            with ws.ledger.read() as tx:
                captured = tx.captures.captured(table.name, resolution.stream)
            resolution = stream.resolve(period, captured)
        left = {span.partition: tuple(stream.pieces(span, captured)) for span in resolution.spans}
        plan = capture_plan(table, resolution, left, period_from=period.start, period_to=period.end, as_of=ws.clock())
        yield _Resolved(stream=stream, period=period, resolution=resolution, left=left, plan=plan, captured=captured)


def _begun(
    ws: Workspace,
    work: Landing,
    table: SourceTable,
    found: _Resolved,
    acting: Acting,
    *,
    asked: CaptureRange,
    reason: str,
) -> tuple[CaptureRecord | None, _Resolved, str | None]:
    """The capture in the ledger, and what of it is left: of an approved one, exactly what was approved; of a scan that
    was stopped or has not landed, what it lacks.

    Returns:
        None when nothing is left of the period; what is left; the last scan of the period in the place of which it is
        read anew, because others have landed since.
    """
    overtaken: str | None = None
    is_live = asked.first is None and not asked.is_whole
    with ws.ledger.read() as tx:
        earlier = tx.captures.records(table.name)
        files = tx.captures.files(table.name)
        waiting = {each.capture_id for each in _not_landed(tx, table)}
        held = {record.stored_path for record in tx.imports.records(table.name, COUNTING)}
    landed = {each.capture_id for each in files if each.stored_path in held}
    wanted = (found.resolution.stream, found.period.start, found.period.end, is_live, found.resolution.is_whole)
    same = [
        each
        for each in reversed(earlier)
        if (each.stream, each.period_from, each.period_to, each.is_live, each.is_whole) == wanted
        and (each.waits or each.is_scan)
    ]
    for record in same:
        if _is_overtaken(record, earlier, files):
            continue
        # With these it would be refused when it lands; without anything else to read, it is what is there now.
        if record.is_scan and any(found.left.values()) and _landed_since(ws, table, record, earlier, files):
            if record is same[0] and record.capture_id not in landed:
                overtaken = record.capture_id
            continue
        # What an API or a table has of other positions by now is another scan.
        if record.is_scan and found.positions != [(each.range_from, each.range_to) for each in record.spans]:
            continue
        left = {span.partition: tuple(found.stream.pieces(span, found.captured)) for span in record.spans}
        if not any(left.values()) and not (record.is_scan and record.capture_id in waiting):
            continue
        with ws.ledger.read() as tx:
            if record.approved_by is not None:
                require_may_approve(ws, tx, record, record.approved_by)
            elif not record.waits and asked_demand(ws, tx, record).policy is None:
                # It needed no approval when it was asked for: what does by now is asked for again.
                continue
        resolution = replace(found.resolution, spans=record.spans)
        plan = capture_plan(
            table,
            resolution,
            left,
            period_from=found.period.start,
            period_to=found.period.end,
            as_of=found.plan.as_of,
        )
        return record, replace(found, resolution=resolution, left=left, plan=plan), None
    if not any(found.left.values()):
        return None, found, None
    with ws.ledger.write() as tx:
        tx.turns.require(table.name, work.lease)
        begun = tx.captures.begin(
            table.name,
            found.resolution,
            period_from=found.period.start,
            period_to=found.period.end,
            is_live=is_live,
            by=acting.by,
            reason=reason,
            policy=table.policy,
            waits=demand_to_ask(ws, tx, table.name, cause="live" if is_live else "backfill").policy is None,
        )
    ws.reached(Point.CAPTURE_BEGUN)
    return begun, found, overtaken


def _behind(found: _Resolved, pace: Pace, acting: Acting) -> Callable[[], int]:
    """The number of records that the consumer group of a pace lags behind, reported while the capture waits for it."""
    stream = found.stream
    if not isinstance(stream, HasGroups):
        raise Refused.coded(
            "no_groups",
            "{name} has no consumer groups that say how far they are.",
            then="hold the capture back by records or bytes per minute instead",
            name=found.resolution.name,
        )

    def behind() -> int:
        records = stream.behind(pace.group)
        if records > pace.most_behind:
            line = f"waiting: {pace.group} is {count_of(records, 'record')} behind"
            acting.listener(Progress(step="capture", done=0, total=found.plan.files, line=line))
        return records

    return behind


def _captured(
    ws: Workspace,
    work: Landing,
    table: SourceTable,
    found: _Resolved,
    begun: CaptureRecord,
    acting: Acting,
    *,
    pace: Pace,
) -> tuple[CapturedFile, ...]:
    """The files of a period, one after the other, each with its row in the ledger."""
    pieces = deque(piece for span in found.resolution.spans for piece in found.left[span.partition])
    if pieces:
        _remove_unrecorded(ws, work, table, found, pieces[0])
    files: list[CapturedFile] = []
    done = 0
    while pieces:
        piece = pieces.popleft()
        kept, written = capture_piece(found.stream, found.resolution, piece, work.place, pace, ws.reached)
        if written.goes_on and written.range_to is not None:
            pieces.appendleft(replace(piece, range_from=written.range_to))
        if not kept:
            continue
        # An answer counts with its records or not at all: it has the same positions, and no records of its own.
        held = (written, *(_NO_RECORDS for _ in kept[1:]))
        with ws.ledger.write() as tx:
            tx.turns.require(table.name, work.lease)
            for file, each in zip(kept, held, strict=True):
                files.append(tx.captures.add(begun.capture_id, piece.partition, file, each, by=acting.by))
        ws.reached(Point.CAPTURE_RECORDED)
        if isinstance(found.stream, KeepsRecords):
            found.stream.recorded(replace(piece, range_to=kept[0].range_to))
        done += 1
        acting.listener(Progress(step="capture", done=done, total=done + len(pieces), line=kept[0].original_path))
    return tuple(files)


def _remove_unrecorded(ws: Workspace, work: Landing, table: SourceTable, found: _Resolved, piece: Span) -> None:
    """Removes files that a killed capture wrote without a row: by now a stream may give others for these positions."""
    folder = work.place.stored_path(found.stream.file_name(found.resolution, piece)).rpartition("/")[0]
    # Before the ledger is asked: what is listed later may have been recorded by a process that took the turn meanwhile.
    there = [each.path for each in work.landing.listed(folder)]
    with ws.ledger.write() as tx:
        tx.turns.require(table.name, work.lease)
        recorded = {each.stored_path for each in tx.captures.files(table.name)}
    work.landing.remove([path for path in there if path not in recorded])


def _not_landed(tx: ReadTransaction, table: SourceTable) -> list[CapturedFile]:
    """Captured files that no import has, of those that land."""
    imports = tx.imports.records(table.name, COUNTING)
    landed, digests = ({record.stored_path for record in imports}, {record.sha256 for record in imports})
    records = {each.capture_id: each for each in tx.captures.records(table.name)}
    files = [each for each in tx.captures.files(table.name) if each.format in tuple(Format)]
    complete = _complete_wholes(list(records.values()), files)

    # They land in their order, so that what is before one that has landed was left out on purpose.
    last = max((number for number, each in enumerate(files) if each.stored_path in landed), default=-1)

    def lands(number: int, file: CapturedFile) -> bool:
        if records[file.capture_id].is_whole:
            return file.capture_id in complete
        # Two answers of an API may be the same. The second one holds again what the first one said, if something else
        # came in between; records without a key cannot say anything again.
        return file.records > 0 and (file.sha256 not in digests or (number > last and not table.row_number))

    return [each for number, each in enumerate(files) if each.stored_path not in landed and lands(number, each)]


def _complete_wholes(captures: Sequence[CaptureRecord], files: Sequence[CapturedFile]) -> set[str]:
    """The captures of everything that were read to their end, without those that a later one has the days of.

    Of several states of the whole source the last one counts: an earlier one that was refused is never in its way.
    """
    reached = reached_by(files)
    begun = {each.capture_id for each in files}
    found: list[CaptureRecord] = []
    for each in (each for each in captures if each.is_whole and each.capture_id in begun):
        if not each.is_scan or each.is_complete(reached):
            found = [*(earlier for earlier in found if not _has_days_of(each, earlier)), each]
    return {each.capture_id for each in found}


def _has_days_of(later: CaptureRecord, earlier: CaptureRecord) -> bool:
    begins = later.period_from is None or (earlier.period_from is not None and later.period_from <= earlier.period_from)
    ends = later.period_to is None or (earlier.period_to is not None and later.period_to >= earlier.period_to)
    return begins and ends


def _is_overtaken(scan: CaptureRecord, captures: Sequence[CaptureRecord], files: Sequence[CapturedFile]) -> bool:
    """True if another capture has newer records of the days of a scan, which these would lose to if it landed now."""
    if not scan.is_scan:
        return False
    later = {each.capture_id for each in captures[captures.index(scan) + 1 :] if not each.is_scan}
    return any(
        each.capture_id in later
        and each.records
        and (scan.period_to is None or each.first_at is None or each.first_at < scan.period_to)
        and (scan.period_from is None or each.last_at is None or each.last_at >= scan.period_from)
        for each in files
    )


def _landed_since(
    ws: Workspace,
    table: SourceTable,
    scan: CaptureRecord,
    captures: Sequence[CaptureRecord],
    files: Sequence[CapturedFile],
) -> bool:
    """True if anything else has landed on the days of a scan since it was asked for."""
    before = _files_before(scan, captures, files)
    days = _days_of(ws, table, scan)
    with ws.ledger.read() as tx:
        return landed_since(tx, table, days, scan.resolved_at, but=before) is not None


def _files_before(
    scan: CaptureRecord, captures: Sequence[CaptureRecord], files: Sequence[CapturedFile]
) -> frozenset[str]:
    """The stored paths of what was captured before a scan, and of its own."""
    first = {each.capture_id for each in captures[: captures.index(scan) + 1]}
    return frozenset(each.stored_path for each in files if each.capture_id in first)


def _days_of(ws: Workspace, table: SourceTable, whole: CaptureRecord) -> DayRange:
    """The days of which a capture is everything."""
    start, end = whole.period_from, whole.period_to
    first = start or datetime.combine(ws.settings.first_day, time(), tzinfo=UTC)
    if end is not None:
        return DayRange(table.days.of(first), table.days.of(end))
    with ws.ledger.read() as tx:
        return DayRange.inclusive(table.days.of(first), last_day(tx, table, ws.clock()))


def _land(
    ws: Workspace,
    table: SourceTable,
    work: Landing,
    acting: Acting,
    *,
    confirmed_by: str | None,
    builds: bool,
    present: str | None,
) -> LandReport | None:
    """Lands what was captured and has not landed, in the order in which it was captured.

    Args:
        present: A capture of which the source holds now what it has; None without one.
    """
    with ws.ledger.read() as tx:
        every, files = tx.captures.records(table.name), tx.captures.files(table.name)
        records = {each.capture_id: each for each in every}
        waiting = _not_landed(tx, table)
        known = {record.sha256 for record in tx.imports.records(table.name, COUNTING)}
    outcomes: list[Landed] = []
    extract: StatedExtract | None = None

    def report(outcome: Landed) -> None:
        outcomes.append(outcome)
        line = outcome.record.original_path
        acting.listener(Progress(step="land", done=len(outcomes), total=len(waiting), line=line))

    def together(file: CapturedFile) -> tuple[str | None, OnDuplicate]:
        """Lands the files of a capture together: whole ones as a capture, and those whose content has landed before as
        declared."""
        is_known = file.sha256 in known and not table.row_number
        known.add(file.sha256)
        whole = file.capture_id if records[file.capture_id].is_whole else None
        return whole, OnDuplicate.CORRECT if is_known and whole is None else OnDuplicate.IGNORE

    for (whole, on_duplicate), some in groupby(waiting, together):
        captures = [
            StreamCapture(file=_landed_file(table, each, records[each.capture_id]), record_count=each.records)
            for each in some
        ]
        if whole is None:
            land_files(work, captures, on_duplicate, report)
            continue
        record = records[whole]
        stated = Extract(
            days=_days_of(ws, table, record),
            where={},
            reason=record.reason,
            confirmed_by=confirmed_by,
            is_captured=True,
            read_at=record.resolved_at if record.is_scan and whole != present else None,
            before=_files_before(record, every, files) | {each.record.stored_path for each in outcomes},
        )
        found = land_extract(replace(work, lease=new_lease(ws.settings)), captures, stated)
        extract = StatedExtract(scope=stated.scope(table), withdrawn=found.withdrawn)
        for outcome in (*found.files, found.statement):
            report(outcome)
    if not outcomes:
        return None
    return landed_report(ws, table, outcomes, acting, builds=builds, extract=extract)


def _landed_file(table: SourceTable, file: CapturedFile, capture: CaptureRecord) -> LandedFile:
    return LandedFile(
        source=table.name,
        family=capture.family,
        range_from=file.range_from,
        range_to=file.range_to,
        sha256=file.sha256,
        original_path=f"{capture.name}-{file.partition}-{file.range_from}-{file.range_to}",
        stored_path=file.stored_path,
        size_bytes=file.size_bytes,
        format=file.format,
        compression=file.compression,
    )


def _begins(source: SourceTable, day: date) -> datetime:
    return source.days.instants(DayRange.inclusive(day, day))[0]
