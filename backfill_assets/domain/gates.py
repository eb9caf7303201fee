"""Gate declarations: the conditions of a candidate. The room `gates` measures them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, ClassVar, Literal
from unicodedata import normalize

from pyspark.sql.types import BooleanType, NumericType, StructType

from backfill_assets.calendar.partitions import count_of
from backfill_assets.core.declaring import declared, place_of_declaration
from backfill_assets.core.errors import InvalidDeclaration
from backfill_assets.domain.failing_rows import Failing

_PLAIN = re.compile(r"[a-z][a-z0-9_]*")
_NEEDS_QUOTES = re.compile(r'[,"]|^$')
"""In a value that would be taken for several, or for none."""


def columns_in(expression: str, what: str) -> tuple[str, ...]:
    """The columns that an SQL expression over one row mentions.

    Raises:
        InvalidDeclaration: It is not one expression of SQL over one row.
    """
    from sqlglot.expressions import Column

    # Of a member of a struct, the column: `payment` of `payment.amount`.
    return tuple(sorted({column.parts[0].name for column in _parsed(expression, what).find_all(Column)}))


def each_once(gate: str, columns: Iterable[str]) -> tuple[str, ...]:
    """Columns as they are declared.

    Raises:
        InvalidDeclaration: One is there twice.
    """
    named = tuple(columns)
    if twice := [name for place, name in enumerate(named) if name in named[:place]]:
        raise InvalidDeclaration(f"{gate}(...) names {twice[0]!r} twice.")
    return named


def require_kind(expression: str, what: str, schema: StructType, *, counts: bool) -> None:
    """Refuses an SQL expression that is surely no condition, by its outermost operation or its only column.

    Args:
        expression: It mentions columns of the schema only.
        what: Names it in the refusal.
        schema: The columns.
        counts: A number is right as well.

    Raises:
        InvalidDeclaration: It is no condition.
    """
    from sqlglot import expressions as of

    root = _parsed(expression, what).unnest()
    is_number = isinstance(root, of.Add | of.Sub | of.Mul | of.Div | of.Mod | of.Neg) or root.is_number
    is_text = isinstance(root, of.Concat | of.DPipe) or root.is_string
    if isinstance(root, of.Column) and len(root.parts) == 1 and root.name in schema.fieldNames():
        kind = schema[root.name].dataType
        is_number = isinstance(kind, NumericType)
        is_text = not is_number and not isinstance(kind, BooleanType)
    if is_text or (is_number and not counts):
        wanted = "a condition or a number" if counts else "a condition, which is true or false"
        raise InvalidDeclaration(f"{what} is {expression!r:.60}, and has to be {wanted}.")


def _parsed(expression: str, what: str) -> Any:  # its class has other names in other versions of sqlglot
    # SQL parsing takes a tenth of a second to import, and commands that only look do without it.
    import sqlglot
    from sqlglot import expressions

    of_many_rows = (expressions.AggFunc, expressions.Window, expressions.Query)
    try:
        statements = sqlglot.parse(expression, dialect="spark")
    except sqlglot.errors.SqlglotError as error:
        raise InvalidDeclaration(f"{what} is not SQL: {expression!r}.") from error
    parsed = statements[0] if len(statements) == 1 else None
    if parsed is None or isinstance(parsed, expressions.Star):
        raise InvalidDeclaration(f"{what} is not one expression of SQL: {expression!r}.")
    if (found := parsed.find(*of_many_rows)) is not None:
        raise InvalidDeclaration(f"{what} is over one row, and {found.sql(dialect='spark')!r:.60} is over several.")
    return parsed


def name_for(*parts: str) -> str:
    """The name of a gate by what it does and its columns: lower-case letters, digits and _, also of other columns.

    Of a column whose name has others it is what is left of it, with the beginning of a digest of the whole.
    """
    text = "_".join(parts)
    if _PLAIN.fullmatch(text):
        return text
    plain = normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    return f"{re.sub(r'[^a-z0-9]+', '_', plain).strip('_')}_{sha256(text.encode()).hexdigest()[:8]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Gate:
    """The properties of all gates, besides their names.

    Every kind says, as `of_accepted`, whether it can be asked of accepted rows alone, as `check` does: without a
    candidate beside them. There is no default, so that a new kind is not left out by accident.
    """

    blocking: bool = True  #: True if a run that does not pass it cannot be published.
    #: The file and the line of its declaration.
    place: str = field(init=False, default_factory=place_of_declaration, repr=False, compare=False)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it is about, which the table has to have."""
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaMatches(_Gate):
    """The staged files have the declared columns, types and order. Every table has this gate."""

    of_accepted: ClassVar[bool] = True
    name: str = "schema"
    demands: str = "the staged files have exactly the declared columns and types"


