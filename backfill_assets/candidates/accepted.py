"""Accepted rows that a candidate is compared with: their checksums, and how few of them have to be read.

The ledger has the content checksum of every accepted version, which the gates measured in its files. Where every file
still has the bytes that were staged, the rows are what they were, and the checksum holds without reading them. Bytes
are verified as a publication verifies them: by the stamp of the file system, and by their sha256 where that differs.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date

from backfill_assets.candidates.rows import rows_of
from backfill_assets.domain import SourceTable, Table
from backfill_assets.lake.checksums import is_known, partition_checksums
from backfill_assets.lake.staging import contract_of
from backfill_assets.lake.tables import changed_files, missing_files
from backfill_assets.ledger.records import PartitionVersion
from backfill_assets.transforms.schemas import business_schema
from backfill_assets.workspace import Workspace


def accepted_checksums(ws: Workspace, table: Table, accepted: Mapping[date, PartitionVersion]) -> Mapping[date, str]:
    """The checksums of the accepted rows as their files have them now, by partition; those without rows may be absent.

    Args:
        ws: The workspace.
        table: The table as it is declared now.
        accepted: The accepted versions.

    Raises:
        MissingInput: A file that has to be read does not exist any more, or has another size.
    """
    with_rows = {partition: version for partition, version in accepted.items() if version.files.files}
    known = {p: version.checksum for p, version in with_rows.items() if _is_recorded(table, version)}
    if _altered(ws, table, [with_rows[p] for p in known]):
        known = {p: checksum for p, checksum in known.items() if not _altered(ws, table, [with_rows[p]])}
    unknown = [version.files for partition, version in with_rows.items() if partition not in known]
    if not unknown:
        return known
    rows = rows_of(ws, table, unknown)
    return {**known, **partition_checksums(rows, table.partition.column, business_schema(table))}


def _is_recorded(table: Table, version: PartitionVersion) -> bool:
    """Whether the ledger has the digests of the bytes, and a checksum of rows that are still read as they were then."""
    # Files of an earlier contract are lifted as they are read, which gives their rows other values.
    lifted = isinstance(table, SourceTable) and contract_of(version.files) != table.contract_version
    return is_known(version.checksum) and not lifted and all(file.sha256 for file in version.files.files)


def _altered(ws: Workspace, table: Table, versions: list[PartitionVersion]) -> bool:
    files = [version.files for version in versions]
    return bool(
        missing_files(ws.lake, table.name, files) or changed_files(ws.lake, table.name, files, trust_stamps=True)
    )
