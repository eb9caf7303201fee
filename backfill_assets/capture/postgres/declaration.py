"""PostgreSQL table: how an author declares that a source is captured from one. The client is in `postgres`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, ClassVar

from pyspark.sql.types import StructField

from backfill_assets.capture.declared import is_number, unnamed_secrets, wrong_time
from backfill_assets.capture.postgres import FAMILY
from backfill_assets.domain.external import StreamDeclaration
from backfill_assets.domain.operations import Operations, columns_of_changes

if TYPE_CHECKING:
    from backfill_assets.domain import SourceTable

OPERATION, LSN, POSITION, COMMITTED_AT = "pg_operation", "pg_lsn", "pg_position", "pg_committed_at"
"""The columns of a landed record besides those of the table."""

ORDER = (LSN, POSITION)
OPERATIONS: Mapping[str, str] = {
    "create": "insert",
    "update": "update",
    "delete": "delete",
    "snapshot": "snapshot",
    "truncate": "truncate",
}
"""The operations of a source, and how a landed record names them."""

POSTGRES_COLUMNS = columns_of_changes(OPERATION, ORDER, COMMITTED_AT)
"""The columns of a schema besides those of the table."""
POSTGRES_OPERATIONS = Operations(column=OPERATION, at=COMMITTED_AT, **OPERATIONS)
"""How the records of a snapshot and of changes name their operation."""

_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_SETTING = re.compile(
    r"ssl\w+|gssencmode|krbsrvname|channel_binding|require_auth|target_session_attrs|load_balance_hosts"
)
_SECRET = re.compile(r"password|sslpassword")


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresTable(StreamDeclaration):
    """A table of which a source captures a snapshot, and then every change.

    Landed records have the columns of the contract, and `pg_operation`, `pg_lsn` (of the commit), `pg_position` (in its
    transaction) and `pg_committed_at`, which the contract has as columns too.
    """

    family: ClassVar[str] = FAMILY.name
    # The write-ahead log of a database cannot be asked for a day.
    is_read_again: ClassVar[bool] = False
    columns: ClassVar[tuple[StructField, ...]] = POSTGRES_COLUMNS

    table: str  #: Its schema and name, such as `public.orders`.
    database: str  #: The database that it is in.
    host: str  #: Where the server is.
    user: str  #: Who connects: a role with the attribute REPLICATION that may read the table.
    slot: str  #: The name of the replication slot, which only this source reads. The first snapshot creates it.
    port: int = 5432  #: Its port.
    #: The publication of the table; one that is not there is created by the first snapshot. Usually it has the name of
    #: the slot.
    publication: str = ""
    chunk: int = 64 << 20  #: The most bytes of the write-ahead log of one landed file. A transaction is never divided.
    answers_within: timedelta = timedelta(seconds=30)  #: How long a connection may take.
    #: Further settings of libpq, such as `sslmode`; none of them is secret.
    settings: Mapping[str, str] = field(default_factory=dict)
    #: Settings of libpq that are secret, such as `password`, each with a name. Its value is in the environment variable
    #: of that name, or in the file that the variable with `_FILE` behind the name names.
    secrets: Mapping[str, str] = field(default_factory=dict)

    def mistakes(self) -> Iterator[str]:
        if not isinstance(self.table, str) or not re.fullmatch(r'[^\s."\0]+\.[^\s."\0]+', self.table):
            yield f"it is captured from {self.table!r:.60}, and has to be from a table such as 'public.orders'"
        for name in ("database", "host", "user"):
            value = getattr(self, name)
            if not isinstance(value, str) or not re.fullmatch(r"[^\s@=,]+", value):
                # Not what was written: a URL may have a password in it.
                yield f"the {name} of its capture has to be one name"
        for name in (self.slot, *([self.publication] if self.publication else [])):
            if not isinstance(name, str) or not _NAME.fullmatch(name):
                yield f"its capture names {name!r:.60}: slots and publications have lower-case letters, digits and _"
        for name in ("port", "chunk"):
            value = getattr(self, name)
            if not is_number(value):
                yield f"the {name} of its capture is {value!r:.60}, and has to be a number"
        yield from wrong_time("answers_within", self.answers_within, of="capture", positive=True)
        for name in self.settings:
            if _SECRET.fullmatch(name):
                yield f"its capture has {name} among its settings: name it among its secrets"
            elif not _SETTING.fullmatch(name):
                yield f"its capture sets {name}, which a capture sets itself or has no use for"
        for name in self.secrets:
            if not _SECRET.fullmatch(name):
                yield f"its capture has {name} among its secrets: a connection has password and sslpassword"
        yield from unnamed_secrets(self.secrets, of="capture", such_as="SHOP_PASSWORD")

    def mistakes_of(self, source: SourceTable) -> Iterator[str]:
        said = "is captured from PostgreSQL"
        operations = (POSTGRES_OPERATIONS, "POSTGRES_OPERATIONS")
        yield from source.mistakes_of_changes(said, POSTGRES_COLUMNS, ORDER, *operations)
