"""Comparisons of versions of a table with what readers are shown: the latest one of each partition, and by day."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from sqlalchemy import and_, delete, func, insert, select

from backfill_assets.ledger.events import Event, Writes
from backfill_assets.ledger.queries import Queries, batches
from backfill_assets.ledger.rows import read_as, row_of
from backfill_assets.ledger.schema import compared_days, compared_partitions


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedPartition:
    """One partition of a version, compared with the same partition of the table that readers are shown, by key."""

    table: str  #: The version.
    partition: date  #: The partition.
    with_table: str  #: The table that readers are shown.
    version: int  #: The accepted partition version; 0 for none.
    with_version: int  #: That of the other table; 0 for none.
    agreed: int  #: Keys with the same values on both sides.
    changed: int  #: Keys with other values.
    only_here: int  #: Keys that only the version has.
    only_there: int  #: Keys that only the table that readers are shown has.
    explained: int  #: How many of the differing keys were expected to differ.
    terms: str  #: The digest of what was expected to differ, and of the compared columns.

    @property
    def differing(self) -> int:
        """Keys that do not agree."""
        return self.changed + self.only_here + self.only_there

    @property
    def is_clean(self) -> bool:
        """True if both sides have the partition, and every difference was expected."""
        return self.version > 0 and self.with_version > 0 and self.differing == self.explained


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedDay:
    """The result of comparing all partitions of a version on a day."""

    table: str  #: The version.
    compared_on: date  #: The day, in UTC.
    with_table: str  #: The table that readers were shown.
    compared_at: datetime  #: When it was compared last.
    partition_count: int  #: How many partitions.
    agreed: int  #: Keys with the same values on both sides.
    differing: int  #: Other keys.
    explained: int  #: How many of these were expected to differ.
    is_clean: bool  #: Whether no comparison of the day found a difference that was not expected.


_partition, _day = read_as(ComparedPartition), read_as(ComparedDay)


class ComparisonReads(Queries):
    """Comparisons of versions of a table."""

    def partitions(self, table: str) -> Mapping[date, ComparedPartition]:
        """The latest comparison of every partition of a version, in their order.

        Cost: one row per compared partition.
        """
        held = compared_partitions
        chosen = select(held).where(held.c.table_name == table).order_by(held.c.partition_date)
        return {each.partition: each for each in map(_partition, self._rows(chosen))}

    def days(self, table: str) -> tuple[ComparedDay, ...]:
        """The days on which a version was compared, in order.

        Cost: one row per day.
        """
        held = compared_days
        return tuple(map(_day, self._rows(select(held).where(held.c.table_name == table).order_by("compared_on"))))

    def clean_days(self, table: str, with_table: str, *, since: datetime | None) -> int:
        """On how many days in a row, up to the last comparison, every difference was expected.

        A day without a comparison ends the row, and so does one on which readers were shown another table.

        Cost: one row per day.

        Args:
            table: The version.
            with_table: The table that readers are shown.
            since: Days before this instant do not count; None for all.
        """
        count, expected = 0, None
        for day in reversed(self.days(table)):
            is_next = expected is None or day.compared_on == expected
            begun = since is None or day.compared_on >= since.date()
            if not (day.is_clean and is_next and begun and day.with_table == with_table):
                break
            count, expected = count + 1, day.compared_on - timedelta(days=1)
        return count


class ComparisonWrites(ComparisonReads, Writes):
    """Comparisons, as they are made."""

    def record(
        self, table: str, with_table: str, found: Iterable[ComparedPartition], *, gone: Collection[date], by: str
    ) -> ComparedDay:
        """Replaces comparisons of partitions by newer ones, and adds up all of the table for this day.

        Cost: all compared partitions of the table are read for their digest, and added up in the database; one event.

        Args:
            table: The version.
            with_table: The table that readers are shown.
            found: Partitions that were compared now.
            gone: Partitions that neither side has any more.
            by: Who compared.
        """
        held, made = compared_partitions, tuple(found)
        for batch in batches([*(each.partition for each in made), *gone]):
            old = and_(held.c.table_name == table, held.c.partition_date.in_(batch))
            self._log.write(delete(held).where(old), of=[table])
        if made:
            self._log.write(insert(held), [row_of(each) for each in made], of=[table])
        differing = held.c.changed + held.c.only_here + held.c.only_there
        sums = select(
            func.count().label("partition_count"),
            *(
                func.coalesce(func.sum(each), 0).label(name)
                for name, each in (("agreed", held.c.agreed), ("differing", differing), ("explained", held.c.explained))
            ),
        ).where(held.c.table_name == table)
        unclean = (held.c.version == 0) | (held.c.with_version == 0) | (differing != held.c.explained)
        bad = int(self._values(select(func.count()).select_from(held).where(held.c.table_name == table, unclean))[0])
        (row,) = self._rows(sums)
        today = self._log.now.date()
        earlier = [day for day in self.days(table) if day.compared_on == today]
        day = ComparedDay(
            table=table,
            compared_on=today,
            with_table=with_table,
            compared_at=self._log.now,
            partition_count=row.partition_count,
            agreed=int(row.agreed),
            differing=int(row.differing),
            explained=int(row.explained),
            is_clean=bool(row.partition_count) and bad == 0 and all(each.is_clean for each in earlier),
        )
        days = compared_days
        self._log.write(delete(days).where(days.c.table_name == table, days.c.compared_on == today), of=[table])
        self._log.write(insert(days).values(row_of(day)), of=[table])
        payload = {
            "with": with_table,
            "partitions": day.partition_count,
            "compared": len(made),
            "agreed": day.agreed,
            "differing": day.differing,
            "explained": day.explained,
            "is_clean": day.is_clean,
        }
        self._log.append(Event(actor=by, entity="comparison", entity_id=table, action="compared", payload=payload))
        return day
