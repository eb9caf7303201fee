"""The usual: what a measure of a partition is held against, and how far away from it is far. Pure.

History is the accepted partitions before those that are tested, which are never part of it. What was accepted although
it was far is left out too, until SETTLED of them follow each other on the same side, each approved by a person: then
they are the usual. Why this statistic: `docs/adr/0052-the-usual.md`.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from calendar import monthrange
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from decimal import Context, Decimal
from statistics import median
from typing import Any

from backfill_assets.calendar.partitions import next_partition
from backfill_assets.domain import Grain, Usual
from backfill_assets.domain.breakdown import ROWS
from backfill_assets.gates.judge import Verdict, finite_or_nan
from backfill_assets.ledger.findings import FAR, FAR_GROUPS, NEEDS_COMMENT, Finding, PartitionCell, UsualPoint

MOST_SHOWN = 12
"""Of how many groups all numbers are kept."""

SETTLED = 3
"""So many that follow each other, far on the same side and each approved by a person, are the usual from then on."""

_RECENT = 3
"""The usual value is the median of so many: one that is wrong does not move it far."""

_SHARE, _NORMAL_SHARE, _NORMAL_MEDIAN = 0.8, 1.2816, 0.6745
"""A share of the history, and what it and the median are from the middle of a normal distribution."""

_ANSCOMBE = 0.375
"""With this, square roots of counts that chance alone moves are all equally far apart, down to small counts."""

_LEAST_PART = 0.01
"""Of the usual value, where it is no count: the least distance that is usual."""

_DIGITS, _LARGEST = 6, 700.0
"""Of numbers that are recorded, and of logarithms that a number has."""

_TINIEST = 5e-324
"""The least number above zero, which has no half."""

_NUMBERS = Context(prec=_DIGITS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """An accepted partition that one is compared with."""

    partition: date
    value: float  #: Its measure.
    far: str = ""  #: `low` or `high` where it was accepted although it was far from the usual; else empty.
    by_person: bool = False  #: True if a person has approved it.


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """A usual value, and the bounds between which a partition is not far from it, both inclusive."""

    usual: Decimal
    low: Decimal
    high: Decimal

    def side(self, value: Decimal, at_least: int = 0) -> str:
        """On which side of it a value is: `low` or `high`; empty inside of it, and nearer to the usual than `at_least`.

        What is no finite number is far in any case.
        """
        if not value.is_finite():
            return "high"
        if abs(value - self.usual) < at_least:
            return ""
        return "low" if value < self.low else "high" if value > self.high else ""


def compared_with(
    gate: Usual, grain: Grain, tested: Collection[date], accepted: Iterable[date]
) -> Mapping[date, tuple[date, ...]]:
    """The partitions with which each tested one is compared, in order, whether they are accepted or not.

    They are counted from the first of the tested partitions that follow each other without an accepted one between
    them: of a long restatement, the history before it counts for all of its partitions.

    Args:
        gate: The gate, for how far back it looks.
        grain: Whether partitions are days or months.
        tested: The partitions of a run, and of other runs of its set. None of them is compared with.
        accepted: The accepted partitions of the table.
    """
    others = sorted(set(accepted).difference(tested))
    found: dict[date, tuple[date, ...]] = {}
    known: dict[tuple[date, int], tuple[date, ...]] = {}
    begin = last = None
    for partition in sorted(tested):
        at = bisect_right(others, last) if last else 0
        if begin is None or (at < len(others) and others[at] < partition):
            begin = partition
        key = (begin, partition.weekday() if gate.same else 0)
        if key not in known:
            known[key] = tuple(_before(gate, grain, begin, partition, tested))
        found[partition] = known[key]
        last = partition
    return found


def _before(gate: Usual, grain: Grain, begin: date, like: date, tested: Collection[date]) -> Iterable[date]:
    each = begin - timedelta(days=gate.days) if gate.days else _months_before(begin, gate.months)
    while each < begin:
        if each not in tested and (gate.same is None or each.weekday() == like.weekday()):
            yield each
        each = next_partition(grain, each)


def _months_before(day: date, count: int) -> date:
    month = day.year * 12 + day.month - 1 - count
    year, number = month // 12, month % 12 + 1
    return date(year, number, min(day.day, monthrange(year, number)[1]))


def training(history: Iterable[Past]) -> Sequence[Past]:
    """The values from which the usual is taken, in the order of partitions: without those that were far, unless they
    are the usual by now."""
    found: list[Past] = []
    aside: list[Past] = []
    for each in sorted(history, key=lambda past: past.partition):
        if not math.isfinite(each.value):
            continue
        if aside and (each.far != aside[-1].far or not each.by_person):
            aside = []
        if not each.far:
            found.append(each)
        elif each.by_person:
            aside.append(each)
            found += aside[-1:] if len(aside) > SETTLED else aside if len(aside) == SETTLED else []
    return found


def band(trained: Sequence[Past], most: float, *, is_count: bool) -> Band:
    """The usual band after some accepted partitions, in their order.

    The usual value is the median of the last three. The usual distance is that of each from the median of the three
    before it: the median of these distances, or what four of five of them do not exceed, whichever says more. It is
    measured in proportion, unless there are numbers below zero. It is never less than what chance alone moves a count
    by, and of other measures a hundredth of the usual value.

    Args:
        trained: At least two.
        most: How many times the usual distance the band is wide, on either side.
        is_count: Whether the measure counts rows; else it adds up numbers of rows.
    """
    values = [past.value for past in trained]
    usual = median(values[-_RECENT:])
    if min(values) < 0:
        distance = most * _distance(values)
        low, high = usual - distance, usual + distance
    elif any(values):
        # Zero has no logarithm: it is taken as half of the least that there is.
        least = 0.5 if is_count else max(min(value for value in values if value) / 2, _TINIEST)
        distance = most * _distance([math.log(max(value, least)) for value in values])
        low, high = usual * math.exp(-distance), max(usual, least) * _exp(distance)
        low = 0.0 if low <= least else low
    else:
        low = high = 0.0
    least_low, least_high = _narrowest(usual, most, is_count=is_count)
    return _rounded(usual, min(low, least_low), max(high, least_high), is_count=is_count)


def _distance(values: Sequence[float]) -> float:
    """A value's usual distance from the median of the three before it; of the first three, from their own."""
    before = (values[max(0, place - _RECENT) : max(place, _RECENT)] for place in range(len(values)))
    found = sorted(abs(value - median(some)) for value, some in zip(values, before, strict=True))
    # Never the largest: a single value that is wrong makes the band no wider.
    share = found[min(int(_SHARE * len(found)), len(found) - 2)]
    return max(median(found) / _NORMAL_MEDIAN, share / _NORMAL_SHARE)


