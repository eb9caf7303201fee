"""Documents of tables with versions: where readers find a table, and how its versions compare."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime

from backfill_assets.calendar.partitions import Partitions, count_of
from backfill_assets.core.columns import ColumnChange
from backfill_assets.core.next_steps import (
    NAME,
    WHY,
    Command,
    NextStep,
    do,
    step,
    to_approve,
    to_cancel,
    to_publish,
    to_undo,
)
from backfill_assets.ledger.records import TableAct
from backfill_assets.ledger.states import ActState
from backfill_assets.ledger.table_acts import ActRecord, ComparedDay, ComparedPartition, ShownPeriod
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.report.documents import INLINE
from backfill_assets.report.page import (
    Code,
    Note,
    Page,
    Section,
    Table,
    Tone,
    Toned,
    Value,
    facts,
    next_steps,
    page,
    run_ref,
    section,
    table,
    table_ref,
)
from backfill_assets.report.words.plans import columns_words
from backfill_assets.transforms.schemas import business_schema, changes_when_shown
from backfill_assets.workspace import Workspace

# Acts on versions of tables as documents: what was asked for, and what can be done about it.


@dataclass(frozen=True, slots=True, kw_only=True)
class ActDocument:
    """An act on a version of a table."""

    act: ActRecord = field(metadata=INLINE)  #: The act.
    #: Of a cut-over, how the columns that readers see change with it, as it was when it was asked for.
    columns: tuple[ColumnChange, ...]
    next_step: NextStep | None  #: What can be done now; null when there is nothing.


def described_act(ws: Workspace, record: ActRecord) -> ActDocument:
    """An act with what can be done about it."""
    with ws.ledger.read() as tx:
        return act_document(tx, record)


def act_document(tx: ReadTransaction, record: ActRecord) -> ActDocument:
    """The document of an act, inside an open transaction."""
    shown = tx.acts.shown(record.name)
    return ActDocument(act=record, columns=tx.acts.columns(record.act_id), next_step=next_step_of_act(record, shown))


def open_acts(tx: ReadTransaction) -> tuple[ActDocument, ...]:
    """The acts that are asked for and not done, in order."""
    return tuple(act_document(tx, each) for each in tx.acts.records() if each.state is ActState.ASKED)


def next_step_of_act(record: ActRecord, shown: str) -> NextStep | None:
    """The next step for an act; None when there is none.

    Args:
        shown: The table that its readers are shown now.
    """
    match record.state:
        case ActState.ASKED if _is_overtaken(record, shown):
            why = f"readers of {record.name} are shown {shown}, so that it cannot be done: "
            return step(why, to_cancel(record.act_id))
        case ActState.ASKED if record.waits and record.approved_by is None:
            return step(to_approve(record.act_id))
        case ActState.ASKED:
            return step(to_publish(record.act_id))
        case ActState.DONE if record.act is TableAct.CUT_OVER:
            return step("to show readers the earlier table again: ", to_undo(record.act_id))
        case _:
            return None


def _is_overtaken(record: ActRecord, shown: str) -> bool:
    """True if the request would be refused because readers are shown another table than they were then."""
    match record.act:
        case TableAct.CUT_OVER:
            return shown != record.from_table
        case TableAct.RETIRE:
            return shown == record.table
        case _:
            return False


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
    is_shown: bool  #: True if readers of the table are shown it.
    is_kept_up: bool  #: True if the LIVE path keeps it up to date.
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
            return step(do(Command.SHADOW, "start", each.table, by=NAME, reason=WHY))
        is_compared = not each.clean_days_wanted or (each.last is not None and not each.outdated)
        if each.is_kept_up and is_compared and each.clean_days >= each.clean_days_wanted:
            return step(do(Command.SHADOW, "cut-over", each.table, by=NAME, reason=WHY))
    return None


def _version(ws: Workspace, tx: ReadTransaction, table: str, shown: str) -> VersionStatus:
    # Imported where versions are compared: acts are listed by status, which starts without what reads rows.
    from backfill_assets.candidates.compare_versions import expected_differences, outdated, shared_columns

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


# Versions of tables: where readers find a table, how versions compare, and the acts that cut readers over.

_MOST = 30

_DONE = {
    TableAct.START: "{table} is kept up to date, and compared with what readers of {name} are shown every day",
    TableAct.STOP: "{table} is no longer kept up to date",
    TableAct.CUT_OVER: "readers of {name} are shown {table}",
    TableAct.RETIRE: "{table} was given up for good: it is not kept up to date, and readers are not shown it again",
}
_UNDONE = "readers of {name} are shown {from_table} again"


def resolved_page(found: ResolvedTable) -> Page:
    """Where readers find a table."""

    return page(
        found.name,
        facts(
            ("table", table_ref(found.table)),
            ("path", Code(found.path)),
            ("version", found.version),
            ("as of", found.as_of),
            ("published", found.landed_at),
            ("run", run_ref(found.run_id)),
        ),
    )


def times_shown(version: str, name: str | None, shown: Sequence[ShownPeriod]) -> Section | None:
    """When the readers of a table were shown a version of it, by which cut-overs; None for a table without versions."""
    if name is None:
        return None
    rows = [
        (
            each.since or "the beginning",
            each.until or "now",
            *((each.by.act_id, each.by.by, each.by.approved_by, each.by.reason) if each.by else ("", "", "", "")),
        )
        for each in shown
    ]
    heads = ["from", "until", "cut-over", "asked by", "approved by", "reason"]
    never = Note(text="Never: only who names the version sees it.")
    return section(
        f"When readers of {name} were shown {version}", table(heads, rows, whole=["cut-over"]) if rows else never
    )


def shadow_page(status: ShadowStatus) -> Page:
    """The versions of a table, and how they compare."""
    return page(
        status.name,
        facts(("readers are shown", table_ref(status.shown)), ("since", status.since)),
        *(_version_block(each, status.shown) for each in status.versions),
        section("Acts", acts_table(status.acts)),
        next_steps(status.next_step),
    )


def _version_block(found: VersionStatus, shown: str) -> Section | None:
    state = "readers are shown it" if found.is_shown else "kept up to date" if found.is_kept_up else "not kept up"
    wanted = f"{found.clean_days} of {found.clean_days_wanted} in a row" if found.clean_days_wanted else None
    days = [
        (
            each.compared_on,
            each.partition_count,
            each.agreed,
            each.explained,
            each.differing - each.explained,
            _clean(each),
        )
        for each in found.days[::-1]
    ]
    differing = [
        (each.partition, each.agreed, each.changed, each.only_here, each.only_there, each.explained)
        for each in found.differing
    ]
    not_yet = f"{found.outdated}; the job backfill_live of Dagster does, every day" if found.outdated else None
    return section(
        found.table,
        facts(
            ("state", f"given up by {found.retired_by}" if found.retired_by else state),
            ("release", found.release),
            ("path", Code(found.path)),
            ("accepted", found.accepted),
            ("not compared yet", not_yet),
            ("clean days", wanted),
            ("columns with a cut-over", columns_words(found.columns)),
            ("columns not compared", ", ".join(found.not_compared)),
        ),
        section(
            f"Compared with {shown}, by key",
            table(
                ["day", "partitions", "agree", "explained", "not explained", "clean"],
                days,
                numbers=["partitions", "agree", "explained", "not explained"],
                most=_MOST,
            ),
        ),
        section(
            f"{count_of(len(differing), 'partition')} with differences",
            table(
                ["partition", "agree", "changed", "only here", f"only in {shown}", "explained"],
                differing,
                numbers=["agree", "changed", "only here", f"only in {shown}", "explained"],
                most=_MOST,
            ),
        ),
    )


def _clean(day: ComparedDay) -> Value:
    if day.is_clean:
        return Toned(value="yes", tone=Tone.GOOD)
    agrees_now = day.partition_count and day.differing == day.explained
    return Toned(value="no: not in every comparison of the day" if agrees_now else "no", tone=Tone.BAD)


def act_page(document: ActDocument) -> Page:
    """An act on a version of a table."""
    act = document.act
    return page(
        act.act_id,
        facts(
            ("act", act.act),
            ("of", table_ref(act.table)),
            ("for readers of", table_ref(act.name)),
            ("in place of", table_ref(act.from_table) if act.from_table else None),
            ("columns", columns_words(document.columns)),
            ("state", act.state),
            ("asked by", act.by),
            ("reason", act.reason),
            ("approved by", act.approved_by),
        ),
        Note(text=words_of(act)),
        next_steps(document.next_step),
    )


def words_of(act: ActRecord) -> str:
    """The words for what an act has changed."""
    named = {"name": act.name, "table": act.table, "from_table": act.from_table}
    if act.undone_at is not None:
        return _UNDONE.format(**named)
    if act.done_at is not None:
        return _DONE[act.act].format(**named)
    return "nothing was changed" if act.state is ActState.CANCELLED else "nothing is changed yet"


def acts_table(acts: Sequence[ActRecord]) -> Table:
    """Acts, in the order in which they were asked for."""
    rows = [(act.act_id, act.act, table_ref(act.table), act.state, act.by, act.approved_by) for act in acts]
    return table(["act", "what", "of", "state", "asked by", "approved by"], rows, whole=["act"], most=_MOST)
