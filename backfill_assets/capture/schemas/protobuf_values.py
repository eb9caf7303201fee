"""Protobuf values: read by the message of their schema that they name.

The text of a schema is compiled by protoc in a process of its own. Numbers keep their digits: a `float` is written as
the number that it is, and 64 bits are a number.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path, PurePosixPath
from typing import Any

from backfill_assets.capture.schemas.avro_values import decimal_of, time_of
from backfill_assets.capture.schemas.declaration import BrokenValue, Decode, Schema
from backfill_assets.core.errors import PackageMissing

_MAIN = "backfill_main.proto"
_WITHIN_S = 60
_NANOS = 1_000_000_000
_WRAPPERS = frozenset(
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)


def protobuf_decoder(schema: Schema, schema_id: int) -> Decode:
    """The decoder of values of a schema.

    Raises:
        BrokenValue: It is no schema.
    """
    try:
        import grpc_tools
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
        from google.protobuf.message import DecodeError
    except ImportError:
        raise PackageMissing(what="a topic of Protobuf values", package="grpcio-tools", extra="schemas") from None
    compiled = descriptor_pb2.FileDescriptorSet.FromString(_compiled(schema, schema_id, Path(grpc_tools.__path__[0])))
    pool, files = descriptor_pool.DescriptorPool(), {file.name: file for file in compiled.file}
    main = files[_MAIN]
    _add(pool, files, _MAIN, set())
    package = f"{main.package}." if main.package else ""
    top = [pool.FindMessageTypeByName(f"{package}{each.name}") for each in main.message_type]

    def decode(value: bytes) -> Any:
        indexes, at = _indexes(value)
        messages, found = top, None
        for index in indexes:
            if not 0 <= index < len(messages):
                raise BrokenValue(f"it names a message that schema {schema_id} does not have")
            found = messages[index]
            messages = list(found.nested_types)
        assert found is not None
        try:
            message = message_factory.GetMessageClass(found).FromString(value[at:])
        except DecodeError:
            raise BrokenValue(f"it is not what schema {schema_id} says") from None
        if not message.IsInitialized():
            raise BrokenValue(f"it lacks a field that schema {schema_id} requires")
        try:
            return _members(message)
        except UnicodeDecodeError:
            raise BrokenValue(f"it is not what schema {schema_id} says: a text is not UTF-8") from None

    return decode


def _add(pool: Any, files: Mapping[str, Any], name: str, added: set[str]) -> None:
    """Adds a file to a pool, behind those that it imports."""
    if name in added:
        return
    added.add(name)
    for each in files[name].dependency:
        _add(pool, files, each, added)
    pool.Add(files[name])


def _compiled(schema: Schema, schema_id: int, tools: Path) -> bytes:
    with tempfile.TemporaryDirectory(prefix="backfill-protobuf-") as folder:
        _write(Path(folder), _MAIN, schema)
        wanted, own = Path(folder, "descriptors"), tools / "_proto"
        files = sorted(path.relative_to(folder).as_posix() for path in Path(folder).rglob("*.proto"))
        files += sorted(path.relative_to(own).as_posix() for path in own.glob("google/protobuf/*.proto"))
        command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{folder}", f"-I{own}", f"-o{wanted}"]
        command += dict.fromkeys(files)
        try:
            done = subprocess.run(command, capture_output=True, check=False, timeout=_WITHIN_S)  # noqa: S603 - our own
        except subprocess.TimeoutExpired:
            raise BrokenValue(f"schema {schema_id} is not compiled within {_WITHIN_S} s") from None
        if done.returncode:
            lines = done.stderr.decode(errors="replace").splitlines()
            why = next(
                (line.removeprefix(f"{_MAIN}:") for line in lines if line.startswith(_MAIN)), "protoc refuses it"
            )
            raise BrokenValue(f"schema {schema_id} is not a Protobuf schema: {why}")
        return wanted.read_bytes()


def _write(folder: Path, name: str, schema: Schema) -> None:
    if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
        raise BrokenValue("it refers to a schema by a name that is not a path below a folder")
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(schema.text, encoding="utf-8")
    for inner, each in schema.references.items():
        _write(folder, inner, each)


def _indexes(value: bytes) -> tuple[list[int], int]:
    """The place of the message in the schema, and where it begins: each index is of those within the one before."""
    count, at = _zigzag(value, 0)
    if count == 0:
        return [0], at
    found = []
    for _ in range(count):
        index, at = _zigzag(value, at)
        found.append(index)
    if count < 0:
        raise BrokenValue("it does not say which message it is")
    return found, at


def _zigzag(value: bytes, at: int) -> tuple[int, int]:
    number = 0
    for place, byte in enumerate(value[at : at + 5]):
        number |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at + place + 1
    raise BrokenValue("it does not say which message it is")


# ------------------------------------------------------------------------------------------------------------- values


def _members(message: Any) -> Mapping[str, Any]:
    """Every field of a message; null are those that know whether they were set, and were not."""
    return {field.name: _field(message, field) for field in message.DESCRIPTOR.fields}


def _field(message: Any, field: Any) -> Any:
    if _is_repeated(field):
        found = getattr(message, field.name)
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            value = field.message_type.fields_by_name["value"]
            return {_as_name(key): _value(found[key], value) for key in sorted(found)}
        return [_value(each, field) for each in found]
    if field.has_presence and not message.HasField(field.name):
        return None
    return _value(getattr(message, field.name), field)


def _is_repeated(field: Any) -> bool:
    known = getattr(field, "is_repeated", None)
    return bool(field.label == field.LABEL_REPEATED) if known is None else bool(known)


def _as_name(key: Any) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)


def _value(value: Any, field: Any) -> Any:
    if field.enum_type is not None:
        named = field.enum_type.values_by_number.get(value)
        return value if named is None else named.name
    if field.message_type is None:
        # Of syntax proto2 a text may be any bytes, and the library gives those that are no UTF-8 as bytes.
        return value.decode() if field.type == field.TYPE_STRING and isinstance(value, bytes) else value
    name = field.message_type.full_name
    match name:
        case "google.protobuf.Timestamp":
            return _timestamp(value.seconds, value.nanos)
        case "google.protobuf.Duration":
            return Decimal(value.seconds) + Decimal(value.nanos).scaleb(-9)
        case "google.type.Date":
            return f"{value.year:04}-{value.month:02}-{value.day:02}"
        case "google.type.Decimal":
            return value.value
        case "confluent.type.Decimal":
            return decimal_of(value.value, value.scale)
        case "google.protobuf.Struct" | "google.protobuf.Value" | "google.protobuf.ListValue":
            return _dynamic(value)
        case _ if name in _WRAPPERS:
            return value.value
    return _members(value)


def _timestamp(seconds: int, nanos: int) -> str:
    if not 0 <= nanos < _NANOS:
        raise BrokenValue("a timestamp is not one")
    return time_of(_NANOS, "Z")(seconds * _NANOS + nanos)


def _dynamic(value: Any) -> Any:
    """A value of JSON that is written as a message."""
    match value.DESCRIPTOR.name:
        case "Struct":
            return {name: _dynamic(value.fields[name]) for name in sorted(value.fields)}
        case "ListValue":
            return [_dynamic(each) for each in value.values]
    kind = value.WhichOneof("kind")
    if kind is None or kind == "null_value":
        return None
    found = getattr(value, kind)
    return _dynamic(found) if kind in ("struct_value", "list_value") else found
