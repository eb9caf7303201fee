"""What waits to be followed, why it waits, and what a person can do about it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from backfill_assets.planning.following import Wanted
from backfill_assets.planning.partitions import describe
from backfill_assets.publication.follow import Asking


def asking_document(asking: Asking) -> Mapping[str, Any]:
    """An open outbox entry as plain values."""
    entry = asking.entry
    return {
        "publication_id": entry.publication_id,
        "table": entry.table,
        "run_id": entry.run_id,
        "dependents": [
            {
                "table": wanted.table,
                "partitions_described": describe(wanted.grain, wanted.partitions) if wanted.partitions else None,
                "waiting_described": describe(wanted.grain, wanted.waiting) if wanted.waiting else None,
            }
            for wanted in asking.wanted
        ],
        "set_id": asking.set_id,
        "failed_attempts": entry.attempts,
        "last_failure": entry.note or None,
        "try_again": "backfill follow",
        "cancel": f"backfill follow --cancel {entry.publication_id} --by WHO --reason WHY",
    }


def asking_sentence(document: Mapping[str, Any]) -> str:
    """One line about an open outbox entry."""
    what = f"{document['publication_id']} of {document['table']}"
    if document["set_id"]:
        return f"{what} is followed when set {document['set_id']} is done"
    if document["failed_attempts"]:
        times = f"{document['failed_attempts']} time{'s' * (document['failed_attempts'] > 1)}"
        return (
            f"{what} was not followed, it failed {times}: {document['last_failure']} "
            f"To try again: {document['try_again']}. To let dependents be as they are: {document['cancel']}"
        )
    dependents = document["dependents"]
    ready = [f"{each['table']} {each['partitions_described']}" for each in dependents if each["partitions_described"]]
    if not ready:
        waiting = [f"{each['table']} {each['waiting_described']}" for each in dependents]
        return f"{what}: {', '.join(waiting)} wait for input partitions that have no accepted version"
    return f"{what} asks for {', '.join(ready)}: {document['try_again']}"


def waiting_sentences(asking: Asking) -> Iterator[str]:
    """What cannot follow yet; the publication that completes its inputs asks for it again."""
    if asking.set_id:
        yield f"what depends on {asking.entry.table} follows when set {asking.set_id} is done"
    for wanted in asking.wanted:
        if wanted.waiting:
            yield _waits(wanted)


def _waits(wanted: Wanted) -> str:
    return (
        f"{wanted.table} {describe(wanted.grain, wanted.waiting)} waits: it needs input partitions that have no "
        f"accepted version; what readers see of it, if anything, is from before"
    )
