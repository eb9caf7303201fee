"""Lake tables: how an author declares that a source is captured from a Delta or an Iceberg table that others write.

What reads them is in `capture.lake_tables.versions`. Secrets are named in a declaration, and read when they are used.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from backfill_assets.capture.declared import is_number, unnamed_secrets
from backfill_assets.capture.lake_tables import FAMILY
from backfill_assets.domain.external import StreamDeclaration

if TYPE_CHECKING:
    from backfill_assets.domain import SourceTable

VERSION, COMMITTED = "lake_version", "lake_committed_at"
"""The members of a landed record that name its version; a snapshot has no time of a commit."""

_SECRET = re.compile(r"password|secret|token|credential|account.?key|sas", re.IGNORECASE)
_LEAKING = re.compile(r"[?#]|//[^/]*@")


class _Versioned(StreamDeclaration):
    """A table of others with versions."""

    __slots__ = ()

    family: ClassVar[str] = FAMILY.name

    def mistakes_of(self, source: SourceTable) -> Iterator[str]:
        operation = source.operation
        if source.has_dates and operation and operation.at and source.member(operation.at) == COMMITTED:
            why = f"a snapshot has no {COMMITTED}: leave at out of its Operations, so that the date of a row counts"
            yield f"its event time is a date, and {why}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeTable(_Versioned):
    """A Delta table of which a source captures versions. It is only read.

    Landed records have the columns of the table, `lake_version` and `lake_committed_at`, which a contract may have too.
    """

    url: str  #: Where it is: a folder, or an address such as `s3://bucket/path`.
    version: int | None = None  #: The only version that is captured; None for the newest one.
    chunk: int = 1_000_000  #: About how many rows of a version one landed file has, as far as its own files let it.
    #: Options of the object store, such as `AWS_REGION`; none of them is secret.
    options: Mapping[str, str] = field(default_factory=dict)
    #: Options of the object store that are secret, such as `AWS_SECRET_ACCESS_KEY`, each with a name. Its value is in
    #: the environment variable of that name, or in the file that the variable with `_FILE` behind it names.
    secrets: Mapping[str, str] = field(default_factory=dict)

    def mistakes(self) -> Iterator[str]:
        if not isinstance(self.url, str) or not self.url.strip() or _LEAKING.search(self.url):
            yield "the place of its table has to be a folder or an address such as 's3://bucket/path', without a user"
        yield from _mistakes(self.version, self.chunk, self.options, self.secrets)


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergTable(_Versioned):
    """An Iceberg table of which a source captures snapshots. It is only read.

    Landed records have the columns of the table, `lake_version` (the number of the snapshot) and `lake_committed_at`,
    which a contract may have too.
    """

    #: Its name in the catalog, such as `sales.orders`; or the address of one of its metadata files, such as
    #: `/lake/orders/metadata/00003.metadata.json`, of which exactly that state is read.
    table: str
    #: The properties of the catalog as pyiceberg names them, such as `type`, `uri` and, for a database, the `name` of
    #: the catalog in it; none is secret.
    catalog: Mapping[str, str] = field(default_factory=dict)
    snapshot: int | None = None  #: The id of the only snapshot that is captured; None for the newest one.
    chunk: int = 1_000_000  #: About how many rows of a snapshot one landed file has, as far as its own files let it.
    #: Properties of the catalog that are secret, such as `token`, each with a name. Its value is in the environment
    #: variable of that name, or in the file that the variable with `_FILE` behind it names.
    secrets: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_metadata(self) -> bool:
        """True if a metadata file is named, so that no catalog is asked."""
        return self.table.endswith(".metadata.json")

    def mistakes(self) -> Iterator[str]:
        if not isinstance(self.table, str) or not self.table.strip() or _LEAKING.search(self.table):
            yield "its table has to be a name such as 'sales.orders', or the address of a metadata file, without a user"
        elif not self.is_metadata and not self.catalog:
            yield "its table is a name, so that it needs a catalog, such as {'type': 'rest', 'uri': 'https://...'}"
        if any(_LEAKING.search(str(value)) for value in self.catalog.values()):
            yield "an address of its catalog has a user or parameters in it: name what is secret among its secrets"
        yield from _mistakes(self.snapshot, self.chunk, self.catalog, self.secrets)


def _mistakes(version: object, chunk: object, options: Mapping[str, str], secrets: Mapping[str, str]) -> Iterator[str]:
    if version is not None and not is_number(version, at_least=0):
        yield f"the version of its table is {version!r:.60}, and has to be a number or None"
    if not is_number(chunk):
        yield f"the chunk of its capture is {chunk!r:.60}, and has to be a number of rows"
    for name in options:
        if _SECRET.search(name):
            yield f"its capture has {name} among its options: name it among its secrets"
    yield from unnamed_secrets(secrets, of="capture", such_as="LAKE_SECRET")
