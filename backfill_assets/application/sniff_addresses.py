"""Sniff by address: the first records of a topic, an answer of an API, tables in stores, and files by their address.

They are fetched into a folder that is removed afterwards; nothing is recorded, and nothing secret is printed.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit, urlunsplit

import pyarrow.parquet as pq

from backfill_assets.capture.declared import secrets_named, unnamed_secrets
from backfill_assets.capture.errors import BadFile, Fault, FileRefused
from backfill_assets.capture.files.fetched_files import ADDRESS, STORES, Address
from backfill_assets.capture.http.client import Asking, HttpSecrets, Request
from backfill_assets.capture.http.declaration import SECRET, HttpApi
from backfill_assets.capture.http.openapi import pages_of_answer
from backfill_assets.capture.kafka.declaration import KafkaTopic
from backfill_assets.capture.kafka.stream import KafkaStream
from backfill_assets.capture.lake_tables.declaration import LakeTable
from backfill_assets.capture.lake_tables.versions import first_rows_of_delta
from backfill_assets.capture.streams import Pace
from backfill_assets.core.places import StoreAccess
from backfill_assets.domain.source_files import Json
from backfill_assets.sniff.proposal import Doubt, DoubtKind, Proposal
from backfill_assets.sniff.propose import propose
from backfill_assets.sniff.sample import MOST_ROWS

_MOST_RECORDS = 2_000
"""Of each partition of a topic."""
_FILE = re.compile(r"\.(csv|tsv|txt|json|jsonl|ndjson|geojson|parquet|avro|xlsx|zip|gz|zst|bz2|xz)$", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """The way in which the content behind an address is reached."""

    settings: Mapping[str, str] = field(default_factory=dict)  #: Settings of the client of Kafka.
    #: Secret settings of it, or secret headers of an API, each with the name of an environment variable.
    secrets: Mapping[str, str] = field(default_factory=dict)
    home: Path  #: The folder in which no secret may be.
    access: StoreAccess = field(default_factory=StoreAccess)  #: How stores that speak the protocol of S3 are reached.

    @property
    def given(self) -> Mapping[str, str]:
        """The values of the secrets."""
        return secrets_named(self.secrets, home=self.home)


def sniffed_address(text: str, name: str, reached: Reached, *, as_of: datetime) -> Proposal | None:
    """The source table of a topic, of an API or of a Delta table in a store; None of the address of a file.

    Raises:
        Refused: It is the address of nothing that could be looked at.
        Retryable: It does not answer.
        UnreadableFile: What it says has no records.
    """
    for mistake in unnamed_secrets(reached.secrets, of="address", such_as="MY_PASSWORD"):
        raise FileRefused(fault=Fault.ADDRESS, why=mistake)
    address = urlsplit(text)
    if address.scheme == "kafka":
        return _of_topic(text, name, reached, as_of=as_of)
    if address.scheme in STORES and not _FILE.search(address.path):
        return _of_table(text, name, reached, as_of=as_of)
    if address.scheme in ("https", "http") and not _FILE.search(address.path):
        return _of_api(text, name, reached, as_of=as_of)
    return None


@contextmanager
def fetched(texts: Sequence[str], reached: Reached) -> Iterator[list[Path]]:
    """Files by their paths, and those by address as copies that are removed afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        found: list[Path] = []
        for number, text in enumerate(texts):
            if not ADDRESS.match(text):
                found.append(Path(text))
                continue
            address = Address.of(text)
            copy = Path(folder) / str(number) / address.name
            copy.parent.mkdir()
            address.fetch(copy, reached.access)
            found.append(copy)
        yield found


# -------------------------------------------------------------------------------------------------------------- topics


def _of_topic(text: str, name: str, reached: Reached, *, as_of: datetime) -> Proposal:
    """The first records of a topic, of which the address is `kafka://HOST:PORT[,HOST:PORT]/TOPIC`."""
    servers, _, topic = text.removeprefix("kafka://").partition("/")
    declared = KafkaTopic(servers=servers, topic=topic, settings=reached.settings, secrets=reached.secrets)
    for mistake in declared.mistakes():
        raise FileRefused(fault=Fault.ADDRESS, path=topic, why=f"the address of a topic cannot be used: {mistake}")
    with closing(KafkaStream(declared, secret=reached.given)) as stream:
        values, is_whole = stream.first_values(_MOST_RECORDS)
    known = [value for value in values if is_object(value)]
    if not known:
        raise BadFile(path=f"the topic {topic}", fault=Fault.NOT_TEXT, why=_why_not(values))
    arguments = {"servers": servers, "topic": topic}
    given = {"settings": dict(reached.settings), "secrets": dict(reached.secrets)}
    lines = [f"    {each}={json.dumps(value)}," for each, value in {**arguments, **given}.items() if value]
    found = _proposed(b"".join(value.replace(b"\n", b" ") + b"\n" for value in known), f"{topic}.jsonl", name, as_of)
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


