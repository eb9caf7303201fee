"""Schemas: the values of a topic in Confluent's wire format, read by the schema that each names.

A value begins with a zero and the id of its schema in four bytes. What cannot be read is no reason to stop: such a
record is kept as it came, with what is wrong. A registry that does not answer is one.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

import requests

from backfill_assets.capture.errors import StreamDenied, StreamFailed, no_answer_within
from backfill_assets.capture.json_members import json_of, members_of, quoted
from backfill_assets.capture.schemas.declaration import BrokenValue, Decode, Schema, SchemaFolder, SchemaRegistry

_MAGIC, _HEADER = 0, 5
_KINDS = {".avsc": "AVRO", ".proto": "PROTOBUF", ".json": "JSON"}


class Schemas(Protocol):
    """A source of schemas."""

    def get(self, schema_id: int) -> Schema:
        """The schema of an id.

        Raises:
            BrokenValue: There is none.
            Retryable, Refused: The server does not answer, or refuses to.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """A value that was read."""

    schema_id: int  #: The schema that it named.
    members: bytes  #: What it has, as the members of a JSON object.


@dataclass(slots=True, kw_only=True)
class ValueReader:
    """Reads values, each by the schema that it names."""

    schemas: Schemas
    versions: Mapping[int, int]  #: By the id of a schema, the version of the contract.
    used: dict[int, Schema] = field(default_factory=dict)  #: The schemas that were needed, since this was emptied.
    _known: dict[int, tuple[Schema, Decode] | BrokenValue] = field(default_factory=dict)

    def read(self, value: bytes) -> Read:
        """Reads a value.

        Raises:
            BrokenValue: It cannot be read.
        """
        schema_id, found = self._decoded(value)
        if isinstance(found, bytes):
            members = members_of(found, "kafka_")
        elif isinstance(found, Mapping) and not any(name.startswith("kafka_") for name in found):
            try:
                members = json_of(found)[1:-1].encode()
            except RecursionError:
                raise BrokenValue("the value is deeper than it can be read") from None
        else:
            members = None
        if members is None:
            raise BrokenValue("the value is not a record, or one of its names begins with kafka_")
        if schema_id in self.versions and not _says_version(found):
            version = f'"schema_version": {self.versions[schema_id]}'.encode()
            members = version + (members and b", " + members)
        return Read(schema_id=schema_id, members=members)

    def read_key(self, key: bytes) -> Any:
        """Reads a key: a value, or the bytes of a JSON text.

        Raises:
            BrokenValue: It cannot be read.
        """
        return self._decoded(key)[1]

    def kept(self) -> bytes:
        """The schemas that were needed, to be kept beside the records; nothing without any."""
        lines = (quoted({"id": each, **asdict(schema)}) for each, schema in sorted(self.used.items()))
        text = "".join(f"{line}\n" for line in lines)
        self.used.clear()
        return gzip.compress(text.encode(), mtime=0) if text else b""

    def _decoded(self, value: bytes) -> tuple[int, Any]:
        if len(value) < _HEADER or value[0] != _MAGIC:
            raise BrokenValue("it does not begin with a zero and the id of a schema")
        schema_id = int.from_bytes(value[1:_HEADER], "big")
        if schema_id not in self._known:
            try:
                schema = self.schemas.get(schema_id)
                self._known[schema_id] = (schema, _decoder(schema, schema_id))
            except BrokenValue as broken:
                self._known[schema_id] = broken
        known = self._known[schema_id]
        if isinstance(known, BrokenValue):
            raise BrokenValue(str(known))
        schema, decode = known
        self.used[schema_id] = schema
        return schema_id, decode(value[_HEADER:])


def _says_version(found: Any) -> bool:
    """True if a value states its contract version itself."""
    return "schema_version" in (json.loads(found) if isinstance(found, bytes) else found)


