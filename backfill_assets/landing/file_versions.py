"""File versions: which version of its contract the records of a landed file are in.

A record says so in `schema_version`; a file without that column is known by its columns. When several versions fit and
do not give the same rows, the file is refused rather than read by chance.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from backfill_assets.capture.errors import BadFile, Fault
from backfill_assets.capture.landed_files import FileKind, Format, LandedFile
from backfill_assets.core.errors import UnreadableFile
from backfill_assets.core.wording import visible
from backfill_assets.domain import SourceTable
from backfill_assets.domain.contracts import NO_LIFT, name_at
from backfill_assets.domain.source_files import SCHEMA_VERSION, Part
from backfill_assets.lake.row_values import first_characters
from backfill_assets.landing.formats import NAMES, Records, parse_records, records
from backfill_assets.landing.names import Spot, members_named, require_names, spot_name, spots
from backfill_assets.landing.probe import Probe, probe, require_types, types_of
from backfill_assets.landing.reading import QUOTED_CHARACTERS
from backfill_assets.landing.record_rules import BROKEN, required_columns


@dataclass(frozen=True, slots=True, kw_only=True)
class Archived:
    """A landed file that was found to be readable."""

    file: LandedFile
    probe: Probe  #: The result of probing what is read of it.
    record_count: int | None  #: How many records it has, where that is known from its source.
    kind: FileKind  #: What the file that is read is.
    #: The decoded file that is read in its place, relative to the landing place; empty where it is read itself.
    read_from: str = ""
    puts_back: bool = False  #: True if it was not there with these bytes before.

    @property
    def stored_path(self) -> str:
        """The file that Spark reads, relative to the landing place."""
        return self.read_from or self.file.stored_path


Place = Spot | Part
"""The place of a column in a file: a spot of its header, or a member of its lines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The places of the columns of a version in a file."""

    #: By column of the contract that the file has, what of the file it is read from.
    places: Mapping[str, Collection[Place]]
    is_whole: bool = True  #: True if the file has every name that is declared of the version.

    @property
    def used(self) -> frozenset[Place]:
        return frozenset().union(*self.places.values())


def probe_versions(path: Path, kind: FileKind, source: SourceTable, *, name: str, counted: bool = False) -> Probe:
    """Probes a file as the versions that it can be of, the latest first; `counted` as for `probe`."""
    if not source.earlier:
        return replace(probe(path, kind, source, name=name, counted=counted), version=source.contract_version)
    found = _probe_any(path, kind, source, name, counted)
    if kind.format is Format.JSONL and not found.empty:
        return found
    version = source.contract_version
    if found.header:
        types = types_of(found.columns)
        if any(SCHEMA_VERSION in spots(_reading(source, each), found.header, types) for each in _every(source)):
            return found
        of_version = {each: _of_header(source.at(each), found, name) for each in _every(source)}
        version = version_of_columns(source, of_version, name=name, header=found.header)
    return replace(probe(path, kind, source.at(version), name=name), version=version)


def _of_header(source: SourceTable, found: Probe, name: str) -> Found:
    """The places of the columns of a version in a file with a header."""
    types = types_of(found.columns)
    places: dict[str, frozenset[Place]] = {
        column: frozenset(some) for column, some in spots(source, found.header, types).items()
    }
    try:
        require_names(source, found.header, types, name=name)
    except BadFile:
        return Found(places=places, is_whole=False)
    return Found(places=places)


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
    named = {name: column for name, column in source.columns.items() if column == SCHEMA_VERSION}
    schema = StructType([*table.schema.fields, StructField(SCHEMA_VERSION, StringType())])
    return replace(table, schema=schema, columns={**table.columns, **named})


def version_of_columns(
    source: SourceTable, found: Mapping[int, Found], *, name: str, header: Sequence[str] = ()
) -> int:
    """The version of a file by its columns.

    Args:
        found: By version, where the file has its columns; what no version reads does not count.
        header: The names of its columns, in order, where it has a header.

    Raises:
        UnreadableFile: No version fits, or several that do not give the same rows.
    """
    every = frozenset().union(*(each.used for each in found.values()))
    alike = [version for version in reversed(_every(source)) if found[version].used == every]
    whole = [version for version in alike if set(found[version].places) == set(source.at(version).file_columns)]
    fitting = whole or [version for version in alike if _has_required(source.at(version), found[version])]
    names = {spot_name(header, place) if isinstance(place, Spot) else str(place) for place in every}
    shown = ", ".join(map(visible, sorted(names))) or "none that it knows"
    if not fitting:
        why = f"has the columns of no version of {source.name}: {shown}"
        raise BadFile(path=name, fault=Fault.NO_VERSION, why=why, column=SCHEMA_VERSION)
    if _give_other_rows(source, fitting, found):
        both = " and ".join(str(version) for version in sorted(fitting))
        why = f"can be of versions {both} of {source.name}, which would give other rows: {shown}"
        raise BadFile(path=name, fault=Fault.SEVERAL_VERSIONS, why=why, column=SCHEMA_VERSION)
    return fitting[0]


def _has_required(source: SourceTable, found: Found) -> bool:
    return found.is_whole and required_columns(source) - source.filled_columns <= found.places.keys()


def _give_other_rows(source: SourceTable, fitting: Sequence[int], found: Mapping[int, Found]) -> bool:
    """True if suitable versions read other values of a file, or a lift between them gives it other rows."""
    latest, known = source.at(fitting[0]), frozenset().union(*(found[version].places for version in fitting))
    for version in fitting[1:]:
        places = found[version].places
        names = {column: name_at(latest, column, version) for column in found[fitting[0]].places}
        if any(places.get(names[column], of) != of for column, of in found[fitting[0]].places.items()):
            return True
    lifts = (source.lift_from(version) for version in range(fitting[-1], fitting[0]))
    return any(
        lift != NO_LIFT and (lift.function is not None or lift.defaults or set(lift.renamed) & known) for lift in lifts
    )


def records_by_version(
    spark: SparkSession, stored: str, *, kind: FileKind, probe: Probe, source: SourceTable, name: str
) -> tuple[Records, ...]:
    """The records of a landed file, unchanged, by the version that they are in.

    Records that name no version of the contract are among those of the present one, with the reason.
    """
    version = probe.version
    if version is None and kind.format is Format.JSONL:
        version = _version_of_lines(spark, stored, source, name)
    if version is not None:
        return (records(spark, [stored], kind=kind, probe=probe, source=source.at(version)),)
    return tuple(_by_record(spark, stored, kind, probe, source, name))


def _version_of_lines(spark: SparkSession, stored: str, source: SourceTable, name: str) -> int | None:
    """The version of a file of JSON lines by the members that it has; None where its records name it."""
    tables = {version: _reading(source, version) for version in _every(source)}
    known = {part for table in tables.values() for part in members_named(table)}
    lines, line = parse_records(spark.read.text(stored), "value", source, known)
    own = F.array_intersect(NAMES, F.array(*map(F.lit, sorted(known))))
    names = lines.select(F.explode(F.concat(own, line.paths(known))).alias("name")).distinct()
    present = {row["name"] for row in names.collect()}
    found = {
        version: Found(
            places={column: set(parts) for column, parts in table.places.items() if present.issuperset(parts)}
        )
        for version, table in tables.items()
    }
    if any(SCHEMA_VERSION in each.places for each in found.values()):
        return None
    return version_of_columns(source, found, name=name)


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
        elif kind.format is Format.CSV:
            require_names(_reading(source, version), found.header, name=name)
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
