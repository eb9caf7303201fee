"""What became of everything that publications asked for, as a document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from backfill_assets.application.command_line import explained
from backfill_assets.application.follow import Followed, FollowedAll
from backfill_assets.evidence.follow import waiting_sentences
from backfill_assets.planning.partitions import describe
from backfill_assets.publication.follow import FailedFollowUp

Document = Mapping[str, Any]


def follow_document(found: FollowedAll) -> Document:
    """What became of what was asked for; `failed` tells whether a person has to look."""
    everything = [*map(_followed, found.done), *map(_unplanned, found.failed)]
    elsewhere = [f"{run.manifest.table}: {run.run_id} is under way in another process" for run in found.elsewhere]
    waiting = [sentence for each in found.waiting for sentence in waiting_sentences(each)]
    sentences = [*map(_sentence, everything), *elsewhere, *waiting]
    return {
        "followed": everything,
        "failed": any(each["failed"] for each in everything),
        "sentences": sentences or ["no publication waits for its dependents"],
    }


def cancelled_document(publication_id: str, *, by: str, reason: str) -> Document:
    """What was decided when nothing is to follow a publication."""
    return {
        "publication_id": publication_id,
        "cancelled_by": by,
        "reason": reason.strip(),
        "sentences": [f"nothing follows {publication_id} any more; what depends on it is as it was"],
    }


def _followed(each: Followed) -> Document:
    manifest = each.run.manifest
    return {
        "table": manifest.table,
        "run_id": each.run.run_id,
        "state": str(each.run.state),
        "partitions_described": describe(manifest.grain, manifest.partitions),
        "publications": list(manifest.cause.publications),
        "failed": each.has_failed,
        "error": explained(each.error) if each.error else None,
    }


def _unplanned(each: FailedFollowUp) -> Document:
    return {
        "table": each.follow_up.table,
        "run_id": None,
        "state": None,
        "partitions_described": describe(each.follow_up.grain, each.follow_up.partitions),
        "publications": list(each.follow_up.publications),
        "failed": True,
        "error": explained(each.error),
    }


def _sentence(each: Document) -> str:
    became = f"{each['state']} as {each['run_id']}" if each["run_id"] else "was not planned"
    reason = f" ({each['error']})" if each["error"] else ""
    return f"{each['table']} {each['partitions_described']}: {became}{reason}"
