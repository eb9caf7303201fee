"""Reads of imports: landed files, their content, and the days that they touch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date

from sqlalchemy import func, select

from backfill_assets.errors import UnknownName
from backfill_assets.ledger.import_records import ImportDay, ImportRecord
from backfill_assets.ledger.import_rows import import_day, import_record
from backfill_assets.ledger.queries import Queries, batches, optional_batches
from backfill_assets.ledger.schema import import_days, imports
from backfill_assets.ledger.states import ImportState
from backfill_assets.next_steps import Act, do


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
            source: Only those of this source.
            states: Only those in one of these states.
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
        row = self._row(select(imports).where(imports.c.import_id == import_id))
        if row is None:
            raise unknown_import(import_id)
        return import_record(row)

    def named(self, import_ids: Iterable[str]) -> Mapping[str, ImportRecord]:
        """Landed files by id; ids of none are absent.

        Cost: one primary key lookup per file.
        """
        chosen = select(imports)
        found = (self._rows(chosen.where(imports.c.import_id.in_(some))) for some in batches(import_ids))
        return {row.import_id: import_record(row) for rows in found for row in rows}

    def with_sha(self, source: str, sha256: str) -> tuple[ImportRecord, ...]:
        """The files of a source that had exactly this content, in the order of arrival.

        Cost: one index lookup.
        """
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
        """Which landed files touch which event dates, by arrival and date.

        Cost: one index range per batch of files or dates; one row per file and date.

        Args:
            import_ids: Only these files.
            source: Only files of this source.
            days: Only these event dates.
            states: Only files in one of these states; otherwise the days of failed ones are among them.
        """
        chosen = select(import_days, imports.c.arrival).join_from(
            import_days, imports, import_days.c.import_id == imports.c.import_id
        )
        if source is not None:
            chosen = chosen.where(imports.c.source == source)
        if states is not None:
            chosen = chosen.where(imports.c.state.in_(tuple(states)))
        day_batches = list(optional_batches(days))
        found: list[tuple[int, ImportDay]] = []
        for id_batch in optional_batches(import_ids):
            of_files = chosen if id_batch is None else chosen.where(import_days.c.import_id.in_(id_batch))
            for day_batch in day_batches:
                some = of_files if day_batch is None else of_files.where(import_days.c.event_date.in_(day_batch))
                found.extend((row.arrival, import_day(row)) for row in self._rows(some))
        return tuple(day for _, day in sorted(found, key=lambda each: (each[0], each[1].event_date)))

    def first_event_date(self) -> date | None:
        """The earliest date of an event that has landed; None when nothing has.

        Cost: one pass over the dates of all files.
        """
        return next((row.first for row in self._rows(select(func.min(import_days.c.event_date).label("first")))), None)


def unknown_import(import_id: str) -> UnknownName:
    """The error for a file that never landed."""
    return UnknownName(f"there is no import {import_id!r}.", next_step=do(Act.STATUS), import_id=import_id)
