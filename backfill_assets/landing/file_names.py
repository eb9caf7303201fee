"""File names of a source whose files have no key: with the number of a record in its file they are what it is known by.

So another file of a name that has landed would replace records of the first one, number by number. That it takes its
place is stated with a complete extract, or it is refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from backfill_assets.capture.errors import Fault, FileRefused
from backfill_assets.capture.landed_files import Capture, LandedFile
from backfill_assets.domain import SourceTable
from backfill_assets.landing.imports import LIVE, STATEMENT, OnDuplicate
from backfill_assets.ledger.import_records import ImportRecord
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.partitions import DayRange


def landed_names(tx: ReadTransaction, source: SourceTable) -> Mapping[str, ImportRecord]:
    """By file name the last import that counts; nothing for a source whose records have keys."""
    if not source.row_number:
        return {}
    files = (record for record in tx.imports.records(source.name, LIVE) if record.format != STATEMENT)
    return {record.name: record for record in files}


def require_own_name(
    file: LandedFile,
    landed: Mapping[str, ImportRecord],
    before: Sequence[LandedFile],
    source: SourceTable,
    on_duplicate: OnDuplicate,
) -> None:
    """Refuses a file that would replace records of another one without that being stated.

    Args:
        file: The file.
        landed: What `landed_names` gives.
        before: The files that land before it and are not in the ledger yet.
        source: The source.
        on_duplicate: What to do with content that was landed before.

    Raises:
        Refused: Another file of this name has landed or is landing, or it is to correct records that have no key.
    """
    if not source.row_number:
        return
    if on_duplicate is OnDuplicate.CORRECT:
        why = f"records of {source.name} have no key, so that no file can correct those of another one"
        raise FileRefused(fault=Fault.NO_KEY, why=why, source=source.name)
    others = {each.original_path: each.sha256 for each in before if each.name == file.name}
    if (record := landed.get(file.name)) is not None and on_duplicate is not OnDuplicate.REPROCESS:
        others[record.import_id] = record.sha256
    for other, sha256 in others.items():
        if sha256 != file.sha256:
            why = f"{file.name} has the name of {other}, and other content"
            raise FileRefused(fault=Fault.SAME_NAME, why=why, path=file.name)


def require_whole_files(tx: ReadTransaction, source: SourceTable, captures: Sequence[Capture], days: DayRange) -> None:
    """Refuses an extract that would replace records of other days than its own, which it does not withdraw.

    Raises:
        Refused: It is so, or two of its files have one name.
    """
    if not source.row_number:
        return
    for name, many in Counter(each.name for each in captures).items():
        if many > 1:
            why = f"{many} files of the extract are named {name}"
            raise FileRefused(fault=Fault.NAMED_TWICE, why=why, path=name)
    landed = landed_names(tx, source)
    for each in captures:
        record = landed.get(each.name)
        if record is not None and any(
            day.events and day.event_date not in days for day in tx.imports.days([record.import_id])
        ):
            why = f"{each.name} has the name of {record.import_id}, which has records of other days than {days}"
            raise FileRefused(fault=Fault.OTHER_DAYS, why=why, path=each.name)
