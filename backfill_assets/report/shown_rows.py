"""Rows that reports show, before and after: samples, rows that fail a gate, and the keys that a person asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from typing import TYPE_CHECKING

from backfill_assets.calendar.partitions import Grain, count_of, partition_text
from backfill_assets.core.grouped import grouped
from backfill_assets.ledger.findings import FailingKey, SampledRow, Values
from backfill_assets.planning.manifest import Manifest
from backfill_assets.report.measured import PROOF
from backfill_assets.report.page import Note, Section, Table, Tone, Toned, Value, section, table, words
from backfill_assets.report.values import key_text

if TYPE_CHECKING:
    from backfill_assets.report.report import RunReport


class WhereShown(StrEnum):
    """Where the row of a key is.

    ADDED, REMOVED: On one side. CHANGED, EQUAL: On both sides. OTHER_PARTITION: The key names a partition that the run
    does not compute. NOWHERE: No partition of the run has it, before or after.
    """

    ADDED = "ADDED"
    REMOVED = "REMOVED"
    CHANGED = "CHANGED"
    EQUAL = "EQUAL"
    OTHER_PARTITION = "OTHER_PARTITION"
    NOWHERE = "NOWHERE"

    @property
    def is_found(self) -> bool:
        return self not in (WhereShown.OTHER_PARTITION, WhereShown.NOWHERE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownKey:
    """A key that was asked for, and its row; a key without a partition can have several."""

    #: The columns that identify the row as text, the partition first; where there is no row, as it was asked for.
    key: Values
    #: ADDED, REMOVED, CHANGED, EQUAL, OTHER_PARTITION (the run does not compute the partition that it names) or NOWHERE
    #: (no partition of the run has it, before or after).
    where: WhereShown
    #: The other columns of the row as text in the accepted rows; null where it is not among them.
    before: Values | None
    after: Values | None  #: The same in the new rows.


def shown_keys(manifest: Manifest, sampled: Iterable[SampledRow]) -> tuple[ShownKey, ...]:
    """The keys that were asked for, of what the gates of a run have kept."""
    return tuple(
        ShownKey(key=row.key, where=_where(manifest, row), before=row.before, after=row.after)
        for row in sampled
        if row.is_asked
    )


def _where(manifest: Manifest, row: SampledRow) -> WhereShown:
    if row.before is not None and row.after is not None:
        return WhereShown.EQUAL if row.before == row.after else WhereShown.CHANGED
    if row.before is not None or row.after is not None:
        return WhereShown.ADDED if row.before is None else WhereShown.REMOVED
    named = row.key.get(manifest.partition_column)
    is_outside = named is not None and date.fromisoformat(named) not in manifest.partitions
    return WhereShown.OTHER_PARTITION if is_outside else WhereShown.NOWHERE


_MOST_ROWS = 24


def sample_table(sample: Iterable[SampledRow | FailingKey], *, sides: tuple[str, str] = ("before", "after")) -> Table:
    """Some rows before and after, a line for every value that differs."""
    lines = [(place, line) for row in sample for place, line in enumerate(_sampled(row))]
    return table(
        ["row", "column", *sides],
        [line for _, line in lines],
        most=_MOST_ROWS,
        continued=(at for at, (place, _) in enumerate(lines) if place),
    )


def _sampled(row: SampledRow | FailingKey) -> Iterable[Sequence[Value]]:
    before, after, key = row.before or {}, row.after or {}, key_text(row.key)
    named: Value = key
    if row.before is None:
        named = words(key, Toned(value=" added", tone=Tone.GOOD))
    elif row.after is None:
        named = words(key, Toned(value=" removed", tone=Tone.BAD))
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    for place, name in enumerate(names):
        sides = (_side(row.before, name), _side(row.after, name))
        yield (named if place == 0 else "", name, *sides)
    if not names:
        yield (named, "", "", "")


def asked_rows(report: RunReport, *, of: str = "") -> Section | None:
    """The rows of the keys that were asked for when the run was planned, equal ones too."""
    pinned, title = report.run.manifest.shown, f"{of}: rows that were asked for" if of else "Rows that were asked for"
    if pinned is None or report.shown is None or report.samples_erased:
        return None
    if not report.shown:
        return section(title, Note(text="The keys were erased, and their rows with them."))
    counts = [(where, sum(each.where is where for each in report.shown)) for where in WhereShown]
    said = ", ".join(f"{count:,} {_WHERE[where]}" for where, count in counts if count)
    lines = [(place, line) for place, each in enumerate(report.shown) for line in _asked(each)]
    first = {place: at for at, (place, _) in reversed([*enumerate(lines)])}
    return section(
        title,
        Note(text=f"{count_of(pinned.count, 'key')}: {said}.", tone=Tone.SOFT),
        table(
            ["row", "column", "before", "after"],
            [line for _, line in lines],
            most=_MOST_ASKED,
            continued=(at for at, (place, _) in enumerate(lines) if first[place] != at),
        ),
        of_rows=True,
    )


_MOST_ASKED = 100
_WHERE = {
    WhereShown.ADDED: "added",
    WhereShown.REMOVED: "removed",
    WhereShown.CHANGED: "changed",
    WhereShown.EQUAL: "equal",
    WhereShown.OTHER_PARTITION: "of partitions that the run does not compute",
    WhereShown.NOWHERE: "in no partition of the run, before or after",
}


def _asked(shown: ShownKey) -> Iterable[Sequence[Value]]:
    """The lines of a key: the columns that differ, all of them where none does, and why there is none."""
    before, after = shown.before or {}, shown.after or {}
    named = words(key_text(shown.key), Toned(value=f" {_WHERE[shown.where]}", tone=Tone.SOFT))
    names = list({**before, **after})
    if shown.where is WhereShown.CHANGED:
        names = [name for name in names if before.get(name) != after.get(name)] or names
    for place, name in enumerate(names):
        yield (named if place == 0 else "", name, _side(shown.before, name), _side(shown.after, name))
    if not names:
        yield (named, "", "", "")


def rows_that_fail(report: RunReport, *, of: str = "") -> Iterable[Section | None]:
    """Keys of rows that fail gates; of gates that compare rows, the values on both sides."""
    grain, titled = report.run.manifest.output.grain, f"{of}: " if of else ""
    compared = grouped((row.gate, row) for row in report.failing_keys if row.before or row.after)
    for gate, rows in compared.items():
        sides = ("as staged", "with more input") if gate == PROOF else ("as accepted", "as staged")
        title = f"{gate} failed: rows that differ" if of else f"Rows that differ where {gate} failed"
        yield section(f"{titled}{title}", sample_table(rows, sides=sides), of_rows=True)
    failing = keys_table([row for row in report.failing_keys if row.gate not in compared], grain)
    yield section(f"{titled}keys of rows that fail" if of else "Keys of rows that fail", failing, of_rows=True)


def keys_table(named: Sequence[FailingKey], grain: Grain) -> Table:
    """Keys of rows that fail gates, with what was expected and found where a gate says it."""
    said = [name for name in ("expected", "found") if any(getattr(row, name) is not None for row in named)]
    keys = [
        (
            row.gate,
            partition_text(grain, row.partition),
            key_text(row.key),
            *(getattr(row, name) or "" for name in said),
        )
        for row in named
    ]
    return table(["gate", "partition", "key", *said], keys, whole=["gate", "partition"])


def _side(values: Mapping[str, str | None] | None, name: str) -> str:
    """The value of a column on one side; nothing where the row is not on this side."""
    if values is None:
        return ""
    value = values.get(name)
    return "null" if value is None else value
