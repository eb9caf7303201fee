"""Schemas of OpenAPI: references followed, and parts put together; what is of a wrong kind is left out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

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
