"""Imports: landed files and statements, their counts, days and operations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import date, datetime

from sqlalchemy import bindparam, delete, func, insert, select, update

from backfill_assets.capture.landed_files import LandedFile
from backfill_assets.core.errors import Refused
from backfill_assets.core.identity import FileSet
from backfill_assets.core.lease import LeaseTerms
from backfill_assets.ledger.errors import CannotBecome, Damaged, NotInLedger
from backfill_assets.ledger.events import Event, EventLog, Step, Writes
from backfill_assets.ledger.leases import LeaseSteps
from backfill_assets.ledger.queries import AnyRow, Queries, batches, read_as, row_of
from backfill_assets.ledger.recorded_text import first_few, one_line, storable_text
from backfill_assets.ledger.schema import events, import_days, imports
from backfill_assets.ledger.states import COUNTING, ImportState


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportCounts:
    """Counts of a landed file's records: landed = accepted + duplicate + superseded + rejected."""

    landed: int = 0  #: How many records it holds.
    accepted: int = 0  #: How many of them decide what their key is: its last version, or its withdrawal.
    duplicate: int = 0  #: How many were there before with the same values.
    superseded: int = 0  #: How many do not decide it: another record does.
    rejected: int = 0  #: How many are in quarantine, each with its reason.

    @property
    def reconciles(self) -> bool:
        return self.landed == self.accepted + self.duplicate + self.superseded + self.rejected

    @property
    def are_mostly_rejected(self) -> bool:
        """True if more than half of the records are rejected: the file is probably not in the form of the contract."""
        return 2 * self.rejected > self.landed


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyCounts:
    """Counts of keys by state: for a source, of all its keys; for an import, the increase since it landed.

    The sums over the imports of a source are its keys: ever accepted = current + deleted + withdrawn.
    """

    current: int = 0  #: How many are current.
    deleted: int = 0  #: How many are deleted.
    withdrawn: int = 0  #: How many are withdrawn.

    @property
    def ever(self) -> int:
        return self.current + self.deleted + self.withdrawn

    def __add__(self, other: KeyCounts) -> KeyCounts:
        return KeyCounts(**{each.name: getattr(self, each.name) + getattr(other, each.name) for each in fields(self)})

    def __sub__(self, other: KeyCounts) -> KeyCounts:
        return KeyCounts(**{each.name: getattr(self, each.name) - getattr(other, each.name) for each in fields(self)})


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportRecord(LandedFile):
    """One landed file, or a statement."""

    import_id: str  #: `imp-` and a number; ids sort by arrival.
    state: ImportState  #: How far it is.
    arrival: int  #: Its position in the order of arrival, over all sources.
    first_seen_at: datetime  #: When its landing began.
    landed_at: datetime | None  #: When it had landed; null before.
    landed_by: str  #: Who landed it.
    on_duplicate: str  #: What was to be done if its content had landed before.
    counts: ImportCounts = ImportCounts()  #: What became of its records.
    #: How many more keys of the source are current, deleted and withdrawn since it landed.
    keys: KeyCounts = KeyCounts()
    #: The distinct values of `schema_version` in it, sorted; empty when it has no such column.
    schema_versions: tuple[int, ...] = ()
    ignored_columns: tuple[str, ...] = ()  #: Columns that the contract does not know, which were left out.
    note: str = ""  #: What is to be known of its state; empty when there is nothing.
    contract: int = 1  #: The version of its source's contract in which its records are kept.
    #: How many of its rejected records have no key that can be read: which keys they are of is not known.
    keyless: int = 0
    #: The files with its judged records, relative to the landing place, from which rows are computed; null until it has
    #: landed.
    conformed: FileSet | None = None
    judged_at: datetime  #: When its landing began, or began again: its records are judged by what was the present then.
    #: How many times of each column clocks have shown twice, which were taken as the first of the two.
    taken_as_first: Mapping[str, int] = field(default_factory=dict)
    #: The digest of how its source was declared, its columns among it, and of the release that decodes, by which its
    #: records were read; null before it has landed, and of files that earlier releases landed.
    reading: str | None = None
    #: How many of its rejected records are of each day, where their event time can be read.
    rejected_on: Mapping[date, int] = field(default_factory=dict)

    def days_late(self, day: date) -> int | None:
        """The days between a day of events and the landing, at least none; None before it has landed."""
        return None if self.landed_at is None else max(0, (self.landed_at.date() - day).days)


