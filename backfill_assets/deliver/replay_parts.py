"""Parts: the inputs of a replay, pinned when it is requested, with the number of records that are sent of each.

Of a table these are the partitions that readers see then; of a run, those that it published. Where keys are deleted
there are two more kinds: partitions beside them, whose keys have a row and are not deleted, and the deleted keys.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import date, datetime

from backfill_assets.calendar.partitions import DayRange, Grain, Partitions, partitions_over
from backfill_assets.capture.families import families
from backfill_assets.capture.landed_files import STATEMENT
from backfill_assets.capture.streams import SCAN
from backfill_assets.core.errors import MissingInput, Refused
from backfill_assets.deliver.errors import RowsRemoved
from backfill_assets.deliver.outgoing import HeldRows
from backfill_assets.domain import DerivedTable, SourceTable
from backfill_assets.domain.operations import UnknownKeys
from backfill_assets.landing.imports import OnDuplicate
from backfill_assets.ledger.captures import CapturedFile
from backfill_assets.ledger.records import Action, PartitionVersion, PartKind, ReplayPart
from backfill_assets.ledger.states import COUNTING, PublicationState
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.workspace import Workspace

Parts = tuple[ReplayPart, ...]


def parts_of_run(tx: ReadTransaction, table: SourceTable | DerivedTable, run_id: str, days: DayRange | None) -> Parts:
    """The partitions that a run published, with those that they replaced.

    Raises:
        Refused: Readers never saw it, or do not any more; or nothing of it is on these days.
        MissingInput: Retention has removed rows that are to be read.
    """
    made = [each for each in tx.publications.headers(run_id=run_id) if each.action is Action.PUBLISH]
    landed = next((each for each in made if each.state is PublicationState.PUBLISHED), None)
    if landed is None:
        raise Refused.coded(
            "run_not_replayable",
            "run {run_id} is {state}, and only what readers see of a run, or saw, is sent.",
            then="[report {run_id}]",
            run_id=run_id,
            state=str(tx.runs.get(run_id).state),
        )
    grain = tx.runs.get(run_id).manifest.grain
    versions = tuple(_on(grain, tx.versions.of_publication(landed.publication_id), days))
    replaced = tx.versions.pinned(landed.table, [(each.partition, each.replaces) for each in versions if each.replaces])
    if removed := {each.partition for each in (*versions, *replaced.values()) if each.removed_at is not None}:
        raise RowsRemoved(run_id=run_id, table=landed.table, partitions=Partitions.of(grain, removed))
    sent = tuple(_partition(each, replaces=each.replaces) for each in versions)
    if not sent:
        raise nothing(run_id, days)
    if not replaced and not _has_deletes(table):
        return sent
    return (*sent, *_beside(tx, table, sent), _deleted_keys())


def parts_of_table(tx: ReadTransaction, table: SourceTable | DerivedTable, days: DayRange | None) -> Parts:
    """The partitions of a table that readers see and, of a source, the keys that landed and have no row any more.

    Raises:
        MissingInput: There are none on these days.
    """
    dates = table.days.partitions(days) if days is not None and isinstance(table, SourceTable) else days
    sent = tuple(map(_partition, _on(table.partition.grain, tx.versions.accepted(table.name).values(), dates)))
    imports = tx.imports.records(table.name, COUNTING) if isinstance(table, SourceTable) else ()
    drops = isinstance(table, SourceTable) and table.unknown == UnknownKeys.DROP
    takes = any(each.format == STATEMENT or each.on_duplicate == OnDuplicate.REPROCESS for each in imports)
    if _has_deletes(table) or drops or takes:
        arrival = max((each.arrival for each in imports), default=0)
        sent = (*sent, *_beside(tx, table, sent), *([_deleted_keys(arrival)] if arrival else []))
    if not sent:
        raise nothing(table.name, days)
    return sent


def counted(
    ws: Workspace, table: SourceTable | DerivedTable, parts: Parts, period: tuple[datetime, datetime] | None
) -> Parts:
    """The parts with how many records are sent of each.

    Args:
        period: As of `HeldRows`.

    Raises:
        Refused: A key has rows in several partitions, so that one record for each key cannot say what readers see.
        MissingInput: Rows are to be read that are not there any more, or nothing is there to be sent.
    """
    held = HeldRows(ws=ws, table=table, parts=parts, period=period)
    if (key := held.key_on_several_days()) is not None:
        raise Refused.coded(
            "key_on_several_days",
            "the key {key} has rows in several partitions of {table}, and a consumer keeps one row for each key.",
            then="replay one partition with [first=True] and [last=True]; of a source, first build its stale days",
            table=table.name,
            key=key,
        )
    rows = held.counted()
    found = []
    for part in parts:
        if part.kind is PartKind.PARTITION:
            found.append(replace(part, records=rows.get(date.fromisoformat(part.name), 0)))
        elif part.kind is PartKind.GONE:
            keys, digest = held.gone()
            found.append(replace(part, records=keys, digest=digest))
        else:
            found.append(part)
    return tuple(found)


def parts_as_captured(tx: ReadTransaction, source: SourceTable, days: DayRange | None) -> Parts:
    """The captured files of a source that landed, by the positions of their stream.

    Raises:
        MissingInput: There are none that may have records of these days.
    """
    captures = {each.capture_id: each for each in tx.captures.records(source.name)}
    # Of captures of other families the very records cannot be sent.
    kinds = {each.name: PartKind(each.target.captured_as) for each in families() if each.target is not None}
    # What was refused is not sent, nor what has not been looked at.
    landed = {each.stored_path for each in tx.imports.records(source.name, COUNTING)}
    files = [
        ReplayPart(
            kind=kinds[captures[each.capture_id].family],
            name=each.stored_path,
            digest=each.sha256,
            records=each.records,
            size_bytes=each.size_bytes,
            stream=captures[each.capture_id].name,
            stream_partition=each.partition,
        )
        for each in sorted(tx.captures.files(source.name), key=_place)
        if each.records
        and each.stored_path in landed
        and captures[each.capture_id].family in kinds
        and (days is None or _has_records_of(each, source.days.instants(days)))
    ]
    if not files:
        raise nothing(f"{source.name} as it was captured", days)
    return tuple(files)


def nothing(subject: str, days: DayRange | None) -> MissingInput:
    """The error of a replay that has nothing to send."""
    return MissingInput.coded(
        "nothing_to_replay",
        "{subject} has nothing to send{within}.",
        subject=subject,
        within="" if days is None else f" of {days}",
    )


def _has_deletes(table: SourceTable | DerivedTable) -> bool:
    return isinstance(table, SourceTable) and table.operation is not None


def _beside(tx: ReadTransaction, table: SourceTable | DerivedTable, sent: Sequence[ReplayPart]) -> Iterable[ReplayPart]:
    """The other partitions that readers see: a key that has a row in one of them is not deleted."""
    names = {each.name for each in sent}
    others = (_partition(each) for each in tx.versions.accepted(table.name).values() if each.rows)
    return (replace(each, kind=PartKind.BESIDE, records=0, size_bytes=0) for each in others if each.name not in names)


def _deleted_keys(arrival: int = 0) -> ReplayPart:
    return ReplayPart(kind=PartKind.GONE, name="", digest="", records=0, size_bytes=0, version=arrival)


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


def _has_records_of(file: CapturedFile, period: tuple[datetime, datetime]) -> bool:
    if file.first_at is None or file.last_at is None:
        return True
    begins, ends = period
    return file.first_at < ends and file.last_at >= begins
