"""OpenAPI: a document that describes an API proposes how its records are captured, as the text of a declaration.

Versions 2 (Swagger), 3.0 and 3.1. Nothing is asked, and nothing is certain: what was guessed is said in notes, for the
person who reads the declaration. How that is held against answers of the API is up to its first capture.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote, urljoin

from backfill_assets.capture.http.declaration import (
    Basic,
    Cursor,
    Found,
    IdRange,
    InBody,
    InHeader,
    LinkHeader,
    NextUrl,
    Offset,
    PageNumber,
    Place,
    TimeWindow,
    Token,
)
from backfill_assets.core.wording import arguments, call_lines, literal, names_in

# Schemas of OpenAPI: references followed, and parts put together; what is of a wrong kind is left out.

Document = Mapping[str, Any]


def schema_of(document: Document, schema: object, depth: int = 12) -> Document:
    """A schema with its references followed, and with those put together that all hold."""
    found = mapping(resolved(document, schema))
    if not depth:
        return found
    for each in listed(found.get("allOf")):
        part = schema_of(document, each, depth - 1)
        properties = {**properties_of(found), **properties_of(part)}
        required = [*listed(found.get("required")), *listed(part.get("required"))]
        found = {**part, **found, "properties": properties, "required": required}
    kinds = [schema_of(document, each, depth - 1) for each in listed(found.get("anyOf")) + listed(found.get("oneOf"))]
    real = [each for each in kinds if each.get("type") != "null"]
    if len(real) == 1:  # one that may be null
        return {**real[0], "nullable": len(kinds) > 1 or real[0].get("nullable", False)}
    if real and all(map(properties_of, real)):  # one of several objects: it has what each of them may have
        properties = {name: given for each in reversed(real) for name, given in properties_of(each).items()}
        required = [name for name in properties if all(name in listed(each.get("required")) for each in real)]
        return {**found, "type": "object", "properties": {**properties, **properties_of(found)}, "required": required}
    return found


def schema_of_value(value: object) -> Document:
    """The schema that a value has by itself; a text that begins as an address is one."""
    match value:
        case Mapping():
            properties = {str(name): schema_of_value(each) for name, each in value.items()}
            return {"type": "object", "properties": properties}
        case bool():
            return {"type": "boolean"}
        case int():
            return {"type": "integer"}
        case str() if re.match(r"(https?:/)?/", value):
            return {"type": "string", "format": "uri"}
        case list():
            return {"type": "array"}
        case _:
            return {"type": "string"}


def resolved(document: Document, held: object) -> object:
    """The target of a reference within the document; anything else is returned unchanged."""
    seen: set[str] = set()
    while isinstance(held, Mapping) and isinstance(held.get("$ref"), str) and held["$ref"] not in seen:
        seen.add(held["$ref"])
        target: object = document
        names = held["$ref"].removeprefix("#/").split("/") if held["$ref"].startswith("#/") else ["", ""]
        for name in names:
            target = mapping(target).get(name.replace("~1", "/").replace("~0", "~"))
        held = target
    return held


def properties_of(schema: Document) -> Document:
    """The schemas of the members of an object, by their names."""
    return {str(name): each for name, each in mapping(schema.get("properties")).items()}


def plain(name: str) -> str:
    """A name without what ways of writing it differ in: `pageToken` and `page_token` are one."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def mapping(held: object) -> Document:
    """An object, or an empty one in the place of anything else."""
    return held if isinstance(held, Mapping) else {}


def listed(held: object) -> list[Any]:
    """An array, or an empty one in the place of anything else."""
    return list(held) if isinstance(held, list | tuple) else []


def kinds_of(held: object) -> list[Any]:
    """The types of a schema, which names one or an array of them."""
    return listed(held) if isinstance(held, list | tuple) else [held] if held is not None else []