def sums_by_source(landed: Iterable[ImportRecord]) -> Mapping[str, tuple[int, KeyCounts]]:
    """The number of keys that landed files have ever brought, and their present states, by source."""
    found: dict[str, tuple[int, KeyCounts]] = {}
    for record in landed:
        accepted, keys = found.get(record.source, (0, KeyCounts()))
        found[record.source] = (accepted + record.counts.accepted, keys + record.keys)
    return dict(sorted(found.items()))


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportDay:
    """One UTC event date that a landed file touches. Key: import_id, event_date."""

    import_id: str  #: The landed file.
    event_date: date  #: The day.
    events: int  #: Valid records of that date in the file, before deciding which version of a key wins.
    #: Versions of keys that other files have on that date and that end with one of this file on another date.
    displaced: int = 0
    deleted: int = 0  #: Versions of keys that other files have on that date and that end with a delete of this file.
    withdrawn: int = 0  #: Keys whose last version, on that date, this statement withdraws.
    restored: int = 0  #: Keys whose last version, on that date, this statement restores.
    #: Keys whose last accepted version is on that date, and of which this file has a newer record that was rejected:
    #: what they are since then is not known.
    unknown: int = 0


_LANDED = "import_landed"
_DAY = import_days.c.event_date

import_day = read_as(ImportDay)
_counts = read_as(ImportCounts)
_import_fields = read_as(ImportRecord)


def import_record(row: AnyRow) -> ImportRecord:
    """One landed file; its counts are columns of their own."""
    keys = KeyCounts(current=row.keys_current, deleted=row.keys_deleted, withdrawn=row.keys_withdrawn)
    # In rows of earlier revisions both are NULL, and so they are where there is nothing to say.
    judged_at, taken = row.judged_at or row.first_seen_at, row.taken_as_first or {}
    on = {date.fromisoformat(day): many for day, many in (row.rejected_on or {}).items()}
    own = {"counts": _counts(row), "keys": keys, "judged_at": judged_at, "taken_as_first": taken, "rejected_on": on}
    return _import_fields(row, **own)


