"""Versions of tables: where readers find a table, how versions compare, and the acts that cut readers over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from backfill_assets.ledger.records import TableAct
from backfill_assets.ledger.states import ActState
from backfill_assets.ledger.table_acts import ActRecord, ComparedDay, ShownPeriod
from backfill_assets.planning.partitions import count_of
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
from backfill_assets.report.table_acts import ActDocument
from backfill_assets.report.words.plans import columns_words

if TYPE_CHECKING:
    # It compares rows, which a status does not need.
    from backfill_assets.report.versions import ResolvedTable, ShadowStatus, VersionStatus

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
        *(_version(each, status.shown) for each in status.versions),
        section("Acts", acts_table(status.acts)),
        next_steps(status.next_step),
    )


def _version(found: VersionStatus, shown: str) -> Section | None:
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
