"""What may a transform know besides its inputs?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from pyspark.sql import SparkSession

from backfill_assets.planning.manifest import Kind, Mode
from backfill_assets.planning.partitions import DayRange


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformContext:
    """The context of one call of a transform: no clock, no environment, nothing that another run would not see.

    Attributes:
        run_id: The run on whose behalf it is called.
        kind: Why history is computed.
        mode: How the run may act.
        transform_version: The registered release that was called.
        output: The output days of this call, half-open. Rows outside are dropped by the caller, so a transform may
            use the range to save work, never to decide a value.
        output_partitions: The output partitions within it, in order.
        input_days: Per argument, the input days that were read, warm-up included.
        references: The parsed reference values that the table declares, by name.
        spark: For building small DataFrames from references; a transform reads nothing with it and runs no action.
    """

    run_id: str
    kind: Kind
    mode: Mode
    transform_version: str
    output: DayRange
    output_partitions: tuple[date, ...]
    input_days: Mapping[str, DayRange]
    references: Mapping[str, Any]
    spark: SparkSession
