"""Acts on versions of tables: which table the readers of a name are shown, and which versions are kept up to date.

A name is that of a table with versions. Its readers are shown the table itself until they are cut over to another one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import cache
from typing import Any

from sqlalchemy import Select, and_, delete, func, insert, select

from backfill_assets.core.columns import ColumnChange
from backfill_assets.core.errors import IllegalTransition, NotApproved, TargetChanged
from backfill_assets.core.identity import plain
from backfill_assets.ledger.approvals import ApprovalSteps, row_without_approval, with_approval
from backfill_assets.ledger.errors import ActRefused, loosened_words
from backfill_assets.ledger.events import Event, EventLog, Step, Writes
from backfill_assets.ledger.queries import Queries, batches, read_as, row_of
from backfill_assets.ledger.recorded_text import one_line, required_text
from backfill_assets.ledger.records import TableAct
from backfill_assets.ledger.schema import compared_days, compared_partitions, events, table_acts
from backfill_assets.ledger.states import ActState, RequestKind
from backfill_assets.planning.safeguards import Policy

# Comparisons of versions of a table with what readers are shown: the latest one of each partition, and by day.


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
    is_clean: bool  #: True if no comparison of the day found a difference that was not expected.


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


ENTITY = "table act"
_ASKED = "act_asked"


@dataclass(frozen=True, slots=True, kw_only=True)
class ActRecord:
    """An act on a version of a table."""

    act_id: str  #: `act-` and a number.
    act: TableAct  #: What is done.
    name: str  #: The table whose readers it concerns.
    table: str  #: The version: the one that is kept up to date, that readers are shown, or that is given up.
    from_table: str  #: Of a cut-over, the table that readers were shown when it was asked for; empty otherwise.
    state: ActState  #: How far it is.
    by: str  #: Who asked for it.
    asked_at: datetime  #: When.
    reason: str  #: Why.
    policy: Policy  #: The policy of the name when it was asked for.
    waits: bool  #: True if it is only done with the approval of another person.
    approved_by: str | None = None  #: Who approved it; null before, and where no approval is required.
    approved_at: datetime | None = None  #: When.
    done_at: datetime | None = None  #: When it was done.
    done_sequence: int | None = None  #: The event that did it.
    undone_at: datetime | None = None  #: When readers were shown the earlier table again.


_act = read_as(ActRecord)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownPeriod:
    """A time during which the readers of a name were shown one table."""

    since: datetime | None  #: When it began; null from the beginning.
    until: datetime | None  #: When it ended; null while it lasts.
    #: The cut-over that holds during it; null where none does, and readers are shown the table of that name.
    by: ActRecord | None


@cache
def _acts() -> Select[*tuple[Any, ...]]:
    return with_approval(table_acts.c.act_id)


class TableActReads(Queries):
    """Acts on versions of tables."""

    def records(self, name: str | None = None) -> tuple[ActRecord, ...]:
        """Acts in the order in which they were asked for.

        Cost: one row per act.

        Args:
            name: Only those that concern readers of this table.
        """
        chosen = _acts().order_by(table_acts.c.number)
        return tuple(map(_act, self._rows(chosen if name is None else chosen.where(table_acts.c.name == name))))

    def get(self, act_id: str) -> ActRecord:
        """One act.

        Cost: one primary key lookup.

        Raises:
            UnknownName: There is none of this id.
        """
        return _act(self._named(_acts(), table_acts.c.act_id, kind="act", name=act_id))

    def columns(self, act_id: str) -> tuple[ColumnChange, ...]:
        """The changes of the columns that readers see with an act, as they were when it was asked for.

        Cost: one index range of events.
        """
        recorded = select(events.c.payload).where(events.c.entity_id == act_id, events.c.action == _ASKED)
        return tuple(ColumnChange(**each) for payload in self._values(recorded) for each in payload.get("columns", ()))

    def shown(self, name: str, at: datetime | None = None) -> str:
        """The table that the readers of a name are shown: now, or at an instant.

        Cost: one row per cut-over of the name.
        """
        last = self.last_cut_over(name, at)
        return last.table if last else name

    def names_shown(self, table: str) -> tuple[str, ...]:
        """The other names whose readers are shown a table.

        Cost: as `shown`, by each name whose readers were ever shown it.
        """
        ever = {each.name for each in self._done(TableAct.CUT_OVER) if each.table == table}
        return tuple(sorted(name for name in ever - {table} if self.shown(name) == table))

    def last_cut_over(self, name: str, at: datetime | None = None) -> ActRecord | None:
        """The cut-over that decides what the readers of a name are shown, now or at an instant; None before the first.

        Cost: one row per cut-over of the name.
        """
        found = [each for each in self._done(TableAct.CUT_OVER, name) if _holds(each, at)]
        return max(found, key=lambda each: each.done_sequence or 0) if found else None

    def periods_shown(self, name: str, table: str) -> tuple[ShownPeriod, ...]:
        """When the readers of a name were shown a table, in order.

        Cost: as `shown`.
        """
        acts = self._done(TableAct.CUT_OVER, name)
        moments = sorted({moment for each in acts for moment in (each.done_at, each.undone_at) if moment is not None})
        last = {moment: self.last_cut_over(name, moment) for moment in moments}
        begun: list[tuple[datetime | None, ActRecord | None]] = [(None, None), *last.items()]
        ends = [*moments, None]
        return tuple(
            ShownPeriod(since=since, until=until, by=act)
            for (since, act), until in zip(begun, ends, strict=True)
            if (act.table if act else name) == table
        )

    def were_shown(self, name: str) -> frozenset[str]:
        """Every table that readers of a name were ever shown.

        Cost: as `shown`.
        """
        return frozenset({name, *(each.table for each in self._done(TableAct.CUT_OVER, name))})

    def retired(self) -> Mapping[str, ActRecord]:
        """The tables that were given up for good, with the act.

        Cost: one row per such act.
        """
        return {each.table: each for each in self._done(TableAct.RETIRE)}

    def require_kept(self, table: str) -> None:
        """Refuses what concerns a table that was given up for good.

        Cost: as `retired`.

        Raises:
            IllegalTransition: It was given up.
        """
        if (by := self.retired().get(table)) is not None:
            raise IllegalTransition.coded(
                "retired",
                "{table} was given up for good by {act_id}.",
                then="[shadow status {table}]",
                table=table,
                act_id=by.act_id,
            )

    def stopped(self) -> frozenset[str]:
        """The tables that are not kept up to date any more.

        Cost: one row per start and stop.
        """
        last: dict[str, ActRecord] = {}
        for kind in (TableAct.START, TableAct.STOP):
            for each in self._done(kind):
                if each.table not in last or (each.done_sequence or 0) > (last[each.table].done_sequence or 0):
                    last[each.table] = each
        return frozenset(name for name, each in last.items() if each.act is TableAct.STOP) | self.retired().keys()

    def started_at(self, table: str) -> datetime | None:
        """Since when a version is kept up to date; None if that was never begun.

        Cost: one row per start.
        """
        return max(
            (each.done_at for each in self._done(TableAct.START) if each.table == table and each.done_at), default=None
        )

    def _done(self, act: TableAct, name: str | None = None) -> list[ActRecord]:
        held = table_acts
        chosen = _acts().where(held.c.act == act, held.c.done_sequence.is_not(None))
        return list(map(_act, self._rows(chosen if name is None else chosen.where(held.c.name == name))))


def _holds(act: ActRecord, at: datetime | None) -> bool:
    if at is None:
        return act.state is ActState.DONE
    return act.done_at is not None and act.done_at <= at and (act.undone_at is None or act.undone_at > at)


class TableActWrites(TableActReads, Writes):
    """Acts on versions of tables: asked for, done and undone."""

    def ask(
        self,
        act: TableAct,
        *,
        name: str,
        table: str,
        policy: Policy,
        waits: bool,
        by: str,
        reason: str,
        columns: tuple[ColumnChange, ...] = (),
    ) -> ActRecord:
        """Records that a person asks for an act; nothing is done yet.

        Cost: one row, one event, and one row per cut-over of the name.

        Args:
            columns: How the columns that readers see change with it.

        Raises:
            IllegalTransition: Readers are shown the table already, or it was given up.
        """
        shown = self.shown(name)
        if act in (TableAct.CUT_OVER, TableAct.RETIRE) and shown == table:
            raise _already_shown(act, table, name)
        self.require_kept(table)
        number = self._highest(table_acts.c.number) + 1
        record = ActRecord(
            act_id=RequestKind.ACT.id_of(number),
            act=act,
            name=name,
            table=table,
            from_table=shown if act is TableAct.CUT_OVER else "",
            state=ActState.ASKED,
            by=one_line("the actor", by),
            asked_at=self._log.now,
            reason=required_text("the reason", reason),
            policy=policy,
            waits=waits,
        )
        row = row_without_approval(record, number=number)
        self._log.write(insert(table_acts).values(row), of=[record.act_id])
        ApprovalSteps(self._log).begin(record.act_id)
        payload = {"act": act, "name": name, "table": table, "from": record.from_table, "reason": reason}
        payload |= {"columns": plain(columns)} if columns else {}
        self._log.append(Event(ENTITY, record.act_id, _ASKED, actor=by, payload=payload))
        return record

    def carry_out(
        self,
        act_id: str,
        *,
        by: str,
        waits: bool = False,
        loosened: tuple[str, ...] = (),
        unsure: tuple[str, ...] = (),
    ) -> ActRecord:
        """Does what was asked for: of a cut-over, readers are shown the other table from here on.

        Cost: as `ask`.

        Args:
            by: Who does it.
            waits: Whether it requires an approval by now, if it did not when it was asked for.
            loosened: What the approver agrees to as well, for a refusal.
            unsure: Of these, what may be stricter, which cannot be known.

        Raises:
            IllegalTransition: It is done or cancelled already, or one of the tables was given up.
            NotApproved: It waits for an approval.
            TargetChanged: Readers are shown another table than when it was asked for.
        """
        found = self.get(act_id)
        self.require_kept(found.table)
        if (found.waits or waits) and found.approved_by is None:
            raise NotApproved.coded(
                "act_not_approved",
                "{act_id} is not approved; {requester} asked for it, so another person has to agree{to_what}.",
                then="[approve {act_id} by=ANOTHER_PERSON]",
                act_id=act_id,
                requester=found.by,
                to_what=f": {loosened_words(loosened, unsure)}" if loosened else "",
            )
        if found.state is ActState.ASKED:
            shown = self.shown(found.name)
            if found.act is TableAct.CUT_OVER and shown != found.from_table:
                raise TargetChanged.coded(
                    "other_table_shown",
                    "{act_id} was asked for while readers of {name} were shown {expected}, and they "
                    "are shown {found} now.",
                    then="[shadow status {name}]",
                    act_id=act_id,
                    name=found.name,
                    expected=found.from_table,
                    found=shown,
                )
            if found.act is TableAct.RETIRE and shown == found.table:
                raise _already_shown(found.act, found.table, found.name)
        also = {"done_at": self._log.now, "done_sequence": self._log.next_sequence}
        move_act(self._log, act_id, ActState.DONE, "act_done", by, {"table": found.table}, also)
        return self.get(act_id)

    def undo(self, act_id: str, *, by: str, reason: str) -> ActRecord:
        """Shows readers the table again that a cut-over took them from.

        Cost: as `ask`.

        Raises:
            IllegalTransition: It is no cut-over that holds, a later one follows it, or the earlier table was given up.
        """
        found = self.get(act_id)
        if found.act is not TableAct.CUT_OVER:
            raise ActRefused(act=act_id, name=found.name, why="cannot be undone: it is not a cut-over")
        if found.state is ActState.DONE:
            last = self.last_cut_over(found.name)
            if last is None or last.act_id != act_id:
                why = f"cannot be undone: it was followed by {last and last.act_id}"
                raise ActRefused(act=act_id, name=found.name, why=why)
            self.require_kept(found.from_table)
        payload = {"table": found.from_table, "reason": required_text("the reason", reason)}
        move_act(self._log, act_id, ActState.UNDONE, "act_undone", by, payload, {"undone_at": self._log.now})
        return self.get(act_id)


def _already_shown(act: TableAct, table: str, name: str) -> ActRefused:
    return ActRefused(act=f"{act} of {table}", name=name, why=f"cannot be: readers of {name} are shown it")


def move_act(
    log: EventLog,
    act_id: str,
    to: ActState,
    action: str,
    by: str,
    payload: Mapping[str, object],
    also: Mapping[str, object] | None = None,
) -> None:
    """An act is done, undone or cancelled."""
    begins = ActState.DONE if to is ActState.UNDONE else ActState.ASKED
    step = Step(table=table_acts, key={"act_id": act_id}, name=f"act {act_id}", begins=begins, ends=to)
    log.change(step, Event(ENTITY, act_id, action, actor=one_line("the actor", by), payload=payload), also=also)
