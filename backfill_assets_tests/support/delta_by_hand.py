"""Delta tables whose log is written by hand, with features that no client of this project writes."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

_MAGIC, _COOKIE = 1681511377, 12346
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


@dataclass(kw_only=True)
class HandMade:
    """A table in a folder, commit by commit."""

    folder: Path
    version: int = -1
    files: dict[str, dict[str, Any]] = field(default_factory=dict)

    def commit(self, *actions: Mapping[str, Any]) -> int:
        self.version += 1
        log = self.folder / "_delta_log"
        log.mkdir(parents=True, exist_ok=True)
        (log / f"{self.version:020}.json").write_text("\n".join(map(json.dumps, actions)))
        return self.version

    def protocol(self, reader: int, *features: str, writer: int = 7) -> dict[str, Any]:
        found: dict[str, Any] = {"minReaderVersion": reader, "minWriterVersion": writer if reader == 3 else 5}
        if reader == 3:
            found |= {"readerFeatures": list(features), "writerFeatures": list(features)}
        return {"protocol": found}

    def metadata(
        self, fields: Sequence[Mapping[str, Any]], *, partition: Sequence[str] = (), **configuration: str
    ) -> dict[str, Any]:
        said = {name.replace("__", "."): value for name, value in configuration.items()}
        return {
            "metaData": {
                "id": self.__dict__.setdefault("id", str(uuid4())),
                "format": {"provider": "parquet", "options": {}},
                "schemaString": json.dumps({"type": "struct", "fields": list(fields)}),
                "partitionColumns": list(partition),
                "configuration": said,
                "createdTime": 1,
            }
        }

    def add(
        self,
        rows: pa.Table,
        *,
        partition: Mapping[str, str | None] | None = None,
        without: Sequence[int] = (),
        records: int | None = None,
        row_group_size: int | None = None,
    ) -> dict[str, Any]:
        """A file with rows, some of which a deletion vector takes out."""
        name = f"part-{uuid4()}.parquet"
        self.folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows, self.folder / name, row_group_size=row_group_size)
        found: dict[str, Any] = {
            "path": name,
            "partitionValues": dict(partition or {}),
            "size": (self.folder / name).stat().st_size,
            "modificationTime": 1,
            "dataChange": True,
            "stats": json.dumps({"numRecords": len(rows) if records is None else records}),
        }
        if without:
            found["deletionVector"] = deletion_vector(without)
        self.files[name] = found
        return {"add": found}

    def remove(self, add: Mapping[str, Any]) -> dict[str, Any]:
        file = add["add"]
        self.files.pop(file["path"], None)
        kept = {name: value for name, value in file.items() if name not in ("stats", "modificationTime")}
        return {"remove": {**kept, "deletionTimestamp": 1, "extendedFileMetadata": True}}


def column(name: str, kind: Any, *, physical: str | None = None, number: int | None = None) -> dict[str, Any]:
    """A column of a schema, with what column mapping says of it."""
    metadata: dict[str, Any] = {}
    if physical is not None:
        metadata |= {"delta.columnMapping.physicalName": physical, "delta.columnMapping.id": number}
    return {"name": name, "type": kind, "nullable": True, "metadata": metadata}


def with_id(name: str, kind: pa.DataType, number: int) -> pa.Field:
    """A column of a file that has an id."""
    return pa.field(name, kind, metadata={"PARQUET:field_id": str(number)})


def deletion_vector(rows: Sequence[int]) -> dict[str, Any]:
    """Rows as Delta's format has them in the log: a bitmap of the first 65,536 rows, in base 85."""
    chosen = sorted(rows)
    container = struct.pack("<IIHHI", _COOKIE, 1, 0, len(chosen) - 1, 16) + struct.pack(f"<{len(chosen)}H", *chosen)
    content = struct.pack("<IqI", _MAGIC, 1, 0) + container
    return {
        "storageType": "i",
        "pathOrInlineDv": _base85(content),
        "sizeInBytes": len(content),
        "cardinality": len(chosen),
    }


def _base85(content: bytes) -> str:
    padded, found = content + b"\0" * (-len(content) % 4), ""
    for (value,) in struct.iter_unpack(">I", padded):
        digits, rest = "", value
        for _ in range(5):
            rest, digit = divmod(rest, 85)
            digits = _DIGITS[digit] + digits
        found += digits
    return found
