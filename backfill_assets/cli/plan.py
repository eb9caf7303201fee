"""The commands `plan`, which show what would be done and record the manifest: one for each kind of plan.

The options of a command are the fields of its record, which extends the records of the options that several commands
take: options that do not go together belong to different commands, and cannot be typed.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

import typer

from backfill_assets.cli.answers import (
    By,
    DaysFile,
    EveryFrom,
    EveryTo,
    Json,
    RunMode,
    TableName,
    answering,
    app,
    argument,
    arguments,
    columns_and_values,
    cost,
    days_given,
    number,
    text,
    texts,
    whole_number,
)
from backfill_assets.cli.groups import GROUPS, PlainGroup
from backfill_assets.cli.session import given_reason, opened, person
from backfill_assets.core.next_steps import Command
from backfill_assets.planning.manifest_parts import Mode, RunPurpose
from backfill_assets.report.errors import NotGiven, NotTogether

if TYPE_CHECKING:
    from backfill_assets.calendar.partitions import DayRange, Days
    from backfill_assets.planning.kinds.change import Scope
    from backfill_assets.planning.request import Plan
    from backfill_assets.planning.restatement import NothingToRebuild, PlannedSet
    from backfill_assets.planning.sets import AskedPhases
    from backfill_assets.workspace import Workspace

    Planned = Plan | PlannedSet | NothingToRebuild

BY_MONTH = "month"

plan = typer.Typer(cls=PlainGroup, no_args_is_help=True, rich_markup_mode=None)
app.add_typer(plan, name="plan", help="Show inputs and partitions to replace, and write the manifest of a run or set.")


def _phases_given(typed: str) -> str:
    return typed if typed == BY_MONTH else str(whole_number("phases")(typed))


@dataclass(frozen=True, kw_only=True)
class _Asked:
    """What a person states with every plan."""

    reason: Annotated[str, text(help="Why history has to change.")] = ""
    by: By = ""

    @property
    def lacks(self) -> Sequence[tuple[str, str]]:
        """What is missing besides who acts and why, each with what is to be added."""
        return ()

    def plan(self) -> Callable[[Workspace], Planned]:
        """Checks the options, and returns what plans by them."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class _Computed(_Asked):
    """The options of a plan whose runs compute rows."""

    partial: Annotated[
        bool, typer.Option("--partial", help="Plan those of the days that can be planned; list the others.")
    ] = False
    mode: Annotated[
        RunMode,
        typer.Option(
            help="dry-run: never published; reconciliation: reports drift; replay: also publishes over newer inputs."
        ),
    ] = "backfill"
    references: Annotated[
        Literal["as-recorded", "corrected", "current"] | None,
        typer.Option(
            help="Which versions of the references: the present ones (default), those of the replaced rows, or those "
            "that --reference names."
        ),
    ] = None
    reference: Annotated[
        list[str] | None,
        texts(
            metavar="NAME=VERSION",
            help="A version of a reference, the beginning of its sha256, or a YAML file; for corrected references.",
        ),
    ] = None
    chunk_partitions: Annotated[int | None, number("partitions", help="The most partitions computed at once.")] = None
    chunk_rows: Annotated[int | None, number("rows", help="The most rows expected per chunk.")] = None
    max_rows: Annotated[
        int | None, number("rows", help="The most staged rows; more of them stop the run before its gates.")
    ] = None
    rows_per_minute: Annotated[int | None, number("rows", help="The most rows staged per minute.")] = None
    pause: Annotated[int | None, number("seconds", least=0, metavar="SECONDS", help="Wait between chunks.")] = None
    priority: Annotated[
        int | None,
        number(
            "", least=0, help="Open runs of a lower priority over the same partitions wait for this one (default: 0)."
        ),
    ] = None
    max_cost: Annotated[
        Decimal | None,
        typer.Option(
            parser=cost,
            metavar="COST",
            help="Refuse a higher expected cost: core seconds, or money where BACKFILL_CORE_HOUR_PRICE is set.",
        ),
    ] = None
    show: Annotated[
        str,
        text(
            metavar="KEYS",
            help="Disputed cases: a CSV file of keys, or a reference with `keys`, whose rows the report shows before "
            "and after, equal ones too. Its first line names the columns of the key; the partition's may be left out.",
        ),
    ] = ""

    def of_every_request(self) -> Mapping[str, Any]:
        """The fields that requests for runs and for sets have in common."""
        from backfill_assets.planning.request import AskedLimits, asked_references

        return {
            "reason": self.reason.strip(),
            "by": self.by,
            "partial": self.partial,
            "mode": Mode(self.mode.upper().replace("-", "_")),
            "references": asked_references(self.references, self.reference or ()),
            "max_cost": self.max_cost,
            "limits": AskedLimits(
                chunk_partitions=self.chunk_partitions,
                chunk_rows=self.chunk_rows,
                max_rows=self.max_rows,
                rows_per_minute=self.rows_per_minute,
                pause_s=self.pause,
                priority=self.priority,
            ),
        }