_MOST_DEPTH = 4
"""How deep an answer is looked through for its records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedColumn:
    """A column of a contract, from the schema of a record."""

    name: str  #: The names of the members on the way to it, such as `buyer.name`.
    kind: str  #: Its type: `STRING`, `LONG`, `DOUBLE`, `DECIMAL(38,9)`, `BOOLEAN`, `DATE` or `TIMESTAMP`.
    nullable: bool  #: True if a record may lack it.
    is_json: bool = False  #: True if its value is an array or any object, which lands as its text.


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedApi:
    """A proposal for capturing the records of one path of an API."""

    path: str  #: The path in the document.
    declaration: str  #: The text of `HttpApi(...)`.
    names: tuple[str, ...]  #: What the declaration imports from `backfill_assets.domain`.
    columns: tuple[ProposedColumn, ...]  #: The members of a record.
    key: tuple[str, ...]  #: The members that are likely to identify it; empty where none is.
    event_time: str  #: The member that is likely its time; empty where none is.
    notes: tuple[str, ...]  #: What was guessed, and what the document leaves open.


def is_openapi(document: object) -> bool:
    """True if a document describes an API."""
    return isinstance(document, Mapping) and ("openapi" in document or "swagger" in document) and "paths" in document


def proposed_apis(document: Document, *, origin: str = "") -> tuple[ProposedApi, ...]:
    """The proposals for each path of a document whose answers hold records.

    Args:
        document: The document, read from JSON or YAML.
        origin: The address that it was had from, for one that names its servers by a path alone.
    """
    found: dict[str, ProposedApi] = {}
    for path, item in mapping(document.get("paths")).items():
        path = str(path).partition("#")[0].partition("?")[0]  # some documents tell operations apart like this
        if path.rstrip("/").endswith("}"):  # one record
            continue
        for method in ("get", "post"):
            operation = mapping(resolved(document, mapping(resolved(document, item)).get(method)))
            is_search = method == "get" or re.search(r"search|query|list|find", path, re.IGNORECASE)
            if operation and is_search and path not in found:
                of = _Of(document, path, method, mapping(resolved(document, item)), operation)
                found.update({each.path: each for each in _of_operation(of, origin)})
    return tuple(sorted(found.values(), key=lambda each: each.path.count("{")))


def pages_of_answer(answer: object, records: str) -> str:
    """The paging that an answer of an API tells of itself, as the text of a declaration; empty where it tells none.

    Args:
        records: Where its records are.
    """
    of = _Of({}, "", "get", {}, {})
    members = dict(_members(of, schema_of_value(answer), "", _MOST_DEPTH, records))
    following, total = _where(members, _NEXTS, "string", "integer"), _where(members, _PAGES, "integer")
    if url := _next_url(members, is_sure=True):
        _declare(of, NextUrl, next=url)
    elif following:
        _declare(of, Cursor, parameter="cursor", next=following, more=_where(members, _MORES, "boolean"))
    elif total:
        _declare(of, PageNumber, parameter="page", total=total)
    elif total := _where(members, _TOTALS, "integer"):
        _declare(of, Offset, parameter="offset", total=total)
    return literal(of.arguments["pages"]) if "pages" in of.arguments else ""


class _Of:
    """An operation of a document, with what its declaration is made of."""

    def __init__(self, document: Document, path: str, method: str, item: Document, operation: Document) -> None:
        self.document, self.path, self.method, self.operation = document, path, method, operation
        given = [*listed(item.get("parameters")), *listed(operation.get("parameters"))]
        named = [mapping(resolved(document, each)) for each in given]
        self.parameters = {str(each["name"]): each for each in named if "name" in each and each.get("in") == "query"}
        self.in_body = self._of_body() if method == "post" else {}
        self.parameters |= {name: each for name, each in self.in_body.items() if name not in self.parameters}
        self.notes: list[str] = []
        self.arguments: dict[str, Any] = {}
        self.sent: dict[str, str] = {}
        self.secrets: dict[str, dict[str, str]] = {}

    def _of_body(self) -> dict[str, Document]:
        """The members of the body of a search, as if they were parameters."""
        body = mapping(resolved(self.document, self.operation.get("requestBody")))
        content = next(
            (mapping(each) for name, each in mapping(body.get("content")).items() if "json" in str(name)), {}
        )
        schema = self.schema(content.get("schema"))
        required = listed(schema.get("required"))
        return {
            name: {"name": name, "schema": given, "required": name in required}
            for name, given in properties_of(schema).items()
        }

    def place(self, name: str) -> Place:
        """The place of a declared parameter in a request."""
        return InBody(name) if name in self.in_body else name

    def schema(self, schema: object) -> Document:
        return schema_of(self.document, schema)

    def parameter(self, *names: str) -> str:
        """The first of these parameters that there is, however it is written."""
        by_plain = {plain(name): name for name in self.parameters}
        return next((by_plain[plain(name)] for name in names if plain(name) in by_plain), "")

    def of_parameter(self, name: str, *facts: str) -> Any:
        parameter = self.parameters.get(name, {})
        schema = {**parameter, **self.schema(parameter.get("schema"))}
        return next((schema[each] for each in facts if isinstance(schema.get(each), int)), None)


def _of_operation(of: _Of, origin: str) -> Iterator[ProposedApi]:
    answer, headers = _answer(of)
    found = _records(of, answer, _MOST_DEPTH)
    if found is None:
        return
    records, record = found
    columns = tuple(_columns(of, record))
    times = _times(columns)
    event_time = _first(times, _TIMES) or next(iter(times), "")
    key = _key(columns, of.path)
    of.arguments["url"] = _url(of, origin)
    if records:
        of.arguments["records"] = records
    members = dict(_members(of, answer, "", _MOST_DEPTH, records))
    _page(of, members, headers, key)
    _window(of, event_time, columns)
    sent = {name: value for name, value in of.sent.items() if name not in of.in_body}
    if sent:
        of.arguments["parameters"] = sent
    if of.method == "post":
        of.arguments["method"] = "POST"
        if body := {name: int(value) for name, value in of.sent.items() if name in of.in_body}:
            of.arguments["body"] = body
        of.notes.append("a search is asked with what is in its body: add it to body={...}")
    _login(of)
    asked = literal(of.arguments)
    required = [name for name, each in of.parameters.items() if each.get("required") and literal(name) not in asked]
    if required:
        of.notes.append(f"{', '.join(required)} has to be sent: declare it in parameters")
    if not event_time:
        of.notes.append("no member is a time: say which one is the event time")
    lines = [line for name, value in of.arguments.items() for line in _argument(name, value)]
    yield ProposedApi(
        path=of.path,
        declaration="\n".join(["HttpApi(", *lines, ")"]),
        names=tuple(sorted({"HttpApi", *names_in(of.arguments)})),
        columns=columns,
        key=key,
        event_time=event_time,
        notes=tuple(of.notes),
    )


def _argument(name: str, value: object) -> list[str]:
    """The lines of an argument; a token has one for each of its own."""
    if isinstance(value, Token):
        return call_lines(f"{name}=Token(", arguments(value), ")", indent=4, is_long=True)
    return [f"    {name}={literal(value)},"]


# ------------------------------------------------------------------------------------------------- answers and columns


def _answer(of: _Of) -> tuple[Document, Document]:
    """The schema and the headers of an answer that went well."""
    answers = mapping(of.operation.get("responses"))
    by_status = {str(status): each for status, each in answers.items()}  # YAML reads them as numbers
    well = next((by_status[each] for each in ("200", "2XX", "201", "default") if each in by_status), None)
    answer = mapping(resolved(of.document, well))
    content = mapping(answer.get("content"))
    media = next((mapping(value) for name, value in content.items() if "json" in str(name)), {})
    schema = media.get("schema", answer.get("schema"))
    return of.schema(schema), mapping(answer.get("headers"))


_ARRAYS = ("items", "data", "results", "records", "value", "values", "entries", "content", "hits", "list", "rows")


def _records(of: _Of, schema: Document, depth: int) -> tuple[str, Document] | None:
    """Where the array of records is, and the schema of one; of several the one whose name is usual, then the first."""
    shallow = sorted(_lists(of, schema, "", depth), key=lambda each: each[0].count("."))
    if len(shallow) > 1:
        of.notes.append(f"records may also be at {', '.join(repr(each[0]) for each in shallow[1:])}")
    return shallow[0] if shallow else None


def _lists(of: _Of, schema: Document, at: str, depth: int) -> Iterator[tuple[str, Document]]:
    """Where arrays of objects are that are in no other one, those of usual names before others beside them."""
    if "items" in schema or schema.get("type") == "array":
        record = of.schema(schema.get("items"))
        if properties_of(record):
            yield at, record
    elif depth:
        properties = properties_of(schema)
        ordered = sorted(properties, key=lambda name: _ARRAYS.index(name.lower()) if name.lower() in _ARRAYS else 99)
        for name in ordered:
            yield from _lists(of, of.schema(properties[name]), f"{at}.{name}".lstrip("."), depth - 1)


def _columns(
    of: _Of, record: Document, at: str = "", depth: int = 3, *, is_held: bool = True
) -> Iterator[ProposedColumn]:
    """The members of a record, and those of the objects in it."""
    required = {str(each) for each in listed(record.get("required"))}
    for name, given in properties_of(record).items():
        schema = of.schema(given)
        kind, is_json = _type(schema)
        is_there = is_held and name in required and not _is_nullable(schema)
        if properties_of(schema) and depth:
            yield from _columns(of, schema, f"{at}{name}.", depth - 1, is_held=is_there)
        else:
            yield ProposedColumn(name=f"{at}{name}", kind=kind, nullable=not is_there, is_json=is_json)


def _type(schema: Document) -> tuple[str, bool]:
    kinds = [each for each in kinds_of(schema.get("type")) if each != "null"]
    match (kinds[0] if len(kinds) == 1 else "", schema.get("format")):
        case ("integer", _):
            return "LONG", False
        case ("number", "decimal"):
            return "DECIMAL(38,9)", False
        case ("number", _):
            return "DOUBLE", False
        case ("boolean", _):
            return "BOOLEAN", False
        case ("string", "date-time" | "datetime"):
            return "TIMESTAMP", False
        case ("string", "date"):
            return "DATE", False
        case ("string", _):
            return "STRING", False
        case ("object" | "array", _):
            return "STRING", True
    return "STRING", bool(properties_of(schema))


def _is_nullable(schema: Document) -> bool:
    return schema.get("nullable") is True or schema.get("x-nullable") is True or "null" in kinds_of(schema.get("type"))


_TIMES = (
    *("occurred_at", "event_time", "timestamp", "time", "at", "created_at", "date_created", "created_on", "created"),
    *("creation_date", "received_at", "started_at", "start_time", "date", "updated_at", "date_updated", "modified_at"),
)


def _times(columns: Sequence[ProposedColumn]) -> list[str]:
    """The members that are times: those that are always there first, and dates last."""
    found = [each for each in columns if each.kind in ("TIMESTAMP", "DATE")]
    # Those of an object in a record are about something else.
    ordered = sorted(found, key=lambda each: (each.name.count("."), each.nullable, each.kind == "DATE"))
    return [each.name for each in ordered if "." not in each.name] or [each.name for each in ordered]


def _key(columns: Sequence[ProposedColumn], path: str) -> tuple[str, ...]:
    """The member that is likely the key: `id`, or that of what the path names."""
    names = [each.name for each in columns]
    thing = re.sub(r"ies$", "y", path.rstrip("/").rpartition("/")[2]).removesuffix("s")
    found = _first(names, ("id", "uuid", "_id", "sid", f"{thing}_id", f"{thing}id", f"{thing}_uuid", "key", "guid"))
    return (found,) if found else ()


def _first(names: Sequence[str], wanted: Sequence[str]) -> str:
    by_plain = {plain(name): name for name in reversed(names)}
    return next((by_plain[plain(each)] for each in wanted if plain(each) in by_plain), "")


def _members(of: _Of, schema: Document, at: str, depth: int, records: str) -> Iterator[tuple[str, Document]]:
    """The members of an answer beside its records, by where they are, the outer ones first."""
    inner: list[tuple[str, Document]] = []
    for name, given in properties_of(schema).items():
        where, held = f"{at}.{name}".lstrip("."), of.schema(given)
        if where != records:
            yield where, held
            inner.append((where, held))
    for where, held in inner if depth else ():
        if held.get("type") != "array":
            yield from _members(of, held, where, depth - 1, records)


# -------------------------------------------------------------------------------------------------------------- paging

_CURSORS = (
    *("cursor", "page_token", "next_token", "continuation_token", "continuation", "next_cursor", "page_cursor"),
    *("starting_after", "after", "marker", "scroll_id", "nextpagetoken", "start_cursor", "bookmark", "since_id"),
    *("after_id", "last_id", "id_after"),
)
_NEXTS = (
    *("next_cursor", "next_page_token", "next_token", "end_cursor", "continuation_token", "continuation"),
    *("cursor", "cursors_next", "next_page", "next_marker", "bookmark", "scroll_id", "page_token", "after", "next"),
)
_AFTERS = ("starting_after", "after", "since_id", "after_id", "last_id", "id_after")
_URLS = ("next", "nexturl", "nextlink", "nextpageurl", "odatanextlink", "nexthref")
_LIMITS = ("limit", "per_page", "page_size", "size", "top", "take", "count", "max_results", "rows", "results_per_page")
_MORES = ("has_more", "has_next", "has_next_page", "more", "next_page_exists", "has_more_items", "is_truncated")


def _page(of: _Of, members: Mapping[str, Document], headers: Document, key: Sequence[str]) -> None:
    """The paging, as parameters and answers declare it."""
    limit = of.parameter(*_LIMITS)
    size = of.of_parameter(limit, "maximum", "default") if limit else None
    cursor, offset = of.parameter(*_CURSORS), of.parameter("offset", "skip", "start_index", "first_result", "start")
    if offset and "integer" not in kinds_of(
        of.schema(of.parameters[offset].get("schema") or of.parameters[offset]).get("type")
    ):
        offset = ""
    page, more = of.parameter("page", "page_number", "page_no", "page_index", "p"), _where(members, _MORES, "boolean")
    following = _where(members, _NEXTS, "string", "integer")
    url, likely_url = _next_url(members, is_sure=True), _next_url(members, is_sure=False)
    link = next((name for name in headers if str(name).lower() == "link"), "")
    if cursor and following and following != url:
        _declare(of, Cursor, parameter=of.place(cursor), next=following, more=more)
    elif url:
        _declare(of, NextUrl, next=url)
    elif link:
        _declare(of, LinkHeader)
    elif offset:
        total = _total(members, headers, _TOTALS)
        given = {"limit": of.place(limit), "size": size} if limit and size else {}
        _declare(
            of,
            Offset,
            parameter=of.place(offset),
            **given,
            first=_first_of(of, offset, 0),
            total=total,
            more=more and not total,
        )
        limit = "" if given else limit
    elif page:
        total = _total(members, headers, _PAGES)
        _declare(
            of,
            PageNumber,
            parameter=of.place(page),
            first=_first_of(of, page, 1),
            total=total,
            more=more and not total,
        )
    elif likely_url:
        _declare(of, NextUrl, next=likely_url)
        of.notes.append(f"{likely_url} is taken to be an address")
    elif cursor and key and plain(cursor) in map(plain, _AFTERS):
        _declare(of, IdRange, after=of.place(cursor), member=key[0])
        of.notes.append(f"{cursor} is taken to be asked with the last {key[0]}: records have to come in its order")
    else:
        of.notes.append("the document does not say how answers are paged: one is taken to have everything")
    if limit and size and "pages" in of.arguments:
        of.sent[limit] = str(size)


def _first_of(of: _Of, parameter: str, usual: int) -> int | None:
    """The first number, where it is another one than is usual."""
    found = of.of_parameter(parameter, "minimum", "default")
    return found if found in (0, 1) and found != usual else None


_TOTALS = ("total", "total_count", "total_records", "total_results", "count", "total_items", "total_elements")
_PAGES = ("total_pages", "page_count", "last_page", "pages", "num_pages", "total_page")


def _total(members: Mapping[str, Document], headers: Document, names: Sequence[str]) -> Found:
    found = _where(members, names, "integer", "number")
    header = next((str(each) for each in headers if plain(str(each)).removeprefix("x") in map(plain, names)), "")
    return found or (InHeader(header) if header else "")


def _declare(of: _Of, kind: Callable[..., object], **given: object) -> None:
    named = {name: value for name, value in given.items() if value is not None and value is not False and value != ""}
    of.arguments["pages"] = kind(**named)


def _where(members: Mapping[str, Document], names: Sequence[str], *kinds: str) -> str:
    """The path of the first of these members in an answer, of one of these types."""
    for name in map(plain, names):
        for where, schema in members.items():
            is_named = name in (plain(where.rpartition(".")[2]), plain("".join(where.split(".")[-2:])))
            if is_named and set(kinds_of(schema.get("type"))) & set(kinds):
                return where
    return ""


def _next_url(members: Mapping[str, Document], *, is_sure: bool) -> str:
    """Where an answer has the address of the next page, as the form or the name of a member says."""
    for where, schema in members.items():
        own, path = plain(where.rpartition(".")[2]), plain(where)
        is_named = own in _URLS or path.endswith(("nexthref", "nexturl"))
        says_so = schema.get("format") in ("uri", "url", "uri-reference") or own != "next" or "link" in path
        if is_named and "string" in kinds_of(schema.get("type")) and (says_so or not is_sure):
            return where
    return ""


_PAIRS = (
    *(("from", "to"), ("since", "until"), ("start", "end"), ("start_date", "end_date"), ("date_from", "date_to")),
    *(("start_time", "end_time"), ("from_date", "to_date"), ("created_after", "created_before"), ("after", "before")),
    *(("updated_after", "updated_before"), ("created_from", "created_to"), ("updated_from", "updated_to")),
    *(("created_gte", "created_lt"), ("updated_gte", "updated_lt"), ("created_at_min", "created_at_max")),
    *(("updated_at_min", "updated_at_max"), ("min_date", "max_date"), ("created_since", "created_until")),
)


def _window(of: _Of, event_time: str, columns: Sequence[ProposedColumn]) -> None:
    """The parameters that ask for a period."""
    pairs = ((of.parameter(start), of.parameter(end)) for start, end in _PAIRS)
    pages = literal(of.arguments.get("pages"))
    start, end = next(((a, b) for a, b in pairs if a and b and _is_time(of, a) and literal(a) not in pages), ("", ""))
    if not start:
        alone = (found for pair in _PAIRS for each in pair if (found := of.parameter(each)) and _is_time(of, found))
        if (found := next(alone, "")) and literal(found) not in pages:
            of.notes.append(f"{found} bounds a period at one end alone, so that no window is asked for: see parameters")
        return
    times = _times(columns)
    by = next((each for each in ("updated", "created") if plain(start).startswith(each)), "")
    member = next((each for each in times if by and plain(each).startswith(by)), event_time)
    if not member:
        return
    parameter = of.parameters[start]
    form = {**parameter, **of.schema(parameter.get("schema"))}
    is_day = form.get("format") == "date"
    written = "day" if is_day else "seconds" if "integer" in kinds_of(form.get("type")) else ""
    window = TimeWindow(start=of.place(start), end=of.place(end), of=member)
    of.arguments["window"] = replace(window, form=written) if written else window
    of.notes.append(f"{start} and {end} are taken to be about {member}")


def _is_time(of: _Of, name: str) -> bool:
    parameter = of.parameters[name]
    schema = {**parameter, **of.schema(parameter.get("schema"))}
    is_text = "string" in kinds_of(schema.get("type", "string"))
    return schema.get("format") in ("date", "date-time", "datetime") or is_text or "time" in plain(name)


# ------------------------------------------------------------------------------------------------------- address, login


def _url(of: _Of, origin: str) -> str:
    document = of.document
    if "swagger" in document:
        schemes = listed(document.get("schemes"))
        scheme = "http" if schemes and "https" not in schemes else "https"
        server = f"{scheme}://{document['host']}" if document.get("host") else ""
        base = f"{server}{str(document.get('basePath', '')).rstrip('/')}"
    else:
        servers = [mapping(each) for each in listed(of.operation.get("servers")) or listed(document.get("servers"))]
        first = servers[0] if servers else {}
        variables = mapping(first.get("variables"))
        base = re.sub(
            r"\{(\w+)\}",
            lambda each: str(mapping(variables.get(each[1])).get("default", each[0])),
            str(first.get("url", "")),
        )
    base = urljoin(origin, base) if origin else base
    if not base.startswith(("http://", "https://")):
        of.notes.append("the document does not name its server: replace https://api.example.org")
        base = f"https://api.example.org/{base.strip('/')}"
    places = re.findall(r"\{([^{}]*)\}", of.path)
    if places:
        of.notes.append(
            f"{', '.join(map(_stands_for, places))} in the address stands for what is asked about: replace it"
        )
    path = re.sub(r"\{([^{}]*)\}", lambda each: _stands_for(each[1]), of.path)
    return f"{base.rstrip('/')}{quote(path, safe=_SAFE)}".split("?")[0]


_SAFE = "/:@!$&'()*+,;=-._~%"


def _stands_for(name: str) -> str:
    return re.sub(r"\W+", "_", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name)).upper()


def _login(of: _Of) -> None:
    """Adds the credentials of an API, by the first scheme of the operation for which a declaration has a form."""
    document = of.document
    components = mapping(document.get("components"))
    schemes = mapping(components.get("securitySchemes", document.get("securityDefinitions")))
    ways = [mapping(each) for each in listed(of.operation.get("security", document.get("security")))]
    title = mapping(document.get("info")).get("title", "API")
    env = _variable(str(title)) or "API"
    for way in ways:  # all that one names are sent together
        before = dict(of.arguments)
        held = [(mapping(resolved(document, schemes.get(name))), name) for name in way]
        several = sum(scheme.get("type") == "apiKey" for scheme, _ in held) > 1
        envs = [(_variable(f"{env} {scheme.get('name')}") if several else env) or env for scheme, _ in held]
        scopes = [" ".join(map(str, listed(way[name]))) for name in way]
        if all(_logs_in(of, held[n][0], envs[n], scopes[n]) for n in range(len(held))):
            break
        of.arguments = before
        of.secrets.clear()
    else:
        if named := sorted({str(name) for way in ways for name in way}):
            of.notes.append(f"the API is asked by {', '.join(named)}, for which there is no declaration")
    of.arguments |= of.secrets


def _variable(text: str) -> str:
    """A name of an environment variable; empty where a text makes none."""
    return re.sub(r"^[^A-Z]+", "", re.sub(r"\W+", "_", text.upper(), flags=re.ASCII).strip("_"))


def _logs_in(of: _Of, scheme: Document, env: str, scopes: str) -> bool:
    flows = mapping(scheme.get("flows"))
    flow = mapping(flows.get("clientCredentials")) or (scheme if scheme.get("flow") == "application" else {})
    match (scheme.get("type"), scheme.get("in"), str(scheme.get("scheme", "")).lower()):
        case ("apiKey", "header", _):
            of.secrets.setdefault("secret_headers", {})[str(scheme.get("name"))] = f"{env}_KEY"
        case ("apiKey", "query", _):
            of.secrets.setdefault("secret_parameters", {})[str(scheme.get("name"))] = f"{env}_KEY"
        case ("basic", _, _) | ("http", _, "basic"):
            of.arguments["basic"] = Basic(secrets={"user": f"{env}_USER", "password": f"{env}_PASSWORD"})
        case ("http", _, "bearer"):
            of.secrets.setdefault("secret_headers", {})["Authorization"] = f"{env}_TOKEN"
            of.notes.append(f"the value of {env}_TOKEN begins with Bearer")
        case ("oauth2" | "openIdConnect", _, _) if not flow.get("tokenUrl"):
            of.secrets.setdefault("secret_headers", {})["Authorization"] = f"{env}_TOKEN"
            of.notes.append(f"the value of {env}_TOKEN begins with Bearer, and a person has to be given it")
        case ("oauth2", _, _):
            of.arguments["token"] = Token(
                url=str(flow["tokenUrl"]),
                secrets={"client_id": f"{env}_ID", "client_secret": f"{env}_SECRET"},
                form={"grant_type": "client_credentials", **({"scope": scopes} if scopes else {})},
            )
        case _:
            return False
    return True
