"""Gates on rows that fail: a function of an author, or SQL, returns the rows that may not be there.

The room `transforms` calls the function, and `gates.failing_rows` counts what it returns.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import Any, ClassVar, overload

from pyspark.sql import DataFrame
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DateType,
    NullType,
    NumericType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from backfill_assets.calendar.windows import SAME_DAYS, AnyWindow
from backfill_assets.core.declaring import declared, meant, place_of_declaration, shown
from backfill_assets.core.errors import InvalidDeclaration

CANDIDATE, ACCEPTED, AROUND, CONTEXT = "candidate", "accepted", "around", "ctx"
EXPECTED, FOUND = "expected", "found"
"""The columns by which a function says what it expected, and what it found instead."""

NOTHING: Mapping[str, Any] = {}

FailingFunction = Callable[..., DataFrame]


class Needs(Enum):
    """The required type of an expression's values: in words, and as types."""

    CONDITION = "a condition, which is true or false", BooleanType
    AMOUNT = "a number, which can be added up", NumericType
    DAY = "a day or a time, or a text that is one", DateType | TimestampType | TimestampNTZType | StringType
    ORDER = "a number, a day or a time, which can fall", NumericType | DateType | TimestampType | TimestampNTZType

    @property
    def words(self) -> str:
        return str(self.value[0])

    def has(self, kind: DataType) -> bool:
        """True if values of a type meet the requirement; values that are all null can be anything."""
        return isinstance(kind, (self.value[1], NullType))


@dataclass(frozen=True, slots=True, kw_only=True)
class Over:
    """An expression of SQL over the rows of a frame that a gate is given."""

    frame: str  #: The name of the frame.
    sql: str  #: The expression.
    needs: Needs | None = None  #: What its values have to be; None for anything.
    like: str = ""  #: The column of the table that its values are compared with; empty for none.

    def mistake(self, kind: DataType) -> str | None:
        """The mistake in it for values of this type, without the gate; None if there is none."""
        if self.needs is None or self.needs.has(kind):
            return None
        of = "" if self.frame == CANDIDATE else f" of {self.frame}"
        return f"{self.sql.strip('`')!r:.60}{of} is {kind.simpleString():.60}, and has to be {self.needs.words}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherTable:
    """A table whose accepted rows a gate is given."""

    argument: str  #: By which name.
    table: Any  #: A source table or a derived table of the domain.
    window: AnyWindow  #: How far around the partitions that are measured.
    changes: bool = False  #: True if the changelog is read, and not the current rows.
    is_optional: bool = False  #: True if partitions that are not accepted are left out.


