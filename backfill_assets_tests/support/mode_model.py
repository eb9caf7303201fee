"""A model in pandas of a table of every mode over the same entries: what each holds, which run wrote it, and what is
refused.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta

import pandas as pd

from backfill_assets_tests.support.merge_model import COLUMNS, MergedByHand, merged_by_hand

SUMS, CLOSED, ACCOUNTS, BALANCES, RUNNING, BY_TWO = (
    "silver.sums",
    "silver.closed",
    "silver.accounts",
    "silver.balances",
    "silver.running",
    "silver.running_by_two",
)
MODES = {
    "replace": SUMS,
    "append": CLOSED,
    "merge, keys move": ACCOUNTS,
    "merge, keys stay": BALANCES,
    "state": RUNNING,
    "state every two days": BY_TWO,
}

Row = tuple[date, str, int, int]
ENTRY = [*COLUMNS, "gone", "entry_id"]


@dataclass(kw_only=True)
class ModeModel:
    """What has landed, and the history of every table."""

    #: The entries as they are now, by their id.
    entries: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=ENTRY))
    #: By table and day, what was accepted after each other: the run and its rows, None where the run let the snapshot
    #: expire; the last one counts.
    held: dict[str, dict[date, list[tuple[str, list[Row] | None]]]] = field(default_factory=dict)
    #: By table, the runs that changed something and are not undone, in order.
    published: dict[str, list[str]] = field(default_factory=dict)

    def land(self, news: pd.DataFrame) -> None:
        """Entries land; a later one of an id takes the place of the earlier one, also on another day."""
        stays = self.entries[~self.entries["entry_id"].isin(news["entry_id"])]
        self.entries = pd.concat([stays, news[ENTRY]], ignore_index=True) if len(stays) else news[ENTRY]

    def withdraw(self, entry_id: str) -> None:
        """An entry is taken back."""
        self.entries = self.entries[self.entries["entry_id"] != entry_id]

    def accepted(self, table: str) -> Mapping[date, list[Row]]:
        """What a table holds by day; days without a version, and those that have expired, are absent."""
        newest = {day: versions[-1][1] for day, versions in self.held.get(table, {}).items() if versions}
        return {day: rows for day, rows in newest.items() if rows is not None}

    def made_by(self, table: str) -> Mapping[date, str]:
        """Which run wrote what a day holds."""
        return {day: self.held[table][day][-1][0] for day in self.accepted(table)}

    def closes_again(self, table: str, days: Collection[date]) -> bool:
        """Whether a run would be over days that are closed."""
        return table == CLOSED and bool(self.accepted(table).keys() & set(days))

    def whole(self, table: str, days: Collection[date]) -> list[date]:
        """What a run that is planned over some days has: where keys move, all that the table has besides."""
        return sorted({*days, *(self.accepted(table) if table == ACCOUNTS else ())})

    def computed(self, table: str, days: Collection[date]) -> Mapping[date, list[Row]] | None:
        """What a run over some days gives; None where its gates block it."""
        match table:
            case "silver.accounts" | "silver.balances":
                merged = self._merged(table, days)
                if merged.is_refused:
                    return None
                return {day: [row for row in merged.rows if row[0] == day] for day in days}
            case "silver.running" | "silver.running_by_two":
                return {day: self._sums(day, since=date.min) for day in days}
            case _:
                return {day: self._sums(day, since=day - timedelta(days=1)) for day in days}

    def _sums(self, day: date, *, since: date) -> list[Row]:
        within = self.entries[(self.entries["day"] >= since) & (self.entries["day"] <= day)]
        found = within.groupby("account")["amount"].agg(["sum", "count"])
        return [(day, str(account), int(row["sum"]), int(row["count"])) for account, row in found.iterrows()]

    def _merged(self, table: str, days: Collection[date]) -> MergedByHand:
        held = self.accepted(table)
        accepted = [row for rows in held.values() for row in rows]
        changes = self.entries[self.entries["day"].isin(list(days))]
        if table == BALANCES:
            # The latest entry of an account on each day, as the function of the table has it.
            in_order = changes.sort_values(["version", "amount", "gone"], kind="stable")
            changes = in_order.groupby(["day", "account"]).tail(1)
        on, ignores = (("account",), True) if table == ACCOUNTS else (("day", "account"), False)
        named = changes[[*COLUMNS, "gone"]].astype({"gone": bool})
        return merged_by_hand(accepted, held.keys(), named, days, on=on, ignores=ignores)

    def publish(self, table: str, run_id: str, rows: Mapping[date, list[Row]]) -> frozenset[date]:
        """A run is published; days whose rows are equal stay as they are. Returns those that change."""
        changed: set[date] = set()
        for day, some in rows.items():
            versions = self.held.setdefault(table, {}).setdefault(day, [])
            if not versions or versions[-1][1] != sorted(some):
                versions.append((run_id, sorted(some)))
                changed.add(day)
        if changed:
            self.published.setdefault(table, []).append(run_id)
        return frozenset(changed)

    def expiring(self, table: str) -> list[date]:
        """What a table does not keep: all but the newest day and the one before it, as its days are of one month."""
        accepted = self.accepted(table)
        return sorted(day for day in accepted if day < max(accepted) - timedelta(days=1))

    def expire(self, table: str, run_id: str) -> None:
        """A run lets go what the table does not keep."""
        for day in self.expiring(table):
            self.held[table][day].append((run_id, None))
        self.published[table].append(run_id)

    def can_be_undone(self, table: str, run_id: str) -> bool:
        """Whether what a run wrote is what readers see on all of its days, and nothing was merged with it since."""
        last = self.published[table][-1]
        of_run = [versions for versions in self.held[table].values() if run_id in {run for run, _ in versions}]
        is_on_top = all(versions[-1][0] == run_id for versions in of_run)
        return is_on_top and (table != ACCOUNTS or run_id == last)

    def roll_back(self, table: str, run_id: str) -> None:
        """What a run replaced is there again."""
        self.published[table].remove(run_id)
        for versions in self.held[table].values():
            if versions and versions[-1][0] == run_id:
                versions.pop()
