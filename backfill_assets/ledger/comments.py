"""Comments: what the approver of a run has to comment on in writing, and whether the approval has.

A gate whose results demand a comment blocks nothing. The comment is the note of the approval, and is about exactly the
results that stood when it was written: the event of the approval names their digest.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import select

from backfill_assets.identity import document_digest
from backfill_assets.ledger import rows
from backfill_assets.ledger.queries import Queries
from backfill_assets.ledger.records import NEEDS_COMMENT, GateResult
from backfill_assets.ledger.schema import events, gate_results

COMMENT_ON = "comment_on"
"""In the event of an approval, the digest of what its note comments on."""


def comment_digest(results: Iterable[GateResult]) -> str:
    """Identifies what is commented on."""
    return document_digest(
        sorted(
            [r.partition.isoformat(), r.gate, r.digest, r.verdict, document_digest(dict(r.observed))] for r in results
        )
    )


def said_of(results: Iterable[GateResult]) -> str:
    """What is commented on, in words: each verdict once."""
    return "; ".join(dict.fromkeys(result.verdict for result in results))


class CommentReads(Queries):
    """What approvers have to comment on."""

    def demanded(self, run_id: str) -> tuple[GateResult, ...]:
        """The gate results of a run that its approver has to comment on, by partition and gate.

        Cost: one index range over the gate results of the run; those that failed without blocking are read.
        """
        found = gate_results
        chosen = select(found).where(found.c.run_id == run_id, found.c.passed.is_(False), found.c.blocking.is_(False))
        results = map(rows.gate_result, self._rows(chosen.order_by(found.c.partition_date, found.c.gate)))
        return tuple(result for result in results if result.observed.get(NEEDS_COMMENT))

    def unanswered(self, run_id: str) -> tuple[GateResult, ...]:
        """The same, unless the last approval of the run has commented on exactly these results.

        Cost: as `demanded`, and where there are any, the events of the run, by index.
        """
        results = self.demanded(run_id)
        if not results:
            return ()
        given = select(events.c.payload).where(
            events.c.entity_id == run_id, events.c.entity == "approval", events.c.action == "approved"
        )
        last = self._row(given.order_by(events.c.sequence.desc()).limit(1))
        is_given = last is not None and last.payload.get(COMMENT_ON) == comment_digest(results)
        return () if is_given else results