def _decoder(schema: Schema, schema_id: int) -> Decode:
    """The decoder of values of a schema."""
    match schema.kind:
        case "JSON":
            from backfill_assets.capture.schemas.json_values import json_decoder

            return json_decoder(schema, schema_id)
        case "AVRO":
            from backfill_assets.capture.schemas.avro_values import avro_decoder

            return avro_decoder(schema, schema_id)
        case "PROTOBUF":
            from backfill_assets.capture.schemas.protobuf_values import protobuf_decoder

            return protobuf_decoder(schema, schema_id)
    raise BrokenValue(f"schema {schema_id} is {schema.kind}: only Avro, Protobuf and JSON Schema are read")


@dataclass(slots=True, kw_only=True)
class RegistrySchemas:
    """The schemas of a registry."""

    declared: SchemaRegistry  #: As the source declares it.
    secret: Mapping[str, str]  #: The values of its secrets.
    session: requests.Session = field(default_factory=requests.Session)  #: What asks it.

    def get(self, schema_id: int) -> Schema:
        return self._schema(f"schemas/ids/{schema_id}", f"schema {schema_id}", ())

    def _schema(self, path: str, what: str, within: tuple[str, ...]) -> Schema:
        found = self._ask(path, what)
        try:
            references = {
                each["name"]: (
                    f"subjects/{quote(each['subject'], safe='')}/versions/{int(each['version'])}",
                    each["name"],
                )
                for each in found.get("references") or ()
            }
            text, kind = str(found["schema"]), str(found.get("schemaType") or "AVRO")
        except (KeyError, TypeError, ValueError, AttributeError):
            raise BrokenValue(f"the registry's answer for {what} is not a schema") from None
        if path in within:
            raise BrokenValue(f"{what} refers to itself")
        inner = {name: self._schema(*where, (*within, path)) for name, where in references.items()}
        return Schema(kind=kind, text=text, references=inner)

    def _ask(self, path: str, what: str) -> Any:
        name, seconds = f"the registry {self.declared.url}", self.declared.answers_within / timedelta(seconds=1)
        headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if "token" in self.secret:
            headers["Authorization"] = f"Bearer {self.secret['token']}"
        elif "user" in self.secret:
            both = f"{self.secret['user']}:{self.secret.get('password', '')}"
            headers["Authorization"] = f"Basic {base64.b64encode(both.encode()).decode()}"
        try:
            # No password of ~/.netrc, and no other address than the declared one.
            answer = self.session.get(
                f"{self.declared.url.rstrip('/')}/{path}",
                headers=headers,
                auth=lambda request: request,
                timeout=seconds,
                allow_redirects=False,
            )
        except requests.RequestException:
            # Its words have the address with everything in it.
            raise StreamFailed(name=name, why=no_answer_within(seconds)) from None
        match answer.status_code:
            case 200:
                try:
                    return answer.json()
                except ValueError:
                    raise StreamFailed(name=name, why="its answer is not JSON") from None
            case 404:
                raise BrokenValue(f"{what} is not in the registry")
            case 401 | 403:
                raise StreamDenied(name=name, why=f"it answers {answer.status_code}")
        raise StreamFailed(name=name, why=f"it answers {answer.status_code}")


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderSchemas:
    """The schemas of a folder."""

    folder: Path

    def get(self, schema_id: int) -> Schema:
        found = [path for path in (self.folder / f"{schema_id}{suffix}" for suffix in _KINDS) if path.is_file()]
        if len(found) != 1:
            how = "is not" if not found else "is there several times"
            raise BrokenValue(f"schema {schema_id} {how} in the folder of schemas")
        try:
            return Schema(kind=_KINDS[found[0].suffix], text=found[0].read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError):
            raise BrokenValue(f"schema {schema_id} cannot be read from the folder of schemas") from None


def value_reader(declared: SchemaRegistry | SchemaFolder, secret: Mapping[str, str]) -> ValueReader:
    """The reader of the values of a topic."""
    schemas: Schemas
    if isinstance(declared, SchemaFolder):
        schemas = FolderSchemas(folder=declared.path)
    else:
        schemas = RegistrySchemas(declared=declared, secret=secret)
    return ValueReader(schemas=schemas, versions=declared.versions)
