"""Breakdown: by which business dimensions the rows of a table are counted and added up before and after."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation

from backfill_assets.calendar.partitions import Grain
from backfill_assets.core.errors import InvalidDeclaration
from backfill_assets.domain.declarations import SHORT_NAME, Declared, Partitioning, require_columns, wrong
from backfill_assets.domain.gates import Moved, Usual, columns_in, require_kind

ROWS = "rows"
"""The measure that every breakdown has: how many rows there are."""

MOST_DIMENSIONS = 4

LEAST_HISTORY = 4
"""Of fewer partitions it cannot be said how far they usually are from each other."""

DAYS_OF_A_WEEK, _SHORTEST_MONTH = 7, 28
_MOST_DAYS, _MOST_MONTHS = 36_525, 1_200


@dataclass(frozen=True, slots=True, kw_only=True)
class Breakdown:
    """The breakdown that reviewers see of a derived table: its measures before and after, by month and business
    dimensions.

    Args:
        by: The dimensions: columns with few values, such as a jurisdiction. The month of the partition is always one.
        measures: By name, a Spark SQL expression over one row: a condition counts the rows that meet it, a number is
            added up, such as `{"breached": "sla_state = 'BREACHED'", "amount": "amount"}`. `rows` is always one.
        rank_rows_by: The measure whose change decides which changed rows are shown; without it, the number of columns
            that changed.
    """

    by: tuple[str, ...] = ()
    measures: Mapping[str, str] = field(default_factory=dict)
    rank_rows_by: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return (ROWS, *self.measures)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """A tolerance: how far a measure of accepted rows may be off before they must be restated. Written
    `tolerance(...)`.

    What is off is added up row by row, without its sign: 5 more in one row and 5 less in another are 10.
    """

    measure: str  #: A measure of the table's breakdown, or `rows`.
    by: tuple[str, ...] = ()  #: Dimensions of the breakdown by which it is compared; none for the whole month.
    percent: Decimal  #: How much may be off, in percent of the accepted value.
    at_least: int = 0  #: Less than this does not count, whatever its percentage.
    owner: str  #: A group of `approvers.yaml`: a member of it may leave the accepted rows as they are.


def tolerance(
    measure: str,
    *,
    by: tuple[str, ...] = (),
    percent: float | Decimal | str = 0,
    at_least: int = 0,
    owner: str,
) -> Tolerance:
    """Accepted rows may be left as they are where a restatement would change no more of the measure than this.

    Args:
        measure: A measure of the table's breakdown, or `rows`.
        by: Dimensions of the breakdown by which it is compared; none for the whole month.
        percent: How much of it may be off, in percent of its accepted value: 1, 0.5 or "0.5%". The changes of all rows
            of a month are added up without their signs.
        at_least: Less than this does not count, whatever its percentage.
        owner: The group of `approvers.yaml` whose members may decide so. It is never decided without one.

    Raises:
        InvalidDeclaration: The percentage is not a number.
    """
    try:
        number = Decimal(str(percent).strip().removesuffix("%"))
    except InvalidOperation:
        number = Decimal("NaN")
    if not number.is_finite():
        raise InvalidDeclaration(f"a tolerance of {percent!r:.60} percent has to be a number, such as 1 or '0.5%'.")
    return Tolerance(measure=measure, by=by, percent=number, at_least=at_least, owner=owner)


def check_tolerance(table: Declared, found: Tolerance, breakdown: Breakdown | None) -> None:
    """Refuses a tolerance that is none, has no owner, or is of a measure that cannot be."""
    if not isinstance(found.owner, str) or not found.owner.strip():
        raise wrong(table, f"its tolerance is owned by {found.owner!r:.60}, which is not a group of approvers")
    _require_measure(table, found, breakdown, "its tolerance")
    _check_moved(table, found, "its tolerance")
    if not (found.percent or found.at_least):
        raise wrong(table, "it tolerates 0 % from 0, which allows no difference")


def check_breakdown(table: Declared, breakdown: Breakdown | None, *, partition: Partitioning) -> None:
    """Refuses dimensions and measures that cannot be, and gates on others than these."""
    for gate in table.gates:
        if isinstance(gate, Moved):
            _require_measure(table, gate, breakdown, f"gate {gate.name}")
            _check_moved(table, gate, f"gate {gate.name}")
        if isinstance(gate, Usual):
            if gate.measure != ROWS or gate.by:
                _require_measure(table, gate, breakdown, f"gate {gate.name}")
            _check_usual(table, gate, partition.grain)
    if breakdown is None:
        return
    if not isinstance(breakdown.by, tuple) or not isinstance(breakdown.measures, Mapping):
        raise wrong(table, "its breakdown has to be by a tuple of columns, with measures as a mapping of names")
    require_columns(table, breakdown.by, "a dimension of its breakdown")
    if len(set(breakdown.by)) != len(breakdown.by) or len(breakdown.by) > MOST_DIMENSIONS:
        raise wrong(table, f"its breakdown has more than {MOST_DIMENSIONS} dimensions, or one twice")
    if partition.column in breakdown.by:
        raise wrong(
            table, f"its breakdown is by month in any case, so not by its partition column {partition.column!r}"
        )
    for name, measured in breakdown.measures.items():
        if not isinstance(name, str) or not SHORT_NAME.fullmatch(name) or name == ROWS:
            raise wrong(table, f"a measure is named with lower-case letters, digits and _, and not {ROWS!r}: {name!r}")
        if not isinstance(measured, str):
            raise wrong(table, f"the measure {name} is {measured!r:.60}, which is not an SQL expression")
    if breakdown.rank_rows_by is not None and breakdown.rank_rows_by not in breakdown.measures:
        raise wrong(table, f"rows are ranked by {breakdown.rank_rows_by!r}, which is not a measure of its breakdown")


def check_measures(table: Declared, breakdown: Breakdown | None) -> None:
    """Refuses measures that are not SQL, or mention a column that the schema lacks."""
    for name, measured in (breakdown.measures if breakdown else {}).items():
        require_columns(table, columns_in(measured, f"measure {name}"), f"measure {name}: column")
        require_kind(measured, f"{table.name}: measure {name}", table.schema, counts=True)


def _require_measure(table: Declared, gate: Moved | Usual | Tolerance, breakdown: Breakdown | None, named: str) -> None:
    """Refuses a gate or a tolerance whose measure is not declared."""
    if breakdown is None:
        raise wrong(table, f"{named} needs a breakdown, which only a derived table can declare")
    if gate.measure not in breakdown.names:
        raise wrong(table, f"{named} is on {gate.measure!r}, and the measures are {', '.join(breakdown.names)}")
    if foreign := [column for column in gate.by if column not in breakdown.by]:
        raise wrong(table, f"{named} is by {foreign[0]!r}, which is not a dimension of its breakdown")


def _check_moved(table: Declared, gate: Moved | Tolerance, named: str) -> None:
    if not 0 <= gate.percent <= 1_000_000:
        raise wrong(table, f"{named} has percent={gate.percent}, and can have 0 to 1,000,000")
    _require_amount(table, gate, named)


def _require_amount(table: Declared, gate: Moved | Usual | Tolerance, named: str) -> None:
    if gate.at_least < 0:
        raise wrong(table, f"{named} has at_least={gate.at_least}, and can have 0 or more")


def _check_usual(table: Declared, gate: Usual, grain: Grain) -> None:
    """Refuses bounds that cannot be, days of a monthly table, and too few partitions to compare with."""
    if not 0 < gate.most <= 1_000:
        raise wrong(table, f"gate {gate.name} has most={gate.most:g}, and can have more than 0 and at most 1,000")
    _require_amount(table, gate, f"gate {gate.name}")
    if grain is Grain.MONTHLY and (gate.same or not gate.months):
        raise wrong(table, f"gate {gate.name} compares months: write against=months(12), same=None")
    if gate.days > _MOST_DAYS or gate.months > _MOST_MONTHS:
        raise wrong(table, f"gate {gate.name} looks back further than 100 years")
    most = gate.months
    if grain is Grain.DAILY:
        days = gate.days or _SHORTEST_MONTH * gate.months
        most = days // DAYS_OF_A_WEEK if gate.same else days
    if not LEAST_HISTORY <= gate.fewest <= most:
        raise wrong(
            table,
            f"gate {gate.name} compares with at most {most} partitions, and only from {gate.fewest} on: compare "
            f"further back, with against=, or declare fewest= between {LEAST_HISTORY} and {most}"
            if most >= LEAST_HISTORY
            else f"gate {gate.name} compares with at most {most} partitions, and {LEAST_HISTORY} are the fewest: "
            "compare further back, with against=",
        )
