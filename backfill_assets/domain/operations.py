"""Operations: what a record of a change feed does to its key, and what decides between two records of one position."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import AtomicType, LongType, StringType, StructField, TimestampType

from backfill_assets.capture import debezium
from backfill_assets.core.errors import InvalidDeclaration


class Operation(StrEnum):
    """The operation of a record on its key. The last two are made by this project alone, when a person takes records
    back."""

    CREATE = "create"
    UPDATE = "update"
    SNAPSHOT = "snapshot"
    DELETE = "delete"
    TRUNCATE = "truncate"
    WITHDRAW = "withdraw"
    RESTORE = "restore"


STATES = (Operation.CREATE, Operation.UPDATE, Operation.SNAPSHOT)
"""The operations after which the key has the values of the record."""

OPERATION = "_operation"
POSITION = "_position"
VALID_FROM = "_valid_from"
VALID_UNTIL = "_valid_until"
ENDED_BY = "_ended_by"
"""The columns of a changelog, besides those of the contract: what the version did to its key; its place in the order
of arrival, where the source declares no other; from when and until when the key was what the version says (null: it
still is); and the operation of what ended it, `unknown` where a rejected record did."""

STATEMENTS = (Operation.WITHDRAW, Operation.RESTORE)
"""Not records of a source, but what a person or a complete extract states about records that landed before."""


UNKNOWN_SINCE = "unknown"
"""The operation that ended the last version of a key that is dropped while it is not known."""


class UnknownKeys(StrEnum):
    """The treatment of a key whose newer record was rejected, until a newer one of it is accepted."""

    BLOCK = "block"
    KEEP = "keep"
    DROP = "drop"


class Ties(StrEnum):
    """The treatment of two records of a key with the same position and different content."""

    REFUSE = "refuse"
    ARRIVAL = "arrival"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operations:
    """Names of operations in the records of a change feed. A value may be None: the feed does not have it.

    Args:
        column: The string column that holds it.
        create: The value of a record that creates its key.
        update: Of one that changes it.
        delete: Of one that ends it. Only its key, its position and its time are required.
        snapshot: Of an observation of the state of a key. It loses to any change of the same or a later position.
        truncate: Of one that ends every key of the source, from its position on. It needs no key.
        at: The column that says when the operation happened, a timestamp or a date, if that is not the event time. A
            delete or a truncate without an event time belongs to the day of this column. Where one of the two is a date
            and the other a timestamp, every record needs this column.
    """

    column: str
    create: str | None = None
    update: str | None = None
    delete: str | None = None
    snapshot: str | None = None
    truncate: str | None = None
    at: str | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, str) and (value is not None or field.name == "column"):
                raise InvalidDeclaration(f"an operation's {field.name} is {value!r:.60}, and has to be a text.")
        for value in self.named:
            same = [str(operation) for operation, named in self._values.items() if named == value]
            if len(same) > 1:
                raise InvalidDeclaration(
                    f"two operations are named {value!r} in {self.column!r}: {' and '.join(same)}."
                )
        if not any(operation in self.named.values() for operation in STATES):
            raise InvalidDeclaration("operations need a value for create, update or snapshot: nothing could exist.")

    @property
    def _values(self) -> Mapping[Operation, str | None]:
        return {
            Operation.CREATE: self.create,
            Operation.UPDATE: self.update,
            Operation.SNAPSHOT: self.snapshot,
            Operation.DELETE: self.delete,
            Operation.TRUNCATE: self.truncate,
        }

    def named_as(self, names: Mapping[str, str]) -> Operations:
        """These operations with their columns renamed."""
        return replace(self, column=names[self.column], at=names[self.at] if self.at else None)

    @property
    def named(self) -> Mapping[str, Operation]:
        return {value: operation for operation, value in self._values.items() if value is not None}


def is_current() -> Column:
    """True for a row of a changelog if its key exists and has the row's values."""
    return (F.col(OPERATION) != F.lit(str(Operation.DELETE))) & F.col(ENDED_BY).isNull()


def columns_of_changes(
    operation: str, order: tuple[str, ...], committed_at: str, *, position: AtomicType | None = None
) -> tuple[StructField, ...]:
    """The columns of the operation, of its order, and of its commit time."""
    return (
        StructField(operation, StringType(), nullable=False),
        *(StructField(name, position or LongType(), nullable=False) for name in order),
        StructField(committed_at, TimestampType(), nullable=False),
    )


DEBEZIUM_COLUMNS = columns_of_changes(debezium.OPERATION, debezium.ORDERS[debezium.POSTGRESQL], debezium.COMMITTED_AT)
DEBEZIUM_POSITION_COLUMNS = columns_of_changes(
    debezium.OPERATION, (debezium.POSITION,), debezium.COMMITTED_AT, position=StringType()
)
"""The columns of a schema besides those of the table; of events of other connectors than PostgreSQL's the second."""

DEBEZIUM_OPERATIONS = Operations(column=debezium.OPERATION, at=debezium.COMMITTED_AT, **debezium.OPERATIONS)
"""The names of operations in change events."""
