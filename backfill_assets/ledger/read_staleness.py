"""What is accepted, and what does it rest on? Light answers: no file sets and no provenance are read.

Ten years of days over 30 tables are 110,000 accepted partitions; what planning asks of them are a few columns each.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from typing import Any, cast

from sqlalchemy import and_, select
from sqlalchemy.sql import Executable

from backfill_assets.errors import Refused
from backfill_assets.identity import sha256_text
from backfill_assets.ledger.reading import Reading, batches
from backfill_assets.ledger.records import AcceptedClaim
from backfill_assets.ledger.schema import manifests, partition_versions, publications, verifications
from backfill_assets.ledger.states import PublicationState, VersionState
from backfill_assets.planning.graph import Window
from backfill_assets.planning.manifest import PinnedReference
from backfill_assets.planning.staleness import UNKNOWN_DIGEST, Basis, BasisInput

RunPartition = tuple[str, str, date]
"""A run, its table, and one of its partitions."""


class ClaimReader(Reading):
    """Accepted partition versions, as planning needs them."""

    def _columns(self, statement: Executable) -> list[tuple[Any, ...]]:
        return cast("list[tuple[Any, ...]]", self._rows(statement))

    def claims(self, table: str, partitions: Sequence[date] | None = None) -> dict[date, AcceptedClaim]:
        """The accepted versions of a table, in the order of its partitions.

        Args:
            table: A table; one without versions gives an empty mapping.
            partitions: Only these; those without an accepted version are left out of the answer.
        """
        if partitions is not None and not partitions:
            return {}
        held = partition_versions
        columns = (held.c.version, held.c.files_digest, held.c.row_count, held.c.file_count, held.c.size_bytes)
        chosen = (
            select(held.c.partition_date, *columns)
            .where(held.c.table_name == table, held.c.state == VersionState.ACCEPTED)
            .order_by(held.c.partition_date)
        )
        if partitions is not None:
            # One range and not a list of dates: thousands of them cost more to bind than the others to leave out.
            chosen = chosen.where(held.c.partition_date.between(min(partitions), max(partitions)))
        wanted = None if partitions is None else set(partitions)
        return {
            partition: AcceptedClaim(version=version, digest=digest, rows=rows, file_count=files, size_bytes=size)
            for partition, version, digest, rows, files, size in self._columns(chosen)
            if wanted is None or partition in wanted
        }

    def accepted_digests(self, tables: Iterable[str]) -> dict[str, dict[date, str]]:
        """The digests of the accepted file sets, by table and partition."""
        held = partition_versions
        chosen = select(held.c.table_name, held.c.partition_date, held.c.files_digest)
        named = list(tables)
        found: dict[str, dict[date, str]] = {table: {} for table in named}
        accepted = chosen.where(held.c.table_name.in_(named), held.c.state == VersionState.ACCEPTED)
        for table, partition, digest in self._columns(accepted):
            found[table][partition] = digest
        return found

    def bases(self, tables: Iterable[str]) -> dict[str, tuple[Basis, ...]]:
        """What the accepted partitions of each table rest on.

        A version rests on the run that made it, unless a later run computed it again and found it equal: then on the
        last such run whose publication stands.

        Raises:
            Refused: A manifest was edited in the database.
        """
        named = list(tables)
        stands_for: dict[str, dict[str, list[date]]] = {table: {} for table in named}
        for (table, partition), run_id in self._resting_on(named).items():
            stands_for[table].setdefault(run_id, []).append(partition)
        documents = self._documents(run_id for runs in stands_for.values() for run_id in runs)
        staged_by = self._published_by(documents.values())
        return {
            table: tuple(
                _basis(documents[run_id], tuple(sorted(partitions)), staged_by) for run_id, partitions in runs.items()
            )
            for table, runs in stands_for.items()
        }

    def _resting_on(self, tables: Sequence[str]) -> dict[tuple[str, date], str]:
        """The run that each accepted partition rests on."""
        held, found, made = partition_versions, verifications, publications
        accepted = and_(held.c.table_name.in_(tables), held.c.state == VersionState.ACCEPTED)
        own = select(held.c.table_name, held.c.partition_date, held.c.run_id).where(accepted)
        resting = {(table, partition): run_id for table, partition, run_id in self._columns(own)}
        verified = (
            select(held.c.table_name, held.c.partition_date, made.c.run_id)
            .join_from(found, made, made.c.publication_id == found.c.publication_id)
            .join(
                held,
                and_(
                    held.c.table_name == made.c.table_name,
                    held.c.partition_date == found.c.partition_date,
                    held.c.version == found.c.version,
                ),
            )
            .where(accepted, made.c.state == PublicationState.PUBLISHED)
            .order_by(made.c.begun_sequence)
        )
        resting.update(((table, partition), run_id) for table, partition, run_id in self._columns(verified))
        return resting

    def _documents(self, run_ids: Iterable[str]) -> dict[str, Mapping[str, Any]]:
        """The manifests of some runs, as the documents they are: a `Manifest` of 4,000 pins takes longer to make."""
        found: dict[str, Mapping[str, Any]] = {}
        for batch in batches(run_ids):
            chosen = select(manifests.c.run_id, manifests.c.digest, manifests.c.body)
            for run_id, digest, body in self._columns(chosen.where(manifests.c.run_id.in_(batch))):
                if sha256_text(body) != digest:
                    raise Refused(
                        f"the manifest of run {run_id} was edited after it was agreed: its text does not have its "
                        f"digest.",
                        next_step="backfill audit",
                        run_id=run_id,
                    )
                found[run_id] = json.loads(body)
        return found

    def _published_by(self, documents: Iterable[Mapping[str, Any]]) -> dict[RunPartition, str]:
        """The digests that runs of a set brought in or found equal, for those whose candidates others have read."""
        wanted = {
            pin[3]
            for document in documents
            for pinned in document["inputs"]
            for pin in pinned["partitions"]
            if len(pin) > 3
        }
        held, found, made = partition_versions, verifications, publications
        digests: dict[RunPartition, str] = {}
        for batch in batches(sorted(wanted)):
            stands = and_(made.c.run_id.in_(batch), made.c.state == PublicationState.PUBLISHED)
            columns = (made.c.run_id, held.c.table_name, held.c.partition_date, held.c.files_digest)
            brought_in = select(*columns).join_from(made, held, held.c.publication_id == made.c.publication_id)
            is_version = and_(
                held.c.table_name == made.c.table_name,
                held.c.partition_date == found.c.partition_date,
                held.c.version == found.c.version,
            )
            equal = (
                select(*columns)
                .join_from(made, found, found.c.publication_id == made.c.publication_id)
                .join(held, is_version)
            )
            for statement in (brought_in, equal):
                for run_id, table, partition, digest in self._columns(statement.where(stands)):
                    digests[run_id, table, partition] = digest
        return digests


def _basis(document: Mapping[str, Any], partitions: tuple[date, ...], staged_by: Mapping[RunPartition, str]) -> Basis:
    transform = document["transform"]
    windows = document["configuration"].get("windows", {})
    return Basis(
        run_id=document["run_id"],
        partitions=partitions,
        transform=transform["name"],
        transform_version=transform["version"],
        code_digest=transform["code_digest"],
        configuration=document["configuration"],
        references=tuple(PinnedReference(**reference) for reference in document["references"]),
        inputs=tuple(
            BasisInput(
                argument=pinned["argument"],
                table=pinned["table"],
                window=Window(**windows[pinned["argument"]]),
                digests=_digests(pinned, staged_by),
            )
            for pinned in document["inputs"]
        ),
        imports=frozenset(document["imports"]),
        requested_at=datetime.fromisoformat(document["requested_at"]),
    )


def _digests(pinned: Mapping[str, Any], staged_by: Mapping[RunPartition, str]) -> dict[date, str]:
    """The digest of each partition that was read; what a run of the same set staged is known once that is published."""
    table, day_of = pinned["table"], date.fromisoformat
    digests: dict[date, str] = {}
    for day, _, digest, *from_run in pinned["partitions"]:
        partition = day_of(day)
        digests[partition] = staged_by.get((from_run[0], table, partition), UNKNOWN_DIGEST) if from_run else digest
    return digests
