"""JSON values: held against the schema that they name, and kept as they were written.

A schema may refer to those that the registry names as its references, and to nothing else: nothing is fetched.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NoReturn

from backfill_assets.capture.schemas.declaration import BrokenValue, Decode, Schema
from backfill_assets.core.errors import PackageMissing


def json_decoder(schema: Schema, schema_id: int) -> Decode:
    """The decoder of values of a schema: as their bytes, when the schema allows them.

    Without `$schema` a schema is of draft 7, as the serializers have it. A `format` is not checked.

    Raises:
        BrokenValue: It is no schema.
    """
    try:
        from jsonschema.exceptions import best_match
        from jsonschema.validators import Draft7Validator, validator_for
        from referencing import Registry, Resource
        from referencing.jsonschema import DRAFT7
    except ImportError:
        raise PackageMissing(what="a topic of JSON Schema", package="jsonschema", extra="schemas") from None
    try:
        stated = json.loads(schema.text)
        inner = [
            (name, Resource.from_contents(json.loads(each.text), default_specification=DRAFT7))
            for name, each in _inner(schema)
        ]
        kind: Any = validator_for(stated, default=Draft7Validator)
        kind.check_schema(stated)
        validator = kind(stated, registry=Registry().with_resources(inner))
    except Exception as error:  # noqa: BLE001 - whatever the library says of it, records of it cannot be judged
        raise BrokenValue(f"schema {schema_id} is not a JSON Schema: {type(error).__name__}") from None

    def decode(value: bytes) -> bytes:
        try:
            found = json.loads(value.decode(), parse_constant=_no_number)
            wrong = best_match(validator.iter_errors(found))
        except Exception as error:  # noqa: BLE001 - no JSON, a reference to nowhere, or depths that nobody reads
            raise BrokenValue(f"it is not what schema {schema_id} says: {type(error).__name__}") from None
        if wrong is not None:
            # Its message and its path have what is in the value; the path in the schema is the author's.
            broken = "/".join(map(str, wrong.absolute_schema_path))
            raise BrokenValue(f"it is not what schema {schema_id} says: {broken}")
        return value

    return decode


def _inner(schema: Schema) -> Iterator[tuple[str, Schema]]:
    """The schemas that it refers to, at any depth, by the names under which they are referred to."""
    for name, each in schema.references.items():
        yield name, each
        yield from _inner(each)


def _no_number(said: str) -> NoReturn:
    raise ValueError(said)
