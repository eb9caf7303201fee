"""A model of a table and a version of it in pandas: what each holds, what readers are shown, and what is refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta

import pandas as pd

from backfill_assets_tests.support.shop import RECENT
from backfill_assets_tests.support.version_shop import V2

FACTOR = {RECENT: 2, V2: 1}
"""What amounts are multiplied by: the table has the release that doubles them, the version the other one."""

BACK, AHEAD = timedelta(days=2), timedelta(days=1)


@dataclass(frozen=True, kw_only=True)
class Day:
    """A day of a table: its amount, and which versions of the sales it was computed from."""

    amount: int
    read: tuple[int, ...]


@dataclass(kw_only=True)
class VersionModel:
    """What is published, and what was."""

    sales: pd.DataFrame  #: Every sale that landed.
    versions: dict[date, int]  #: How often the sales of a day were built.
    tables: dict[str, dict[date, Day]] = field(default_factory=lambda: {RECENT: {}, V2: {}})  #: The days of each table.
    #: By run, what its publication replaced; the last one of a table can be undone.
    undo: dict[str, list[tuple[str, Mapping[date, Day | None]]]] = field(default_factory=lambda: {RECENT: [], V2: []})
    #: What readers were shown before each cut-over that holds, by act.
    cut_overs: list[tuple[str, str]] = field(default_factory=list)
    shown: str = RECENT  #: The table that readers are shown.
    #: What the table of a run held after its publication, by run.
    then: dict[str, tuple[str, Mapping[date, int]]] = field(default_factory=dict)

    def land(self, day: date, sale_id: str, amount: int) -> None:
        """A sale lands, and its day is built."""
        late = pd.DataFrame([(day, sale_id, amount)], columns=self.sales.columns)
        self.sales = pd.concat([self.sales, late], ignore_index=True)
        self.versions[day] += 1

    def publish(self, run_id: str, table: str, days: Iterable[date]) -> None:
        """A run is published; days that come out equal stay, and are known to follow from the present."""
        before: dict[date, Day | None] = {}
        is_changed = False
        for day in days:
            now, held = self._computed(table, day), self.tables[table].get(day)
            before[day] = held
            is_changed |= held is None or held.amount != now.amount
            self.tables[table][day] = now
        if is_changed:
            self.undo[table].append((run_id, before))
        else:
            # A run that changed nothing cannot be undone; what is before it can.
            self.undo[table].clear()
        self.then[run_id] = (table, self.amounts(table))

    def roll_back(self, table: str) -> None:
        """The last publication of a table is undone."""
        _, before = self.undo[table].pop()
        for day, held in before.items():
            if held is None:
                del self.tables[table][day]
            else:
                self.tables[table][day] = held

    def amounts(self, table: str) -> Mapping[date, int]:
        """What a table holds."""
        return {day: held.amount for day, held in sorted(self.tables[table].items())}

    def refuses(self, table: str) -> bool:
        """Whether readers cannot be cut over to a table."""
        here, there = self.tables[table], self.tables[self.shown]
        lacks = there.keys() - here.keys()
        return table == self.shown or bool(lacks) or bool(self._stale(table) - self._stale(self.shown))

    def cut_over(self, act_id: str, table: str) -> None:
        """Readers are shown another table."""
        self.cut_overs.append((act_id, self.shown))
        self.shown = table

    def show_again(self) -> None:
        """Readers are shown what they were shown before the last cut-over."""
        _, self.shown = self.cut_overs.pop()

    def _stale(self, table: str) -> set[date]:
        return {day for day, held in self.tables[table].items() if held.read != self._read(day)}

    def _read(self, day: date) -> tuple[int, ...]:
        window = pd.date_range(day - BACK, day + AHEAD).date
        return tuple(self.versions[each] for each in window)

    def _computed(self, table: str, day: date) -> Day:
        within = self.sales[(self.sales["day"] >= day - BACK) & (self.sales["day"] <= day + AHEAD)]
        return Day(amount=int(within["amount"].sum()) * FACTOR[table], read=self._read(day))
