"""File names of a source whose files have no key: with the number of a record in its file they are what it is known by.

So another file of a name that has landed would replace records of the first one, number by number. That it takes its
place is stated with a complete extract, or it is refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from backfill_assets.domain import SourceTable
from backfill_assets.errors import Refused
from backfill_assets.landing.archive import Archived
from backfill_assets.landing.imports import LIVE, STATEMENT, OnDuplicate
from backfill_assets.ledger.import_records import ImportRecord
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.next_steps import Option, step
from backfill_assets.planning.partitions import DayRange

_STATE_THAT = step(
    "if it takes the place of that one, state of which days it is all there is: ",
    Option("replaces", "DAY..DAY"),
    "; otherwise give it another name",
)


def landed_names(tx: ReadTransaction, source: SourceTable) -> Mapping[str, ImportRecord]:
    """By file name the last import that counts; nothing for a source whose records have keys."""
    if not source.row_number:
        return {}
    files = (record for record in tx.imports.records(source.name, LIVE) if record.format != STATEMENT)
    return {Path(record.original_path).name: record for record in files}


def require_own_name(
    archived: Archived,
    landed: Mapping[str, ImportRecord],
    before: Sequence[Archived],
    source: SourceTable,
    on_duplicate: OnDuplicate,
) -> None:
    """Refuses a file that would replace records of another one without that being stated.

    Args:
        archived: The file.
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
        raise Refused(
            f"records of {source.name} have no key, so that no file can correct those of another one.",
            next_step=step("state of which days it is all there is: ", Option("replaces", "DAY..DAY")),
            source=source.name,
        )
    name = Path(archived.original_path).name
    others = {each.original_path: each.sha256 for each in before if Path(each.original_path).name == name}
    if (record := landed.get(name)) is not None and on_duplicate is not OnDuplicate.REPROCESS:
        others[record.import_id] = record.sha256
    for other, sha256 in others.items():
        if sha256 != archived.sha256:
            raise Refused(f"{name} has the name of {other}, and other content.", next_step=_STATE_THAT, path=name)


def require_whole_files(tx: ReadTransaction, source: SourceTable, paths: Sequence[Path], days: DayRange) -> None:
    """Refuses an extract that would replace records of other days than its own, which it does not withdraw.

    Raises:
        Refused: It is so, or two of its files have one name.
    """
    if not source.row_number:
        return
    for name, many in Counter(path.name for path in paths).items():
        if many > 1:
            raise Refused(f"{many} files of the extract are named {name}.", next_step="rename all but one", path=name)
    landed = landed_names(tx, source)
    for path in paths:
        record = landed.get(path.name)
        if record is not None and any(
            day.events and day.event_date not in days for day in tx.imports.days([record.import_id])
        ):
            raise Refused(
                f"{path.name} has the name of {record.import_id}, which has records of other days than {days}.",
                next_step=step("name all its days with ", Option("replaces", "DAY..DAY"), ", or give it another name"),
                path=path.name,
            )
