"""Records of landed files: frozen dataclasses, as in `records`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import date, datetime

from backfill_assets.capture.landed_files import LandedFile
from backfill_assets.ledger.rows import AnyRow, read_as
from backfill_assets.ledger.states import ImportState


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportCounts:
    """What became of a landed file's records: landed = accepted + duplicate + superseded + rejected.

    Attributes:
        landed: How many records it holds.
        accepted: How many of them decide what their key is: its last version, or its withdrawal.
        duplicate: How many were there before with the same values.
        superseded: How many do not decide it: another record does.
        rejected: How many are in quarantine, each with its reason.
    """

    landed: int = 0
    accepted: int = 0
    duplicate: int = 0
    superseded: int = 0
    rejected: int = 0

    @property
    def reconciles(self) -> bool:
        return self.landed == self.accepted + self.duplicate + self.superseded + self.rejected

    @property
    def are_mostly_rejected(self) -> bool:
        """Whether more than half of the records are rejected: the file is probably not in the form of the contract."""
        return 2 * self.rejected > self.landed


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyCounts:
    """What keys are: of a source, how many there are; of an import, how many more there are since it landed.

    The sums over the imports of a source are its keys: ever accepted = current + deleted + withdrawn.

    Attributes:
        current: How many are current.
        deleted: How many are deleted.
        withdrawn: How many are withdrawn.
    """

    current: int = 0
    deleted: int = 0
    withdrawn: int = 0

    @property
    def ever(self) -> int:
        return self.current + self.deleted + self.withdrawn

    def __add__(self, other: KeyCounts) -> KeyCounts:
        return KeyCounts(**{each.name: getattr(self, each.name) + getattr(other, each.name) for each in fields(self)})

    def __sub__(self, other: KeyCounts) -> KeyCounts:
        return KeyCounts(**{each.name: getattr(self, each.name) - getattr(other, each.name) for each in fields(self)})


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportRecord(LandedFile):
    """One landed file, or a statement.

    Attributes:
        import_id: `imp-` and a number; ids sort by arrival.
        state: How far it is.
        arrival: Its position in the order of arrival, over all sources.
        first_seen_at: When its landing began.
        landed_at: When it had landed; null before.
        landed_by: Who landed it.
        on_duplicate: What was to be done if its content had landed before.
        counts: What became of its records.
        keys: How many more keys of the source are current, deleted and withdrawn since it landed.
        schema_versions: The distinct values of `schema_version` in it, sorted; empty when it has no such column.
        ignored_columns: Columns that the contract does not know, which were left out.
        note: What is to be known of its state; empty when there is nothing.
        contract: The version of its source's contract in which its records are kept.
    """

    import_id: str
    state: ImportState
    arrival: int
    first_seen_at: datetime
    landed_at: datetime | None
    landed_by: str
    on_duplicate: str
    counts: ImportCounts = ImportCounts()
    keys: KeyCounts = KeyCounts()
    schema_versions: tuple[int, ...] = ()
    ignored_columns: tuple[str, ...] = ()
    note: str = ""
    contract: int = 1

    def days_late(self, day: date) -> int | None:
        """The days between a day of events and the landing, at least none; None before it has landed."""
        return None if self.landed_at is None else max(0, (self.landed_at.date() - day).days)


def sums_by_source(landed: Iterable[ImportRecord]) -> Mapping[str, tuple[int, KeyCounts]]:
    """How many keys landed files have ever brought, and what these are now, by source."""
    found: dict[str, tuple[int, KeyCounts]] = {}
    for record in landed:
        accepted, keys = found.get(record.source, (0, KeyCounts()))
        found[record.source] = (accepted + record.counts.accepted, keys + record.keys)
    return dict(sorted(found.items()))


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportDay:
    """One UTC event date that a landed file touches. Key: import_id, event_date.

    Attributes:
        import_id: The landed file.
        event_date: The day.
        events: Valid records of that date in the file, before deciding which version of a key wins.
        displaced: Versions of keys that other files have on that date and that end with one of this file on another
            date.
        deleted: Versions of keys that other files have on that date and that end with a delete of this file.
        withdrawn: Keys whose last version, on that date, this statement withdraws.
        restored: Keys whose last version, on that date, this statement restores.
    """

    import_id: str
    event_date: date
    events: int
    displaced: int = 0
    deleted: int = 0
    withdrawn: int = 0
    restored: int = 0


import_day = read_as(ImportDay)
_counts = read_as(ImportCounts)
_import_fields = read_as(ImportRecord)


def import_record(row: AnyRow) -> ImportRecord:
    """One landed file; its counts are columns of their own."""
    keys = KeyCounts(current=row.keys_current, deleted=row.keys_deleted, withdrawn=row.keys_withdrawn)
    return _import_fields(row, counts=_counts(row), keys=keys)
