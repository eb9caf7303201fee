"""File versions: which version of its contract the records of a landed file are in.

A record says so in `schema_version`; a file without that column is known by its columns. When several versions fit and
do not give the same rows, the file is refused rather than read by chance.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from backfill_assets.capture.errors import BadFile, Fault
from backfill_assets.capture.landed_files import FileKind, Format, LandedFile
from backfill_assets.core.errors import UnreadableFile
from backfill_assets.domain import SourceTable
from backfill_assets.domain.contracts import NO_LIFT
from backfill_assets.lake.row_values import first_characters
from backfill_assets.landing.formats import NAMES, Records, records, taken_apart
from backfill_assets.landing.probe import Probe, probe, require_types
from backfill_assets.landing.reading import QUOTED_CHARACTERS
from backfill_assets.landing.record_rules import BROKEN, required_columns

SCHEMA_VERSION = "schema_version"


@dataclass(frozen=True, slots=True, kw_only=True)
class Archived:
    """A landed file with the result of probing it, how many records it has where that is known from its source, and
    whether it was not there with these bytes before."""

    file: LandedFile
    probe: Probe
    record_count: int | None
    puts_back: bool = False


def probe_versions(path: Path, kind: FileKind, source: SourceTable, *, name: str, counted: bool = False) -> Probe:
    """Probes a file as the versions that it can be of, the latest first; `counted` as for `probe`."""
    if not source.earlier:
        return replace(probe(path, kind, source, name=name, counted=counted), version=source.contract_version)
    found = _probe_any(path, kind, source, name, counted)
    if kind.format is Format.JSONL and not found.empty:
        return found
    columns = {*found.header, *(column.name for column in found.columns), *found.ignored_columns}
    if SCHEMA_VERSION in columns:
        return found
    version = version_of_columns(source, columns, name=name) if columns else source.contract_version
    return replace(probe(path, kind, source.at(version), name=name), version=version)


def _probe_any(path: Path, kind: FileKind, source: SourceTable, name: str, counted: bool) -> Probe:
    refusals: list[UnreadableFile] = []
    for version in range(source.contract_version, 0, -1):
        try:
            return probe(path, kind, _reading(source, version), name=name, counted=counted)
        except UnreadableFile as refused:
            refusals.append(refused)
    raise refusals[0]


def _reading(source: SourceTable, version: int) -> SourceTable:
    """A version of the contract, with the column that names the version if the contract does not have it."""
    table = source.at(version)
    if SCHEMA_VERSION in table.schema.fieldNames():
        return table
    return replace(table, schema=StructType([*table.schema.fields, StructField(SCHEMA_VERSION, StringType())]))


def version_of_columns(source: SourceTable, columns: Collection[str], *, name: str) -> int:
    """The version of a file by its columns.

    Args:
        columns: What the file has; columns that no version knows do not count.

    Raises:
        UnreadableFile: No version fits, or several that do not give the same rows.
    """
    versions = range(source.contract_version, 0, -1)
    of_version = {version: set(source.at(version).file_columns) for version in versions}
    known = set(columns).intersection(*[set().union(*of_version.values())])
    fitting = [version for version in versions if of_version[version] == known] or [
        version
        for version in versions
        if required_columns(source.at(version)) - source.filled_columns <= known <= of_version[version]
    ]
    shown = ", ".join(sorted(known)) or "none that it knows"
    if not fitting:
        why = f"has the columns of no version of {source.name}: {shown}"
        raise BadFile(path=name, fault=Fault.NO_VERSION, why=why, column=SCHEMA_VERSION)
    if _give_other_rows(source, fitting, known):
        both = " and ".join(str(version) for version in sorted(fitting))
        why = f"can be of versions {both} of {source.name}, which would give other rows: {shown}"
        raise BadFile(path=name, fault=Fault.SEVERAL_VERSIONS, why=why, column=SCHEMA_VERSION)
    return fitting[0]


def _give_other_rows(source: SourceTable, fitting: Sequence[int], known: Collection[str]) -> bool:
    """Whether a lift between the versions that fit gives a file with these columns other rows."""
    lifts = (source.lift_from(version) for version in range(fitting[-1], fitting[0]))
    return any(
        lift != NO_LIFT and (lift.function is not None or lift.defaults or set(lift.renamed) & set(known))
        for lift in lifts
    )


def records_by_version(
    spark: SparkSession, stored: str, *, kind: FileKind, probe: Probe, source: SourceTable, name: str
) -> tuple[Records, ...]:
    """The records of a landed file, unchanged, by the version that they are in.

    Records that name no version of the contract are among those of the present one, with the reason.
    """
    version = probe.version
    if version is None and kind.format is Format.JSONL:
        columns = _names_in(spark, stored, source)
        if SCHEMA_VERSION not in columns:
            version = version_of_columns(source, columns, name=name)
    if version is not None:
        return (records(spark, [stored], kind=kind, probe=probe, source=source.at(version)),)
    return tuple(_by_record(spark, stored, kind, probe, source, name))


def _names_in(spark: SparkSession, stored: str, source: SourceTable) -> set[str]:
    """The names in the lines of a file that a version of the contract knows, and the one that names the version."""
    known = {SCHEMA_VERSION}.union(*(source.at(each).file_columns for each in _every(source)))
    names = taken_apart(spark.read.text(stored), "value", source).select(F.explode(NAMES).alias("name"))
    return {row["name"] for row in names.where(F.col("name").isin(sorted(known))).distinct().collect()}


def _every(source: SourceTable) -> range:
    return range(1, source.contract_version + 1)


def _by_record(
    spark: SparkSession, stored: str, kind: FileKind, found: Probe, source: SourceTable, name: str
) -> Iterable[Records]:
    read = {
        version: records(spark, [stored], kind=kind, probe=found, source=_reading(source, version))
        for version in _every(source)
    }
    latest = read[source.contract_version]
    named = latest.frame.select(_named().alias("version")).distinct().where(F.col("version").isin(list(read)))
    present = {row["version"] for row in named.collect()}
    for version in sorted(present):
        if kind.format is Format.PARQUET:  # its columns have types, which each version has to be able to take
            require_types(found, _reading(source, version), name=name)
        yield replace(read[version], frame=read[version].frame.where(_named() == version))
    others = latest.frame.where(~F.coalesce(_named().isin(list(read)), F.lit(False)))
    yield replace(latest, frame=_refused(others, source))


def _named() -> Column:
    return F.col(SCHEMA_VERSION).cast("string").try_cast("int")


def _refused(frame: DataFrame, source: SourceTable) -> DataFrame:
    quoted = first_characters(F.col(SCHEMA_VERSION), QUOTED_CHARACTERS)
    known = f"the contract has versions 1 to {source.contract_version}"
    reason = F.when(quoted.isNull(), F.lit(f"{SCHEMA_VERSION} is missing, and {known}")).otherwise(
        F.concat(F.lit(f"{SCHEMA_VERSION} is '"), quoted, F.lit(f"', and {known}"))
    )
    return frame.withColumn(BROKEN, F.coalesce(F.col(BROKEN), reason))