@dataclass(frozen=True, slots=True, kw_only=True)
class UniqueKey(_Gate):
    """No two rows of a partition share a key. Without columns: the table's own key."""

    of_accepted: ClassVar[bool] = True
    columns: tuple[str, ...] = ()
    name: str = "unique_key"

    @property
    def demands(self) -> str:
        return f"no two rows share ({', '.join(self.columns)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class NotNull(_Gate):
    """A column has a value in every row."""

    of_accepted: ClassVar[bool] = True
    column: str
    name: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.name or name_for("not_null", self.column))

    @property
    def demands(self) -> str:
        return f"{self.column} is never null"

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedValues(_Gate):
    """A column holds one of the listed values, or null."""

    of_accepted: ClassVar[bool] = True
    column: str
    values: tuple[str, ...]
    name: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.name or name_for("accepted", self.column))
        if not self.values:
            raise InvalidDeclaration(f"gate {self.name} lists no values, so that no row could have one.")

    @property
    def demands(self) -> str:
        # Manifests pin gates by their words: other values have other words.
        listed = (json.dumps(each, ensure_ascii=False) if _NEEDS_QUOTES.search(each) else each for each in self.values)
        return f"{self.column} is one of {', '.join(listed)}"

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowExpression(_Gate):
    """A Spark SQL condition that is true for every row; null counts as a violation."""

    of_accepted: ClassVar[bool] = True
    name: str
    condition: str

    @property
    def demands(self) -> str:
        return f"every row satisfies {self.condition}"

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns the condition mentions."""
        return columns_in(self.condition, f"the condition of gate {self.name}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCount(_Gate):
    """The rows of each partition lie within bounds, both inclusive."""

    of_accepted: ClassVar[bool] = True
    at_least: int = 0
    at_most: int | None = None
    name: str = "row_count"

    def __post_init__(self) -> None:
        if not 0 <= self.at_least <= (self.at_least if self.at_most is None else self.at_most):
            most = "" if self.at_most is None else f" and at most {self.at_most}"
            raise InvalidDeclaration(f"gate {self.name} asks for at least {self.at_least}{most} rows, which cannot be.")

    @property
    def demands(self) -> str:
        most = "" if self.at_most is None else f" and at most {self.at_most:,}"
        return f"a partition has at least {self.at_least:,}{most} rows"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedWithAccepted(_Gate):
    """Compares the candidate with the accepted rows, by partition; with a limit, also a gate.

    Every table has this gate. Without a limit it always passes and only informs.
    """

    of_accepted: ClassVar[bool] = False
    #: The most accepted keys, in percent of a partition's accepted rows, that may disappear.
    max_removed_percent: int | None = None
    #: The most accepted rows, in percent, that may be added, removed or changed.
    max_changed_percent: int | None = None
    name: str = "compared_with_accepted"

    def __post_init__(self) -> None:
        if not 0 <= (self.max_removed_percent or 0) <= 100 or (self.max_changed_percent or 0) < 0:
            limits = f"{self.max_removed_percent} % removed and {self.max_changed_percent} % changed"
            raise InvalidDeclaration(f"gate {self.name} has limits that cannot be: {limits}.")

    @property
    def demands(self) -> str:
        limits = []
        if self.max_removed_percent is not None:
            limits.append(f"at most {self.max_removed_percent} % of a partition's accepted rows disappear")
        if self.max_changed_percent is not None:
            limits.append(f"at most {self.max_changed_percent} % of a partition's accepted rows move")
        return " and ".join(limits) or "the difference from the accepted rows is measured"


@dataclass(frozen=True, slots=True, kw_only=True)
class AddsOnly(_Gate):
    """Nothing that is accepted changes. Tables that are published with `append()` have this gate, and no others."""

    of_accepted: ClassVar[bool] = False
    name: str = "adds_only"
    demands: str = "a partition has no accepted version, or exactly the accepted rows"


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged(_Gate):
    """The staged rows are exactly the changes, with the accepted rows that the table keeps. Tables that are published
    with `merge()` have this gate, and no others."""

    of_accepted: ClassVar[bool] = False
    name: str = "merged"
    demands: str = (
        "rows that the inputs give no more are removed, or exactly those that the table keeps; a key is changed once, "
        "by no older version than is accepted, and its row depends on no partition that the run lacks"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OutsideScope(_Gate):
    """Rows outside of the scope of a pilot are exactly the accepted ones. Pilots have this gate, and no table."""

    of_accepted: ClassVar[bool] = False
    name: str = "outside_scope"
    demands: str = "rows outside of the scope of the pilot are exactly the accepted ones"


@dataclass(frozen=True, slots=True, kw_only=True)
class SameState(_Gate):
    """The first snapshot of a run is the same from one snapshot earlier. Tables that keep state have this gate."""

    of_accepted: ClassVar[bool] = False
    name: str = "same_state"
    demands: str = "the first snapshot of a run is the same when it is computed from one snapshot earlier"


@dataclass(frozen=True, slots=True, kw_only=True)
class OnlyExpired(_Gate):
    """Exactly the snapshots go that the table no longer keeps. Runs that let snapshots expire have this gate."""

    of_accepted: ClassVar[bool] = False
    name: str = "only_expired"
    demands: str = (
        "they are exactly the snapshots that the table no longer keeps, as planned, and no open run reads one"
    )


WARM_UP = "warm_up"
"""The name of the gate that proves the window."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmUpProof(_Gate):
    """Partitions where rows are published with the least input are the same with more of it. Every derived table has
    this gate.
    """

    of_accepted: ClassVar[bool] = False
    #: How many at each end of a run are computed again, and half as many on either side between chunks. None for five
    #: days or one month. 0 opts out.
    partitions: int | None = None
    #: With how many more days of each input on each side the ends are computed; None for seven.
    extra_days: int | None = None
    name: str = WARM_UP

    @property
    def demands(self) -> str:
        ends = f"the first and last {count_of(self.asked, 'partition')} of a run"
        return f"{ends}, and those where chunks meet, are the same with more input"

    @property
    def asked(self) -> int:
        """The number of partitions at each end of a run that are computed again."""
        return self.partitions or 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved(_Gate):
    """A measure of the breakdown stays close to what the accepted rows say, month by month. A larger move blocks
    nothing: it demands a written comment of the approver. So does a sum that is not a finite number.

    Partitions without accepted rows do not count, because there is nothing that they could differ from.
    """

    of_accepted: ClassVar[bool] = False
    measure: str  #: A measure of the table's breakdown, or `rows`.
    by: tuple[str, ...] = ()  #: The dimensions by which it is compared; none for the whole month.
    percent: int  #: How much it may move, in percent of its accepted value.
    #: Moves below this amount do not count, whatever their percentage: 2 cases are not twice as bad as 1.
    at_least: int = 0
    blocking: bool = False
    name: str = ""

    def __post_init__(self) -> None:
        derived = name_for("moved", self.measure, *(["by", *self.by] if self.by else []))
        object.__setattr__(self, "name", self.name or derived)

    @property
    def demands(self) -> str:
        by = f", by {' and '.join(self.by)}" if self.by else ""
        small = f" (or less than {self.at_least:,})" if self.at_least else ""
        return (
            f"{self.measure} of a month moves by at most {self.percent} %{small} against the accepted rows{by}; "
            f"more needs a comment of the approver"
        )

    @property
    def columns(self) -> tuple[str, ...]:
        return self.by