# ---------------------------------------------------------------------------------------------------------------- APIs


def _of_api(text: str, name: str, reached: Reached, *, as_of: datetime) -> Proposal:
    """An answer of an API, with what is asked as its declaration."""
    address = urlsplit(text)
    url = urlunsplit((address.scheme, address.netloc, address.path, "", ""))
    given = dict(parse_qsl(address.query, keep_blank_values=True))
    named = {each: f"MY_{re.sub('[^A-Za-z0-9]+', '_', each).upper()}" for each in given if SECRET.search(each)}
    plain = {each: value for each, value in given.items() if each not in named}
    declared = HttpApi(
        url=url, records="", parameters=plain, secret_parameters=named, secret_headers=reached.secrets, attempts=3
    )
    for mistake in declared.mistakes():
        raise FileRefused(fault=Fault.ADDRESS, why=f"the address of an API cannot be used: {mistake}")
    secret = HttpSecrets(parameters={each: given[each] for each in named}, headers=reached.given)
    asking = Asking(declared, secret, name=f"the API {url}")
    with closing(asking):
        body = asking.ask(Request(url=url, parameters=plain), Pace(), position="its first page").body
    found = _proposed(body, f"{address.path.rstrip('/').rpartition('/')[2] or 'answer'}.json", name, as_of)
    if not isinstance(found.reads, Json):
        raise BadFile(path=url, fault=Fault.MEMBERS, why="answers something else than JSON with an array of records")
    pages = pages_of_answer(json.loads(body), found.reads.records)
    parts = {
        "url": json.dumps(url),
        "records": json.dumps(found.reads.records),
        "pages": pages,
        "parameters": json.dumps(plain) if plain else "",
        "secret_parameters": json.dumps(named) if named else "",
        "secret_headers": json.dumps(dict(reached.secrets)) if reached.secrets else "",
    }
    how = (
        "the answer does not say how it is paged: see pages"
        if not pages
        else f"the answer says how it is paged: {pages}"
    )
    period = "how a period is asked for is not known: declare window=TimeWindow(...) where it can be"
    return replace(
        found,
        looked=tuple(replace(each, file=url) for each in found.looked),
        reads=None,
        doubts=(*(Doubt(kind=DoubtKind.API, values=(each,)) for each in (how, period)), *found.doubts),
        capture="\n".join(["HttpApi(", *(f"    {each}={value}," for each, value in parts.items() if value), ")"]),
        capture_names=("HttpApi", *([pages.partition("(")[0]] if pages else [])),
    )


# -------------------------------------------------------------------------------------------------------------- tables


def _of_table(text: str, name: str, reached: Reached, *, as_of: datetime) -> Proposal:
    """The first rows of a Delta table in an object store, with the variables that have the credentials for it here."""
    url = re.sub("^s3a:", "s3:", text.rstrip("/"))
    for mistake in LakeTable(url=url).mistakes():
        raise FileRefused(fault=Fault.ADDRESS, why=f"the address of a table cannot be used: {mistake}")
    access = reached.access
    try:
        rows = first_rows_of_delta(url, MOST_ROWS, access.for_delta() if url.startswith("s3:") else None)
    except ValueError as error:
        raise BadFile(path=url, fault=Fault.DAMAGED, why=f"cannot be read as a Delta table: {error}") from error
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{url.rpartition('/')[2]}.parquet"
        pq.write_table(rows, path)
        found = propose([path], name=name, as_of=as_of)
    is_whole = rows.num_rows < MOST_ROWS
    looked = tuple(replace(each, file=url, format="Delta", is_whole=is_whole) for each in found.looked)
    options = {"AWS_REGION": access.region, "AWS_ENDPOINT_URL": access.endpoint}
    named = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY") if access.access_key else ()
    parts = {
        "url": url,
        "options": {each: value for each, value in options.items() if value and url.startswith("s3:")},
        "secrets": {each: each for each in named if url.startswith("s3:")},
    }
    lines = [f"    {each}={json.dumps(value)}," for each, value in parts.items() if value]
    return replace(found, looked=looked, capture="\n".join(["LakeTable(", *lines, ")"]), capture_names=("LakeTable",))


def _proposed(content: bytes, file: str, name: str, as_of: datetime) -> Proposal:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / file
        path.write_bytes(content)
        return propose([path], name=name, as_of=as_of)
