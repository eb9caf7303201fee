"""Domain: the declarations of an author, and the only interface for users.

A domain is source tables, derived tables, references and, per derived table, a window, a schema, gates and the
registered releases of its transform. Assets, checks, partition mappings, plans and reports all follow from it. A
mistake in a declaration fails when the domain is loaded, naming the table and the mistake; the conditions of gates are
not examined by commands that only look.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backfill_assets.calendar.partitions import DayRange, Grain
from backfill_assets.calendar.windows import Months, Window
from backfill_assets.capture.debezium import Debezium
from backfill_assets.capture.families import declaration
from backfill_assets.capture.schemas.declaration import SchemaFolder, SchemaRegistry
from backfill_assets.core.errors import InvalidReference
from backfill_assets.domain.breakdown import Breakdown, Tolerance, tolerance
from backfill_assets.domain.context import GateContext, TransformContext
from backfill_assets.domain.contracts import Lift, lifts
from backfill_assets.domain.declarations import Partitioning, daily, monthly
from backfill_assets.domain.domain import Domain, Reference, ReferenceValue
from backfill_assets.domain.failing_rows import Failing, failing
from backfill_assets.domain.gates import (
    AcceptedValues,
    AddsOnly,
    ComparedWithAccepted,
    Gate,
    Merged,
    Moved,
    NotNull,
    OnlyExpired,
    OutsideScope,
    RowCount,
    RowExpression,
    SameState,
    SchemaMatches,
    UniqueKey,
    Usual,
    WarmUpProof,
    accepted,
    compared,
    expression,
    moved,
    not_null,
    row_count,
    unique_key,
    warm_up_proof,
)
from backfill_assets.domain.gates_by_reference import control_totals, golden, known_rows, totals
from backfill_assets.domain.gates_on_rows import complete, joins_once, monotonic, reconciles, references
from backfill_assets.domain.operations import (
    DEBEZIUM_COLUMNS,
    DEBEZIUM_OPERATIONS,
    DEBEZIUM_POSITION_COLUMNS,
    Operation,
    Operations,
)
from backfill_assets.domain.source_files import Avro, Canal, Csv, Epoch, Json, Maxwell, Xlsx, seconds
from backfill_assets.domain.sources import Lateness, SourceTable, days
from backfill_assets.domain.tables import (
    DerivedTable,
    Input,
    Release,
    Table,
    Transform,
    derived_table,
    reads,
    reads_self,
)
from backfill_assets.domain.usual import Past, months, rows, usual, weeks
from backfill_assets.planning.kinds.any_change import DeclaredChange
from backfill_assets.planning.kinds.append import append
from backfill_assets.planning.kinds.expire import RetentionRule
from backfill_assets.planning.kinds.merge import merge
from backfill_assets.planning.kinds.replace import replace, versioned
from backfill_assets.planning.safeguards import Policy
from backfill_assets.planning.sets import phases

if TYPE_CHECKING:
    from backfill_assets.capture.http.declaration import (
        Basic,
        Cursor,
        HttpApi,
        IdRange,
        InBody,
        InHeader,
        LinkHeader,
        NextUrl,
        Offset,
        PageNumber,
        TimeWindow,
        Token,
    )
    from backfill_assets.capture.kafka.declaration import KafkaReplay, KafkaTopic
    from backfill_assets.capture.kinesis.declaration import KinesisReplay, KinesisStream
    from backfill_assets.capture.lake_tables.declaration import IcebergTable, LakeTable
    from backfill_assets.capture.postgres.declaration import POSTGRES_COLUMNS, POSTGRES_OPERATIONS, PostgresTable
    from backfill_assets.capture.sftp.declaration import SftpFolder

__all__ = [
    "DEBEZIUM_COLUMNS",
    "DEBEZIUM_OPERATIONS",
    "DEBEZIUM_POSITION_COLUMNS",
    "POSTGRES_COLUMNS",
    "POSTGRES_OPERATIONS",
    "AcceptedValues",
    "AddsOnly",
    "Avro",
    "Basic",
    "Breakdown",
    "Canal",
    "ComparedWithAccepted",
    "Csv",
    "Cursor",
    "DayRange",
    "Debezium",
    "DeclaredChange",
    "DerivedTable",
    "Domain",
    "Epoch",
    "Failing",
    "Gate",
    "GateContext",
    "Grain",
    "HttpApi",
    "IcebergTable",
    "IdRange",
    "InBody",
    "InHeader",
    "Input",
    "InvalidReference",
    "Json",
    "KafkaReplay",
    "KafkaTopic",
    "KinesisReplay",
    "KinesisStream",
    "LakeTable",
    "Lateness",
    "Lift",
    "LinkHeader",
    "Maxwell",
    "Merged",
    "Months",
    "Moved",
    "NextUrl",
    "NotNull",
    "Offset",
    "OnlyExpired",
    "Operation",
    "Operations",
    "OutsideScope",
    "PageNumber",
    "Partitioning",
    "Past",
    "Policy",
    "PostgresTable",
    "Reference",
    "ReferenceValue",
    "Release",
    "RetentionRule",
    "RowCount",
    "RowExpression",
    "SameState",
    "SchemaFolder",
    "SchemaMatches",
    "SchemaRegistry",
    "SftpFolder",
    "SourceTable",
    "Table",
    "TimeWindow",
    "Token",
    "Tolerance",
    "Transform",
    "TransformContext",
    "UniqueKey",
    "Usual",
    "WarmUpProof",
    "Window",
    "Xlsx",
    "accepted",
    "append",
    "compared",
    "complete",
    "control_totals",
    "daily",
    "days",
    "derived_table",
    "expression",
    "failing",
    "golden",
    "joins_once",
    "known_rows",
    "lifts",
    "merge",
    "monotonic",
    "monthly",
    "months",
    "moved",
    "not_null",
    "phases",
    "reads",
    "reads_self",
    "reconciles",
    "references",
    "replace",
    "row_count",
    "rows",
    "seconds",
    "tolerance",
    "totals",
    "unique_key",
    "usual",
    "versioned",
    "warm_up_proof",
    "weeks",
]


if not TYPE_CHECKING:  # with it any name could be imported as far as a type checker knows

    def __getattr__(name: str) -> Any:
        """A declaration of a family of sources, which is imported when an author imports it."""
        try:
            return declaration(name)
        except KeyError:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
