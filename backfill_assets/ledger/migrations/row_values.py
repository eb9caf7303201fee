"""Upgrade step: removes values of rows from records that can never be erased.

Samples go from the events to the table `samples`, and examples of a failed proof from the gate results as well; bounds
of columns leave the file sets. Events whose payload changes, and all that follow, get new hashes. Every one of them
keeps the hash it had, and an event that is appended digests those and names the head that the chain had.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

GENESIS_HASH = "0" * 64
PAGE = 1_000
FILE_SETS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "candidate_partitions": (("run_id", "partition_date"), ("files",)),
    "publication_changes": (("publication_id", "partition_date"), ("expected_files", "new_files")),
    "partition_versions": (("table_name", "partition_date", "version"), ("files",)),
}
"""Which columns hold file sets, and what names their rows."""

SAID = ("actor", "entity", "entity_id", "action", "from_state", "to_state")
EVENTS = sa.table(
    "events",
    sa.column("sequence", sa.BigInteger),
    sa.column("at", sa.DateTime(timezone=True)),
    *(sa.column(name, sa.Text) for name in (*SAID, "payload", "previous_hash", "hash", "former_hash")),
)
EXAMPLES = re.compile(r", for example .*(?=: the window is too short)", re.DOTALL)


@dataclass(slots=True)
class Moved:
    """What the walk along the chain has come to."""

    samples: list[dict[str, Any]] = field(default_factory=list)
    changed: list[dict[str, Any]] = field(default_factory=list)
    former: str = GENESIS_HASH
    present: str = GENESIS_HASH
    sequence: int = 0
    broken: list[int] = field(default_factory=list)


def move_out(connection: Connection) -> None:
    """Does all of it; events must be open to change."""
    file_sets = sum(_without_bounds(connection, table) for table in FILE_SETS)
    examples = dict(_examples_of_proofs(connection))
    moved = Moved()
    for event in _events(connection):
        _rehash(moved, event, examples.get(event["sequence"]))
    _store(connection, moved)
    if file_sets or moved.changed:
        _tell(connection, moved, file_sets)


def _without_bounds(connection: Connection, table: str) -> int:
    """Makes file sets `[path, size, rows, sha256]`, and counts those that had statistics."""
    keys, columns = FILE_SETS[table]
    chosen = connection.execute(sa.text(f"SELECT {', '.join((*keys, *columns))} FROM {table}")).mappings().all()
    values = [{**row, **{name: _canonical(_shortened(row[name])) for name in columns}} for row in chosen]
    if values:
        settings = ", ".join(f"{name} = :{name}" for name in columns)
        where = " AND ".join(f"{name} = :{name}" for name in keys)
        connection.execute(sa.text(f"UPDATE {table} SET {settings} WHERE {where}"), values)
    return sum(row[name] != "[]" for row in chosen for name in columns)


def _shortened(files: str) -> list[list[Any]]:
    # Files that were staged by the first release have no sha256.
    return [[path, size, rows, *(sha256 or [""])] for path, size, rows, _, *sha256 in json.loads(files)]


def _examples_of_proofs(connection: Connection) -> Iterator[tuple[int, tuple[list[Any], str, str]]]:
    """By the event that recorded gates: the examples of their results, and the digest that it names and is to name."""
    held = "SELECT run_id, partition_date, gate, verdict, observed FROM gate_results"
    naming = connection.execute(sa.text(f"{held} WHERE observed LIKE '%\"examples\":[{{%'")).mappings().all()
    for run_id in dict.fromkeys(row["run_id"] for row in naming):
        before = connection.execute(sa.text(f"{held} WHERE run_id = :run"), {"run": run_id}).mappings().all()
        after = [_without_examples(row) for row in before]
        rows = [
            {"partition": str(row["partition_date"]), "gate": row["gate"], **example}
            for row in before
            for example in json.loads(row["observed"]).get("examples", [])
        ]
        connection.execute(
            sa.text(
                "UPDATE gate_results SET verdict = :verdict, observed = :observed "
                "WHERE run_id = :run_id AND partition_date = :partition_date AND gate = :gate"
            ),
            after,
        )
        last = sa.text("SELECT max(sequence) FROM events WHERE entity_id = :run AND action = 'gates_recorded'")
        recorded = connection.execute(last, {"run": run_id}).scalar()
        if recorded is not None:
            yield recorded, (rows, _verdicts_digest(before), _verdicts_digest(after))


def _without_examples(row: Mapping[Any, Any]) -> dict[str, Any]:
    observed = json.loads(row["observed"])
    observed.pop("examples", None)
    return {**row, "verdict": EXAMPLES.sub("", row["verdict"]), "observed": _canonical(observed)}


def _verdicts_digest(results: Any) -> str:
    return _sha256(
        _canonical(sorted([str(r["partition_date"]), r["gate"], r["verdict"], _sha256(r["observed"])] for r in results))
    )


def _events(connection: Connection) -> Iterator[Mapping[str, Any]]:
    after = -1
    while True:
        chosen = sa.select(EVENTS).where(EVENTS.c.sequence > after).order_by(EVENTS.c.sequence).limit(PAGE)
        page = connection.execute(chosen).mappings().all()
        yield from page  # type: ignore[misc]  # a mapping by column name
        if len(page) < PAGE:
            return
        after = page[-1]["sequence"]


def _rehash(moved: Moved, event: Mapping[str, Any], examples: tuple[list[Any], str, str] | None) -> None:
    """The next event, with what it says of rows moved out, and its new hash if it needs one."""
    # What new hashes would make consistent must stay recorded permanently.
    if event["previous_hash"] != moved.former or _hash(event, event["payload"], moved.former) != event["hash"]:
        moved.broken.append(event["sequence"])
    payload = _moved_out(moved, event, examples)
    is_changed = payload != event["payload"] or moved.former != moved.present
    moved.former, moved.sequence = event["hash"], event["sequence"]
    if not is_changed:
        moved.present = event["hash"]
        return
    previous, moved.present = moved.present, _hash(event, payload, moved.present)
    moved.changed.append(
        {
            "of": event["sequence"],
            "new_payload": payload,
            "new_previous": previous,
            "new_hash": moved.present,
            "old_hash": event["hash"],
        }
    )


def _moved_out(moved: Moved, event: Mapping[str, Any], examples: tuple[list[Any], str, str] | None) -> str:
    """The payload without values of rows, as canonical text; what it held goes into samples."""
    try:
        payload = json.loads(event["payload"])
    except ValueError:
        return str(event["payload"])  # an edit, which the chain reveals
    digests: dict[str, str] = {}
    if event["entity"] == "run" and "sample" in payload:
        digests |= _sampled(moved, event, "CHANGED_ROWS", payload.pop("sample"))
    if examples is not None:
        rows, before, after = examples
        digests |= _sampled(moved, event, "FAILING_KEYS", rows)
        if payload.get("verdicts_digest") == before:
            payload["verdicts_digest"] = after
    return _canonical({**payload, "samples": digests} if digests else payload)


def _sampled(moved: Moved, event: Mapping[str, Any], kind: str, rows: list[Any]) -> dict[str, str]:
    if not rows:
        return {}
    salt, body = secrets.token_hex(32), _canonical(rows)
    moved.samples.append(
        {"sequence": event["sequence"], "kind": kind, "run_id": event["entity_id"], "salt": salt, "body": body}
    )
    return {kind: _sha256(salt + body)}


def _store(connection: Connection, moved: Moved) -> None:
    if moved.changed:
        connection.execute(
            sa.text(
                "UPDATE events SET payload = :new_payload, previous_hash = :new_previous, hash = :new_hash, "
                "former_hash = :old_hash WHERE sequence = :of"
            ),
            moved.changed,
        )
    if moved.samples:
        connection.execute(
            sa.text("INSERT INTO samples VALUES (:sequence, :kind, :run_id, :salt, :body)"), moved.samples
        )


def _tell(connection: Connection, moved: Moved, file_sets: int) -> None:
    """Appends what was done, after the head that the chain had."""
    head = connection.execute(sa.text("SELECT sequence, hash FROM chain_head")).first()
    if head is None:
        return  # which `audit` tells of
    if (head.sequence, head.hash) != (moved.sequence, moved.former):
        moved.broken.append(head.sequence)
    payload = {
        "samples_moved": len(moved.samples),
        "file_sets_shortened": file_sets,
        "former_head": f"{head.sequence}:{head.hash}",
        "former_hashes_digest": former_hashes_digest((each["of"], each["old_hash"]) for each in moved.changed),
        "broken": moved.broken,
    }
    event = {
        "sequence": head.sequence + 1,
        "at": datetime.now(UTC),
        "actor": "backfill",
        "entity": "ledger",
        "entity_id": "0003",
        "action": "row_values_moved",
        "from_state": "",
        "to_state": "",
        "previous_hash": moved.present,
    }
    text = _canonical(payload)
    added = {**event, "payload": text, "hash": _hash(event, text, moved.present)}
    connection.execute(sa.insert(EVENTS), added)
    connection.execute(sa.text("UPDATE chain_head SET sequence = :sequence, hash = :hash"), added)


def former_hashes_digest(hashes: Any) -> str:
    """One digest of the hashes that events had before, as `read_events` computes it again."""
    return _sha256("".join(f"{sequence}:{former}\n" for sequence, former in hashes))


def _hash(event: Mapping[str, Any], payload: str, previous: str) -> str:
    at = event["at"]
    at = at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    try:
        said = json.loads(payload)
    except ValueError:
        said = payload
    names = {name: event[name] for name in SAID}
    return _sha256(
        previous + _canonical({"sequence": event["sequence"], "at": at.isoformat(), **names, "payload": said})
    )


def _canonical(document: object) -> str:
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
