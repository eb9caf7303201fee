"""Which values of rows does the ledger hold, were any erased, and are they what the events say?

Values of rows are in one table, `samples`, and never in an event. The event that recorded a sample names its salted
digest; an event of a later erasure names the sample.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from sqlalchemy import func, select

from backfill_assets.identity import sha256_text
from backfill_assets.ledger import rows
from backfill_assets.ledger.reading import Reading
from backfill_assets.ledger.records import EventRecord, SampleKind
from backfill_assets.ledger.schema import events, samples

ERASED = "samples_erased"
MEASURED = ("gates_recorded", "candidates_cleared")
"""What begins anew what a run's samples show."""

Name = tuple[int, str]
"""A sample by the sequence of its event and its kind."""


def salted_digest(salt: str, body: str) -> str:
    """What an event says of a sample; without the salt, which is erased with the body, it cannot be tried out."""
    return sha256_text(salt + body)


class SampleReader(Reading):
    """The samples of runs."""

    def samples(self, run_id: str, kind: SampleKind) -> tuple[Mapping[str, Any], ...]:
        """The rows of a run's latest sample of a kind; none when there was nothing to show, or it was erased."""
        body = self._row(
            select(samples.c.body).where(
                samples.c.run_id == run_id, samples.c.kind == kind, samples.c.sequence >= self._measured_at(run_id)
            )
        )
        return () if body is None else tuple(json.loads(body.body))

    def samples_erased(self, run_id: str) -> EventRecord | None:
        """The event that erased what the latest gating had kept of a run's rows; None when nobody did."""
        erased = select(events).where(
            events.c.entity_id == run_id, events.c.action == ERASED, events.c.sequence > self._measured_at(run_id)
        )
        row = self._row(erased.order_by(events.c.sequence.desc()).limit(1))
        return None if row is None else rows.event_record(row)

    def _measured_at(self, run_id: str) -> int:
        last = select(func.max(events.c.sequence)).where(events.c.entity_id == run_id, events.c.action.in_(MEASURED))
        return self._values(last)[0] or 0

    def _samples_against_events(self) -> Iterator[str]:
        """A sample is what its event says, or an event says who erased it; nothing else is accepted."""
        expected: dict[Name, tuple[str, str]] = {}
        for row in self._paged(
            select(events.c.sequence, events.c.entity_id, events.c.action, events.c.payload).where(
                events.c.action.in_(("gates_recorded", "moved", ERASED))
            ),
            events.c.sequence,
            after=0,
        ):
            for kind, digest in row.payload.get("samples", {}).items():
                expected[row.sequence, kind] = (row.entity_id, digest)
            if row.action == ERASED:
                for sequence, kind in row.payload["erased"]:
                    expected.pop((sequence, kind), None)
        for row in self._paged(select(samples), samples.c.sequence, after=0):
            name = (row.sequence, str(row.kind))
            said = expected.pop(name, None)
            if said is None:
                yield f"the sample {_called(name, row.run_id)} was added: no event explains it."
            elif said != (row.run_id, salted_digest(row.salt, row.body)):
                yield f"the sample {_called(name, row.run_id)} was edited: it is not what its event says."
        for name, (run_id, _) in expected.items():
            yield f"the sample {_called(name, run_id)} is gone, and no event says that it was erased."


def _called(name: Name, run_id: str) -> str:
    return f"{name[1]} of run {run_id} (event {name[0]})"
