"""Freezes: partitions of a table over which nothing is published by itself until an instant.

What was planned before stays planned, and what publications ask for stays asked for: both wait. A freeze ends at its
instant without a further write, or earlier when a person ends it. It never lets a run do more than without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime

from sqlalchemy import insert, select, update

from backfill_assets.calendar.partitions import DayRange, Grain, Partitions, days_of, partitions_over
from backfill_assets.core.errors import IllegalTransition
from backfill_assets.core.people import require_person
from backfill_assets.ledger import errors
from backfill_assets.ledger.events import Event, Writes
from backfill_assets.ledger.publications import PublicationReads
from backfill_assets.ledger.queries import COLUMNS, Queries, read_as, row_of
from backfill_assets.ledger.recorded_text import one_line
from backfill_assets.ledger.schema import freezes, manifests, runs
from backfill_assets.ledger.states import FINISHED
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.manifest_parts import CauseKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Freeze:
    """Partitions of a table over which runs wait."""

    freeze_id: str  #: Names it.
    table: str  #: The table.
    grain: Grain  #: Whether a partition is a day or a month.
    first: date  #: The first frozen partition.
    last: date  #: The last one.
    until: datetime  #: When it ends, unless a person ends it earlier.
    #: The one run or set that may be published meanwhile; null where every run that a person ordered may.
    only: str | None
    by: str  #: Who froze them.
    reason: str  #: Why.
    since: datetime  #: From when on.

    @property
    def partitions(self) -> Partitions:
        """The frozen partitions."""
        days = DayRange(self.first, days_of(self.grain, self.last).end)
        return Partitions(self.grain, partitions_over(self.grain, days))

    def keeps(self, partitions: Iterable[date]) -> tuple[date, ...]:
        """The given partitions that are frozen."""
        return tuple(partition for partition in partitions if self.first <= partition <= self.last)

    def stops(self, manifest: Manifest) -> bool:
        """True if a run has to wait: one that no person ordered, and with `only` every other one.

        Who ordered a run is its cause, which the ledger has checked; a name that somebody types decides nothing.
        """
        if manifest.table != self.table or not self.keeps(manifest.partitions):
            return False
        if self.only is not None:
            return self.only not in (manifest.run_id, manifest.request_id)
        return manifest.cause.kind is not CauseKind.PERSON


_COLUMNS = {
    **COLUMNS,
    "first": "first_partition",
    "last": "last_partition",
    "until": "until_at",
    "only": "only_run",
    "since": "begun_at",
}
_freeze = read_as(Freeze, **_COLUMNS)


class FreezeReads(Queries):
    """The freezes that have not ended."""

    def standing(self, *, at: datetime, table: str | None = None) -> tuple[Freeze, ...]:
        """The freezes that hold at an instant, the first to end first.

        Cost: one index range: those that no person has ended, of the table.
        """
        chosen = select(freezes).where(freezes.c.ended_at.is_(None), freezes.c.until_at > at)
        if table is not None:
            chosen = chosen.where(freezes.c.table_name == table)
        return tuple(map(_freeze, self._rows(chosen.order_by(freezes.c.until_at, freezes.c.freeze_id))))

    def stopping(self, manifest: Manifest, *, at: datetime) -> Freeze | None:
        """The freeze for which a run waits, the one that ends last; None when it waits for none.

        Cost: as `standing`, of its table.
        """
        found = [each for each in self.standing(at=at, table=manifest.table) if each.stops(manifest)]
        return found[-1] if found else None

    def over(self, table: str, partitions: Iterable[date], *, at: datetime) -> Mapping[date, Freeze]:
        """The frozen ones of these partitions, each with the freeze that ends last.

        Cost: as `standing`, of the table.
        """
        asked = tuple(partitions)
        standing = self.standing(at=at, table=table) if asked else ()
        found = {partition: each for each in standing for partition in each.keeps(asked)}
        return {partition: found[partition] for partition in asked if partition in found}


class FreezeWrites(FreezeReads, Writes):
    """Begins and ends freezes."""

    def begin(self, freeze: Freeze) -> None:
        """Writes a freeze down. Nothing that it stops is published from then on.

        Cost: one row and one event.

        Raises:
            Refused: A name or a reason is missing, or what is to be published meanwhile is not in the ledger.
            IllegalTransition: It would have ended already, or a publication of the table has begun and is not recorded;
                what is to be published meanwhile has nothing to publish in it, or another freeze lets another one pass.
        """
        require_person("the one who freezes", one_line("the one who freezes", freeze.by))
        reason = one_line("the reason", freeze.reason)
        if freeze.until <= self._log.now:
            raise IllegalTransition.coded(
                "freeze_would_have_ended",
                "a freeze until {until} UTC would have ended already: it is {now} UTC.",
                then="name a later instant with [until=TIME]",
                until=f"{freeze.until:%Y-%m-%d %H:%M}",
                now=f"{self._log.now:%Y-%m-%d %H:%M}",
            )
        if freeze.only:
            self._require_of_use(freeze, freeze.only)
        # A swap under way may land at any moment, so that it would not be known what the freeze has kept.
        PublicationReads(self._connection).require_none_open(freeze.table)
        row = row_of(freeze, _COLUMNS, reason=reason, begun_at=self._log.now)
        self._log.write(insert(freezes).values(row), of=[freeze.freeze_id])
        said = {
            "table": freeze.table,
            "first": freeze.first.isoformat(),
            "last": freeze.last.isoformat(),
            "until": freeze.until.isoformat(),
            "only": freeze.only,
            "reason": reason,
        }
        self._log.append(Event("freeze", freeze.freeze_id, "frozen", actor=freeze.by, payload=said))

    def _require_of_use(self, freeze: Freeze, only: str) -> None:
        """Refuses a freeze for a run or a set that it could not let pass."""
        if not self._row(select(manifests.c.run_id).where(manifests.c.run_id == only)):
            raise errors.NotInLedger(kind="run or set", name=only)
        own = self._rows(
            select(runs.c.state).where(
                (runs.c.run_id == only) | (runs.c.request_id == only), runs.c.table_name == freeze.table
            )
        )
        why = ""
        if not own:
            why = f"it does not change {freeze.table}"
        elif all(row.state in FINISHED for row in own):
            why = f"it is {own[-1].state}"
        if why:
            raise IllegalTransition.coded(
                "not_for_this",
                "a freeze of {table} {partitions} cannot be for {name}: {why}.",
                then="name a run or a set that is to be published meanwhile, or leave [for=True] out",
                table=freeze.table,
                partitions=freeze.partitions,
                name=only,
                why=why,
            )
        for each in self.standing(at=self._log.now, table=freeze.table):
            if each.only not in (None, only) and each.keeps(freeze.partitions):
                raise IllegalTransition.coded(
                    "frozen_for_another",
                    "{table} {partitions} is frozen by {freeze_id} for {only} alone: with a freeze "
                    "for {name} neither could pass.",
                    then="end that one first: [unfreeze {freeze_id} by=NAME reason=WHY]",
                    table=each.table,
                    partitions=each.partitions,
                    freeze_id=each.freeze_id,
                    only=each.only,
                    name=only,
                )

    def end(self, freeze_id: str, *, by: str, reason: str) -> Freeze:
        """A person ends a freeze before its time: its author or another one.

        Cost: one row and one event.

        Raises:
            UnknownName: There is no such freeze.
            IllegalTransition: It has ended already.
            Refused: A name or a reason is missing.
        """
        require_person("the one who ends the freeze", one_line("the one who ends the freeze", by))
        why = one_line("the reason", reason)
        found = _freeze(self._named(select(freezes), freezes.c.freeze_id, kind="freeze", name=freeze_id))
        holds = (freezes.c.freeze_id == freeze_id, freezes.c.ended_at.is_(None), freezes.c.until_at > self._log.now)
        ended = update(freezes).where(*holds).values(ended_at=self._log.now, ended_by=by)
        if self._log.write(ended, of=[freeze_id]).rowcount != 1:
            raise errors.Ended(kind="freeze", name=freeze_id, why="has ended already")
        self._log.append(Event("freeze", freeze_id, "unfrozen", actor=by, payload={"reason": why}))
        return found
