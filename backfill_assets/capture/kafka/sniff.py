"""Sniff by address: the first records of a topic, as the declaration of a source that is captured from it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from backfill_assets.capture.errors import BadFile, Fault, FileRefused
from backfill_assets.capture.kafka.declaration import KafkaTopic
from backfill_assets.capture.kafka.stream import KafkaStream
from backfill_assets.sniff.addresses import Reached, propose_of
from backfill_assets.sniff.proposal import Doubt, DoubtKind, Proposal

_SCHEME = "kafka://"
_MOST_RECORDS = 2_000
"""The limit for each partition of a topic."""


def sniffed(given: str | Path, name: str, reached: Reached, *, as_of: datetime) -> Proposal | None:
    """The source of a topic, of which the address is `kafka://HOST:PORT[,HOST:PORT]/TOPIC`."""
    if isinstance(given, Path) or not given.startswith(_SCHEME):
        return None
    servers, _, topic = given.removeprefix(_SCHEME).partition("/")
    declared = KafkaTopic(servers=servers, topic=topic, settings=reached.settings, secrets=reached.secrets)
    for mistake in declared.mistakes():
        raise FileRefused(fault=Fault.ADDRESS, path=topic, why=f"the address of a topic cannot be used: {mistake}")
    with closing(KafkaStream(declared, secret=reached.given)) as stream:
        values, is_whole = stream.first_values(_MOST_RECORDS)
    known = [value for value in values if is_object(value)]
    if not known:
        raise BadFile(path=f"the topic {topic}", fault=Fault.NOT_TEXT, why=_why_not(values))
    arguments = {"servers": servers, "topic": topic}
    client = {"settings": dict(reached.settings), "secrets": dict(reached.secrets)}
    lines = [f"    {each}={json.dumps(value)}," for each, value in {**arguments, **client}.items() if value]
    found = propose_of(
        b"".join(value.replace(b"\n", b" ") + b"\n" for value in known), f"{topic}.jsonl", name, as_of=as_of
    )
    looked = tuple(replace(each, file=f"the topic {topic}", is_whole=is_whole) for each in found.looked)
    others = [Doubt(kind=DoubtKind.NOT_A_VALUE, records=len(values) - len(known), first=1, rejects=True)]
    return replace(
        found,
        looked=looked,
        reads=None,
        doubts=(*(others if len(known) < len(values) else ()), *found.doubts),
        capture="\n".join(["KafkaTopic(", *lines, ")"]),
        capture_names=("KafkaTopic",),
    )


def doubts_of(_file: Path, _found: Proposal) -> Sequence[Doubt]:
    """None: no file says that it was a topic."""
    return ()


def is_object(value: bytes) -> bool:
    """True if a value is a JSON object."""
    try:
        return isinstance(json.loads(value), dict)
    except (ValueError, RecursionError):
        return False


def _why_not(values: Sequence[bytes]) -> str:
    if not values:
        return "has no records with a value"
    if all(value.startswith(b"\0") and len(value) > 5 for value in values):
        schema = int.from_bytes(values[0][1:5], "big")
        return (
            f"has values that name a schema, such as {schema}: declare values=SchemaRegistry(url=...) of its KafkaTopic"
        )
    return "has values that are not JSON objects"
