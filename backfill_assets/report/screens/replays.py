"""Replays: what is sent to a topic or a stream again, what was sent, and what was ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from backfill_assets.capture.landed_files import Family
from backfill_assets.planning.partitions import count_of
from backfill_assets.report.page import Note, Page, Steps, Table, Tone, Value, facts, page, section, table
from backfill_assets.report.replayed import (
    OpenReplay,
    ReplayClosed,
    ReplayDocument,
    ReplayPlan,
    ReplayReport,
    kind_of,
)
from backfill_assets.report.requests import ANOTHER_PERSON, NAME, WHY, Act, do

_MOST = 30
_READ: Mapping[str, str] = {
    Family.KAFKA: "consumers have to read it with isolation.level=read_committed; the topic is kept until it is closed",
    Family.KINESIS: "at least once: a record may be in it again, so that consumers drop those whose sequence is not "
    "greater than the last one of their key; the stream is kept until it is closed, its records for the retention that "
    "the table declares",
}
"""What consumers have to know."""


def plan_page(plan: ReplayPlan) -> Page:
    """What is sent where, before anything is."""
    return page("Replay", facts(*_facts(plan)))


def replayed_page(report: ReplayReport) -> Page:
    """What was sent."""
    if report.waits:
        return page(
            "Replay",
            facts(*_facts(report.plan)),
            Note(text=f"{report.replay_id} waits for the approval of another person; nothing was sent"),
            Steps(steps=(do(Act.APPROVE, report.replay_id, by=ANOTHER_PERSON),)),
        )
    kind = kind_of(report.plan.family)
    said = f"{count_of(report.sent, 'record')} in the {kind} {report.plan.target}, {report.sent_now:,} of them sent now"
    left = f"{count_of(report.left_out, 'record')} of landed files without a key or a time left out"
    return page(
        f"Replayed by {report.replay_id}",
        facts((kind, f"{report.plan.target} ({report.identity})"), ("sent", said)),
        section(
            "positions",
            table(
                ["partition", "until (not included)"],
                list(report.ends.items()),
                whole=["until (not included)"],
                most=_MOST,
            ),
        ),
        Note(text=left, tone=Tone.ATTENTION) if report.left_out else None,
        Note(text=_READ[report.plan.family]),
        Steps(steps=(do(Act.REPLAY, "close", report.replay_id, by=NAME, reason=WHY),)),
    )


def replay_page(document: ReplayDocument) -> Page:
    """A replay that was asked for."""
    return page(
        f"Replay {document.replay_id}",
        facts(
            ("of", document.subject),
            ("into", document.target),
            ("records", document.records),
            ("asked for by", document.by),
            ("reason", document.reason),
        ),
        facts(("approved by", document.approved_by), ("at", document.approved_at)),
        Steps(steps=(do(Act.APPROVE, document.replay_id, by=ANOTHER_PERSON),))
        if document.waits
        else Note(text="the command that asked for it sends exactly these records"),
    )


def closed_page(closed: ReplayClosed) -> Page:
    """That a replay was ended."""
    what = "deleted" if closed.deleted else "left as it is: it was not created by the replay, or is gone"
    return page(
        f"Closed {closed.replay_id}",
        facts(
            ("of", closed.subject),
            (kind_of(closed.family), f"{closed.target}, {what}"),
            ("sent", "not all" if closed.sent is None else count_of(closed.sent, "record")),
            ("closed by", closed.closed_by),
            ("at", closed.closed_at),
        ),
    )


def open_replays_table(replays: Sequence[OpenReplay]) -> Table:
    """Replays whose topics stay until they are closed."""
    rows = [
        (each.replay_id, each.subject, each.target, "waits for approval" if each.waits else each.state.value, each.by)
        for each in replays
    ]
    return table(["replay", "of", "into", "state", "asked for by"], rows, whole=["replay"])


def _facts(plan: ReplayPlan) -> tuple[tuple[str, Value], ...]:
    named = kind_of(plan.family)
    kind = f"a live {named}, which another person has to approve" if plan.is_live else f"a {named} of the replay alone"
    parts = "partition" if plan.family == Family.KAFKA else "shard"
    what = (
        f"{count_of(plan.records, 'record')} of {count_of(plan.inputs, 'input')}, {plan.size_bytes:,} bytes as stored"
    )
    return (
        ("replay", plan.replay_id),
        ("of", plan.subject),
        ("table", plan.table if plan.table != plan.subject else None),
        ("from", None if plan.from_ is None else f"{plan.from_:%Y-%m-%d} UTC"),
        ("before", None if plan.to is None else f"{plan.to:%Y-%m-%d} UTC"),
        ("sends", what),
        ("into", f"{plan.target} of {plan.stream}, {count_of(plan.partitions, parts)}: {kind}"),
        ("delivered", plan.delivery),
    )