Then = Literal["block", "comment", "warn"]
"""The consequence for a run with a partition that is far from the usual."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usual(_Gate):
    """A measure of each partition is near those of the accepted partitions before it. Written with `usual(...)`."""

    of_accepted: ClassVar[bool] = False

    measure: str  #: A measure of the table's breakdown, or `rows`.
    by: tuple[str, ...] = ()  #: The dimensions by which it is compared; none for the whole partition.
    days: int = 0  #: How many days back it is compared; 0 where `months` says it.
    months: int = 0  #: How many months back it is compared; 0 where `days` says it.
    same: Literal["weekday"] | None = None  #: Whether only the same weekdays are compared.
    most: float  #: How many times the usual distance from the usual value it may be away from it.
    then: Then = "comment"  #: What becomes of a run with a partition that is further away.
    at_least: int = 0  #: Distances from the usual value below this amount do not count.
    fewest: int  #: With fewer accepted partitions than these to compare with, nothing is far from the usual.
    name: str = ""

    def __post_init__(self) -> None:
        derived = name_for("usual", self.measure, *(["by", *self.by] if self.by else []))
        object.__setattr__(self, "name", self.name or derived)
        object.__setattr__(self, "blocking", self.then == "block")

    @property
    def against(self) -> str:
        """The period and the partitions with which it is compared."""
        back = count_of(self.months, "month") if self.months else count_of(self.days, "day")
        return f"the same weekday in the {back} before" if self.same else f"the {back} before"

    @property
    def demands(self) -> str:
        by = f", by {' and '.join(self.by)}," if self.by else ""
        small = f" or by less than {self.at_least:,}" if self.at_least else ""
        more = {"block": "blocks", "comment": "needs a comment of the approver", "warn": "is a warning"}
        return (
            f"{self.measure} of a partition{by} differs from {self.against} by at most {self.most:g} times the usual "
            f"distance{small}, where {self.fewest} or more are accepted; more {more[self.then]}"
        )

    @property
    def columns(self) -> tuple[str, ...]:
        return self.by


Gate = (
    SchemaMatches
    | UniqueKey
    | NotNull
    | AcceptedValues
    | RowExpression
    | RowCount
    | ComparedWithAccepted
    | AddsOnly
    | Merged
    | OutsideScope
    | SameState
    | OnlyExpired
    | WarmUpProof
    | Moved
    | Failing
    | Usual
)


@declared
def unique_key(*, blocking: bool = True, name: str = "unique_key") -> UniqueKey:
    """No two rows of a partition share the table's key. Every table has this gate.

    Args:
        blocking: Whether a run that does not pass cannot be published.
        name: The name of the gate.
    """
    return UniqueKey(blocking=blocking, name=name)


@declared
def not_null(column: str, *, blocking: bool = True, name: str = "") -> NotNull:
    """The column has a value in every row.

    Args:
        column: The column.
        blocking: Whether a run that does not pass cannot be published.
        name: The name of the gate; by default `not_null_` and the column.
    """
    return NotNull(column=column, blocking=blocking, name=name)


@declared
def accepted(column: str, values: Iterable[str], *, blocking: bool = True, name: str = "") -> AcceptedValues:
    """The column holds one of the values, or null.

    Args:
        column: A column of strings.
        values: The values that it may have.
        blocking: Whether a run that does not pass cannot be published.
        name: The name of the gate; by default `accepted_` and the column.
    """
    return AcceptedValues(column=column, values=tuple(values), blocking=blocking, name=name)


@declared
def expression(name: str, condition: str, *, blocking: bool = True) -> RowExpression:
    """The Spark SQL condition is true for every row; null counts as a violation.

    Args:
        name: The name of the gate.
        condition: A condition over the columns of one row.
        blocking: Whether a run that does not pass cannot be published.
    """
    return RowExpression(name=name, condition=condition, blocking=blocking)


@declared
def row_count(
    *, at_least: int = 0, at_most: int | None = None, blocking: bool = True, name: str = "row_count"
) -> RowCount:
    """Each partition has between `at_least` and `at_most` rows.

    Args:
        at_least: The fewest rows of a partition.
        at_most: The most rows of a partition; None for any number.
        blocking: Whether a run that does not pass cannot be published.
        name: The name of the gate.

    Raises:
        InvalidDeclaration: No number of rows is within the bounds.
    """
    return RowCount(at_least=at_least, at_most=at_most, blocking=blocking, name=name)


@declared
def warm_up_proof(
    partitions: int | None = None, extra_days: int | None = None, *, blocking: bool = True
) -> WarmUpProof:
    """Partitions at the ends of a run and of its chunks are computed again, with more input, and must be the same.

    Where chunks meet, each also computes partitions of its neighbours, half as many on either side. Every derived table
    has this gate, which is always named `warm_up`.

    Args:
        partitions: How many at each end of a run; by default 5 of a daily table, 1 of a monthly one. A window that is
            short by more days than that can give wrong rows further from the end, which are not compared. 0 opts out.
        extra_days: How many more days of each input on each side are read at the ends of a run, as far as they are
            accepted; by default 7.
        blocking: Whether a run that does not pass cannot be published.
    """
    return WarmUpProof(partitions=partitions, extra_days=extra_days, blocking=blocking)


@declared
def compared(
    *,
    max_removed_percent: int | None = None,
    max_changed_percent: int | None = None,
    blocking: bool = True,
    name: str = "compared_with_accepted",
) -> ComparedWithAccepted:
    """Each partition stays within limits of difference from the accepted rows.

    Every table has this gate, which without limits only informs.

    Args:
        max_removed_percent: The most accepted keys, in percent of a partition's accepted rows, that may disappear.
        max_changed_percent: The most accepted rows, in percent, that may be added, removed or changed.
        blocking: Whether a run that does not pass cannot be published.
        name: The name of the gate.

    Raises:
        InvalidDeclaration: A percentage that cannot be.
    """
    return ComparedWithAccepted(
        max_removed_percent=max_removed_percent, max_changed_percent=max_changed_percent, blocking=blocking, name=name
    )


@declared
def moved(measure: str, *, by: Iterable[str] = (), percent: int, at_least: int = 0, name: str = "") -> Moved:
    """When the measure moves further against the accepted rows, the approver has to write a comment.

    Args:
        measure: A measure of the table's breakdown, or `rows`.
        by: Dimensions of the breakdown by which it is compared; none for the whole month.
        percent: How much it may move, in percent of its accepted value.
        at_least: Moves below this amount do not count.
        name: The name of the gate; by default `moved_` and the measure, and `by` with the dimensions.
    """
    return Moved(measure=measure, by=tuple(by), percent=percent, at_least=at_least, name=name)
