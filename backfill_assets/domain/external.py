"""External systems: what the declarations of streams, of servers and of replay targets have in common.

A family of sources derives its declarations from these classes; see `capture.families`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from pyspark.sql.types import StructField

from backfill_assets.capture.families import family
from backfill_assets.capture.streams import Stream

if TYPE_CHECKING:
    from backfill_assets.domain.sources import SourceTable


class StreamDeclaration:
    """A stream that a source is captured from."""

    __slots__ = ()

    family: ClassVar[str]
    """The name of its family."""
    has_envelopes: ClassVar[bool] = False
    """Whether its records may be change events of Debezium."""
    reads_keys: ClassVar[bool] = True
    """Whether the family itself reads keys and times of records, so that each of them is one member of a record."""
    is_read_again: ClassVar[bool] = True
    """Whether it can be asked for the records of days that were captured before."""
    columns: ClassVar[Sequence[StructField]] = ()
    """The columns that all of its records have."""

    @property
    def target(self) -> str:
        """The name by which a replay to its family would write to it; empty where none can."""
        return ""

    @abstractmethod
    def mistakes(self) -> Iterator[str]:
        """The mistakes in the declaration, for a sentence that names its table."""

    def mistakes_of(self, source: SourceTable) -> Iterator[str]:  # noqa: ARG002 - most families leave all to the source
        """The mistakes of a source that is captured from it."""
        return iter(())


class ServerDeclaration:
    """A folder of a server into which files of a source are dropped."""

    __slots__ = ()

    family: ClassVar[str]
    """The name of its family."""

    @property
    @abstractmethod
    def address(self) -> str:
        """The folder as it is recorded: without the user."""

    @abstractmethod
    def is_meant(self, name: str) -> bool:
        """True if a file of the folder is one of the source."""

    @abstractmethod
    def mistakes(self) -> Iterator[str]:
        """The mistakes in the declaration, for a sentence that names its table."""


class ReplayDeclaration:
    """Allows that a table is replayed to temporary targets of a system; without it nothing of the table leaves."""

    __slots__ = ()

    family: ClassVar[str]
    """The name of its family."""
    key_format: str
    secrets: Mapping[str, str]

    @property
    def live(self) -> Sequence[str]:
        """The targets that existed before; a replay to one of them needs the approval of another person."""
        return ()

    @staticmethod
    @abstractmethod
    def can_be_named(target: str) -> bool:
        """True if a target can have this name."""

    @abstractmethod
    def mistakes(self) -> Iterator[str]:
        """The mistakes in the declaration, for a sentence that names its table."""


class OpensStreams(Protocol):
    """The module `stream` of a family."""

    def open_stream(self, declared: Any, source: SourceTable, *, home: Path, as_of: datetime) -> Stream:
        """The stream of a declaration of this family, for a source that is captured from it; see `open_stream`."""


def open_stream(source: SourceTable, *, home: Path, as_of: datetime) -> Stream:
    """The stream that a source is captured from.

    Args:
        source: The source.
        home: The folder in which no secret may be.
        as_of: The present.

    Raises:
        Refused: Its client is not installed, or a secret is not there.
    """
    declared = source.capture
    assert declared is not None, "of no other source anything is captured"
    streams: OpensStreams = family(declared.family).module("stream")
    return streams.open_stream(declared, source, home=home, as_of=as_of)
