"""Sniff APIs: an answer of one by its address, or its document of OpenAPI, as the declaration of a source."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from backfill_assets.capture.errors import BadFile, Fault, FileRefused
from backfill_assets.capture.http.client import ApiClient, HttpSecrets, Request
from backfill_assets.capture.http.declaration import SECRET, HttpApi
from backfill_assets.capture.http.openapi import ProposedApi, is_openapi, pages_of_answer, proposed_apis
from backfill_assets.capture.streams import Pace
from backfill_assets.domain.declarations import TABLE_NAME
from backfill_assets.domain.source_files import Json
from backfill_assets.sniff.addresses import Reached, is_of_a_file, propose_of
from backfill_assets.sniff.proposal import (
    RESERVED,
    Doubt,
    DoubtKind,
    Looked,
    Proposal,
    ProposedColumn,
    contract_name,
    leaves,
    table_name,
)

_MOST_BYTES = 32 << 20
_MARK = re.compile(rb"""["']?\b(openapi|swagger)["']?[ \t]*:""")
_SUFFIXES = (".json", ".yaml", ".yml")
_KEYS = ("id", "number", "code", "key", "name")


def sniffed(given: str | Path, name: str, reached: Reached, *, as_of: datetime) -> Proposal | None:
    """The source of an API, by the address of an answer or by its document."""
    if isinstance(given, Path):
        document = _document_in(given) if given.is_file() else None
        return None if document is None else _propose_api(given, document, name=name)
    if urlsplit(given).scheme not in ("https", "http") or is_of_a_file(given):
        return None
    return _of_answer(given, name, reached, as_of=as_of)


def doubts_of(file: Path, found: Proposal) -> Sequence[Doubt]:
    """The doubts about how an API goes on whose answer was saved as a file, where that answer tells it."""
    if not isinstance(found.reads, Json) or not found.reads.records:
        return ()
    records = found.reads.records
    try:
        answer = json.loads(file.read_bytes()) if file.stat().st_size <= _MOST_BYTES else None
    except (ValueError, RecursionError):
        return ()
    pages = pages_of_answer(answer, records)
    capture = f"HttpApi(url=..., records={records!r}, pages={pages})"
    said = f"it looks like an answer of an API, whose capture would be {capture}"
    return [Doubt(kind=DoubtKind.API, values=(said,))] if pages else ()


def _of_answer(text: str, name: str, reached: Reached, *, as_of: datetime) -> Proposal:
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
    asking = ApiClient(declared, secret, name=f"the API {url}")
    with closing(asking):
        body = asking.ask(Request(url=url, parameters=plain), Pace(), position="its first page").body
    file = f"{address.path.rstrip('/').rpartition('/')[2] or 'answer'}.json"
    found = propose_of(body, file, name, as_of=as_of)
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


def _document_in(path: Path) -> Mapping[str, Any] | None:
    """The document of OpenAPI that a file is; None where it is anything else.

    Raises:
        UnreadableFile: It begins as one, and cannot be read.
    """
    if not path.name.lower().endswith(_SUFFIXES):
        return None
    if path.stat().st_size > _MOST_BYTES or _MARK.search(content := path.read_bytes()) is None:
        return None
    try:
        text = content.decode("utf-8-sig")
        document = json.loads(text) if path.suffix.lower() == ".json" else _yaml(text)
    except (ValueError, RecursionError) as error:
        if path.suffix.lower() == ".json" and content.lstrip()[:1] in (b"{", b"["):
            return None  # lines, or records that only mention it
        raise BadFile(path=str(path), fault=Fault.DAMAGED, why="is neither JSON nor YAML") from error
    return document if isinstance(document, Mapping) and is_openapi(document) else None


def _yaml(text: str) -> object:
    import yaml

    try:
        # The safe loader, in C where that is there, because documents of APIs are long.
        return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506
    except yaml.YAMLError as error:
        raise ValueError("not YAML") from error


def _propose_api(path: Path, document: Mapping[str, Any], *, name: str) -> Proposal:
    """The source table of one path of an API, with the others in its doubts.

    Args:
        name: The table, which is called like the last part of the path; by default that of the first one.

    Raises:
        UnreadableFile: No path answers with records that have a time and a key.
    """
    apis = [each for each in proposed_apis(document) if each.event_time and _key_of(each)]
    tables = {f"bronze.{table_name(each.path.rpartition('/')[2])}": each for each in reversed(apis)}
    tables = {table: each for table, each in reversed(tables.items()) if TABLE_NAME.fullmatch(table)}
    if not tables:
        why = "describes an API of which no path answers with records that have a time and a key"
        raise BadFile(path=str(path), fault=Fault.COLUMNS, why=why)
    wanted = next((table for table in tables if table.partition(".")[2] == name.partition(".")[2]), next(iter(tables)))
    api = tables.pop(wanted)
    size = path.stat().st_size
    looked = Looked(file=path.name, size_bytes=size, read_bytes=size, is_whole=True, format="OpenAPI", records=0)
    others = tuple(f"{each.path} as {table}" for table, each in tables.items())
    notes = [
        *api.notes,
        *([f"{len(others):,} other paths can be proposed by their table: {', '.join(others[:5])}"] if others else []),
    ]
    return _proposal(api, name or wanted, looked, [Doubt(kind=DoubtKind.API, values=(each,)) for each in notes])


def _proposal(api: ProposedApi, table: str, looked: Looked, doubts: Sequence[Doubt]) -> Proposal:
    taken = {*RESERVED}
    written = [each.name for each in api.columns]
    names = [contract_name(each, taken) for each in leaves(written)]
    by_written = dict(zip(written, names, strict=True))
    columns = tuple(
        ProposedColumn(name=name, written=each.name, kind=each.kind, values=0, nulls=0, fitting=0)
        for name, each in zip(names, api.columns, strict=True)
    )
    return Proposal(
        name=table,
        looked=(looked,),
        columns=columns,
        key=tuple(by_written[each] for each in _key_of(api)),
        event_time=by_written[api.event_time],
        event_times=tuple(
            each.name for each in columns if each.kind in ("DATE", "TIMESTAMP") and each.written != api.event_time
        ),
        doubts=tuple(doubts),
        capture=api.declaration,
        capture_names=api.names,
    )


def _key_of(api: ProposedApi) -> tuple[str, ...]:
    """The key, or the first member that is always there and is called like one."""
    if api.key:
        return api.key
    always = [each.name for each in api.columns if not each.nullable and each.name != api.event_time]
    return next(((each,) for each in always if each.lower().endswith(_KEYS)), ())
