"""Workspace: the settings, domain, ledger, lake, clock and Spark session of one process.

Everything expensive (references, the ledger, Spark) is opened on first use.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from backfill_assets.core.clock import Clock, system_clock
from backfill_assets.core.crash_points import Reached, carry_on
from backfill_assets.core.errors import BackfillError, InvalidReference, MissingInput
from backfill_assets.core.places import InvalidSetting
from backfill_assets.core.session_settings import Versions, client_versions, present_versions
from backfill_assets.core.settings import Settings
from backfill_assets.core.spark import give_access, open_spark, require_meaning
from backfill_assets.domain import Domain, Reference, Table
from backfill_assets.domain.domain import load_domain
from backfill_assets.files import files_at
from backfill_assets.files.port import Files
from backfill_assets.lake.tables import Lake
from backfill_assets.landing.imports import ContractVersions
from backfill_assets.ledger.store import Ledger
from backfill_assets.planning.graph import Graph
from backfill_assets.planning.manifest_parts import PinnedReference
from backfill_assets.planning.safeguards import Safeguard
from backfill_assets.transforms.code import DomainCode
from backfill_assets.transforms.references import (
    LoadedReference,
    archive,
    file_name,
    known_to,
    load_pinned,
    load_references,
    reading_references,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_held: ContextVar[tuple[Workspace, SparkSession] | None] = ContextVar("session_of_a_block", default=None)


@dataclass(frozen=True, kw_only=True)
class Workspace:
    """The composition root of one process."""

    settings: Settings  #: Read once.
    domain: Domain
    #: The only source of the present instant; what is compared with instants of the ledger asks `now`.
    clock: Clock = system_clock
    #: Opens a Spark session; an orchestrator passes its own.
    open_session: Callable[[], SparkSession] | None = field(default=None)
    wait: Callable[[float], None] = time.sleep  #: Waits for seconds when a manifest limits the pace.
    reached: Reached = carry_on  #: Called after every durable step; fault tests stop the process there.

    @staticmethod
    def open(
        settings: Settings,
        *,
        clock: Clock = system_clock,
        open_session: Callable[[], SparkSession] | None = None,
        reached: Reached = carry_on,
        conditions: bool = True,
    ) -> Workspace:
        """A workspace over the settings' domain.

        Args:
            settings: Read once.
            conditions: Check the conditions of the domain's gates; not needed to look.
        """
        return Workspace(
            settings=settings,
            domain=load_domain(settings.domain, conditions=conditions),
            clock=clock,
            open_session=open_session,
            reached=reached,
        )

    def spark(self) -> SparkSession:
        """The Spark session of the process, with its settings verified; inside of `one_session` the one of that."""
        held = _held.get()
        if held is not None and held[0] is self:
            return held[1]
        session = self.open_session() if self.open_session else open_spark(self.settings)
        give_access(session, self.settings)
        require_meaning(session)
        return session

    @contextmanager
    def one_session(self, session: SparkSession | None) -> Iterator[None]:
        """Keeps a verified session for a block, which is verified again after every function of an author.

        Args:
            session: The session; None for a block that computes nothing.
        """
        token = _held.set((self, session) if session else None)
        try:
            yield
        finally:
            _held.reset(token)

    @cached_property
    def ledger(self) -> Ledger:
        return Ledger.open(self.settings.ledger_url, clock=self.clock, most_behind=self.settings.clock_behind)

    def now(self) -> datetime:
        """The present instant of the ledger: not that of a clock which is behind its last event."""
        with self.ledger.read() as tx:
            return tx.now

    def require_own_home(self) -> None:
        """Refuses a home of another domain: all tables of this one would look empty.

        Raises:
            Refused: The newest run is of a domain with another name and no table of this one was ever published.
        """
        with self.ledger.read() as tx:
            newest = next(iter(tx.runs.headers(limit=1)), None)
            if newest is None or newest.table in self.domain.tables:
                return
            if not self.domain.tables.keys().isdisjoint(tx.versions.tables()):
                return
            owner = tx.runs.get(newest.run_id).manifest.domain
        if owner == self.domain.name:
            return
        raise InvalidSetting(
            setting="BACKFILL_DOMAIN",
            why=f"is {self.settings.domain}, and the home {self.settings.home} belongs to the domain {owner}",
            wanted=f"the module that declares {owner}, or BACKFILL_HOME to a home of {self.domain.name}",
        )

    @cached_property
    def lake(self) -> Lake:
        return Lake(root=self.settings.lake, access=self.settings.access)

    def require_lake(self, table: str | None = None) -> None:
        """Refuses to write into a lake that is away: what is created in its place is in the way when it is back.

        Raises:
            MissingInput: The folder of the lake or the log of the table is not there, and the ledger holds its rows.
        """
        root = self.settings.lake
        is_away = isinstance(root, Path) and not root.exists()
        if not is_away and (table is None or self.lake.exists(table)):
            return
        with self.ledger.read() as tx:
            names = tx.versions.tables() if is_away or table is None else (table,)
            gone = next((n for n in names if any(each.file_count for each in tx.versions.claims(n).values())), None)
        if gone is not None:
            raise MissingInput.coded(
                "lake_away",
                "{place} is not there, and the ledger holds published rows of {table}; nothing "
                "was created in its place.",
                then="mount or restore it there, or let BACKFILL_LAKE name where it is now; then [doctor]",
                place=str(root if is_away else self.lake.place(gone)),
                table=gone,
            )

    @cached_property
    def references(self) -> Mapping[str, LoadedReference]:
        """The present reference documents, each copied to the archive when it is read."""
        loaded = load_references(self.domain, self.reference_files)
        archive(loaded.values(), self.reference_archive)
        return loaded

    def known_to_gates(self, table: Table) -> tuple[Safeguard, ...]:
        """The safeguards that gates of a table take from present references; see `known_to`.

        Raises:
            MissingInput: A reference is not there.
            InvalidReference: It cannot be parsed, or an entry that a gate asks says nothing clear.
        """
        return known_to(table, self.references) if reading_references(table) else ()

    def known_now(self, table: Table) -> tuple[Safeguard, ...]:
        """The safeguards taken from present references; nothing where the references cannot be used: that is looser
        than anything."""
        try:
            return self.known_to_gates(table)
        except (MissingInput, InvalidReference):
            return ()

    def stamp_of(self, reference: Reference) -> str:
        """Differs after any write to a reference document; empty when it cannot be looked at."""
        try:
            found = self.reference_files.stat(file_name(reference))
        except (OSError, BackfillError):  # what is wrong with it is said where it is read
            found = None
        return found.stamp if found else ""

    def with_present_references(self) -> Workspace:
        """This workspace with references and code read again, for a process that stays; the ledger is shared."""
        again = replace(self)
        again.__dict__["ledger"] = self.ledger
        return again

    @property
    def reference_files(self) -> Files:
        """The place of the present reference documents."""
        return files_at(self.settings.reference, self.settings.access)

    @property
    def reference_archive(self) -> Files:
        """The place with the bytes of every reference that was ever used."""
        return files_at(self.settings.reference_archive, self.settings.access)

    @cached_property
    def graph(self) -> Graph:
        """The planner's view, windows resolved against the present references."""
        values = {name: loaded.value for name, loaded in self.references.items()}
        read_as = {name: versions.named() for name, versions in self.contracts.items() if versions.present > 1}
        graph = self.domain.graph(values, first_day=self.settings.first_day, contracts=read_as)
        beside = self._beside()
        tables = {name: replace(node, is_beside=name in beside) for name, node in graph.tables.items()}
        return replace(graph, tables=tables) if beside else graph

    def _beside(self) -> frozenset[str]:
        """The tables that stand beside the version of a table that readers are shown."""
        names = self.domain.names_with_versions
        if not names:
            return frozenset()
        with self.ledger.read() as tx:
            return frozenset(each for name in names for each in self.domain.family(name) if each != tx.acts.shown(name))

    @cached_property
    def contracts(self) -> Mapping[str, ContractVersions]:
        """The versions of the contract of every source, by table."""
        return {
            table.name: ContractVersions(
                source=table,
                lifts=self.code.lifts(table) if table.earlier else {},
            )
            for table in self.domain.sources
        }

    def graph_with(self, table: str, references: Iterable[PinnedReference]) -> Graph:
        """The planner's view with the windows of one table resolved against references from the archive.

        Args:
            references: References that it uses; the present one counts for those that are not named.
        """
        values = {name: loaded.value for name, loaded in self.references.items()}
        chosen = load_pinned(self.domain, references, self.reference_archive)
        values |= {name: loaded.value for name, loaded in chosen.items()}
        declared, node = self.domain.derived_table(table), self.graph.table(table)
        edges = (replace(edge, window=declared.window_of(edge.argument, values)) for edge in node.inputs)
        return replace(self.graph, tables={**self.graph.tables, table: replace(node, inputs=tuple(edges))})

    @cached_property
    def code(self) -> DomainCode:
        """The identity of the present code of the domain's tables."""
        return DomainCode(domain=self.domain)

    def versions(self, spark: SparkSession | None = None) -> Versions:
        """The versions of what computes here, and the evidence of what it is; of Spark, once there is a session."""
        known = present_versions(spark) if spark else client_versions()
        return {**known, **self.code.what_ran(self.settings.image)}

    def close(self) -> None:
        """Closes the ledger; the Spark session stays open for the process."""
        if "ledger" in self.__dict__:
            self.ledger.close()
