"""Session settings: the Spark settings that determine the meaning of rows. They are fixed here and not configurable.

The rule: every setting of `MEANING` and `SOUND` has exactly this value, and no other `spark.sql.*` setting may be given
unless it is in `TUNING`. So each of Spark's 800 settings is fixed, at its default, or known to affect only time and
memory. Settings outside `spark.sql.` are free, except for the language and zone of Java.

The versions of this project, PySpark and Python are recorded with every run. A difference alone makes no row stale.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from backfill_assets import __version__
from backfill_assets.core.errors import WrongSession, sentence
from backfill_assets.core.identity import document_digest
from backfill_assets.core.places import InvalidSetting

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MEANING: Mapping[str, str] = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "true",
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    # A file that cannot be read or does not exist is an error and not an empty file.
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    # Landed Parquet files often hold nanoseconds, which Spark refuses to read as anything but a number.
    "spark.sql.legacy.parquet.nanosAsLong": "true",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    "spark.sql.mapKeyDedupPolicy": "EXCEPTION",
    "spark.sql.parquet.binaryAsString": "false",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.inferTimestampNTZ.enabled": "true",
    "spark.sql.parquet.int96AsTimestamp": "true",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.int96TimestampConversion": "false",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    "spark.sql.storeAssignmentPolicy": "ANSI",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    # `java_properties` below asks by it.
    "spark.sql.variable.substitute": "true",
}

SOUND: Mapping[str, str] = {
    # Unset, Spark decodes a page whose checksum does not match. Its own files have checksums too.
    "parquet.page.verify-checksum.enabled": "true",
    # Spark 4.3 reads null elements of dictionary-encoded arrays before it asks whether they are null, and stops.
    "spark.sql.parquet.enableNestedColumnVectorizedReader": "false",
}
"""Settings that avoid faults of Spark. They are fixed too, and not in the digest: right rows do not depend on them."""

OF_READERS = "spark.hadoop."
"""With this before its name, Spark passes a setting of the readers of files to them from its start on."""

JAVA: Mapping[str, str] = {"user.timezone": "UTC", "user.language": "en"}
"""Java formats numbers by the language of its user, and Spark names files that way."""

_JAVA_OPTIONS = " ".join([*(f"-D{name}={value}" for name, value in JAVA.items()), "-Duser.country=US"])

DRIVER = "spark.driver.defaultJavaOptions"

JAVA_OPTIONS: Mapping[str, str] = {DRIVER: _JAVA_OPTIONS, "spark.executor.defaultJavaOptions": _JAVA_OPTIONS}
"""The settings by which `JAVA` is passed to the processes of Spark; given `extraJavaOptions` come after these."""

TUNING = (
    "spark.sql.adaptive.",
    "spark.sql.artifact.",
    "spark.sql.autoBroadcastJoinThreshold",
    "spark.sql.broadcastTimeout",
    "spark.sql.cartesianProductExec.buffer.",
    "spark.sql.catalog.",
    "spark.sql.catalogImplementation",
    "spark.sql.codegen.",
    "spark.sql.debug.maxToStringFields",
    "spark.sql.event.truncate.length",
    "spark.sql.execution.arrow.maxBytesPerBatch",
    "spark.sql.execution.arrow.maxRecordsPerBatch",
    "spark.sql.files.maxPartitionBytes",
    "spark.sql.files.maxPartitionNum",
    "spark.sql.files.minPartitionNum",
    "spark.sql.files.openCostInBytes",
    "spark.sql.hive.metastore.",
    "spark.sql.inMemoryColumnarStorage.",
    "spark.sql.join.preferSortMergeJoin",
    "spark.sql.leafNodeDefaultParallelism",
    "spark.sql.maxMetadataStringLength",
    "spark.sql.maxPlanStringLength",
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold",
    "spark.sql.parquet.columnarReaderBatchSize",
    "spark.sql.parquet.compression.codec",
    "spark.sql.redaction.",
    "spark.sql.session.localRelation",
    "spark.sql.shuffle.",
    "spark.sql.shuffleDependency.",
    "spark.sql.sortMergeJoinExec.buffer.",
    "spark.sql.sources.parallelPartitionDiscovery.",
    "spark.sql.streaming.",
    "spark.sql.thriftServer.",
    "spark.sql.ui.",
    "spark.sql.warehouse.dir",
    "spark.sql.windowExec.buffer.",
)
"""Names and prefixes of settings that affect only time and memory."""

_JAVA_OF_ROWS = re.compile(r"-Duser\.(timezone|language|country|variant|region)\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongSetting:
    """A setting of a session with another value than the required one."""

    name: str
    expected: str | None  #: Its fixed value; None for one that must not be given.
    found: str | None

    def __str__(self) -> str:
        expected = "Spark's own default" if self.expected is None else repr(self.expected)
        return f"{self.name} is {'not set' if self.found is None else repr(self.found)} where {expected} is expected"


@sentence
class ChangedSession(WrongSession):
    """this Spark session gives rows another meaning: {why}.

    Next: open a new session (start the command or the server again) with the setting as it is expected
    """

    setting: str
    why: str


def session_digest() -> str:
    """The digest of the settings that determine what rows mean, recorded in manifests and partition versions."""
    return document_digest([dict(MEANING), dict(JAVA)])


def tunes_only(name: str) -> bool:
    """True if a user may give this setting."""
    if name in JAVA_OPTIONS:
        return False
    return not name.startswith("spark.sql.") or name.startswith(TUNING)


def require_tuning(conf: Mapping[str, str], *, variable: str) -> None:
    """Refuses settings that determine the meaning of rows.

    Raises:
        Refused: Naming the first one.
    """
    for name, value in conf.items():
        if not tunes_only(name):
            why = f"holds {name}, which determines what rows mean or may do so"
            raise InvalidSetting(setting=variable, why=why, without=name)
        if name.endswith("JavaOptions") and (found := _JAVA_OF_ROWS.search(value)):
            why = f"holds {name} with {found.group()}, which determines what rows mean"
            raise InvalidSetting(setting=variable, why=why, without=found.group())


def wrong_settings(given: Mapping[str, str], java: Mapping[str, str]) -> Iterator[WrongSetting]:
    """The settings of a session that could change the meaning of rows.

    Args:
        given: The settings of the session by name; those at their default may be left out.
        java: The properties of its Java, those of `JAVA`.
    """
    fixed = {**MEANING, **SOUND}
    for name, value in fixed.items():
        found = given.get(name, given.get(f"{OF_READERS}{name}"))
        if found != value:
            yield WrongSetting(name=name, expected=value, found=found)
    for name in sorted(given.keys() - fixed.keys()):
        if name.startswith("spark.sql.") and not tunes_only(name):
            yield WrongSetting(name=name, expected=None, found=given[name])
    for name, value in JAVA.items():
        if _same_zone(java.get(name)) != value:
            yield WrongSetting(name=f"Java's {name}", expected=value, found=java.get(name))


def _same_zone(value: str | None) -> str | None:
    return "UTC" if value in ("Etc/UTC", "GMT", "Etc/GMT", "Z") else value


Versions = Mapping[str, str]

VERSIONS = "versions"
"""Their name in the event that begins the staging of a run."""


def client_versions() -> Versions:
    """The versions that are known without a Spark session."""
    import pyspark

    return {"backfill_assets": __version__, "pyspark": pyspark.__version__, "python": platform.python_version()}


def present_versions(spark: SparkSession) -> Versions:
    """The versions of this process and of the Spark that it computes with, which may be on another machine."""
    return {**client_versions(), "spark": spark.version}


def staged_versions(payloads: Iterable[Mapping[str, Any]]) -> Versions | None:
    """The versions that a run was last staged with, by the payloads of its events; None where none were recorded."""
    found: Versions | None = None
    for payload in payloads:
        found = payload.get(VERSIONS, found)
    return found
