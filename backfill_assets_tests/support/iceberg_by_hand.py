"""Snapshots of Iceberg tables with delete files, which Flink and Spark write and the client of this project cannot."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestWriterV2,
    write_manifest_list,
)
from pyiceberg.table import Table
from pyiceberg.typedef import Record


class _Deletes(ManifestWriterV2):
    """A manifest of delete files."""

    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


POSITIONS = pa.schema(
    [
        pa.field("file_path", pa.string(), metadata={"PARQUET:field_id": "2147483546"}),
        pa.field("pos", pa.int64(), metadata={"PARQUET:field_id": "2147483545"}),
    ]
)


def with_deletes(table: Table, folder: Path, rows: pa.Table, *, equality_ids: Sequence[int] = ()) -> str:
    """The address of metadata whose newest snapshot deletes rows by their places, or by values of columns."""
    parent = table.metadata.current_snapshot()
    assert parent is not None
    folder.mkdir(parents=True, exist_ok=True)
    file, manifest, listed, address = (
        str(folder / f"{uuid4()}.{end}") for end in ("parquet", "avro", "list.avro", "metadata.json")
    )
    pq.write_table(rows, file)
    number, sequence = parent.snapshot_id - 1, (parent.sequence_number or 0) + 1
    deletes = DataFile.from_args(
        content=DataFileContent.EQUALITY_DELETES if equality_ids else DataFileContent.POSITION_DELETES,
        file_path=file,
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=len(rows),
        file_size_in_bytes=Path(file).stat().st_size,
        equality_ids=list(equality_ids) or None,
    )
    with _Deletes(table.spec(), table.schema(), table.io.new_output(manifest), number, "deflate") as writer:
        entry = ManifestEntry.from_args(status=ManifestEntryStatus.ADDED, snapshot_id=number, data_file=deletes)
        writer.add_entry(entry)
    written = [*parent.manifests(table.io), writer.to_manifest_file()]
    with write_manifest_list(
        2, table.io.new_output(listed), number, parent.snapshot_id, sequence, "deflate"
    ) as manifests:
        manifests.add_manifests(written)
    found = json.loads(table.metadata.model_dump_json(by_alias=True))
    found["snapshots"].append(
        {
            **found["snapshots"][-1],
            "snapshot-id": number,
            "parent-snapshot-id": parent.snapshot_id,
            "sequence-number": sequence,
            "manifest-list": listed,
            "summary": {"operation": "delete"},
        }
    )
    found |= {"current-snapshot-id": number, "last-sequence-number": sequence}
    found["refs"]["main"]["snapshot-id"] = number
    Path(address).write_text(json.dumps(found))
    return address
