"""Documents of replays: what would be sent where, what was sent, and what was ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, time

from backfill_assets.calendar.partitions import count_of
from backfill_assets.capture.families import target_of
from backfill_assets.core.next_steps import close_replay, to_approve
from backfill_assets.ledger.records import ReplayRecord
from backfill_assets.ledger.states import ReplayState
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.report.page import Note, Page, Table, Value, facts, next_steps, page, section, table
from backfill_assets.report.waiting import NotKnownDocument, not_known_section


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayPlan:
    """The plan of a replay: what it sends where."""

    record: ReplayRecord  #: The replay as it is in the ledger, or would be.
    #: The keys that are not known of the days whose rows are sent; null where all are, and for captured records.
    not_known: NotKnownDocument | None = None

    @property
    def replay_id(self) -> str | None:
        """The replay that it goes on with; null for a new one."""
        return self.record.replay_id or None

    @property
    def delivery(self) -> str:
        """The delivery to consumers: `exactly once`, as long as they read what is committed, or `at least once`."""
        return target_of(self.record.family).delivery


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayReport:
    """The records that were sent to a topic or a stream again."""

    replay_id: str  #: The replay, such as `rep-000001`.
    waits: bool  #: True if nothing was sent, because another person has to approve it first.
    plan: ReplayPlan  #: What there was to send.
    state: ReplayState  #: How far it is.
    identity: str | None  #: The id of the topic or the stream; null while it waits.
    sent: int  #: How many records are in it.
    sent_now: int  #: How many of them this command sent.
    #: How many captured records were left out, because they are of other times, were captured twice, or are of one
    #: value with another record.
    left_out: int
    ends: Mapping[str, str]  #: The position behind the last record, by partition or shard.


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayClosed:
    """A replay that was ended."""

    record: ReplayRecord  #: The replay.
    deleted: bool  #: True if the topic or stream that was created for it is deleted: one that was there before stays.


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenReplay:
    """A replay that is not closed: its topic or stream stays until it is."""

    record: ReplayRecord  #: The replay.


def open_replays(tx: ReadTransaction) -> tuple[OpenReplay, ...]:
    """The replays that are not closed, in their order."""
    return tuple(OpenReplay(record=each) for each in tx.replays.records(is_open=True))


# Replays: what is sent to a topic or a stream again, what was sent, and what was ended.

_MOST = 30


def plan_page(plan: ReplayPlan) -> Page:
    """The page on a planned replay: what is sent where."""
    return page("Replay", facts(*_facts(plan)), not_known_section(_unknown(plan)))


def replayed_page(report: ReplayReport) -> Page:
    """The page on what was sent."""
    if report.waits:
        return page(
            "Replay",
            facts(*_facts(report.plan)),
            not_known_section(_unknown(report.plan)),
            Note(text=f"{report.replay_id} waits for the approval of another person; nothing was sent"),
            next_steps(to_approve(report.replay_id)),
        )
    record, target = report.plan.record, target_of(report.plan.record.family)
    said = (
        f"{count_of(report.sent, 'record')} in the {target.kind} {record.target}, {report.sent_now:,} of them sent now"
    )
    left_out = count_of(report.left_out, "captured record")
    left = f"{left_out} of other times, captured twice, or of one value with another, left out"
    return page(
        f"Replayed by {report.replay_id}",
        facts((target.kind, f"{record.target} ({report.identity})"), ("sent", said)),
        section(
            "positions",
            table(
                ["partition", "until (not included)"],
                list(report.ends.items()),
                whole=["until (not included)"],
                most=_MOST,
            ),
        ),
        not_known_section(_unknown(report.plan)),
        Note(text=left) if report.left_out else None,
        Note(text=target.note),
        next_steps(close_replay(report.replay_id)),
    )


def replay_page(record: ReplayRecord) -> Page:
    """A replay that was asked for."""
    return page(
        f"Replay {record.replay_id}",
        facts(
            ("of", record.subject),
            ("into", record.target),
            ("records", record.records),
            ("asked for by", record.by),
            ("reason", record.reason),
        ),
        facts(("approved by", record.approved_by), ("at", record.approved_at)),
        next_steps(to_approve(record.replay_id))
        if record.waits
        else Note(text="the command that asked for it sends exactly these records"),
    )


def closed_page(closed: ReplayClosed) -> Page:
    """The page of a replay that was ended."""
    record = closed.record
    what = "deleted" if closed.deleted else "left as it is: it was not created by the replay, or is gone"
    return page(
        f"Closed {record.replay_id}",
        facts(
            ("of", record.subject),
            (target_of(record.family).kind, f"{record.target}, {what}"),
            ("sent", "not all" if record.sent is None else count_of(record.sent, "record")),
            ("closed by", record.closed_by),
            ("at", record.closed_at),
        ),
    )


def open_replays_table(replays: Sequence[OpenReplay]) -> Table:
    """Replays whose topics stay until they are closed."""
    rows = [
        (each.replay_id, each.subject, each.target, _state(each), each.by)
        for each in (replay.record for replay in replays)
    ]
    return table(["replay", "of", "into", "state", "asked for by"], rows, whole=["replay"])


def _state(record: ReplayRecord) -> str:
    if record.waits:
        return "waits for approval"
    return record.state.value if record.failure is None else f"{record.state.value}: {record.failure}"


def _facts(plan: ReplayPlan) -> tuple[tuple[str, Value], ...]:
    record = plan.record
    target = target_of(record.family)
    kind = (
        f"a live {target.kind}, which another person has to approve"
        if record.is_live
        else f"a {target.kind} of the replay alone"
    )
    if record.is_as_captured:
        what = f"as captured in {count_of(record.inputs, 'file')}"
    else:
        deleted = count_of(record.deleted_keys, "key")
        what = f"for the rows of {count_of(record.inputs, 'partition')}, and for {deleted} without a row"
    records = f"{count_of(record.records, 'record')}, {what}"
    return (
        ("replay", plan.replay_id),
        ("of", record.subject),
        ("table", record.table if record.table != record.subject else None),
        ("from", _instant(record.period_from)),
        ("before", _instant(record.period_to)),
        ("sends", f"{records}, {record.size_bytes:,} bytes as stored"),
        ("into", f"{record.target} of {record.stream}, {count_of(record.stream_partitions, target.part)}: {kind}"),
        ("delivered", plan.delivery),
    )


def _unknown(plan: ReplayPlan) -> Sequence[NotKnownDocument]:
    return [plan.not_known] if plan.not_known else []


def _instant(at: datetime | None) -> str | None:
    if at is None:
        return None
    return f"{at:%Y-%m-%d} UTC" if at.time() == time() else f"{at:%Y-%m-%d %H:%M:%S} UTC"