@dataclass(frozen=True, kw_only=True)
class _Over(_Asked):
    """The options of a plan over days."""

    first: EveryFrom = None
    last: EveryTo = None
    days_file: DaysFile = None

    @property
    def days(self) -> Days | None:
        """The days that are given; None without any."""
        return days_given(self.first, self.last, self.days_file)

    @property
    def lacks(self) -> Sequence[tuple[str, str]]:
        """The days, if none are given."""
        return () if self.days else [("the days to plan are not given", "--from DAY --to DAY")]


@dataclass(frozen=True, kw_only=True)
class _Table(_Computed, _Over):
    """Plan a run over days of a table, or the phases in which they are published.

    The answer shows the inputs and the partitions to replace, step by step; `run` executes the DRAFT manifest.
    """

    table: TableName
    kind: Annotated[
        RunPurpose | None,
        typer.Option(case_sensitive=False, help="By default RESTATEMENT where rows would be replaced, else BACKFILL."),
    ] = None
    transform_version: Annotated[str | None, text(help="A registered version; the present one by default.")] = None
    phases: Annotated[
        str | None,
        typer.Option(
            parser=_phases_given,
            metavar="N|month",
            help="The number of phases, or one for each month, published one after the other, each with its own "
            "rollback; 1 publishes all at once, where the table declares phases.",
        ),
    ] = None
    hold: Annotated[
        int | None, number("hours", metavar="HOURS", help="How long a phase waits after the one before it.")
    ] = None
    approve_each: Annotated[
        bool,
        typer.Option("--approve-each", help="Each phase is approved by itself, when those before it are published."),
    ] = False
    name: Annotated[str | None, text(help="The name of the set of phases.")] = None
    where: Annotated[list[str] | None, texts(help="A pilot: only these rows change, all others stay as accepted.")] = (
        None
    )
    but: Annotated[list[str] | None, texts(help="All rows but these change: the rest of a pilot.")] = None

    def plan(self) -> Callable[[Workspace], Planned]:
        """Checks the options, and returns what plans by them."""
        from backfill_assets.application.plan import plan_table
        from backfill_assets.planning.request import PlanRequest

        phases, show, days = self._asked_phases(), self.show.strip(), self.days
        assert days is not None, "without days it is refused"
        request = PlanRequest(
            **self.of_every_request(),
            table=self.table,
            days=days,
            kind=self.kind,
            transform_version=self.transform_version,
            scope=self._scope(),
        )
        return lambda ws: plan_table(ws, request, phases, name=self.name, show=show)

    def _asked_phases(self) -> AskedPhases | None:
        from backfill_assets.planning.sets import AskedPhases, Phases

        if self.phases is None:
            if self.name is not None or self.hold is not None or self.approve_each:
                raise NotGiven(why="--name, --hold and --approve-each are about phases", add="--phases N or month")
            return None
        terms = Phases(hold_s=(self.hold or 0) * 3600, each=self.approve_each)
        return AskedPhases(count=None if self.phases == BY_MONTH else int(self.phases), terms=terms)

    def _scope(self) -> Scope | None:
        from backfill_assets.planning.kinds.change import Scope

        if self.where and self.but:
            why = "--where and --but both say which rows change"
            raise NotTogether(why=why, leave="--but", instead="leave --where")
        option, given = ("--but", self.but) if self.but else ("--where", self.where)
        named = columns_and_values(given or [], option)
        return Scope(where=tuple(named.items()), is_rest=bool(self.but)) if named else None


