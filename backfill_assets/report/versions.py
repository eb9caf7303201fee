"""Documents of tables with versions: where readers find a table, and how its versions compare."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime

from backfill_assets.candidates.compare_versions import expected_differences, outdated, shared_columns
from backfill_assets.core.columns import ColumnChange
from backfill_assets.core.next_steps import NAME, WHY, Act, NextStep, do, step
from backfill_assets.ledger.states import ActState
from backfill_assets.ledger.table_acts import ActRecord, ComparedDay, ComparedPartition
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.partitions import Partitions
from backfill_assets.report.table_acts import next_step_of_act
from backfill_assets.transforms.schemas import business_schema, changes_when_shown
from backfill_assets.workspace import Workspace

MOST_DAYS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedTable:
    """Where readers find a table."""

    name: str  #: The table that was asked for.
    table: str  #: The table that its readers are shown: itself, or a version of it.
    path: str  #: Its place in the lake.
    version: int  #: The version of the Delta table to read.
    run_id: str  #: The run whose publication or rollback made that version.
    publication_id: str  #: That publication or rollback.
    landed_at: datetime | None  #: When that version landed; readers were shown the table later, if their cut-over was.
    as_of: str | None  #: As of which run, day or time; null for now.


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionStatus:
    """A version of a table, or the table itself."""

    table: str  #: Its name.
    path: str  #: Its place in the lake.
    release: str  #: The release that computes it.
    is_shown: bool  #: Whether readers of the table are shown it.
    is_kept_up: bool  #: Whether the LIVE path keeps it up to date.
    retired_by: str | None  #: The act that gave it up for good; null before.
    accepted: Partitions  #: Its accepted partitions.
    #: Of one that readers are not shown, the partitions that were not compared as both sides are now.
    outdated: Partitions
    last: ComparedDay | None  #: What the last comparison with what readers are shown came to; null before there is one.
    differing: tuple[ComparedPartition, ...]  #: The partitions with keys that do not agree, as they were compared last.
    clean_days: int  #: On how many days in a row, up to the last comparison, every difference was expected.
    clean_days_wanted: int  #: How many are declared before readers are cut over.
    columns: tuple[ColumnChange, ...]  #: How the columns that readers see change when they are cut over to it.
    not_compared: tuple[str, ...]  #: Columns that only one side has, or in another type.
    days: tuple[ComparedDay, ...]  #: The comparisons of the last thirty days on which there was one.


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowStatus:
    """The versions of a table."""

    name: str  #: The table.
    shown: str  #: The table that its readers are shown.
    since: datetime | None  #: Since when; null while it is the table itself from the beginning.
    versions: tuple[VersionStatus, ...]  #: The table itself and its versions.
    acts: tuple[ActRecord, ...]  #: What was asked for and done, in order.
    next_step: NextStep | None  #: What can be done now; null when there is nothing.


def shadow_status(ws: Workspace, name: str) -> ShadowStatus:
    """The versions of a table, from the ledger alone."""
    with ws.ledger.read() as tx:
        shown, last = tx.acts.shown(name), tx.acts.last_cut_over(name)
        versions = tuple(_version(ws, tx, table, shown) for table in ws.domain.family(name))
        acts, were_shown = tx.acts.records(name), tx.acts.were_shown(name)
    waiting = next((each for each in acts[::-1] if each.state is ActState.ASKED), None)
    return ShadowStatus(
        name=name,
        shown=shown,
        since=last.done_at if last else None,
        versions=versions,
        acts=acts,
        next_step=next_step_of_act(waiting, shown)
        if waiting
        else _next([each for each in versions if each.table not in were_shown]),
    )


def _next(versions: Sequence[VersionStatus]) -> NextStep | None:
    """The step that brings the first version closer that readers were not shown yet."""
    for each in versions:
        if not each.accepted:
            return step(do(Act.SHADOW, "start", each.table, by=NAME, reason=WHY))
        is_compared = not each.clean_days_wanted or (each.last is not None and not each.outdated)
        if each.is_kept_up and is_compared and each.clean_days >= each.clean_days_wanted:
            return step(do(Act.SHADOW, "cut-over", each.table, by=NAME, reason=WHY))
    return None


def _version(ws: Workspace, tx: ReadTransaction, table: str, shown: str) -> VersionStatus:
    declared, other = ws.domain.derived_table(table), ws.domain.derived_table(shown)
    grain, is_shown = declared.partition.grain, table == shown
    due, gone = (set[date](), set[date]()) if is_shown else outdated(tx, declared, other)
    days = () if is_shown else tx.comparisons.days(table)
    shared = set(shared_columns(declared, other).fieldNames())
    every = [*business_schema(declared).fieldNames(), *business_schema(other).fieldNames()]
    retired = tx.acts.retired().get(table)
    compared = () if is_shown else tx.comparisons.partitions(table).values()
    return VersionStatus(
        table=table,
        path=str(ws.lake.place(table)),
        release=declared.version,
        is_shown=is_shown,
        is_kept_up=table not in tx.acts.stopped(),
        retired_by=retired.act_id if retired else None,
        accepted=Partitions.of(grain, tx.versions.claims(table)),
        outdated=Partitions.of(grain, due | gone),
        last=days[-1] if days else None,
        differing=tuple(each for each in compared if each.differing or not each.is_clean),
        clean_days=0 if is_shown else tx.comparisons.clean_days(table, shown, since=tx.acts.started_at(table)),
        clean_days_wanted=0 if is_shown else expected_differences(declared, other).clean_days,
        columns=changes_when_shown(other, declared),
        not_compared=tuple(dict.fromkeys(each for each in every if each not in shared)),
        days=days[-MOST_DAYS:],
    )
