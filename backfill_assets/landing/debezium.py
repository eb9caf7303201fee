"""Debezium's change events: from the line of an event to the columns of its row, ordered by the position of the
change.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping
from decimal import Decimal
from functools import partial, reduce
from hashlib import md5
from operator import and_, or_
from uuid import UUID

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, TimestampNTZType

from backfill_assets.capture.debezium import (
    BESIDE,
    COMMIT,
    COMMITTED_AT,
    ENDED_BEFORE,
    IS_CHANGE,
    KEY,
    KEY_READ,
    LSN,
    MONGODB,
    OF_A_ROW,
    OPERATION,
    OPERATIONS,
    POSITION,
    POSTGRESQL,
    TIMES,
    Debezium,
)
from backfill_assets.domain import Canal, Maxwell, SourceTable
from backfill_assets.landing.json_text import bind_column, elements, members, plain

# Positions of change events whose connector has no number for them, as texts that are ordered as the changes
# were.
#
# Each part of a position has as many digits as it can have, and parts follow each other from the most significant
# one on. The last one tells a change from the end of its key directly before it, which a compacted topic leaves.

_FILE = r"\A.*\.([0-9]{1,10})\z"
_NUMBER = r"\A[0-9]{1,20}\z"
_LSN = r"\A[0-9a-fA-F]{8}:[0-9a-fA-F]{8}:[0-9a-fA-F]{4}\z"
_NO_LSN = "00000000:00000000:0000"
_RECORD_SET = r"\A(?:0x)?([0-9a-fA-F]{1,12})\.([0-9a-fA-F]{1,8})\.([0-9a-fA-F]{1,4})\z"
_NEEDS = {
    "mysql": "file and pos of the binary log",
    "mariadb": "file and pos of the binary log",
    "sqlserver": "commit_lsn, and change_lsn and event_serial_no of a change",
    "oracle": "scn, and commit_scn of a change, as LogMiner has them",
    "mongodb": "ts_ms and ord",
}
_MOST, _FEW = 20, 10
"""So many digits has a number of the log, and one that counts within a position of it."""


def position(source: Column, event: Column, connector: str) -> Column:
    """The position of an event as a text; null where the event does not say it.

    Args:
        source: The members of its `source`.
        event: Its own members.
        connector: Which one wrote it.
    """
    match connector:
        case "mysql" | "mariadb":
            file = plain(source["file"])
            found = [_padded(_part(file, _FILE), _FEW), _number(source, "pos"), _count(source, "row")]
        case "sqlserver":
            # A read of a snapshot has the position up to which it read, and none of a change.
            found = [_lsn(source, "commit_lsn"), F.coalesce(_lsn(source, "change_lsn"), _if_read(event, _NO_LSN))]
            found.append(F.coalesce(_padded(plain(source["event_serial_no"]), _MOST), _if_read(event, "0" * _MOST)))
        case "oracle":
            committed = F.coalesce(_number(source, "commit_scn"), F.when(_is_read(event), _number(source, "scn")))
            change = F.when(_is_read(event), "0" * _MOST).otherwise(_number(source, "scn"))
            found = [committed, F.coalesce(_record_set(source), F.lit("")), _count(source, "ssn"), change]
        case "mongodb":
            # One transaction is one time of the cluster: what follows what in it, its metadata say.
            second = F.left(_number(source, "ts_ms"), F.lit(_MOST - 3))
            order = F.coalesce(_number(members(plain(event["transaction"])), "total_order"), F.lit("0" * _MOST))
            found = [second, _padded(plain(source["ord"]), _FEW), order]
        case _:
            raise ValueError(f"{connector} has numbers for positions")
    last = F.when(plain(source[ENDED_BEFORE]) == "true", "0").otherwise("1")
    return F.concat(*(piece for each in found for piece in (each, F.lit("/"))), last)


def without_position(source: Column, event: Column, events: Debezium) -> Column:
    """The reason why the order of an event is not known; null where it is, and for connectors with numbers."""
    if events.connector == POSTGRESQL:
        return F.lit(None).cast("string")
    says = f"the event does not say where in the log it is: it needs {_NEEDS[events.connector]}"
    return F.when(position(source, event, events.connector).isNull(), says)


def _number(source: Column, name: str) -> Column:
    return _padded(plain(source[name]), _MOST)


def _count(source: Column, name: str) -> Column:
    """A number within a position, which is the first one where nothing counts."""
    return F.coalesce(_padded(plain(source[name]), _FEW), F.when(plain(source[name]).isNull(), F.lit("0" * _FEW)))


def _padded(text: Column, digits: int) -> Column:
    return F.when(text.rlike(_NUMBER) & (F.length(text) <= digits), F.lpad(text, digits, "0"))


def _part(text: Column, pattern: str, number: int = 1) -> Column:
    return F.when(text.rlike(pattern), F.regexp_extract(text, pattern, number))


def _lsn(source: Column, name: str) -> Column:
    text = plain(source[name])
    return F.when(text.rlike(_LSN), F.lower(text))


def _record_set(source: Column) -> Column:
    """Where in the redo log a change is, which says what follows what in a transaction."""

    def parts(text: Column) -> Column:
        found = (_part(text, _RECORD_SET, number) for number in (1, 2, 3))
        return F.concat(*(F.lpad(F.lower(each), width, "0") for each, width in zip(found, (12, 8, 4), strict=True)))

    return bind_column(F.trim(plain(source["rs_id"])), parts)


def _is_read(event: Column) -> Column:
    return F.coalesce(plain(event["op"]) == "r", F.lit(False))


def _if_read(event: Column, text: str) -> Column:
    return F.when(_is_read(event), F.lit(text))


# Debezium's change events: from the line of an event to the columns of its row.
#
# An event with its schema says what its values are, so that a decimal or a time that is written as bytes or as a
# number becomes the text of its value; without it values are taken as they are written. Column expressions that
# never throw.

LINE = "_line"
"""The members of the line: of an event and, from a topic, what Kafka says of it."""
ROW = "_change"
"""The members of the row: as it is after the change; before it, of a delete."""

VALUES = "_values"
"""The members of the row, as texts of their values."""

_EVENT, _SOURCE, _FIELDS, _KEY = "_event", "_origin", "_fields", "_key"
_OF_KAFKA = "kafka_"
_ID, _ID_IN_KEY = "_id", "id"
"""What the key of a document is called in the document, and in the key of its record."""
_NOTHING = "{}"
_TYPE = "name: string, parameters: map<string, string>"
_ROW_SCHEMA = f"fields: array<struct<field: string, {_TYPE}, items: struct<{_TYPE}>>>"
_SCHEMA = f"struct<fields: array<struct<field: string, {_ROW_SCHEMA}>>>"

_DECIMAL, _ANY_SCALE = "org.apache.kafka.connect.data.Decimal", "io.debezium.data.VariableScaleDecimal"
_DATES = ("io.debezium.time.Date", "org.apache.kafka.connect.data.Date")
_MICROSECONDS: Mapping[str, int] = {
    "io.debezium.time.MicroTimestamp": 1,
    "io.debezium.time.Timestamp": 1_000,
    "org.apache.kafka.connect.data.Timestamp": 1_000,
}
"""The microseconds of a unit, by the name of a time without a zone."""
_NANOSECONDS = "io.debezium.time.NanoTimestamp"
_ENCODED = (_DECIMAL, _ANY_SCALE, *_DATES, *_MICROSECONDS, _NANOSECONDS)
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
"""0001-01-01 and 9999-12-31, in days from 1970-01-01."""
_DAY_US = 86_400_000_000
_NO_ZONE = r"Z\z"
"""What the connector writes behind dates and times without a zone in ISO form (`time.precision.mode=isostring`)."""
_DIGITS = "0123456789ABCDEF"
_HALF_DIGITS = 16
"""Of 16 bytes, which hold any decimal, each half has so many digits in base 16."""


def with_change(lines: DataFrame, text: Column, events: Debezium) -> DataFrame:
    """Lines with what the other functions of this module look at."""
    found = lines.withColumn(LINE, members(text))
    is_wrapped = F.array_contains(F.map_keys(LINE), "payload")
    found = found.withColumn(_EVENT, F.when(is_wrapped, _inner(LINE, "payload")).otherwise(F.col(LINE)))
    deletes, truncates = _is("delete"), _is("truncate")
    side = F.when(deletes, "before").otherwise("after")
    nothing = F.from_json(F.lit(_NOTHING), "map<string,string>")
    schema = F.from_json(F.when(is_wrapped, plain(F.col(LINE)["schema"])), _SCHEMA)
    before = F.coalesce(_inner(_EVENT, "before"), nothing)
    found = found.withColumns(
        {
            ROW: F.when(truncates, nothing).when(deletes, before).otherwise(_inner(_EVENT, "after")),
            _SOURCE: _inner(_EVENT, "source"),
            _FIELDS: F.get(F.filter(schema["fields"], lambda each: each["field"] == side), F.lit(0))["fields"],
            _KEY: F.when(deletes, members(F.coalesce(plain(F.col(LINE)[KEY_READ]), plain(F.col(LINE)[KEY])))),
        }
    )
    # One expression for the members of a row, however many columns a contract has: Spark plans each of them at length.
    if events.connector == MONGODB:
        # The key of a record has the text of the JSON that identifies a document.
        key = F.transform_values(_key(), lambda _, text: F.get(elements(F.concat(F.lit("["), text, F.lit("]"))), 0))
        return found.withColumns({VALUES: _documents(F.col(ROW)), _KEY: _documents(key)})
    key_fields = F.from_json(plain(F.col(_KEY)["schema"]), f"struct<{_ROW_SCHEMA}>")["fields"]
    return found.withColumns({VALUES: _rows(F.col(ROW), F.col(_FIELDS)), _KEY: _rows(_key(), key_fields)})


def _rows(row: Column, fields: Column) -> Column:
    """The members of a row as texts; what an event with its schema says of a column decides what its text is."""

    def value(name: Column, text: Column) -> Column:
        field = F.get(F.filter(fields, lambda each: each["field"] == name), F.lit(0))
        return bind_column(field, partial(_decoded, plain(text)))

    return F.transform_values(row, value)


def _documents(row: Column) -> Column:
    """The members of a document as texts; a value that says its type is its value."""
    return F.transform_values(row, lambda _, text: bind_column(plain(text), _of_its_type))


def _key() -> Column:
    """The members of the key of a record, with its schema or without it."""
    is_wrapped = F.array_contains(F.map_keys(_KEY), "payload")
    return F.when(is_wrapped, _inner(_KEY, "payload")).otherwise(F.col(_KEY))


def is_record(text: Column) -> Column:
    """True if a line is a record, and not a message that is passed over; `debezium_messages` counts those."""
    names = F.filter(F.map_keys(_EVENT), lambda name: ~name.startswith(_OF_KAFKA))
    has_row = F.arrays_overlap(names, F.array(*map(F.lit, OF_A_ROW)))
    is_of_time = F.size(F.array_except(names, F.array(*map(F.lit, TIMES)))) == 0
    beside = is_of_time & F.array_contains(names, TIMES[0])
    for members_of_it in BESIDE.values():
        beside |= reduce(and_, (F.array_contains(names, each) for each in members_of_it))
    return ~F.coalesce(~text.rlike(IS_CHANGE) & ~has_row & beside, F.lit(False))


def names(events: Debezium) -> Column:
    """The names of the columns that a line has."""
    of_kafka = F.filter(F.map_keys(LINE), lambda name: name.startswith(_OF_KAFKA))
    return F.concat(of_kafka, F.array(*map(F.lit, (OPERATION, *events.order, COMMITTED_AT))), F.map_keys(ROW))


def value(member: str, name: str, found: Column, source: SourceTable) -> Column:
    """A column of the contract, as a text.

    Of a delete only the key is taken: what else the event has was so before, and depends on the table's replica
    identity.

    Args:
        member: What events call it, or what says something of them.
        name: The column.
        found: The value that the row has of it.
    """
    match name:
        case _ if name == OPERATION:
            return _operation()
        case _ if name == LSN:
            return plain(F.col(_SOURCE)["lsn"])
        case _ if name == COMMIT:
            return _commit()
        case _ if name == POSITION:
            assert source.envelope is not None
            return position(F.col(_SOURCE), F.col(_EVENT), source.envelope.connector)
        case _ if name == COMMITTED_AT:
            return _committed_at()
        case _ if member.startswith(_OF_KAFKA):
            return plain(F.col(LINE)[member])
    if isinstance(source.schema[name].dataType, DateType | TimestampNTZType):
        found = F.regexp_replace(found, _NO_ZONE, "")
    if name in source.key:
        return F.coalesce(found, F.when(_is("delete"), _in_key(member, source)))
    return F.when(~_is("delete"), found)


def _in_key(member: str, source: SourceTable) -> Column:
    """A member of the row as the key of the record has it."""
    is_id = source.envelope is not None and source.envelope.connector == MONGODB and member == _ID
    return F.col(_KEY)[_ID_IN_KEY if is_id else member]


def complaint(source: SourceTable) -> Column:
    """The reason why a line is no change of the table; null when it is one."""
    assert source.envelope is not None
    is_event = _operation().isNotNull() & F.col(_SOURCE).isNotNull() & F.col(ROW).isNotNull()
    events = source.envelope
    connector = plain(F.col(_SOURCE)["connector"])
    table = _table(events)
    unknown = [
        _unavailable(name, member, events.unavailable)
        for name, parts in source.places.items()
        for member in dict.fromkeys(str(part).partition(".")[0] for part in parts)
    ]
    return F.coalesce(
        F.when(
            ~F.coalesce(is_event, F.lit(False)),
            F.when(
                F.col(LINE)["kafka_tombstone"].isNotNull(),
                "the record has no value, and no event after it says where in the feed it is",
            )
            .when(_is("update") & F.col(_SOURCE).isNotNull(), _NO_ROW)
            .otherwise(f"the record is not a {_program(source)} change event"),
        ),
        F.when(
            connector != events.connector,
            F.concat(F.lit("the event is of the connector for "), connector, F.lit(", whose positions are not known")),
        ),
        F.when(~table.rlike(rf"\A(?:{events.named})\z"), F.concat(F.lit("the event is of the table "), table)),
        F.when(
            F.lit(bool(events.tables)) & _is("truncate"),
            F.concat(F.lit("the truncate is of "), table, F.lit(" alone, and does not say which keys it had")),
        ),
        _without_key(source),
        without_position(F.col(_SOURCE), F.col(_EVENT), events),
        *unknown,
    )


def _program(source: SourceTable) -> str:
    """The program that writes what the source reads."""
    return type(source.reads).__name__ if isinstance(source.reads, Maxwell | Canal) else "Debezium"


_NO_ROW = (
    "the update does not say what the row is: of documents set capture.mode=change_streams_update_full, and see that "
    "the document was not deleted meanwhile"
)


def _table(events: Debezium) -> Column:
    """The name of the table of an event."""
    source, names = F.col(_SOURCE), ["db"] * events.has_database
    match events.connector:
        case "mysql" | "mariadb":
            names = ["db", "table"]
        case _ if events.connector == MONGODB:
            names = ["db", "collection"]
        case _:
            names += ["schema", "table"]
    return F.concat_ws(".", *(plain(source[name]) for name in names))


def _without_key(source: SourceTable) -> Column:
    """The mistake of a delete that does not state which row is gone."""
    members_of_it = [str(part) for name in source.key for part in source.places[name]]
    values = (F.coalesce(F.col(VALUES)[each], _in_key(each, source)) for each in members_of_it if "." not in each)
    says = (
        f"the delete does not have {', '.join(source.key)}, neither before it nor in the key of its record: capture "
        "the topic with its keys as JSON, or set REPLICA IDENTITY FULL, or before-images of documents"
    )
    return F.when(_is("delete") & reduce(or_, (value.isNull() for value in values), F.lit(False)), says)


def _unavailable(name: str, member: str, placeholder: str) -> Column:
    """The mistake of a value that was stored out of line, and that an update left unchanged."""
    says = f"{name} was left as it was, and the event does not have its value"
    return F.when(~_is("delete") & F.col(ROW)[member].isin(*_unavailable_forms(placeholder)), F.lit(says))


def _unavailable_forms(placeholder: str) -> list[str]:
    """The forms in which the connector writes the placeholder: a text, bytes, arrays of texts, bytes, numbers and
    UUIDs, and a map."""
    found = placeholder.encode()
    encoded = b64encode(found).decode()
    numbers = memoryview(found).cast("b").tolist()  # bytes of Java have a sign
    uuid = str(UUID(bytes=md5(found, usedforsecurity=False).digest(), version=3))
    nested = ([placeholder], [encoded], numbers, [uuid], {placeholder: placeholder})
    as_json = (json.dumps(each, ensure_ascii=False, separators=(",", ":")) for each in nested)
    return [placeholder, encoded, found.hex(), *as_json]


def _operation() -> Column:
    return plain(F.col(_EVENT)["op"])


def _is(operation: str) -> Column:
    return F.coalesce(_operation() == OPERATIONS[operation], F.lit(False))


def _commit() -> Column:
    """The LSN of the last commit before the change in the feed; of a snapshot, that of the snapshot."""
    of_feed = bind_column(elements(plain(F.col(_SOURCE)["sequence"])), lambda both: plain(F.get(both, F.lit(0))))
    return F.coalesce(of_feed, plain(F.col(_SOURCE)["lsn"]))


def _committed_at() -> Column:
    micros = F.coalesce(
        plain(F.col(_SOURCE)["ts_us"]).try_cast("long"), plain(F.col(_SOURCE)["ts_ms"]).try_cast("long") * 1_000
    )
    return F.concat(_local(micros), F.lit("Z"))


def _inner(column: str, name: str) -> Column:
    return members(plain(F.col(column)[name]))


# ---------------------------------------------------------------------------------------- by what says its own type


_SAYS_ITS_TYPE = r'\A\{\s*"\$'
_AS_IT_IS = ("$oid", "$numberLong", "$numberInt", "$numberDouble", "$numberDecimal", "$symbol", "$uuid")


def _of_its_type(text: Column) -> Column:
    """The text of a value of a document, which MongoDB's extended JSON writes as `{"$numberLong": "5"}`.

    Times are milliseconds since 1970 or texts. What has no text of its own, as a regular expression, stays JSON.
    """

    def value(of: Column) -> Column:
        found = F.coalesce(*(plain(of[name]) for name in _AS_IT_IS))
        date = plain(of["$date"])
        millis = F.coalesce(plain(members(date)["$numberLong"]), date).try_cast("long")
        iso = F.concat(_local(F.try_multiply(millis, F.lit(1_000))), F.lit("Z"))
        binary = plain(of["$binary"])
        return F.coalesce(found, iso, date, plain(members(binary)["base64"]), binary, text)

    return F.when(text.rlike(_SAYS_ITS_TYPE), bind_column(members(text), value)).otherwise(text)


# ------------------------------------------------------------------------------------------------- by the schema


def _decoded(text: Column, field: Column) -> Column:
    """The text of a value whose field in the schema is known; what cannot be one of its type stays as it is."""
    items = field["items"]
    each_decoded = F.to_json(F.transform(elements(text), lambda each: _by_type(plain(each), items)))
    return F.when(items["name"].isin(*_ENCODED), F.coalesce(each_decoded, text)).otherwise(_by_type(text, field))


def _by_type(text: Column, field: Column) -> Column:
    kind = field["name"]
    found = F.when(kind == _DECIMAL, _decimal(text, field["parameters"]["scale"]))
    found = found.when(
        kind == _ANY_SCALE, bind_column(members(text), lambda both: _decimal(both["value"], plain(both["scale"])))
    )
    days = text.try_cast("int")
    is_day = days.between(_FIRST_DAY, _LAST_DAY)
    date = F.date_add(F.lit("1970-01-01").cast("date"), F.when(is_day, days)).cast("string")
    found = found.when(kind.isin(*_DATES), F.coalesce(date, text))
    for name, unit in _MICROSECONDS.items():
        found = found.when(kind == name, F.coalesce(_local(F.try_multiply(text.try_cast("long"), F.lit(unit))), text))
    found = found.when(kind == _NANOSECONDS, F.coalesce(_with_nanoseconds(text.try_cast("long")), text))
    return found.otherwise(text)


def _with_nanoseconds(nanos: Column) -> Column:
    """A time with nine digits behind its second, all of which a source may need."""
    below = F.pmod(nanos, F.lit(1_000))
    micros = ((nanos - below).cast("decimal(20,0)") / F.lit(Decimal(1_000))).cast("long")
    return F.concat(_local(micros), F.lpad(below.cast("string"), 3, "0"))


def _local(micros: Column) -> Column:
    """A time as text, from microseconds; null for years that no text of four digits has."""
    is_time = micros.between(_FIRST_DAY * _DAY_US, (_LAST_DAY + 1) * _DAY_US - 1)
    # Sessions are held to UTC, so that the instant shows the digits of the local time.
    return F.date_format(F.timestamp_micros(F.when(is_time, micros)), "yyyy-MM-dd'T'HH:mm:ss.SSSSSS")


def _decimal(written: Column, scale: Column) -> Column:
    """A decimal as text, from the Base64 of its unscaled bytes. What has more digits than any decimal is no number."""
    digits = F.hex(F.try_to_binary(written, F.lit("base64")))
    number = bind_column(digits, _unscaled)
    text = bind_column(number.cast("string"), lambda unscaled: _with_point(unscaled, scale.try_cast("int")))
    return F.when(written.isNotNull(), F.coalesce(text, F.concat(F.lit("the bytes "), written)))


def _unscaled(digits: Column) -> Column:
    """The number of a two's complement of at most 16 bytes, from its digits in base 16.

    Of a negative one it is the complement that is computed, so that no part is larger than a decimal can be.
    """
    is_negative = digits.rlike(r"\A[89A-F]")
    fits = F.length(digits).between(2, 2 * _HALF_DIGITS)
    positive = F.when(is_negative, F.translate(digits, _DIGITS, _DIGITS[::-1])).otherwise(digits)
    whole = F.when(fits, F.lpad(positive, 2 * _HALF_DIGITS, "0"))
    halves = (F.left(whole, F.lit(_HALF_DIGITS)), F.right(whole, F.lit(_HALF_DIGITS)))
    high, low = (F.conv(half, 16, 10).try_cast("decimal(20,0)") for half in halves)
    number = F.try_add(F.try_multiply(high, F.lit(Decimal(1 << 64))), low).try_cast("decimal(38,0)")
    complement = F.try_subtract(F.try_subtract(F.lit(Decimal(0)), number), F.lit(Decimal(1)))
    return F.when(is_negative, complement.try_cast("decimal(38,0)")).otherwise(number)


def _with_point(unscaled: Column, scale: Column) -> Column:
    sign = F.when(unscaled.startswith("-"), "-").otherwise("")
    digits = F.ltrim(unscaled, F.lit("-"))
    padded = F.lpad(digits, F.greatest(F.length(digits), scale + 1), F.lit("0"))
    fraction = F.concat(F.left(padded, F.length(padded) - scale), F.lit("."), F.right(padded, scale))
    whole = F.concat(digits, F.repeat(F.lit("0"), F.when(scale < 0, -scale).otherwise(0)))
    return F.concat(sign, F.when(scale > 0, fraction).otherwise(whole))
