"""What does an operation work with? Settings, domain, ledger, lake, clock and Spark, opened once per process.

Everything that costs something (references, the ledger, Spark) is opened when it is first asked for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from backfill_assets.clock import Clock, system_clock
from backfill_assets.crash_points import Reached, carry_on
from backfill_assets.domain import Domain
from backfill_assets.domain.load import load_domain
from backfill_assets.lake.tables import Lake
from backfill_assets.ledger.store import Ledger
from backfill_assets.planning.graph import Graph
from backfill_assets.settings import Settings
from backfill_assets.spark import open_spark, require_meaning
from backfill_assets.transforms.code import DomainCode
from backfill_assets.transforms.references import LoadedReference, archive, load_references

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, kw_only=True)
class Workspace:
    """The composition root of one process.

    Attributes:
        settings: Read once.
        domain: The tables and references.
        clock: The only source of the present instant.
        open_session: How a Spark session is had; an orchestrator brings its own.
        wait: How seconds are let pass when a manifest asks for a pace.
        reached: Called after every durable step; a test of faults stops the process there.
    """

    settings: Settings
    domain: Domain
    clock: Clock = system_clock
    open_session: Callable[[], SparkSession] | None = field(default=None)
    wait: Callable[[float], None] = time.sleep
    reached: Reached = carry_on

    @staticmethod
    def open(
        settings: Settings,
        *,
        clock: Clock = system_clock,
        open_session: Callable[[], SparkSession] | None = None,
        reached: Reached = carry_on,
    ) -> Workspace:
        """A workspace over the settings' domain.

        Raises:
            InvalidDeclaration: The domain cannot be loaded.
        """
        return Workspace(
            settings=settings,
            domain=load_domain(settings.domain),
            clock=clock,
            open_session=open_session,
            reached=reached,
        )

    def spark(self) -> SparkSession:
        """The process's Spark session, in which rows mean what they should.

        Raises:
            WrongSession: It was opened or changed by somebody else, and a setting is not what it has to be.
        """
        session = self.open_session() if self.open_session else open_spark(self.settings)
        require_meaning(session)
        return session

    @cached_property
    def ledger(self) -> Ledger:
        """The ledger, its schema brought up to date."""
        return Ledger.open(self.settings.ledger_url, clock=self.clock)

    @cached_property
    def lake(self) -> Lake:
        """The Delta tables."""
        return Lake(root=self.settings.lake, storage_options=self.settings.storage_options)

    @cached_property
    def references(self) -> Mapping[str, LoadedReference]:
        """The reference documents as they are now, each kept in the archive as soon as it is read."""
        loaded = load_references(self.domain, self.settings.reference)
        archive(loaded.values(), self.reference_archive)
        return loaded

    @property
    def reference_archive(self) -> Path:
        """Where the bytes of every reference that was ever used are kept."""
        return self.settings.home / "reference_archive"

    @cached_property
    def graph(self) -> Graph:
        """The planner's view, windows resolved against the present references."""
        values = {name: loaded.value for name, loaded in self.references.items()}
        return self.domain.graph(values, first_day=self.settings.first_day)

    @cached_property
    def code(self) -> DomainCode:
        """What identifies the code of the domain's tables as it is now."""
        return DomainCode(domain=self.domain)

    def close(self) -> None:
        """Lets go of the ledger; Spark is left to the process."""
        if "ledger" in self.__dict__:
            self.ledger.close()
