"""What a ledger tells of a story, without what is of the moment: ids, times, processes, and digests of these."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from backfill_assets.ledger.records import EventRecord
from backfill_assets.orchestration import tags
from backfill_assets.orchestration.storage import open_instance
from backfill_assets.workspace import Workspace

IDS = re.compile(r"\b(?:pub-\d{8}-[0-9a-f]{10}|\w+-\d{8}-[0-9a-f]{8})\b")
OF_THE_MOMENT = frozenset({"attempt", "core_ms", "expected_core_ms", "place", "took_ms", "versions"})
BY_ITSELF = {"sensor": "BY ITSELF", "follow": "BY ITSELF"}
"""The two names of what follows publications by the ledger's word: the sensor, and the command."""


class Story:
    """Names ids by the order in which they appear."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def named(self, value: Any) -> Any:
        """A value with its ids and automatic actors replaced, and without what is of the moment."""
        match value:
            case str():
                told = IDS.sub(lambda found: self._names.setdefault(found[0], f"ID{len(self._names) + 1}"), value)
                return BY_ITSELF.get(told, told)
            case Mapping():
                kept = {name: each for name, each in value.items() if not _is_of_the_moment(name)}
                return {name: self.named(each) for name, each in sorted(kept.items())}
            case list() | tuple():
                return [self.named(each) for each in value]
            case _:
                return value


def _is_of_the_moment(name: str) -> bool:
    # Digests are of paths and texts that hold ids; the checksums of content are kept.
    return name in OF_THE_MOMENT or name.endswith("digest")


def wait_until_followed(ws: Workspace, *, within_s: float = 180) -> None:
    """Waits for the tick of the sensor that finds nothing left to follow: the commands have that said at once."""
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        with ws.ledger.read() as tx:
            if not tx.outbox.entries(open_only=True):
                return
        time.sleep(1)
    raise AssertionError(f"something was left to follow for {within_s} s")


def events_after(ws: Workspace, sequence: int) -> Sequence[Mapping[str, Any]]:
    """Events since an event: who did what, from which state to which, with which payload."""
    story = Story()
    with ws.ledger.read() as tx:
        return [_told(story, event) for event in tx.events.entries() if event.sequence > sequence]


def _told(story: Story, event: EventRecord) -> Mapping[str, Any]:
    named: Mapping[str, Any] = story.named(
        {
            "who": event.actor,
            "entity": event.entity,
            "id": event.entity_id,
            "action": event.action,
            "from": event.from_state,
            "to": event.to_state,
            "with": event.payload,
        }
    )
    return named


def last_sequence(ws: Workspace) -> int:
    """The number of the newest event."""
    with ws.ledger.read() as tx:
        return max(event.sequence for event in tx.events.entries())


def approvals(ws: Workspace) -> Sequence[Mapping[str, Any]]:
    """Every run, oldest first: what was asked for, by whom, who agreed, and what became of it."""
    story = Story()
    with ws.ledger.read() as tx:
        return [
            story.named(
                {
                    "run": run.run_id,
                    "table": run.manifest.table,
                    "kind": run.manifest.kind,
                    "release": run.manifest.transform_version,
                    "reason": run.manifest.reason,
                    "requester": run.manifest.requested_by,
                    "state": run.state,
                    "approval": run.approval,
                    "approver": run.approved_by,
                }
            )
            for run in reversed(tx.runs.records())
        ]


def runs_in_dagster(ws: Workspace) -> Sequence[Mapping[str, Any]]:
    """The tags of every Dagster run that executed a manifest, oldest first, and where the Timeline shows it."""
    story = Story()
    with open_instance(ws.settings) as instance:
        runs = [run for run in reversed(instance.get_runs()) if tags.RUN_ID in run.tags]
        return [
            {
                "tags": story.named({name: text for name, text in run.tags.items() if name.startswith("backfill/")}),
                "days": (run.tags[tags.RANGE_START], run.tags[tags.RANGE_END]),
                "status": run.status,
                "shown in": run.remote_job_origin and run.remote_job_origin.location_name,
            }
            for run in runs
        ]


def publications(ws: Workspace) -> Sequence[Mapping[str, Any]]:
    """Every publication and rollback: by whom, why, which partitions, and the content that readers then saw."""
    return [dict(each) for each in _publications(ws)]


def _publications(ws: Workspace) -> Iterator[Mapping[str, Any]]:
    story = Story()
    with ws.ledger.read() as tx:
        for record in tx.publications.records():
            intent = record
            yield story.named(
                {
                    "id": intent.publication_id,
                    "run": intent.run_id,
                    "action": intent.action,
                    "by": intent.by,
                    "reason": intent.reason,
                    "state": record.state,
                    "changes": [
                        [str(change.partition), change.rows, change.checksum, change.restores]
                        for change in intent.changes
                    ],
                }
            )