@dataclass(frozen=True, slots=True, kw_only=True)
class Failing:
    """No row is returned by a function, or a query, of what it names. Written with `failing(...)`."""

    of_accepted: ClassVar[bool] = True
    name: str
    demands: str
    rows: FailingFunction | None = None  #: The function; None for a query.
    sql: str = ""  #: The query; empty for a function.
    reads: tuple[OtherTable, ...] = ()  #: The other tables whose accepted rows it is given.
    #: How far around the partitions it is given the accepted rows of its own table; None for not at all.
    around: AnyWindow | None = None
    references: tuple[str, ...] = ()  #: Names of the reference documents that the function finds in its context.
    takes: tuple[str, ...] = ()  #: What the function takes, by name; empty for a query, which names it itself.
    #: What it is over: by the name of a frame, columns or expressions of SQL over its rows.
    over: tuple[Over, ...] = ()
    #: Of a gate of this project, such as `complete`, its kind and the release of its function, in place of the code of
    #: an author; empty for any other.
    release: str = ""
    #: Of a function that returns other rows than those that fail: what makes these of them, which takes the context,
    #: the candidate and what was returned.
    then: Callable[..., DataFrame] | None = None
    #: Of a gate that asks what the entries of its first reference say, the name of their list in the file: in a
    #: partition without an entry it measures nothing.
    entries: str = ""
    #: True if an entry that another version of that reference lacks, or has otherwise, loosens the gate.
    keeps: bool = False
    #: What is wrong with these entries: takes them with `partition`, `grain`, `key` and `schema` of the table, and
    #: returns the number of an entry with what is wrong with it, or None.
    mistake: Callable[..., tuple[int, str] | None] | None = None
    #: What of its rows depends on an order that nothing decides and does not matter, with the reasons.
    undetermined: Mapping[str, str] = field(default_factory=dict)
    blocking: bool = True
    place: str = field(init=False, default="", repr=False, compare=False)  #: The file and the line of its declaration.

    def __post_init__(self) -> None:
        object.__setattr__(self, "place", place_of_declaration())
        if not all(text.strip() for pair in self.undetermined.items() for text in pair):
            raise InvalidDeclaration(f"gate {self.name} declares something undetermined without a name or a reason.")

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it is about, which the table has to have: those that it names are found when it is asked."""
        return ()

    @property
    def named(self) -> tuple[str, ...]:
        """Its arguments, by name.

        Raises:
            InvalidDeclaration: Its query is not one query of SQL.
        """
        own = tables_in(self.sql, self.name) if self.sql else self.takes
        return tuple(dict.fromkeys((*own, *((CONTEXT, CANDIDATE) if self.then else ()))))


@overload
def failing(
    name: str,
    *,
    rows: FailingFunction,
    reads: Mapping[str, Any] = ...,
    optional: Iterable[str] = ...,
    around: AnyWindow | None = ...,
    references: Iterable[str] = ...,
    undetermined: Mapping[str, str] = ...,
    blocking: bool = ...,
    demands: str = ...,
) -> Failing: ...
@overload
def failing(
    name: str,
    *,
    sql: str,
    reads: Mapping[str, Any] = ...,
    optional: Iterable[str] = ...,
    around: AnyWindow | None = ...,
    undetermined: Mapping[str, str] = ...,
    blocking: bool = ...,
    demands: str = ...,
) -> Failing: ...
@overload
def failing(
    name: str = "",
    *,
    reads: Mapping[str, Any] = ...,
    optional: Iterable[str] = ...,
    around: AnyWindow | None = ...,
    references: Iterable[str] = ...,
    undetermined: Mapping[str, str] = ...,
    blocking: bool = ...,
    demands: str = ...,
) -> Callable[[FailingFunction], Failing]: ...
@declared
def failing(
    name: str = "",
    *,
    rows: Callable[..., Any] | None = None,
    sql: str = "",
    reads: Mapping[str, Any] = NOTHING,
    optional: Iterable[str] = (),
    around: AnyWindow | None = None,
    references: Iterable[str] = (),
    undetermined: Mapping[str, str] = NOTHING,
    blocking: bool = True,
    demands: str = "",
) -> Failing | Callable[[FailingFunction], Failing]:
    """No row is returned by a function, or by a query, of the candidate and of what the table reads.

    Each argument of the function, and each table in the query, is what its name says: `candidate` (the new rows of the
    run), `accepted` (the rows of the same partitions that readers see), `around` (those of the partitions around them),
    an input of the table by its argument there, a table of `reads`, and for a function `ctx`. It returns the rows that
    fail, with the partition column. The key columns of the table name each; without any, all columns but `expected`
    and `found` do, which say what was expected and found. Rows of other partitions than those of the run do not count.

    Args:
        name: The name of the gate; of a decorated function, its own by default.
        rows: The function; without it and without `sql`, the function that is decorated.
        sql: In place of a function, one query of Spark SQL.
        reads: Other tables whose accepted rows it is given, by name: a table for the same days, or `reads(table,
            days_back=7)`.
        optional: The names of those of which partitions may be missing. Without a partition of any other the gate does
            not pass.
        around: `Window(days_back=1)`, or `Months(back=1)`: which partitions of the table itself it is given as
            `around`, as far as they are accepted, without those of the run.
        references: Names of the references that the function finds in `ctx.references`.
        undetermined: What in its rows depends on an order that nothing decides, as a refusal names it, and why that
            does not matter.
        blocking: Whether a run that does not pass cannot be published.
        demands: What it asks for, in words; by default the beginning of the function's docstring, or the query.

    Raises:
        InvalidDeclaration: It has both a function and a query, or arguments that nothing can be given for.
    """
    if sql and (rows is not None or references):
        others = "a function" if rows is not None else "references, which only a function can read"
        raise InvalidDeclaration(f"gate {name} has a query and {others}; give one of the two.")
    if not sql.strip() and sql:
        raise InvalidDeclaration(f"gate {name} has an empty query.")
    given = others_of(name, reads, tuple(optional))
    if sql:
        words = demands or f"no rows of {' '.join(sql.split())}"
        return Failing(
            name=name,
            demands=words,
            sql=sql,
            reads=given,
            around=around,
            undetermined=undetermined,
            blocking=blocking,
        )

    def gate(function: FailingFunction) -> Failing:
        return Failing(
            name=name or getattr(function, "__name__", ""),
            demands=demands or _first_sentence(function) or f"no rows of {name or function.__name__}",
            rows=function,
            reads=given,
            around=around,
            references=tuple(references),
            takes=_arguments(name, function),
            undetermined=undetermined,
            blocking=blocking,
        )

    # Shown where it is taken for a gate: without a function it is a decorator of one.
    gate.__name__ = f"failing({name!r}) without rows= or sql="
    return gate if rows is None else gate(rows)


def others_of(name: str, reads: Mapping[str, Any], optional: tuple[str, ...] = ()) -> tuple[OtherTable, ...]:
    """The tables that a gate reads besides those of its own table, as they are declared.

    Args:
        name: The gate.
        reads: By argument, a table or `reads(table, ...)`.
        optional: Arguments of those of which partitions may be missing.

    Raises:
        InvalidDeclaration: One is no table, has a window that is a function, or a name that is none.
    """
    if unknown := [each for each in optional if each not in reads]:
        raise InvalidDeclaration(f"gate {name} has {unknown[0]!r} as optional, which it does not read.")
    if odd := [each for each in reads if not each.isidentifier()]:
        raise InvalidDeclaration(f"gate {name} reads a table as {odd[0]!r}, which cannot name an argument.")
    found = []
    for argument, given in reads.items():
        # An input that is read in a way of its own holds the table; both are declared on top of gates.
        # A table alone has a window and changes too, which are those of its own inputs.
        is_read = hasattr(given, "table")
        table, window = (given.table, given.window) if is_read else (given, SAME_DAYS)
        if not hasattr(table, "row_key"):
            raise InvalidDeclaration(f"gate {name} reads {shown(table)} as {argument!r}, which is not a table.")
        if not isinstance(window, AnyWindow):
            wanted = "a Window or Months: it has no references to be computed from"
            raise InvalidDeclaration(f"gate {name} reads {argument!r} with {shown(window)}, and has to have {wanted}.")
        found.append(
            OtherTable(
                argument=argument,
                table=table,
                window=window,
                changes=is_read and given.changes,
                is_optional=argument in optional,
            )
        )
    return tuple(found)


def _first_sentence(function: FailingFunction) -> str:
    """The first paragraph of its docstring, in one line."""
    return " ".join((inspect.getdoc(function) or "").partition("\n\n")[0].split()).rstrip(".")


def _arguments(name: str, function: FailingFunction) -> tuple[str, ...]:
    if not callable(function) or isinstance(function, type):
        raise InvalidDeclaration(f"gate {name} is given {shown(function)} where a function is declared.")
    found = inspect.signature(function).parameters.values()
    for each in found:
        if each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD, each.POSITIONAL_ONLY):
            raise InvalidDeclaration(f"gate {name} takes {each}, and is given its arguments by their names.")
    return tuple(each.name for each in found if each.default is each.empty)


def cannot_be_given(gate: Failing, inputs: Collection[str]) -> str | None:
    """The reason why a gate cannot be given what it names, with what there is; None if it can. Of a query this parses
    it.

    Args:
        inputs: The arguments by which the table reads its inputs.

    Raises:
        InvalidDeclaration: Its query is not one query of SQL.
    """
    own = [CANDIDATE, ACCEPTED, *([] if gate.around is None else [AROUND])]
    others = [each.argument for each in gate.reads]
    known = [*own, *inputs, *others, *([] if gate.sql else [CONTEXT])]
    if twice := [name for name in others if known.count(name) > 1 or name in (AROUND, CONTEXT)]:
        return f"gate {gate.name} reads a table as {twice[0]!r}, which is the name of something else"
    if unused := [name for name in (*others, *own[2:]) if name not in gate.named]:
        return f"gate {gate.name} reads {unused[0]!r}, and its {'query' if gate.sql else 'function'} does not name it"
    if (unknown := [name for name in gate.named if name not in known]) and gate.release:
        can, near = ", ".join((*own, *inputs)), meant(unknown[0], inputs)
        about = f"is about {unknown[0]!r}, which is not an input of the table, and can be given {can}"
        return f"gate {gate.name} {about}{near}"
    if unknown:
        what, near = "query reads" if gate.sql else "function takes", meant(unknown[0], known)
        return f"gate {gate.name}: its {what} {', '.join(unknown)}, and can be given {', '.join(known)}{near}"
    if gate.references and CONTEXT not in gate.named:
        return f"gate {gate.name} names references, which its function finds in an argument {CONTEXT!r}"
    return None


@lru_cache(maxsize=512)
def tables_in(sql: str, name: str) -> tuple[str, ...]:
    """The tables that a query reads, in the order of their names; those that it makes itself are none of them.

    Raises:
        InvalidDeclaration: It is not one query of SQL.
    """
    # SQL parsing takes a tenth of a second to import, and commands that only look do without it.
    import sqlglot
    from sqlglot import expressions as of

    try:
        statements = [each for each in sqlglot.parse(sql, dialect="spark") if each is not None]
    except sqlglot.errors.SqlglotError as error:
        raise InvalidDeclaration(f"the query of gate {name} is not SQL: {' '.join(sql.split())!r:.200}.") from error
    if len(statements) != 1 or not isinstance(statements[0], of.Query):
        raise InvalidDeclaration(f"gate {name} has to be one SELECT: {' '.join(sql.split())!r:.200}.")
    tables = [each for each in statements[0].find_all(of.Table) if isinstance(each.this, of.Identifier)]
    return tuple(sorted({".".join(part.name for part in each.parts) for each in tables if not _is_made(each)}))


def _is_made(table: Any) -> bool:
    """True if a query defines a table itself, by a WITH that applies where it reads the table.

    What a WITH makes counts in what comes after it, and in itself only where it is recursive: `WITH orders AS (SELECT *
    FROM orders)` reads the orders that it is given.
    """
    from sqlglot import expressions as of

    inside = table
    while len(table.parts) == 1 and (around := inside.parent) is not None:
        if isinstance(around, of.With):
            place = next(n for n, each in enumerate(around.expressions) if each is inside)
            made = around.expressions[: place + bool(around.args.get("recursive"))]
        else:
            made = [] if isinstance(inside, of.With) else getattr(around, "ctes", [])
        if any(each.alias == table.name for each in made):
            return True
        inside = around
    return False


def query_of(sql: str, names: Iterable[str]) -> str:
    """A query in the form of `SparkSession.sql`, which is given its tables by name.

    The text of the author stays as it is, in a query that gives it these names and no others.
    """
    text = sql.strip().rstrip(";").replace("{", "{{").replace("}", "}}")
    given = ", ".join(f"`{name}` AS (SELECT * FROM {{{name}}})" for name in names)  # noqa: S608 - of the author
    return f"WITH {given} SELECT * FROM (\n{text}\n)" if given else text  # noqa: S608 - as above


Frames = Mapping[str, DataFrame]
"""The arguments of a gate, by name."""