class ImportReads(Queries):
    """Landed files and their days."""

    def records(
        self,
        source: str | None = None,
        states: Iterable[ImportState] | None = None,
        *,
        limit: int | None = None,
    ) -> tuple[ImportRecord, ...]:
        """Landed files in the order of arrival.

        Cost: one row per landed file, chosen in the database.

        Args:
            limit: At most this many, the last ones.
        """
        chosen = select(imports).order_by(imports.c.arrival.desc()).limit(limit)
        if source is not None:
            chosen = chosen.where(imports.c.source == source)
        if states is not None:
            chosen = chosen.where(imports.c.state.in_(tuple(states)))
        return tuple(import_record(row) for row in reversed(self._rows(chosen)))

    def get(self, import_id: str) -> ImportRecord:
        """One landed file.

        Cost: one primary key lookup.

        Raises:
            UnknownName: There is none of this id.
        """
        return import_record(self._named(select(imports), imports.c.import_id, kind="import", name=import_id))

    def named(self, import_ids: Iterable[str]) -> Mapping[str, ImportRecord]:
        """Landed files by id; ids of none are absent. Cost: one primary key lookup per file."""
        found = self._rows_with(select(imports), imports.c.import_id, import_ids)
        return {row.import_id: import_record(row) for row in found}

    def with_sha(self, source: str, sha256: str) -> tuple[ImportRecord, ...]:
        """The files of a source that had exactly this content, in the order of arrival. Cost: one index lookup."""
        same_content = (imports.c.source == source) & (imports.c.sha256 == sha256)
        chosen = select(imports).where(same_content).order_by(imports.c.arrival)
        return tuple(import_record(row) for row in self._rows(chosen))

    def days(
        self,
        import_ids: Iterable[str] | None = None,
        *,
        source: str | None = None,
        days: Iterable[date] | None = None,
        states: Iterable[ImportState] | None = None,
    ) -> tuple[ImportDay, ...]:
        """The landed files that touch event dates, by arrival and date.

        Cost: one index range per batch of files or dates; one row per file and date.

        Args:
            states: Only files in one of these states; otherwise the days of failed ones are among them.
        """
        chosen = select(import_days, imports.c.arrival).join_from(
            import_days, imports, import_days.c.import_id == imports.c.import_id
        )
        if source is not None:
            chosen = chosen.where(imports.c.source == source)
        if states is not None:
            chosen = chosen.where(imports.c.state.in_(tuple(states)))
        ids = None if import_ids is None else list(import_ids)
        on_days = [chosen] if days is None else [chosen.where(import_days.c.event_date.in_(b)) for b in batches(days)]
        found = [row for some in on_days for row in self._rows_with(some, import_days.c.import_id, ids)]
        return tuple(map(import_day, sorted(found, key=lambda row: (row.arrival, row.event_date))))

    def rejecting(self, source: str) -> tuple[ImportRecord, ...]:
        """Landed files of a source that have rejected records, in the order of arrival. Cost: one row per such file."""
        wanted = (imports.c.source == source) & (imports.c.rejected > 0) & imports.c.state.in_(COUNTING)
        return tuple(map(import_record, self._rows(select(imports).where(wanted).order_by(imports.c.arrival))))

    def unknown_days(self, source: str) -> tuple[ImportDay, ...]:
        """The days of a source with keys that are not known, each with the file since which: by arrival and date.

        Cost: one pass over an index that holds nothing else.
        """
        chosen = (
            select(import_days)
            .join_from(import_days, imports, import_days.c.import_id == imports.c.import_id)
            .where(import_days.c.unknown > 0, imports.c.source == source, imports.c.state.in_(COUNTING))
            .order_by(imports.c.arrival, import_days.c.event_date)
        )
        return tuple(map(import_day, self._rows(chosen)))

    def became_unknown(self, source: str, days: Iterable[date], *, after: int) -> Mapping[date, int]:
        """Those of these days of which keys became not known after that event, with how many; they may be known again.

        Cost: one index range per batch of dates, and one per file that touches them.
        """
        of_files = import_days.join(imports, import_days.c.import_id == imports.c.import_id)
        landings = of_files.join(events, events.c.entity_id == imports.c.import_id)
        chosen = (
            select(events.c.sequence, events.c.payload)
            .select_from(landings)
            .where(imports.c.source == source, events.c.sequence > after, events.c.action == _LANDED)
        )
        wanted = {each.isoformat(): each for each in days}
        found = [row for some in batches(wanted.values()) for row in self._rows(chosen.where(_DAY.in_(some)))]
        unknown: dict[date, int] = {}
        for row in {row.sequence: row for row in found}.values():
            for day, keys in row.payload.get("unknown_on", {}).items():
                if day in wanted:
                    unknown[wanted[day]] = unknown.get(wanted[day], 0) + keys
        return unknown

    def keyless(self, source: str) -> int:
        """The number of rejected records of a source whose key cannot be read. Cost: one row per landed file."""
        wanted = (imports.c.source == source) & imports.c.state.in_(COUNTING)
        (found,) = self._rows(select(func.coalesce(func.sum(imports.c.keyless), 0)).where(wanted))
        return int(found[0])

    def event_dates(self) -> tuple[date, date] | None:
        """The first and the last date of an event that has landed; None when nothing has.

        Cost: one pass over the dates of all files.
        """
        return self._ends(import_days.c.event_date)

    def open_accounts(self) -> tuple[str, ...]:
        """Sources whose keys do not add up, one sentence each: ever accepted = current + deleted + withdrawn.

        While an import is landed again in its place, the sums are those of before and of after, so nothing is compared.

        Cost: one row per landed file.
        """
        records = self.records()
        live = [record for record in records if record.state in COUNTING]
        # Landed before, and being landed again in its place.
        unfinished = {r.source for r in records if r.landed_at is not None and r.state not in COUNTING}
        return tuple(
            f"the keys of {source} do not add up: {accepted:,} were accepted, {found.current:,} are current, "
            f"{found.deleted:,} deleted and {found.withdrawn:,} withdrawn."
            for source, (accepted, found) in sums_by_source(live).items()
            if source not in unfinished
            and (accepted != found.ever or min(found.current, found.deleted, found.withdrawn) < 0)
        )


