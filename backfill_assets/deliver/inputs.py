"""Inputs of replays: what of a run, a source or a table is sent, pinned so that it is the same whenever it is read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from backfill_assets.capture.landed_files import Family
from backfill_assets.capture.streams import SCAN
from backfill_assets.deliver.errors import NothingToReplay, RunNotReplayable
from backfill_assets.domain import DerivedTable, SourceTable
from backfill_assets.landing.imports import STATEMENT
from backfill_assets.ledger.captures import CapturedFile
from backfill_assets.ledger.records import Action, PartitionVersion, PartKind, ReplayPart
from backfill_assets.ledger.states import COUNTING, PublicationState
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.partitions import DayRange, Grain, partitions_over

_KINDS: Mapping[str, PartKind] = {Family.KAFKA: PartKind.CAPTURED, Family.KINESIS: PartKind.SHARD}
"""Of which captures the very records are sent that were in a topic or a stream."""


def parts_of_run(tx: ReadTransaction, run_id: str, days: DayRange | None) -> tuple[ReplayPart, ...]:
    """The partitions that a run published, with those that they replaced.

    Raises:
        Refused: Readers never saw it, or do not any more; or nothing of it is on these days.
    """
    made = [each for each in tx.publications.headers(run_id=run_id) if each.action is Action.PUBLISH]
    landed = next((each for each in made if each.state is PublicationState.PUBLISHED), None)
    if landed is None:
        raise RunNotReplayable(run_id=run_id, state=str(tx.runs.get(run_id).state))
    grain = tx.runs.get(run_id).manifest.grain
    versions = _on(grain, tx.versions.of_publication(landed.publication_id), days)
    return _required(run_id, days, (_partition(each, replaces=each.replaces) for each in versions))


def parts_of_table(tx: ReadTransaction, table: DerivedTable, days: DayRange | None) -> tuple[ReplayPart, ...]:
    """The partitions of a table that readers see.

    Raises:
        Refused: There are none on these days.
    """
    versions = _on(table.partition.grain, tx.versions.accepted(table.name).values(), days)
    return _required(table.name, days, map(_partition, versions))


def parts_of_source(tx: ReadTransaction, source: SourceTable, days: DayRange | None) -> tuple[ReplayPart, ...]:
    """The files of a source as they came: captured ones by the positions of their stream, then those of people.

    Raises:
        Refused: There are none that have records of these days.
    """
    captures = {each.capture_id: each for each in tx.captures.records(source.name)}
    captured = tx.captures.files(source.name)
    of_streams = {each.stored_path for each in captured}
    of_days = None if days is None else {each.import_id for each in tx.imports.days(source=source.name, days=days)}
    landed = [
        each
        for each in tx.imports.records(source.name, COUNTING)
        if each.stored_path not in of_streams
        and each.format != STATEMENT
        and (of_days is None or each.import_id in of_days)
    ]
    files = [
        ReplayPart(
            # Of other families the records are as in any file: nothing is known of a topic that they were in.
            kind=_KINDS.get(captures[each.capture_id].family, PartKind.LANDED),
            name=each.stored_path,
            digest=each.sha256,
            records=each.records,
            size_bytes=each.size_bytes,
            stream=captures[each.capture_id].name,
            stream_partition=each.partition,
        )
        for each in sorted(captured, key=_place)
        if each.records and (days is None or _has_records_of(each, days))
    ]
    files += [
        ReplayPart(
            kind=PartKind.LANDED,
            name=each.stored_path,
            digest=each.sha256,
            records=each.counts.landed,
            size_bytes=each.size_bytes,
        )
        for each in landed
    ]
    return _required(source.name, days, files)


def _required(subject: str, days: DayRange | None, parts: Iterable[ReplayPart]) -> tuple[ReplayPart, ...]:
    found = tuple(parts)
    if not found:
        raise NothingToReplay(subject=subject, within="" if days is None else f" of {days}")
    return found


def _partition(version: PartitionVersion, *, replaces: int = 0) -> ReplayPart:
    return ReplayPart(
        kind=PartKind.PARTITION,
        name=version.partition.isoformat(),
        digest=version.files.digest,
        records=version.rows,
        size_bytes=version.files.size_bytes,
        version=version.version,
        replaces=replaces,
    )


def _on(grain: Grain, versions: Iterable[PartitionVersion], days: DayRange | None) -> Iterable[PartitionVersion]:
    wanted = None if days is None else set(partitions_over(grain, days))
    return (each for each in versions if wanted is None or each.partition in wanted)


def _place(file: CapturedFile) -> tuple[str, str, int]:
    """A capture of earlier positions may have come later; what is sent has them first. Shards are named in the order in
    which they were created: parents come first."""
    begins = file.range_from.removesuffix("+")
    partition = re.sub(rf"^{SCAN}[0-9]+-(?=[0-9]+$)", "", file.partition)
    return file.stored_path.rpartition("/")[0], partition, int(begins) if begins.isdecimal() else 0


def _has_records_of(file: CapturedFile, days: DayRange) -> bool:
    if file.first_at is None or file.last_at is None:
        return True
    return file.first_at.date() <= days.last and file.last_at.date() >= days.start