def _narrowest(usual: float, most: float, *, is_count: bool) -> tuple[float, float]:
    """The narrowest band: of a count as wide as chance alone makes it, of another measure by a part of its value."""
    if not is_count:
        distance = most * _LEAST_PART * abs(usual)
        return usual - distance, usual + distance
    root = math.sqrt(usual + _ANSCOMBE)
    low, high = (max(0.0, root + way * most / 2) ** 2 - _ANSCOMBE for way in (-1, 1))
    return max(low, 0.0), high


def _exp(number: float) -> float:
    return math.exp(number) if number < _LARGEST else math.inf


def _rounded(usual: float, low: float, high: float, *, is_count: bool) -> Band:
    """The band as it is recorded: whole numbers of counts, six digits of other measures."""
    if is_count:
        whole = Decimal(math.floor(round(high, _DIGITS))) if math.isfinite(high) else Decimal("Infinity")
        return Band(usual=Decimal(round(usual)), low=Decimal(math.ceil(round(low, _DIGITS))), high=whole)
    middle, least, largest = map(_NUMBERS.create_decimal_from_float, (usual, low, high))
    return Band(usual=middle, low=least, high=largest)


Group = tuple[str | None, ...]
"""The values of the dimensions of a gate; empty for the whole partition."""


Amounts = Mapping[Group, Decimal]
"""A measure of a partition by the groups in it; a group that is not there has none of it."""

_NOTHING = Decimal(0)


