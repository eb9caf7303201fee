"""The command `plan`, which shows what would be done and records the manifest."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from backfill_assets.cli.answers import (
    By,
    DaysFile,
    EveryFrom,
    EveryTo,
    Json,
    RunMode,
    answering,
    app,
    argument,
    columns_and_values,
    cost,
    days_given,
    number,
    text,
    texts,
)
from backfill_assets.cli.session import given_reason, opened, person
from backfill_assets.planning.manifest_parts import Kind, Mode
from backfill_assets.report.errors import NotGiven, NotTogether

if TYPE_CHECKING:
    from backfill_assets.planning.kinds.change import Scope
    from backfill_assets.planning.request import Plan
    from backfill_assets.planning.restatement import NothingToRebuild, PlannedSet
    from backfill_assets.planning.sets import AskedPhases

Truth = Literal["as-recorded", "corrected", "current"]


@app.command()
def plan(
    table: Annotated[
        str | None, argument(metavar="TABLE", help="A table; with --because and --stale optional.")
    ] = None,
    first: EveryFrom = None,
    last: EveryTo = None,
    days_file: DaysFile = None,
    reason: Annotated[str, text(help="Why history has to change.")] = "",
    by: By = "",
    because: Annotated[
        list[str] | None,
        texts(
            metavar="TABLE:DAY..DAY",
            help="Rebuild everything that depends on these days (of a source: UTC dates) or months, as one set.",
        ),
    ] = None,
    stale: Annotated[
        bool, typer.Option("--stale", help="Rebuild the partitions that `backfill stale` lists, as one set.")
    ] = False,
    with_dependents: Annotated[
        bool,
        typer.Option("--with-dependents", help="With TABLE: also rebuild everything that depends on it, as one set."),
    ] = False,
    name: Annotated[str | None, text(help="The name of the set.")] = None,
    changed_code: Annotated[
        bool,
        typer.Option(
            "--changed-code",
            help="With --stale: also partitions where only the code changed, to prove that their rows are equal.",
        ),
    ] = False,
    expire: Annotated[
        bool, typer.Option("--expire", help="Expire the snapshots of TABLE that its declaration does not keep.")
    ] = False,
    partial: Annotated[
        bool, typer.Option("--partial", help="Plan those of the days that can be planned; list the others.")
    ] = False,
    mode: Annotated[
        RunMode,
        typer.Option(
            help="dry-run: never published; reconciliation: reports drift; replay: also publishes over newer inputs."
        ),
    ] = "backfill",
    kind: Annotated[
        Kind | None,
        typer.Option(case_sensitive=False, help="By default RESTATEMENT where rows would be replaced, else BACKFILL."),
    ] = None,
    transform_version: Annotated[str | None, text(help="A registered version; the present one by default.")] = None,
    references: Annotated[
        Truth | None,
        typer.Option(
            help="Which versions of the references: the present ones (default), those of the replaced rows, or those "
            "that --reference names."
        ),
    ] = None,
    reference: Annotated[
        list[str] | None,
        texts(
            metavar="NAME=VERSION",
            help="A version of a reference, the beginning of its sha256, or a YAML file; for corrected references.",
        ),
    ] = None,
    chunk_partitions: Annotated[int | None, number("partitions", help="The most partitions computed at once.")] = None,
    chunk_rows: Annotated[int | None, number("rows", help="The most rows expected per chunk.")] = None,
    max_rows: Annotated[
        int | None, number("rows", help="The most staged rows; more of them stop the run before its gates.")
    ] = None,
    rows_per_minute: Annotated[int | None, number("rows", help="The most rows staged per minute.")] = None,
    pause: Annotated[int | None, number("seconds", least=0, metavar="SECONDS", help="Wait between chunks.")] = None,
    priority: Annotated[
        int | None,
        number(
            "", least=0, help="Open runs of a lower priority over the same partitions wait for this one (default: 0)."
        ),
    ] = None,
    max_cost: Annotated[
        Decimal | None,
        typer.Option(
            parser=cost,
            metavar="COST",
            help="Refuse a higher expected cost: core seconds, or money where BACKFILL_CORE_HOUR_PRICE is set.",
        ),
    ] = None,
    phases: Annotated[
        int | None,
        number(
            "phases",
            help="The number of phases, published one after the other, each with its own rollback; 1 publishes all at "
            "once, where the table declares phases.",
        ),
    ] = None,
    phase_by: Annotated[
        Literal["month"] | None, typer.Option(help="Publish the days in phases, one for each month.")
    ] = None,
    hold: Annotated[
        int | None, number("hours", metavar="HOURS", help="How long a phase waits after the one before it.")
    ] = None,
    approve_each: Annotated[
        bool,
        typer.Option("--approve-each", help="Each phase is approved by itself, when those before it are published."),
    ] = False,
    where: Annotated[
        list[str] | None, texts(help="A pilot: only these rows change, all others stay as accepted.")
    ] = None,
    but: Annotated[list[str] | None, texts(help="All rows but these change: the rest of a pilot.")] = None,
    show: Annotated[
        str,
        text(
            metavar="KEYS",
            help="Disputed cases: a CSV file of keys, or a reference with `keys`, whose rows the report shows before "
            "and after, equal ones too. Its first line names the columns of the key; the partition's may be left out.",
        ),
    ] = "",
    as_json: Json = False,
) -> None:
    """Show the inputs and the partitions to replace, step by step, and write the DRAFT manifest that `run` executes."""
    if table is None and not because and not stale:
        raise typer.BadParameter(
            "give TABLE --from DAY --to DAY, or TABLE --expire, or --because TABLE:DAY..DAY, or --stale"
        )
    wanted = Mode(mode.upper().replace("-", "_"))
    with answering(as_json) as answer:
        from backfill_assets.planning.chosen_references import asked_references
        from backfill_assets.planning.request import AskedLimits, PlanRequest
        from backfill_assets.planning.restatement import SetRequest, parse_because

        limits = AskedLimits(
            chunk_partitions=chunk_partitions,
            chunk_rows=chunk_rows,
            max_rows=max_rows,
            rows_per_minute=rows_per_minute,
            pause_s=pause,
            priority=priority,
        )
        days = days_given(first, last, days_file)
        needs_days = days is None and not because and not stale and not expire
        no_days = [("the days to plan are not given", "--from DAY --to DAY")] if needs_days else []
        asked: Any = {
            "reason": given_reason(reason, by, lacks=no_days),
            "by": by,
            "table": table,
            "days": days,
            "mode": wanted,
            "limits": limits,
            "max_cost": max_cost,
            "partial": partial,
            "references": asked_references(references, reference or ()),
        }
        request: PlanRequest | SetRequest | None = None
        in_phases = _phases(phases, phase_by, hold, each=approve_each)
        scope = _scope(where or [], but or [])
        _refuse(
            show and expire,
            why="the keys of --show are of rows that are computed",
            leave="--show",
            instead="list all of its rows once it is planned",
        )
        _refuse(
            changed_code and not stale,
            why="--changed-code selects stale partitions, so it goes with --stale only",
            leave="--changed-code",
            instead="add --stale",
        )
        _refuse(
            with_dependents and (because or stale),
            why="--because and --stale rebuild everything that depends on what they name in any case",
            leave="--with-dependents",
            instead="plan TABLE over the days of --from and --to",
        )
        if expire:
            computed = (days, because, stale, with_dependents, name, partial, kind, transform_version, scope, in_phases)
            _refuse(
                any(computed) or wanted is not Mode.BACKFILL or limits != AskedLimits(),
                why="which snapshots expire follows from what the table keeps, and nothing is computed",
                leave="--expire",
                instead="give only TABLE, --reason and --by with it",
            )
        elif because or stale or with_dependents:
            _refuse(
                in_phases is not None,
                why="the runs of a set of several tables are published together, and phases are of one table",
                leave="--phases and --phase-by",
                instead="plan one table alone, as a run",
            )
            _refuse(
                scope is not None,
                why="a set of several tables rebuilds whole partitions, and a pilot is of one table",
                leave="--where and --but",
                instead="plan one table alone, as a run",
            )
            _refuse(
                because and not stale and (table is not None or days is not None),
                why="--because follows days to everything that depends on them, so no table and no range go with it",
                leave="TABLE, --from and --to",
                instead="plan the table alone, without --because",
            )
            _refuse(
                kind is not None or transform_version is not None,
                why="a set rebuilds tables with their present transforms; --kind and --transform-version do not go "
                "with it",
                leave="--kind and --transform-version",
                instead="plan one table alone, as a run",
            )
            request = SetRequest(
                **asked,
                because=tuple(parse_because(text) for text in because or ()),
                stale=stale,
                with_dependents=with_dependents,
                name=name,
                changed_code=changed_code,
            )
        else:
            _refuse(
                name is not None and in_phases is None,
                why="--name names a set, and a plan of one table alone is a run, which has no name",
                leave="--name",
                instead="plan a set: add --with-dependents",
            )
            request = PlanRequest(**asked, kind=kind, transform_version=transform_version, scope=scope)
        person(by)
        from backfill_assets.application import plan as planning

        with opened() as session:
            planned: Plan | PlannedSet | NothingToRebuild
            match request:
                case None:
                    planned = planning.plan_expiry(session.ws, str(table), reason=asked["reason"], by=by)
                case SetRequest():
                    planned = planning.plan_set(session.ws, request, show=show.strip())
                case PlanRequest():
                    planned = planning.plan_table(session.ws, request, in_phases, name=name, show=show.strip())
            document = planning.described(session.ws, planned)
        answer(document)


def _refuse(is_given: object, *, why: str, leave: str, instead: str) -> None:
    """Refuses options that do not go together, rather than passing over one of them."""
    if is_given:
        raise NotTogether(why=why, leave=leave, instead=instead)


def _phases(count: int | None, by: str | None, hold: int | None, *, each: bool) -> AskedPhases | None:
    from backfill_assets.planning.sets import AskedPhases, Phases

    is_both = count is not None and by is not None
    _refuse(
        is_both, why="--phases and --phase-by both say what a phase is", leave="--phases", instead="leave --phase-by"
    )
    if count is None and by is None:
        if hold is not None or each:
            raise NotGiven(why="--hold and --approve-each are about phases", add="--phases N or --phase-by month")
        return None
    return AskedPhases(count=count, terms=Phases(hold_s=(hold or 0) * 3600, each=each))


def _scope(where: list[str], but: list[str]) -> Scope | None:
    from backfill_assets.planning.kinds.change import Scope

    _refuse(where and but, why="--where and --but both say which rows change", leave="--but", instead="leave --where")
    option, given = ("--but", but) if but else ("--where", where)
    named = columns_and_values(given, option)
    return Scope(where=tuple(named.items()), is_rest=bool(but)) if named else None
