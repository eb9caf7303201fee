"""Outgoing records: those of a replay, always in the same order.

Who goes on with a replay reads everything again and leaves out what is in its target already: so nothing here may
depend on anything but the inputs of the replay, which are pinned when it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time

from backfill_assets.core.errors import BackfillError, Retryable
from backfill_assets.deliver.captured_records import CapturedRecords
from backfill_assets.deliver.errors import InputsChanged, ReplayFailed
from backfill_assets.deliver.held_rows import HeldRows, as_object, contract_sent, key_bytes
from backfill_assets.deliver.sinks import Headers, Outgoing, milliseconds
from backfill_assets.domain import DerivedTable, SourceTable
from backfill_assets.ledger.records import PartitionVersion, PartKind, ReplayPart, ReplayRecord
from backfill_assets.workspace import Workspace

MODE = "REPLAY"
_OWN = ("x-replay-id", "x-run-id", "x-processing-mode", "x-transform-version", "x-input-snapshot")


@dataclass(slots=True, kw_only=True)
class OutgoingRecords:
    """The records of a replay."""

    ws: Workspace  #: Where its inputs are.
    replay: ReplayRecord
    table: SourceTable | DerivedTable
    #: How many captured records were left out, as far as they were read: they are of other times than were asked for,
    #: were captured twice, or are of one value with the record before them.
    left_out: int = 0
    _versions: dict[str, str] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Outgoing]:
        """The records.

        Raises:
            ReplayFailed: They are not those that were planned, or cannot be read any more.
        """
        count = 0
        if not self.replay.is_as_captured:
            self.ws.spark()  # a session that does not open says nothing about the inputs
        try:
            for record in self._captured() if self.replay.is_as_captured else self._held():
                if record is None:
                    self.left_out += 1
                else:
                    count += 1
                    yield record
        except Retryable:
            raise
        except BackfillError as error:
            raise ReplayFailed(replay_id=self.replay.replay_id, why=error.message.rstrip(".")) from error
        if count + self.left_out != self.replay.records:
            why = f"{count + self.left_out:,} records were read, and {self.replay.records:,} were planned"
            raise ReplayFailed(replay_id=self.replay.replay_id, why=why)

    def _headers(self, run_id: str, version: str, snapshot: str) -> Headers:
        values = (self.replay.replay_id, run_id, MODE, version, snapshot)
        return [(name, value.encode()) for name, value in zip(_OWN, values, strict=True)]

    # --------------------------------------------------------------------------------------------------- as captured

    def _captured(self) -> Iterator[Outgoing | None]:
        found = CapturedRecords(
            ws=self.ws,
            source=self.table.name,
            parts=self.replay.parts,
            headers=self._of_file,
            is_live=self.replay.is_live,
        )
        return (each if each is not None and self._is_within(each) else None for each in found)

    def _is_within(self, record: Outgoing) -> bool:
        if self.replay.period is None:
            return True
        begins, ends = self.replay.period
        return milliseconds(begins) <= record.at < milliseconds(ends)

    def _of_file(self, part: ReplayPart) -> Headers:
        return self._headers(self.replay.replay_id, self._contract, f"sha256:{part.digest}")

    @property
    def _contract(self) -> str:
        return str(self.table.contract_version) if isinstance(self.table, SourceTable) else self.table.version

    # --------------------------------------------------------------------------------------------- what readers see

    def _held(self) -> Iterator[Outgoing]:
        replay, table = self.replay, self.table
        assert table.replay is not None, "what declares no replay is not sent"
        held = HeldRows(ws=self.ws, table=table, parts=replay.parts, period=replay.period)
        if replay.contract != contract_sent(self.ws, table):
            raise InputsChanged(what=f"the columns of {table.name}")
        if any(part.kind is PartKind.GONE and held.gone()[1] != part.digest for part in replay.parts):
            raise InputsChanged(what=f"what landed of {table.name}")
        versions = self._partitions()
        newest = f"{table.name}@{_newest(versions)}"
        of_keys = (
            self._headers(replay.replay_id, self._contract, newest)
            if replay.subject == table.name
            else self._headers(replay.subject, self._transform(replay.subject), newest)
        )
        of_rows: dict[date, Headers] = {}
        for each in held:
            key = key_bytes(each.key, table.replay.key_format)
            if each.row is None:
                ended = each.at if each.import_id is None else held.landed_at(each.import_id)
                yield Outgoing(key=key, value=None, headers=of_keys, at=milliseconds(ended or replay.asked_at))
                continue
            assert each.day is not None, "a row is in a partition"
            if each.day not in of_rows:
                of_rows[each.day] = self._of_version(versions[each.day])
            at = each.at or datetime.combine(each.day, time(), tzinfo=UTC)
            yield Outgoing(key=key, value=as_object(each.row), headers=of_rows[each.day], at=milliseconds(at))

    def _partitions(self) -> Mapping[date, PartitionVersion]:
        sent = (each for each in self.replay.parts if each.kind is PartKind.PARTITION)
        with self.ws.ledger.read() as tx:
            return tx.versions.pinned(self.table.name, [(date.fromisoformat(each.name), each.version) for each in sent])

    def _of_version(self, version: PartitionVersion) -> Headers:
        snapshot = f"{self.table.name}@{version.delta_version}"
        return self._headers(version.run_id, self._transform(version.run_id), snapshot)

    def _transform(self, run_id: str) -> str:
        """The version of the transform of a run."""
        if run_id not in self._versions:
            with self.ws.ledger.read() as tx:
                self._versions[run_id] = tx.runs.get(run_id).manifest.transform_version
        return self._versions[run_id]


def _newest(versions: Mapping[date, PartitionVersion]) -> int:
    return max((each.delta_version for each in versions.values()), default=0)
