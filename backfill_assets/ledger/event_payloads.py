"""Event payloads: digests in place of rows that are too many for an event, so that an edited row is found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from backfill_assets.identity import FileSet, document_digest
from backfill_assets.ledger.import_records import ImportDay
from backfill_assets.ledger.provenance import document_of
from backfill_assets.ledger.records import GateResult, PublicationIntent

TOOK_MS = "took_ms"
"""What the event of the gates says of how long their stages took."""


def publication_payload(intent: PublicationIntent) -> Mapping[str, Any]:
    """What a publication is about to do: which versions make way for which files, and what these hold."""
    changes = sorted(intent.changes, key=lambda change: change.partition)
    verified = sorted(intent.verified, key=lambda found: found.partition)
    return {
        "run_id": intent.run_id,
        "action": str(intent.action),
        "table": intent.table,
        "by": intent.by,
        "reason": intent.reason,
        "undoes": intent.undoes,
        "partitions": len(changes),
        "changes_digest": document_digest(
            [[c.partition.isoformat(), c.expected_version, c.expected.digest, c.new.digest] for c in changes]
        ),
        "contents_digest": document_digest(
            [
                [c.partition.isoformat(), c.rows, c.checksum, c.restores, _bytes_of(c.new), document_of(c.provenance)]
                for c in changes
            ]
        ),
        "verified": len(verified),
        "verified_digest": document_digest([[v.partition.isoformat(), v.version] for v in verified]),
    }


def _bytes_of(files: FileSet) -> list[list[str]]:
    return [[file.path, file.sha256] for file in files.files]


def gates_payload(results: Iterable[GateResult]) -> Mapping[str, Any]:
    """What the gates of a run found."""
    found = list(results)
    return {
        "results": len(found),
        "blocking_failures": sum(1 for r in found if r.blocking and not r.passed),
        "results_digest": document_digest(
            sorted([r.partition.isoformat(), r.gate, r.blocking, r.passed, r.digest] for r in found)
        ),
        "verdicts_digest": document_digest(
            sorted([r.partition.isoformat(), r.gate, r.verdict, document_digest(dict(r.observed))] for r in found)
        ),
    }


def days_digest(days: Iterable[ImportDay]) -> str:
    """The event dates that a landed file touches, and with how many events."""
    return document_digest(sorted([day.event_date.isoformat(), day.events] for day in days))