@dataclass(frozen=True, kw_only=True)
class _Set(_Computed):
    """The options of a plan of several tables."""

    name: Annotated[str | None, text(help="The name of the set.")] = None

    def _plan_set(self, **more: Any) -> Callable[[Workspace], Planned]:
        from backfill_assets.application.plan import plan_set
        from backfill_assets.planning.restatement import SetRequest

        request, show = SetRequest(**self.of_every_request(), name=self.name, **more), self.show.strip()
        return lambda ws: plan_set(ws, request, show=show)


@dataclass(frozen=True, kw_only=True)
class _WithDependents(_Set, _Over):
    """Plan days of a table, and everything that depends on them, as one set."""

    table: TableName

    def plan(self) -> Callable[[Workspace], Planned]:
        """Returns what plans by the options."""
        return self._plan_set(table=self.table, days=self.days, with_dependents=True)


@dataclass(frozen=True, kw_only=True)
class _Because(_Set):
    """Plan everything that depends on days that have changed or were found wrong, as one set."""

    because: Annotated[
        list[str], arguments(metavar="TABLE:DAY..DAY", help="Days of a table (of a source: UTC dates), or months.")
    ]

    def plan(self) -> Callable[[Workspace], Planned]:
        """Checks the options, and returns what plans by them."""
        return self._plan_set(because=_parsed(self.because))


@dataclass(frozen=True, kw_only=True)
class _Stale(_Set, _Over):
    """Plan the partitions that `backfill stale` lists, and everything that depends on them, as one set."""

    table: Annotated[
        str | None, argument(metavar="TABLE", help="Only this table and what depends on it; all by default.")
    ] = None
    changed_code: Annotated[
        bool,
        typer.Option(
            "--changed-code", help="Also partitions where only the code changed, to prove that their rows are equal."
        ),
    ] = False
    because: Annotated[
        list[str] | None,
        texts(metavar="TABLE:DAY..DAY", help="Also all that depends on these days (of a source: UTC dates)."),
    ] = None

    @property
    def lacks(self) -> Sequence[tuple[str, str]]:
        """Nothing: without days every stale partition is planned."""
        return ()

    def plan(self) -> Callable[[Workspace], Planned]:
        """Checks the options, and returns what plans by them."""
        because = _parsed(self.because or ())
        return self._plan_set(
            table=self.table, days=self.days, stale=True, changed_code=self.changed_code, because=because
        )


@dataclass(frozen=True, kw_only=True)
class _Expire(_Asked):
    """Plan that the snapshots of a table expire which its declaration does not keep; nothing is computed."""

    table: TableName

    def plan(self) -> Callable[[Workspace], Planned]:
        """Returns what plans by the options."""
        from backfill_assets.application.plan import plan_expiry

        return lambda ws: plan_expiry(ws, self.table, reason=self.reason.strip(), by=self.by)


def _parsed(because: Sequence[str]) -> tuple[tuple[str, DayRange], ...]:
    from backfill_assets.planning.restatement import parse_because

    return tuple(map(parse_because, because))


def _add(name: str, record: type[_Asked]) -> None:
    """Adds a command that takes the fields of a record as its options."""
    hints = get_type_hints(record, include_extras=True) | {"as_json": Json}
    defaults = {each.name: each.default for each in fields(record)} | {"as_json": False}

    def command(*, as_json: bool, **typed: Any) -> None:
        asked = record(**typed)
        with answering(as_json) as answer:
            given_reason(asked.reason, asked.by, lacks=asked.lacks)
            planned_by = asked.plan()
            person(asked.by)
            from backfill_assets.application.plan import described

            with opened() as session:
                document = described(session.ws, planned_by(session.ws))
            answer(document)

    command.__doc__, command.__annotations__ = record.__doc__, hints
    command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(
                each,
                inspect.Parameter.KEYWORD_ONLY,
                default=inspect.Parameter.empty if default is MISSING else default,
                annotation=hints[each],
            )
            for each, default in defaults.items()
        ]
    )
    plan.command(name, short_help=GROUPS["Plan and publish"][Command(f"plan {name}")])(command)


_add("table", _Table)
_add("with-dependents", _WithDependents)
_add("because", _Because)
_add("stale", _Stale)
_add("expire", _Expire)
