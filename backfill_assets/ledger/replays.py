"""Replays: what is sent to topics and streams again on purpose, who agreed to it, and what became of it.

How far the sending to a topic is, only its cluster knows: it is part of the transactions that have the records. A
stream has none, so that it is kept here, behind every batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from sqlalchemy import Select, insert, select, update

from backfill_assets.core.identity import plain
from backfill_assets.ledger.approvals import ApprovalSteps, row_without_approval, with_approval
from backfill_assets.ledger.errors import LostWork, TargetTaken
from backfill_assets.ledger.events import Event, Step, Writes
from backfill_assets.ledger.queries import Queries, read_as
from backfill_assets.ledger.recorded_text import one_line, required_text
from backfill_assets.ledger.records import ReplayRecord
from backfill_assets.ledger.schema import replays
from backfill_assets.ledger.states import ReplayState, RequestKind

_replay = read_as(ReplayRecord)


def replay_taken_over(replay_id: str) -> LostWork:
    """The error of a process that may not send any more."""
    why = "another process continued or closed it"
    return LostWork(name=f"replay {replay_id}", why=why, of={"replay_id": replay_id})


@cache
def _replays() -> Select[*tuple[Any, ...]]:
    return with_approval(replays.c.replay_id)


class ReplayReads(Queries):
    """Replays."""

    def records(self, *, is_open: bool | None = None, limit: int | None = None) -> tuple[ReplayRecord, ...]:
        """Replays in their order.

        Cost: one row per replay, with its inputs.

        Args:
            is_open: Only those that are closed, or are not.
            limit: At most this many, the last ones.
        """
        chosen = _replays().order_by(replays.c.number.desc()).limit(limit)
        if is_open is not None:
            closed = replays.c.state == ReplayState.CLOSED
            chosen = chosen.where(~closed if is_open else closed)
        return tuple(_replay(row) for row in reversed(self._rows(chosen)))

    def get(self, replay_id: str) -> ReplayRecord:
        """One replay.

        Cost: one primary key lookup.

        Raises:
            UnknownName: There is none of this id.
        """
        return _replay(self._named(_replays(), replays.c.replay_id, kind="replay", name=replay_id))

    def open_in(self, stream: str, target: str) -> ReplayRecord | None:
        """The replay that has a topic; None when none has.

        Cost: one index lookup.

        Args:
            stream: The id of the cluster, or where the stream is.
            target: The topic or the stream.
        """
        is_it = (replays.c.stream == stream) & (replays.c.target == target) & (replays.c.state != ReplayState.CLOSED)
        row = self._row(_replays().where(is_it))
        return None if row is None else _replay(row)

    def is_sender(self, replay_id: str, sender: str) -> bool:
        """True if a process may still write to the stream of a replay. Cost: one primary key lookup."""
        is_it = (replays.c.replay_id == replay_id) & (replays.c.state != ReplayState.CLOSED)
        return self._values(select(replays.c.sender).where(is_it)) == [sender]


class ReplayWrites(ReplayReads, Writes):
    """Replays, step by step."""

    def begin(self, asked: ReplayRecord) -> ReplayRecord:
        """Records what is to be sent where, before anything is.

        Cost: one row and one event.

        Args:
            asked: The replay, without id and times.

        Raises:
            Refused: Another one has the topic.
        """
        held = self.open_in(asked.stream, asked.target)
        if held is not None:
            raise TargetTaken(target=asked.target, replay_id=held.replay_id)
        number = self._highest(replays.c.number) + 1
        record = replace(
            asked,
            replay_id=RequestKind.REPLAY.id_of(number),
            by=one_line("the actor", asked.by),
            reason=required_text("the reason", asked.reason),
            asked_at=self._log.now,
        )
        row = row_without_approval(record, number=number, ends={})
        self._log.write(insert(replays).values(row), of=[record.replay_id])
        ApprovalSteps(self._log).begin(record.replay_id)
        payload = {
            "subject": record.subject,
            "table": record.table,
            "family": record.family,
            "target": record.target,
            "stream": record.stream,
            "is_live": record.is_live,
            "parts": plain(record.parts),
            "reason": record.reason,
        }
        self._append(record.replay_id, "replay_asked", by=record.by, payload=payload, to_state=record.state)
        return record

    def identify(self, replay_id: str, identity: str, *, by: str) -> None:
        """Records which topic or stream it is, once that is there.

        Cost: one row and one event.

        Raises:
            TakenOver: It was closed meanwhile.
            Refused: It is another one than before.
        """
        if self.get(replay_id).state is ReplayState.CLOSED:
            raise replay_taken_over(replay_id)
        is_it = (replays.c.replay_id == replay_id) & replays.c.identity.is_(None)
        changed = self._log.write(update(replays).where(is_it).values(identity=identity), of=[replay_id])
        if changed.rowcount == 1:
            self._append(replay_id, "replay_target_known", by=by, payload={"identity": identity})
        elif self.get(replay_id).identity != identity:
            raise TargetTaken(target=self.get(replay_id).target, replay_id=replay_id)

    def take(self, replay_id: str, sender: str, *, by: str) -> None:
        """From here on only this process may write to the stream of a replay.

        Cost: one row and one event.
        """
        is_it = replays.c.replay_id == replay_id
        self._log.write(update(replays).where(is_it).values(sender=sender), of=[replay_id])
        self._append(replay_id, "replay_taken", by=by, payload={"sender": sender})

    def progressed(self, replay_id: str, sender: str, records: int, *, by: str) -> None:
        """So many records are in the stream of a replay for certain.

        Cost: one row and one event.

        Raises:
            TakenOver: Another process has gone on with it, or closed it.
        """
        may = (
            (replays.c.replay_id == replay_id) & (replays.c.sender == sender) & (replays.c.state != ReplayState.CLOSED)
        )
        changed = self._log.write(update(replays).where(may).values(progress=records), of=[replay_id])
        if changed.rowcount != 1:
            raise replay_taken_over(replay_id)
        self._append(replay_id, "replay_progressed", by=by, payload={"records": records})

    def sending(self, replay_id: str, *, by: str) -> None:
        """From here on it is known how far it is, by the cluster of the topic or by `progressed`.

        Cost: one row and one event.

        Raises:
            IllegalTransition: It was closed meanwhile.
        """
        self._step(replay_id, ReplayState.ASKED, ReplayState.SENDING, by=by)

    def failed(self, replay_id: str, why: str, *, by: str) -> None:
        """Not all of what was planned can be sent.

        Cost: one row and one event.

        Raises:
            IllegalTransition: It was closed meanwhile.
        """
        stated = {"failure": one_line("the failure", why)}
        self._step(replay_id, ReplayState.SENDING, ReplayState.FAILED, by=by, also=stated, payload=stated)

    def sent(self, replay_id: str, records: int, ends: Mapping[str, str], *, left_out: int, by: str) -> None:
        """All of it is in the topic or the stream.

        Cost: one row and one event.

        Args:
            records: How many records were sent.
            ends: The position behind the last record, by partition or shard.
            left_out: How many captured records were left out.
            by: Who sent it.
        """
        values = {"sent": records, "left_out": left_out, "ends": dict(ends), "sent_at": self._log.now}
        payload = {"sent": records, "left_out": left_out, "ends": dict(ends)}
        self._step(replay_id, ReplayState.SENDING, ReplayState.SENT, by=by, also=values, payload=payload)

    def close(self, replay_id: str, *, by: str, reason: str, deleted: bool) -> None:
        """Ends a replay, when its topic or stream is deleted if it was created for it.

        Cost: one row and one event.

        Raises:
            IllegalTransition: It is closed already.
        """
        values = {"closed_by": one_line("the actor", by), "closed_at": self._log.now}
        stated = {"reason": required_text("the reason", reason), "deleted": deleted}
        found = self.get(replay_id).state
        self._step(replay_id, found, ReplayState.CLOSED, by=by, also=values, payload=stated)

    def _step(
        self,
        replay_id: str,
        begins: ReplayState,
        ends: ReplayState,
        *,
        by: str,
        also: Mapping[str, Any] | None = None,
        payload: Mapping[str, Any] | None = None,
    ) -> None:
        step = Step(table=replays, key={"replay_id": replay_id}, name=f"replay {replay_id}", begins=begins, ends=ends)
        event = Event("replay", replay_id, f"replay_{ends.lower()}", actor=by, payload=payload or {})
        self._log.change(step, event, also=also)

    def _append(self, replay_id: str, action: str, *, by: str, payload: Mapping[str, Any], to_state: str = "") -> None:
        self._log.append(Event("replay", replay_id, action, actor=by, payload=payload, to_state=str(to_state)))