_PATHS = ("original_path", "stored_path")
NO_KEYS = KeyCounts()
NOTHING_MOVED: Mapping[str, ImportCounts] = {}
NOTHING_TAKEN: Mapping[str, int] = {}
FATES = ("accepted", "duplicate", "superseded")
ENDINGS = ("displaced", "deleted", "withdrawn", "restored", "unknown")


class ImportWrites(ImportReads, Writes):
    """Landed files: begun, counted, loaded, failed and landed again."""

    def __init__(self, log: EventLog) -> None:
        super().__init__(log)
        self._leases = LeaseSteps(log)

    def begin(
        self, offered: LandedFile, *, on_duplicate: str = "ignore", actor: str, lease: LeaseTerms | None = None
    ) -> ImportRecord:
        """Takes a file in. It is LANDING and gets the next place in the order of arrival, over all sources.

        Cost: one index lookup, the rows of the import and its lease, and one event.
        """
        arrival = self._highest(imports.c.arrival) + 1
        import_id = f"imp-{arrival:06d}"
        taken_in = {
            "import_id": import_id,
            "arrival": arrival,
            **(row_of(offered) | {name: storable_text("the path", getattr(offered, name)) for name in _PATHS}),
            "state": ImportState.LANDING,
            "first_seen_at": self._log.now,
            "landed_by": one_line("the actor", actor),
            "on_duplicate": on_duplicate,
            "schema_versions": [],
            "ignored_columns": [],
            "note": "",
            "keyless": 0,
            **asdict(ImportCounts()),
        }
        self._log.write(insert(imports), [taken_in], of=[import_id])
        begun = {**asdict(offered), "on_duplicate": on_duplicate}
        landing = str(ImportState.LANDING)
        self._log.append(Event("import", import_id, "import_begun", actor=actor, to_state=landing, payload=begun))
        self._leases.take(import_id, lease, holder=actor)
        return self.get(import_id)

    def finish(
        self,
        import_id: str,
        *,
        counts: ImportCounts,
        days: Iterable[ImportDay],
        schema_versions: Sequence[int],
        ignored_columns: Sequence[str],
        actor: str,
        keyless: int = 0,
        keys: KeyCounts = NO_KEYS,
        moved_elsewhere: Mapping[str, ImportCounts] = NOTHING_MOVED,
        linked: Sequence[ImportDay] = (),
        note: str = "",
        attempt: str | None = None,
        contract: int = 1,
        conformed: FileSet | None = None,
        taken_as_first: Mapping[str, int] = NOTHING_TAKEN,
        reading: str | None = None,
        rejected_on: Mapping[date, int] | None = None,
    ) -> None:
        """The file is copied, checked and counted: LANDED.

        Cost: one row per event date, per file of which records have another fate now and per day linked, and one event.

        Args:
            keyless: How many of the rejected records have no key that can be read.
            keys: How many more keys of the source are current, deleted and withdrawn because of it.
            moved_elsewhere: How many more records of earlier files are accepted, duplicate and superseded now, by
                import id.
            linked: Days of earlier files that their records touch only now, because this file came between.
            note: Why it was taken in, where a person has to say that.
            attempt: Names the lease under which it was landed.
            contract: The version of its source's contract that its records are kept in.
            conformed: The files in which they are kept.
            taken_as_first: How many times of each column were taken as the first of the two that clocks have shown.
            reading: The digest of how its source declares that files are written.
            rejected_on: How many of its rejected records are of each day, as far as that is known.

        Raises:
            Refused: The counts do not reconcile, here or on a file whose records it moves.
        """
        if not counts.reconciles or min(asdict(counts).values()) < 0:
            raise Refused(
                f"the counts of {import_id} do not reconcile: {counts.landed} landed is not {counts.accepted} accepted "
                f"+ {counts.duplicate} duplicate + {counts.superseded} superseded + {counts.rejected} rejected."
            )
        self._leases.require(import_id, attempt)
        self._leases.drop(import_id)
        days = tuple(days)
        self._replace_days(import_id, days)
        self._move_records(moved_elsewhere)
        self._link_days(linked)
        moved = {
            other: {name: n for name, n in asdict(counts).items() if n} for other, counts in moved_elsewhere.items()
        }
        landed = {**asdict(counts), "keys": asdict(keys), "moved_elsewhere": moved, "contract": contract}
        landed |= {"keyless": keyless, "unknown": sum(day.unknown for day in days)}
        if reading:
            landed |= {"reading": reading}
        if taken_as_first:
            landed |= {"taken_as_first": dict(taken_as_first)}
        on_days = {day.isoformat(): many for day, many in sorted((rejected_on or {}).items())}
        landed |= {"rejected_on": on_days} if on_days else {}
        if unknown_on := _unknown_on((*days, *linked)):
            landed |= {"unknown_on": unknown_on}
        self._log.change(
            _step(import_id, ImportState.LANDING, ImportState.LANDED),
            Event("import", import_id, _LANDED, actor=actor, payload=landed),
            also={
                **asdict(counts),
                **{f"keys_{state}": n for state, n in asdict(keys).items()},
                "landed_at": self._log.now,
                "schema_versions": sorted(schema_versions),
                "ignored_columns": sorted(ignored_columns),
                "note": storable_text("the note", note),
                "contract": contract,
                "keyless": keyless,
                "conformed": conformed,
                # Without any, NULL, as in rows of earlier revisions.
                "taken_as_first": dict(taken_as_first) or None,
                "reading": reading,
                "rejected_on": on_days or None,
            },
        )

    def _replace_days(self, import_id: str, days: tuple[ImportDay, ...]) -> None:
        foreign = {day.import_id for day in days} - {import_id}
        if foreign:
            raise Refused(f"this is about {import_id}, and was given days of {first_few(sorted(foreign))}.")
        self._log.write(delete(import_days).where(import_days.c.import_id == import_id), of=[import_id])
        if days:
            self._log.write(insert(import_days), [asdict(day) for day in days], of=[import_id])

    def _move_records(self, moved: Mapping[str, ImportCounts]) -> None:
        """Records of other files have another fate now; none of them appear or disappear."""
        if not moved:
            return
        present = self._records_of(moved)
        changed = {
            other: {name: getattr(present[other].counts, name) + getattr(by, name) for name in FATES}
            for other, by in moved.items()
        }
        impossible = [
            other
            for other, by in moved.items()
            if min(changed[other].values()) < 0 or sum(getattr(by, name) for name in FATES) or by.landed or by.rejected
        ]
        if impossible:
            what = f"more records were superseded than were ever accepted, of {first_few(sorted(impossible))}."
            raise Damaged(what=what, of={"import_ids": tuple(impossible)})
        self._log.write(
            update(imports)
            .where(imports.c.import_id == bindparam("of_import"))
            .values({name: bindparam(f"now_{name}") for name in FATES}),
            [
                {"of_import": other, **{f"now_{name}": n for name, n in counts.items()}}
                for other, counts in changed.items()
            ],
            of=changed,
        )

    def _link_days(self, linked: Sequence[ImportDay]) -> None:
        """Adds to the days of other files."""
        others = sorted({day.import_id for day in linked})
        known = {(day.import_id, day.event_date): day for day in self.days(others)} if others else {}
        for day in linked:
            before = known.get((day.import_id, day.event_date))
            counts = {name: max(0, getattr(day, name) + (getattr(before, name) if before else 0)) for name in ENDINGS}
            place = {"import_id": day.import_id, "event_date": day.event_date}
            if before is None:
                self._log.write(insert(import_days).values(**place, events=0, **counts), of=[day.import_id])
            else:
                here = (import_days.c.import_id == day.import_id) & (import_days.c.event_date == day.event_date)
                self._log.write(update(import_days).where(here).values(**counts), of=[day.import_id])

    def recount(self, counts: Mapping[str, ImportCounts], *, because: str, actor: str) -> None:
        """The records of these files were counted again, after another file was reprocessed in its place among them.

        Cost: one row and one event per file.

        Args:
            counts: The counts that hold now, by import id.
            because: The import that was reprocessed.

        Raises:
            Refused: The counts of a file do not reconcile.
        """
        self._records_of(counts)
        for import_id, found in counts.items():
            if not found.reconciles or min(asdict(found).values()) < 0:
                raise Refused(f"the counts of {import_id} do not reconcile: {asdict(found)}.")
            changed = update(imports).where(imports.c.import_id == import_id).values(**asdict(found))
            self._log.write(changed, of=[import_id])
        self._log.append(
            *(
                Event("import", name, "import_recounted", actor=actor, payload={**asdict(found), "because": because})
                for name, found in counts.items()
            )
        )

    def fail(self, import_id: str, *, note: str, actor: str, attempt: str | None = None) -> None:
        """Landing stopped; nothing of the file is used. Cost: the rows of the import and its lease, and one event."""
        self._leases.require(import_id, attempt)
        self._leases.drop(import_id)
        self._log.change(
            _step(import_id, ImportState.LANDING, ImportState.FAILED),
            Event("import", import_id, "import_failed", actor=actor, payload={"note": note}),
            also={"note": storable_text("the note", note)},
        )

    def reopen(
        self, import_id: str, how: str, actor: str, *, lease: LeaseTerms | None = None, at: datetime | None = None
    ) -> None:
        """Reopens the import of a file that is landed once more, judged `at` a moment or now, in its place of
        arrival. Cost: as `fail`."""
        self._log.change(
            _step(import_id, self.get(import_id).state, ImportState.LANDING),
            Event("import", import_id, "import_reopened", actor=actor, payload={"on_duplicate": how}),
            also={"on_duplicate": how, "note": "", "judged_at": at or self._log.now},
        )
        self._leases.take(import_id, lease, holder=actor)

    def mark_loaded(self, import_ids: Iterable[str], *, actor: str) -> None:
        """The days of these files are in bronze. Files that are LOADED already stay so.

        Cost: one primary key lookup per file; one row and one event per file that is not LOADED yet.

        Raises:
            UnknownName: There is no such import.
            IllegalTransition: One of them is neither LANDED nor LOADED.
        """
        states = {import_id: found.state for import_id, found in self._records_of(import_ids).items()}
        landed = [import_id for import_id, state in states.items() if state is not ImportState.LOADED]
        for import_id in landed:
            if states[import_id] is not ImportState.LANDED:
                raise _step(import_id, ImportState.LANDED, ImportState.LOADED).refusal(states[import_id])
        for batch in batches(landed):
            are_landed = imports.c.import_id.in_(batch) & (imports.c.state == ImportState.LANDED)
            changed = self._log.write(update(imports).where(are_landed).values(state=ImportState.LOADED), of=batch)
            if changed.rowcount != len(batch):
                raise CannotBecome(name=first_few(batch), found=None, wanted=ImportState.LOADED, of={})
        was, now = str(ImportState.LANDED), str(ImportState.LOADED)
        loaded = (Event("import", each, "import_loaded", actor=actor, from_state=was, to_state=now) for each in landed)
        self._log.append(*loaded)

    def _records_of(self, import_ids: Iterable[str]) -> Mapping[str, ImportRecord]:
        """These landed files, in the order in which they are named; one that is not there is an error."""
        wanted = list(dict.fromkeys(import_ids))
        found = self.named(wanted)
        if missing := sorted(set(wanted) - found.keys()):
            raise NotInLedger(kind="import", name=missing[0])
        return {import_id: found[import_id] for import_id in wanted}


def _unknown_on(days: Iterable[ImportDay]) -> Mapping[str, int]:
    """The number of keys of each day that became unknown."""
    found: dict[str, int] = {}
    for day in days:
        if day.unknown > 0:
            found[day.event_date.isoformat()] = found.get(day.event_date.isoformat(), 0) + day.unknown
    return found


def _step(import_id: str, begins: ImportState, ends: ImportState) -> Step:
    return Step(table=imports, key={"import_id": import_id}, name=f"import {import_id}", begins=begins, ends=ends)