def amounts_of(gate: Usual, rows: int, cells: Sequence[PartitionCell]) -> Amounts | None:
    """The measure of a partition by the dimensions of a gate; None where it was not measured by them.

    Args:
        rows: The rows of the partition.
        cells: Its breakdown; not looked at for rows without dimensions.
    """
    if gate.measure == ROWS and not gate.by:
        return {(): Decimal(rows)}
    if any(name not in cell.by for cell in cells for name in gate.by):
        return None
    found: dict[Group, Decimal] = {} if gate.by else {(): _NOTHING}
    for cell in cells:
        group = tuple(cell.by[name] for name in gate.by)
        found[group] = found.get(group, _NOTHING) + finite_or_nan(cell.measures[gate.measure])
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The known values of the accepted partitions before those that are tested."""

    before: Mapping[date, tuple[date, ...]]  #: With which partitions each tested one is compared.
    amounts: Mapping[date, Amounts]  #: The measure of those that are accepted.
    #: Those that were accepted although they, or a group in them, were far, on which side.
    far: Mapping[tuple[date, Group], str] = field(default_factory=dict)
    by_person: Collection[date] = ()  #: Those that a person has approved.

    def of(self, partition: date, group: Group) -> tuple[Past, ...]:
        """The accepted partitions with which a group of a tested one is compared."""
        found = []
        for each in self.before[partition]:
            if each in self.amounts:
                value, far = float(self.amounts[each].get(group, _NOTHING)), self.far.get((each, group), "")
                found.append(Past(partition=each, value=value, far=far, by_person=each in self.by_person))
        return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class UsualVerdicts:
    """The result for the tested partitions: a verdict for each, and the numbers behind them, which a report shows."""

    verdicts: Mapping[date, Verdict]
    points: tuple[UsualPoint, ...]


def judged(
    gate: Usual,
    tested: Mapping[date, Amounts | None],
    accepted: Mapping[date, Amounts | None],
    history: History,
    *,
    is_count: bool,
) -> UsualVerdicts:
    """Judges whether each tested partition is about as usual.

    Args:
        gate: The gate.
        tested: The measure of the staged rows of each partition; None where there are too many groups.
        accepted: The same of the accepted rows that they would replace. What is far and stays as it is accepted passes.
        history: What they are compared with.
        is_count: Whether the measure counts rows.
    """
    verdicts: dict[date, Verdict] = {}
    found: dict[Group, list[UsualPoint]] = {}
    limits = _Limits(gate=gate, history=history, is_count=is_count)
    for partition, amounts in sorted(tested.items()):
        if amounts is None:
            observed = {"measure": gate.measure, **_comment(gate)}
            verdicts[partition] = Verdict(passed=False, finding=Finding.TOO_MANY_GROUPS, observed=observed)
            continue
        before = history.before[partition]
        groups = dict.fromkeys([*amounts, *(group for each in before for group in history.amounts.get(each, ()))])
        replaced = accepted.get(partition)
        points = []
        for group in groups:
            compared, around = limits.of(partition, group)
            value = amounts.get(group, _NOTHING)
            stays = replaced is not None and replaced.get(group, _NOTHING) == value
            far = around.side(value, gate.at_least) if around else ""
            usual, low, high = (around.usual, around.low, around.high) if around else (None, None, None)
            point = replace(
                _point(gate, partition, group, value, far),
                usual=_text(usual),
                low=_text(low),
                high=_text(high),
                compared=compared,
                is_tested=True,
                stays=stays,
            )
            points.append(point)
            found.setdefault(group, []).append(point)
        verdicts[partition] = _verdict(gate, points, sum(each in history.amounts for each in before))
    return UsualVerdicts(verdicts=verdicts, points=tuple(_shown(gate, found, history)))


@dataclass(slots=True, kw_only=True)
class _Limits:
    """The bands of a gate. Partitions that are compared with the same ones share theirs."""

    gate: Usual
    history: History
    is_count: bool
    known: dict[tuple[tuple[date, ...], Group], tuple[int, Band | None]] = field(default_factory=dict)

    def of(self, partition: date, group: Group) -> tuple[int, Band | None]:
        """With how many accepted partitions a group is compared, and its band; None where these are too few."""
        key = (self.history.before[partition], group)
        if key not in self.known:
            trained = training(self.history.of(partition, group))
            is_enough = len(trained) >= self.gate.fewest
            around = band(trained, self.gate.most, is_count=self.is_count) if is_enough else None
            self.known[key] = (len(trained), around)
        return self.known[key]


def _verdict(gate: Usual, points: Sequence[UsualPoint], known: int) -> Verdict:
    """The verdict on a partition, from what was found of its groups.

    Args:
        known: How many accepted partitions there are to compare with, also of a partition without any group.
    """
    far = [point for point in points if point.far and not point.stays]
    compared = max((point.compared for point in points), default=known)
    observed: dict[str, Any] = {"measure": gate.measure, "most": f"{gate.most:g}"}
    observed |= {"compared": compared, "fewest": gate.fewest}
    if gate.by:
        little = sum(point.usual is None for point in points)
        observed |= {
            "groups": len(points),
            FAR_GROUPS: sum(bool(point.far) for point in points),
            "little_groups": little,
        }
    else:
        (point,) = points
        numbers = {"usual": point.usual, "low": point.low, "high": point.high, FAR: point.far or None}
        observed |= {"value": point.value, **{name: number for name, number in numbers.items() if number is not None}}
    if far:
        return Verdict(passed=False, finding=Finding.FAR_FROM_USUAL, observed={**observed, **_comment(gate)})
    finding = Finding.AS_USUAL
    if any(point.far for point in points):
        finding = Finding.FAR_AS_ACCEPTED
    elif compared < gate.fewest and all(point.usual is None for point in points):
        finding = Finding.LITTLE_HISTORY
    return Verdict(passed=True, finding=finding, observed=observed)


def _comment(gate: Usual) -> Mapping[str, bool]:
    return {NEEDS_COMMENT: True} if gate.then == "comment" else {}


def _point(gate: Usual, partition: date, group: Group, value: Decimal, far: str) -> UsualPoint:
    by = dict(zip(gate.by, group, strict=True))
    return UsualPoint(gate=gate.name, partition=partition, by=by, value=format(value, "f"), far=far)


def _text(number: Decimal | None) -> str | None:
    return None if number is None else format(number.normalize(), "f")


def _shown(gate: Usual, found: Mapping[Group, Sequence[UsualPoint]], history: History) -> Iterable[UsualPoint]:
    """The numbers that are kept: of the groups that are furthest from the usual all of them, of others what is far."""
    ranked = sorted(found, key=lambda group: (-sum(bool(point.far) for point in found[group]), str(group)))
    for group in ranked[:MOST_SHOWN]:
        before = {each for point in found[group] for each in history.before[point.partition]}
        for each in sorted(before & history.amounts.keys()):
            value, far = history.amounts[each].get(group, _NOTHING), history.far.get((each, group), "")
            yield _point(gate, each, group, value, far)
        yield from found[group]
    for group in ranked[MOST_SHOWN:]:
        yield from (point for point in found[group] if point.far)
