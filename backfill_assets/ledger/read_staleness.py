"""What is accepted, and what does it rest on? Light answers: no file sets and no provenance are read.

Ten years of days over 30 tables are 110,000 accepted partitions; what planning asks of them are a few columns each.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Resting:
    """What accepted partitions rest on.

    Attributes:
        bases: By table; every accepted partition of it is in exactly one.
        digests: The accepted file sets of the tables and of what they read, by table and partition.
    """

    bases: Mapping[str, tuple[Basis, ...]]
    digests: Mapping[str, Mapping[date, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """A partition that a run read from the candidate of another run of its set: where its digest belongs."""

    digests: dict[date, str]
    partition: date
    run_id: str
    table: str


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

    def resting(self, tables: Iterable[str], *, inputs: Iterable[str] = ()) -> Resting:
        """What the accepted partitions of tables rest on, and what is accepted of them and of what they read.

        A version rests on the run that made it, unless a later run computed it again and found it equal: then on the
        last such run whose publication stands.

        Args:
            tables: The tables whose bases are wanted.
            inputs: Tables whose digests are wanted as well; those that a basis has read are added to them.

        Raises:
            Refused: A manifest was edited in the database.
        """
        named = list(tables)
        digests: dict[str, dict[date, str]] = {}
        runs: dict[str, dict[date, str]] = {}
        self._read_accepted({*named, *inputs}, digests, runs)
        stands_for: dict[str, dict[str, list[date]]] = {}
        for table in named:
            its = runs[table]
            its.update(self._found_equal(table))
            by_run: dict[str, list[date]] = stands_for.setdefault(table, {})
            for partition in sorted(its):
                by_run.setdefault(its[partition], []).append(partition)
        drawn_up: dict[str, Basis] = {}
        staged: list[Staged] = []
        for basis, read in self._drawn_up(
            {run: some for by_run in stands_for.values() for run, some in by_run.items()}
        ):
            drawn_up[basis.run_id] = basis
            staged += read
        self._fill_in(staged)
        bases = {table: tuple(drawn_up[run_id] for run_id in by_run) for table, by_run in stands_for.items()}
        tables_read = {each.table for some in bases.values() for basis in some for each in basis.inputs}
        self._read_accepted(tables_read - digests.keys(), digests, runs)
        return Resting(bases=bases, digests=digests)

    def _read_accepted(
        self, tables: Collection[str], digests: dict[str, dict[date, str]], runs: dict[str, dict[date, str]]
    ) -> None:
        """Adds the digests of the accepted versions, and the runs that made them, by table and partition."""
        held = partition_versions
        chosen = select(held.c.partition_date, held.c.files_digest, held.c.run_id)
        for table in tables:
            accepted = chosen.where(held.c.table_name == table, held.c.state == VersionState.ACCEPTED)
            found = self._columns(accepted)
            digests[table] = {partition: digest for partition, digest, _ in found}
            runs[table] = {partition: run_id for partition, _, run_id in found}

    def _found_equal(self, table: str) -> dict[date, str]:
        """The last run whose standing publication found an accepted version equal, by partition."""
        held, found, made = partition_versions, verifications, publications
        is_version = and_(
            held.c.table_name == made.c.table_name,
            held.c.partition_date == found.c.partition_date,
            held.c.version == found.c.version,
        )
        chosen = (
            select(held.c.partition_date, made.c.run_id)
            .join_from(made, found, made.c.publication_id == found.c.publication_id)
            .join(held, is_version)
            .where(made.c.table_name == table, made.c.state == PublicationState.PUBLISHED)
            .where(held.c.state == VersionState.ACCEPTED)
            .order_by(made.c.begun_sequence)
        )
        return dict(self._columns(chosen))

    def _drawn_up(self, stands_for: Mapping[str, Sequence[date]]) -> Iterator[tuple[Basis, list[Staged]]]:
        """The bases of some runs, and what they read of candidates, whose digests are still to be filled in."""
        for batch in batches(stands_for):
            chosen = select(manifests.c.run_id, manifests.c.digest, manifests.c.body)
            for run_id, digest, body in self._columns(chosen.where(manifests.c.run_id.in_(batch))):
                if sha256_text(body) != digest:
                    raise Refused(
                        f"the manifest of run {run_id} was edited after it was agreed: its text does not have its "
                        f"digest.",
                        next_step="backfill audit",
                        run_id=run_id,
                    )
                # One document at a time, and no `Manifest` of it: thousands of pins are cheap to read and dear to keep.
                yield _basis(json.loads(body), tuple(stands_for[run_id]))

    def _fill_in(self, staged: Sequence[Staged]) -> None:
        """Fills in the digests that runs of a set brought in or found equal after others had read their candidates."""
        published = self._published_by({read.run_id for read in staged})
        for read in staged:
            digest = published.get((read.run_id, read.table, read.partition), UNKNOWN_DIGEST)
            read.digests[read.partition] = digest

    def _published_by(self, run_ids: Collection[str]) -> dict[RunPartition, str]:
        """The digests of the versions that the standing publications of runs brought in or found equal."""
        held, found, made = partition_versions, verifications, publications
        digests: dict[RunPartition, str] = {}
        for batch in batches(sorted(run_ids)):
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


def _basis(document: Mapping[str, Any], partitions: tuple[date, ...]) -> tuple[Basis, list[Staged]]:
    transform = document["transform"]
    windows = document["configuration"].get("windows", {})
    staged: list[Staged] = []
    basis = Basis(
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
                digests=_digests(pinned, staged),
            )
            for pinned in document["inputs"]
        ),
        imports=frozenset(document["imports"]),
        requested_at=datetime.fromisoformat(document["requested_at"]),
    )
    return basis, staged


def _digests(pinned: Mapping[str, Any], staged: list[Staged]) -> dict[date, str]:
    """The digest of each partition that was read; candidates are noted, to be filled in."""
    day_of = date.fromisoformat
    digests = {day_of(pin[0]): pin[2] for pin in pinned["partitions"]}
    staged += [
        Staged(digests=digests, partition=day_of(pin[0]), run_id=pin[3], table=pinned["table"])
        for pin in pinned["partitions"]
        if len(pin) > 3
    ]
    return digests
