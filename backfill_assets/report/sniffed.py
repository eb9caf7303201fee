"""A proposal as Python: the module that `sniff` writes, and the words of what is not sure about it.

Texts of files stand in comments and literals of the module, cut and escaped: no file writes a line of it.
"""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from unicodedata import east_asian_width

from backfill_assets.calendar.partitions import count_of
from backfill_assets.core.next_steps import NAME, Command, NextStep, do, step
from backfill_assets.core.wording import (
    WIDTH,
    arguments,
    call_lines,
    import_lines,
    literal,
    names_in,
    visible,
    word_of_a_shell,
)
from backfill_assets.domain.source_files import Form
from backfill_assets.report.errors import CannotUse
from backfill_assets.sniff.proposal import Doubt, DoubtKind, Looked, Proposal, ProposedColumn

_QUOTED = 40
_SHOWN = 8
_PARTITIONS = ("day", "event_day", "partition_day", "landed_day")
_TYPES = {
    "STRING": "StringType",
    "LONG": "LongType",
    "DOUBLE": "DoubleType",
    "FLOAT": "FloatType",
    "BOOLEAN": "BooleanType",
    "DATE": "DateType",
    "TIMESTAMP": "TimestampType",
    "BINARY": "BinaryType",
    "DECIMAL": "DecimalType",
    "ARRAY": "ArrayType",
}


def python_of(proposal: Proposal) -> str:
    """The module that declares a proposal, and that loads as a domain by itself.

    Raises:
        CannotUse: No column of the file has times.
    """
    name = variable_of(proposal)
    lines = [
        f'"""The domain of {short_name(proposal)}, as `backfill` proposes it: read the comments, then land with it."""',
        "",
        *imports_of(proposal, ("Domain",)),
        "",
        *source_of(proposal),
        "",
        f'DOMAIN = Domain(name="{short_name(proposal)}", package=__name__, sources=({name},), derived=())',
    ]
    return "\n".join(lines) + "\n"


def short_name(proposal: Proposal) -> str:
    """The table's name without its layer."""
    return proposal.name.partition(".")[2]


def variable_of(proposal: Proposal) -> str:
    """The variable that holds the table: its short name, unless Python or the module has that for something else."""
    name = short_name(proposal)
    is_taken = keyword.iskeyword(name) or hasattr(builtins, name) or name in ("daily", "derived_table")
    return f"{name}_" if is_taken else name


def partition_of(proposal: Proposal) -> str:
    """The partition column, which no column of the file has the name of."""
    taken = {column.name.casefold() for column in proposal.columns}
    return next((each for each in _PARTITIONS if each not in taken), f"{short_name(proposal)}_day")


def imports_of(proposal: Proposal, more: Sequence[str] = (), types: Sequence[str] = ()) -> list[str]:
    """The imports of a module.

    Args:
        more: Further names of `backfill_assets.domain`.
        types: Further types of Spark.
    """
    kinds = {_TYPES[word] for column in proposal.columns for word in re.findall(r"[A-Z]+", column.kind)}
    if proposal.has_row_number:
        kinds |= {"StringType", "LongType"}
    declared = (proposal.reads, *(column.forms for column in proposal.columns))
    names = {"SourceTable", "daily", *more, *proposal.capture_names, *names_in(declared)}
    return [
        *import_lines("pyspark.sql.types", sorted({*kinds, *types, "StructField", "StructType"})),
        "",
        *import_lines("backfill_assets.domain", sorted(names, key=lambda each: (each[0].islower(), each))),
    ]


def source_of(proposal: Proposal) -> list[str]:
    """The lines that declare the source table, with what was looked at, and what is not sure, before them.

    Raises:
        CannotUse: No column of the file has times.
    """
    if not proposal.event_time:
        raise CannotUse(what=visible(proposal.looked[-1].file), why=_why_not(proposal), instead=_instead(proposal))
    schema = ["StructType(", "    [", *(line[4:] for line in _fields(proposal)), "    ]", ")"]
    return [
        *(f"# {line}" for line in comments_of(proposal)),
        *([f"COLUMNS = {schema[0]}", *schema[1:], *_releases(proposal)] if proposal.releases else []),
        f"{variable_of(proposal)} = SourceTable(",
        f"    name={literal(proposal.name)},",
        *_of_key(proposal),
        f"    event_time={literal(proposal.event_time)},",
        *([f"    timezone={literal(proposal.timezone)},"] if proposal.has_local_times else []),
        *([f"    repeated_hour={literal(proposal.repeated_hour)},"] if proposal.repeated_hour else []),
        f'    partition=daily("{partition_of(proposal)}"),',
        *(
            ["    schema=COLUMNS,"]
            if proposal.releases
            else [f"    schema={schema[0]}", *(f"    {line}" for line in schema[1:-1]), "    ),"]
        ),
        *(["    planned=True,"] if proposal.is_planned else []),
        *declared_lines(proposal),
        *(_of_releases(proposal) if proposal.releases else []),
        *_of_capture(proposal),
        ")",
    ]


def _of_key(proposal: Proposal) -> list[str]:
    if proposal.has_row_number:
        return ['    key=("file_name", "row_number"),', "    row_number=True,"]
    return call_lines("key=(", [literal(each) for each in proposal.key], ")", indent=4, single_comma=True)


def _fields(proposal: Proposal) -> Iterator[str]:
    required = {*proposal.key, proposal.event_time}
    if proposal.has_row_number:
        yield '            StructField("file_name", StringType(), nullable=False),'
        yield '            StructField("row_number", LongType(), nullable=False),'
    for column in proposal.columns:
        arguments = [literal(column.name), _type(column.kind)]
        if column.name in required:
            arguments.append("nullable=False")
        lines = call_lines("StructField(", arguments, ")", indent=12)
        records = column.values + column.nulls
        if column.nulls and len(lines) == 1:
            comment = f"{lines[0]}  # no value in {column.nulls:,} of {count_of(records, 'record')}"
            lines = [comment] if len(comment) <= WIDTH else lines
        yield from lines


def _type(kind: str) -> str:
    word, _, rest = kind.rstrip(")>").partition("(" if "(" in kind else "<")
    if word == "ARRAY":
        return f"ArrayType({_type(kind[len('ARRAY<') : -1])})"
    return f"{_TYPES[word]}({', '.join(rest.split(',')) if rest else ''})"


def declared_lines(proposal: Proposal) -> list[str]:
    """The declarations on how files are written: at most a dialect, names, and forms of times."""
    found: list[str] = []
    if proposal.reads is not None:
        found += call_lines(f"reads={type(proposal.reads).__name__}(", arguments(proposal.reads), ")", indent=4)
    if proposal.names:
        pairs = [f"{literal(written)}: {literal(name)}" for written, name in proposal.names.items()]
        found += call_lines("columns={", pairs, "}", indent=4)
    forms: Mapping[str, tuple[Form, ...]] = {each.name: each.forms for each in proposal.columns if each.forms}
    if forms:
        pairs = [f"{literal(name)}: {literal(form[0] if len(form) == 1 else form)}" for name, form in forms.items()]
        found += call_lines("formats={", pairs, "}", indent=4)
    return found


def _releases(proposal: Proposal) -> Iterator[str]:
    """The names that earlier headers give the columns, by their version of the contract."""
    yield "BEFORE = {"
    for version, names in enumerate(proposal.releases, 1):
        pairs = [f"{literal(name)}: {literal(column)}" for name, column in names.items()]
        yield from call_lines(f"{version}: {{", pairs, "}", indent=4)
    yield "}"


def _of_releases(proposal: Proposal) -> list[str]:
    known = '(*names.values(), "file_name", "row_number")' if proposal.has_row_number else "names.values()"
    return [
        "    earlier={",
        f"        version: StructType([each for each in COLUMNS if each.name in {known}])",
        "        for version, names in BEFORE.items()",
        "    },",
        "    earlier_columns=BEFORE,",
    ]


def _of_capture(proposal: Proposal) -> list[str]:
    lines = proposal.capture.splitlines()
    return [f"    {line}" for line in (f"capture={lines[0]}", *lines[1:-1], f"{lines[-1]},")] if lines else []


# ------------------------------------------------------------------------------------------------------------ comments


def comments_of(proposal: Proposal) -> list[str]:
    """Comment lines on what was looked at, what would be rejected, and what is not sure."""
    found = [line for each in _looked(proposal) for line in _wrapped(each)]
    found += [line for each in _chosen(proposal) for line in _wrapped(each)]
    for title, doubts in (
        ("rejected", [each for each in proposal.doubts if each.rejects]),
        ("not sure", [each for each in proposal.doubts if not each.rejects]),
    ):
        for doubt in doubts:
            found += _wrapped(f"{title}: {said_of(doubt)}")
    return found


def _looked(proposal: Proposal) -> Iterator[str]:
    for each in proposal.looked:
        packed = f", packed by {each.packed}" if each.packed else ""
        part = "read to its end"
        if not each.is_whole:
            of_whole = " unpacked" if each.packed else f" of {each.size_bytes:,}"
            part = f"{each.read_bytes:,}{of_whole} bytes read"
        yield f"{_quoted(each.file)}: {each.format}{packed}, {count_of(each.records, 'record')}, {part}."


def _why_not(proposal: Proposal) -> str:
    """Why a file lands in no source table."""
    doubt = proposal.doubts[0]
    match doubt.kind:
        case DoubtKind.NO_RECORD:
            return "it has no records, so that nothing can be said of them"
        case DoubtKind.DATES_AS_NAMES:
            return f"its dates are names of {count_of(doubt.records, 'column')}: {_list(doubt.values)}"
        case DoubtKind.ONE_COLUMN:
            return f"its lines have nothing between their values that is known, such as {_quoted(doubt.values[0])}"
        case DoubtKind.LISTS:
            return f"it has lists of values where records would be, at {_list(doubt.values)}"
        case _:
            shown = [f"{visible(each.name)} {_quoted(each.example)}" for each in proposal.columns[:_SHOWN]]
            more = len(proposal.columns) - len(shown)
            others = f" and {count_of(more, 'more column')}" if more else ""
            return (
                "none of its columns is a date or a time, and a record of a source table has one: "
                f"{', '.join(shown)}{others}"
            )


def _instead(proposal: Proposal) -> str:
    match proposal.doubts[0].kind:
        case DoubtKind.NO_RECORD:
            return "a file with records"
        case DoubtKind.DATES_AS_NAMES:
            return "a file with a record for each date, as melt of pandas or UNPIVOT of DuckDB writes it"
        case DoubtKind.ONE_COLUMN:
            return "a file with commas between its values; of columns of a fixed width read_fwf of pandas makes one"
        case DoubtKind.LISTS:
            return "a file with an object for each record"
        case _:
            return "a file with times, or read this one as a reference of a domain"


def _chosen(proposal: Proposal) -> Iterator[str]:
    if proposal.first_on is not None:
        yield f"Events are from {proposal.first_on} to {proposal.last_on}."
    others = {
        "key": [" and ".join(each) for each in proposal.keys],
        "event_time": proposal.event_times[:4],
        "order": proposal.orders[:4],
    }
    for argument, names in others.items():
        if names:
            yield f"{argument} could be {', or '.join(map(visible, names))}{' instead' if argument != 'order' else ''}."
    if proposal.releases:
        count = len(proposal.releases)
        yield f"Files have had {count_of(count, 'other header')} before: each is a version of the contract."
    if proposal.left_out:
        columns = ", ".join(map(visible, proposal.left_out))
        yield f"Left out, without values or of a type that no contract has: {columns}."


def _wrapped(text: str) -> list[str]:
    lines: list[str] = []
    for word in text.split(" "):
        if lines and _cells(lines[-1]) + _cells(word) + 3 <= WIDTH:
            lines[-1] += f" {word}"
        else:
            lines.append(word if not lines else f"    {word}")
    return lines


def _cells(text: str) -> int:
    """The width of a text in a terminal, where signs of the Far East are as wide as two others."""
    return len(text) + sum(east_asian_width(character) in "WF" for character in text)


def said_of(doubt: Doubt) -> str:
    """A doubt, or a reason to reject records, in words."""
    return _SAID[doubt.kind](doubt)


def _quoted(text: str) -> str:
    return repr(visible(text[:_QUOTED]))


def _list(texts: Iterable[str]) -> str:
    return ", ".join(map(_quoted, texts))


def _of(doubt: Doubt) -> str:
    return visible(doubt.column)


def _records(doubt: Doubt) -> str:
    return count_of(doubt.records, "record")


def _zone(doubt: Doubt) -> str:
    others = f" ({', '.join(map(visible, doubt.values))})" if doubt.values != (doubt.column,) else ""
    return (
        f"times without an offset are taken for UTC{others}: name the zone of the clocks, such as "
        'timezone="America/New_York".'
    )


def _mixed(doubt: Doubt) -> str:
    if doubt.values and doubt.values[0] in _TYPES:
        kind, *texts = doubt.values
        return (
            f"{_of(doubt)} would be {kind} but for {count_of(doubt.records, 'value')} such as {_list(texts)}; "
            "it is text, so that no record is rejected for them."
        )
    return f"{_of(doubt)} has texts, and {count_of(doubt.records, 'number')} such as {_list(doubt.values)}: it is text."


_REPLACED = "A later record of the same key replaces the earlier one."


def _key(doubt: Doubt) -> str:
    return " and ".join(map(visible, doubt.values))


def _is_or_are(doubt: Doubt) -> str:
    return "are" if len(doubt.values) > 1 else "is"


_SAID: Mapping[DoubtKind, Callable[[Doubt], str]] = {
    DoubtKind.ENCODING: lambda doubt: (
        f"the encoding is not UTF-8; as {doubt.values[0]} it has the characters {_quoted(doubt.values[1])}"
        + (f". It could be {', '.join(doubt.values[2:])}." if doubt.values[2:] else ".")
    ),
    DoubtKind.DIALECT: lambda doubt: (
        f"the delimiter is {_quoted(doubt.values[0])}; DuckDB takes {_quoted(doubt.values[1])} for it."
    ),
    DoubtKind.DAY_OR_MONTH: lambda doubt: (
        f"{_of(doubt)} is read as {doubt.values[0]}; every text could be {' or '.join(doubt.values[1:])} as well."
    ),
    DoubtKind.CLOCK: lambda doubt: (
        f"{_of(doubt)} is a date alone: with {' and '.join(map(visible, doubt.values))} it would be a time, "
        f"and {_records(doubt)} that have none would be rejected."
    ),
    DoubtKind.TWO_DIGIT_YEAR: lambda doubt: f"{_of(doubt)} has years of two digits, which are read as 2000 to 2099.",
    DoubtKind.ZONE: _zone,
    DoubtKind.REPEATED_HOUR: lambda doubt: (
        f"{_of(doubt)} has the hour of {doubt.values[0]} twice, as clocks show it that go back, such as those of "
        f"{doubt.values[1]}: name the zone of the clocks. Of two records with one time the first in the file is of "
        "the earlier hour."
    ),
    DoubtKind.EPOCH: lambda doubt: (
        f"{_of(doubt)} has numbers such as {_quoted(doubt.values[-1])}, taken for {doubt.values[0]} since 1970."
    ),
    DoubtKind.NO_VALUE: lambda doubt: (
        f"{_of(doubt)} has no value in what was read, and is text."
        if doubt.column
        else f"{_records(doubt)} without any value, the first is number {doubt.first:,}."
    ),
    DoubtKind.MIXED: _mixed,
    DoubtKind.NULL_TEXT: lambda doubt: (
        f"{_of(doubt)} has {_list(doubt.values)} in {_records(doubt)} as text; null= would make it no value."
    ),
    DoubtKind.LOST_TEXT: lambda doubt: (
        f"{_of(doubt)} has {_list(doubt.values)} in {_records(doubt)}, which null= makes no value, "
        "and which may be a text there."
    ),
    DoubtKind.COMMA: lambda doubt: (
        f"{_of(doubt)} has numbers such as {_quoted(doubt.values[1])}, read as {doubt.values[0]}: their comma could be "
        "a decimal one, or between groups of digits."
    ),
    DoubtKind.SENTINEL: lambda doubt: (
        f"{_of(doubt)} has {_list(doubt.values)} in {_records(doubt)}, which may stand for no value."
    ),
    DoubtKind.MONEY: lambda doubt: f"{_of(doubt)} has numbers with a sign, such as {_list(doubt.values)}, and is text.",
    DoubtKind.LEADING_ZEROS: lambda doubt: f"{_of(doubt)} has digits that begin with zeros, and is text.",
    DoubtKind.NO_KEY: lambda _: "no columns tell all records apart, so each is known by its file and its number in it.",
    DoubtKind.KEY_OF_SAMPLE: lambda doubt: (
        f"{_key(doubt)} {_is_or_are(doubt)} called like a key, and told {_records(doubt)} apart. {_REPLACED}"
    ),
    DoubtKind.KEY_BY_VALUES: lambda doubt: (
        f"{_key(doubt)} told {_records(doubt)} apart, which may be chance, as not every part is called like a key. "
        f"{_REPLACED}"
    ),
    DoubtKind.OTHER_COLUMNS: lambda doubt: (
        f"{_quoted(doubt.values[0])} would be refused: it lacks {_list(doubt.values[1:])}, or calls it otherwise."
    ),
    DoubtKind.LOST_COLUMNS: lambda doubt: (
        f"{_quoted(doubt.values[0])} has columns that the last file lacks, and that are left out: "
        f"{_list(doubt.values[1:])}."
    ),
    DoubtKind.OTHER_DIALECT: lambda doubt: (
        f"{_quoted(doubt.values[0])} is written in another way than the last file, and may be refused."
    ),
    DoubtKind.MORE_FILES: lambda doubt: f"{count_of(doubt.records, 'file')} were left out, and may be otherwise.",
    DoubtKind.FIRST_DAY: lambda doubt: (
        f"{_records(doubt)} before BACKFILL_FIRST_DAY, which is 1999-01-01 unless it is set; "
        f"the first day is {doubt.values[0]}."
    ),
    DoubtKind.FUTURE: lambda doubt: (
        f"{_of(doubt)} has times that are still to come, up to {doubt.values[0]}: planned=True accepts them."
    ),
    DoubtKind.GAPS: lambda doubt: (
        f"up to {count_of(doubt.records, 'day')} in a row have no event: plausible_gap_days={doubt.records} builds "
        "them as empty ones."
    ),
    DoubtKind.NESTED: lambda doubt: (
        f"{_quoted(doubt.values[0])} is {visible(doubt.values[1][:_QUOTED])}, and is left out: declare it by hand."
    ),
    DoubtKind.ENVELOPE: lambda doubt: (
        f"records are change events, which land here as they are. Their rows land with "
        f"{' and '.join(map(visible, doubt.values))}, and with the columns, operation and order of docs/sources.md."
    ),
    DoubtKind.SHEETS: lambda doubt: f"the workbook has the sheets {_list(doubt.values)}: the first one is read.",
    DoubtKind.MISQUOTED: lambda doubt: f"{_records(doubt)} with text behind a closing quote.",
    DoubtKind.RAGGED: lambda doubt: (
        f"{_records(doubt)} with another number of values than the header, the first is number {doubt.first:,}."
    ),
    DoubtKind.REPEATED_HEADER: lambda doubt: (
        f"{count_of(doubt.records, 'row')} repeat the header and are passed over, the first is number {doubt.first:,}."
    ),
    DoubtKind.NOT_A_VALUE: lambda doubt: (
        f"{_records(doubt)} whose {_of(doubt)} "
        f"{f'is not such a time: {_list(doubt.values)}' if doubt.values else 'has no value'}; "
        f"the first is number {doubt.first:,}."
    ),
    DoubtKind.API: lambda doubt: f"{visible(doubt.values[0])}.",
    DoubtKind.NO_EVENT_TIME: lambda _: "no column has dates or times.",
    DoubtKind.NO_RECORD: lambda _: "there are no records.",
    DoubtKind.DATES_AS_NAMES: lambda doubt: f"dates are names of columns: {_list(doubt.values)}.",
    DoubtKind.ONE_COLUMN: lambda _: "lines have nothing between their values that is known.",
    DoubtKind.LISTS: lambda doubt: f"there are lists of values at {_list(doubt.values)}.",
}


def spoken_of(proposal: Proposal) -> list[str]:
    """The findings that a person reads beside the module."""
    last = proposal.looked[-1]
    key = (
        "the number of the record in its file" if proposal.has_row_number else " and ".join(map(visible, proposal.key))
    )
    rejected = sum(doubt.records for doubt in proposal.doubts if doubt.rejects)
    unsure = sum(not doubt.rejects for doubt in proposal.doubts)
    found = f"{last.format}, {count_of(proposal.records, 'record')} looked at; key: {key}"
    comments = ": see the comments" if rejected or unsure else ""
    return [
        f"{visible(last.file)}: {found}; event time: {visible(proposal.event_time)}",
        f"{count_of(unsure, 'thing')} to decide, {count_of(rejected, 'record')} to be rejected{comments}",
    ]


def next_of(proposal: Proposal, files: Sequence[str], landed: str, *, is_shown: bool) -> list[NextStep]:
    """A person's next steps, one in each line.

    Args:
        files: What was looked at, such as a file or a folder of them.
        landed: The files of that, as a shell takes them.
        is_shown: Whether the module is shown to the person, and not yet in a file.
    """
    name = short_name(proposal)
    sniff = do(Command.SNIFF, *files, named=proposal.name)
    home = f"export BACKFILL_DOMAIN={name} PYTHONPATH=. BACKFILL_HOME={name}_home"
    return [
        *([step(sniff, f" > {name}.py")] if is_shown else []),
        step(home if is_shown else f"{home}  # the module is {name}.py"),
        step(do(Command.LAND, name, by=NAME), f" {landed}"),
    ]


# The findings of `sniff`, for programs: each column, each doubt, and the module that declares it.


@dataclass(frozen=True, slots=True, kw_only=True)
class SniffedColumn:
    """A column of the contract."""

    name: str  #: Its name in the contract.
    written: str  #: What files call it, as Python: a name, the path of a member, a position, or several of them.
    kind: str  #: Its type, such as `LONG`.
    forms: tuple[str, ...]  #: How its times are written, as Python, where that has to be declared.
    values: int  #: How many values it has in the sample.
    nulls: int  #: How many records have none.
    fitting: int  #: How many of the values are of its type.


@dataclass(frozen=True, slots=True, kw_only=True)
class SniffedDoubt:
    """Something to decide, or a reason for which records would be rejected."""

    kind: DoubtKind  #: What it is about.
    column: str  #: The column, or empty.
    values: tuple[str, ...]  #: Texts of the file, and alternatives.
    records: int  #: How many records of the sample it is about; 0 where that is no number.
    rejects: bool  #: True if these records would be rejected.
    message: str  #: It in one sentence.


@dataclass(frozen=True, slots=True, kw_only=True)
class SniffDocument:
    """The findings in files, and the proposal."""

    table: str  #: The source table.
    files: tuple[Looked, ...]  #: What was looked at, file by file.
    columns: tuple[SniffedColumn, ...]  #: The columns of the contract.
    left_out: tuple[str, ...]  #: Columns of the file that it leaves out.
    key: tuple[str, ...]  #: What identifies a record.
    keys: tuple[str, ...]  #: What else could.
    event_time: str  #: The time of a record.
    event_times: tuple[str, ...]  #: What else could be.
    orders: tuple[str, ...]  #: Columns that could order versions of a key.
    first_on: date | None  #: The first day of an event, or null.
    last_on: date | None  #: The last one, or null.
    longest_gap_days: int  #: The most days in a row without events.
    doubts: tuple[SniffedDoubt, ...]  #: What a person has to decide.
    module: str  #: The Python that declares it.


def document_of(proposal: Proposal) -> SniffDocument:
    """A proposal for programs.

    Raises:
        CannotUse: No column of the file has times.
    """
    return SniffDocument(
        table=proposal.name,
        files=proposal.looked,
        columns=tuple(
            SniffedColumn(
                name=each.name,
                written=literal(each.written),
                kind=each.kind,
                forms=tuple(map(literal, each.forms)),
                values=each.values,
                nulls=each.nulls,
                fitting=each.fitting,
            )
            for each in proposal.columns
        ),
        left_out=proposal.left_out,
        key=("file_name", "row_number") if proposal.has_row_number else proposal.key,
        keys=tuple(", ".join(key) for key in proposal.keys),
        event_time=proposal.event_time,
        event_times=proposal.event_times,
        orders=proposal.orders,
        first_on=proposal.first_on,
        last_on=proposal.last_on,
        longest_gap_days=proposal.longest_gap_days,
        doubts=tuple(
            SniffedDoubt(
                kind=each.kind,
                column=each.column,
                values=each.values,
                records=each.records,
                rejects=each.rejects,
                message=said_of(each),
            )
            for each in proposal.doubts
        ),
        module=python_of(proposal),
    )


# The files of a project that begins with a file of its author: its domain, its tests, and the way to publish it.

_PLAUSIBLE_GAP_DAYS = 31
_TESTED_DAYS = 7
_DEFAULT_FIRST_DAY = date(1999, 1, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileProject:
    """A project for a file."""

    package: str  #: Its package.
    proposal: Proposal  #: The source table.
    data: str  #: The path of the file, as its commands name it.

    @property
    def table(self) -> str:
        """The short name of its derived table."""
        return f"{short_name(self.proposal)}_daily"

    @property
    def days(self) -> tuple[date, date]:
        """The first day of the file with a record and the last one."""
        first, last = self.proposal.first_on, self.proposal.last_on
        assert first is not None and last is not None, "a source table has an event time"
        return first, last

    @property
    def has_gaps(self) -> bool:
        """True if days may be missing that landing does not take for empty."""
        return not self.proposal.is_whole or self.proposal.longest_gap_days > _PLAUSIBLE_GAP_DAYS

    @property
    def first_day(self) -> date:
        """The first day that its tables can have."""
        first = self.proposal.first_on or _DEFAULT_FIRST_DAY
        return first.replace(month=1, day=1) if first < _DEFAULT_FIRST_DAY else first.replace(day=1)

    @property
    def measured(self) -> ProposedColumn | None:
        """The column of which its table shows the least and the greatest value of a day."""
        wanted = [each for each in self.proposal.columns if each.kind in ("LONG", "DOUBLE") and each.values]
        others = [
            each for each in wanted if each.name not in self.proposal.key and not each.name.lower().endswith("id")
        ]
        # The one with the most values; of several the first.
        return max(others, key=lambda each: each.values, default=None)

    @property
    def words(self) -> Mapping[str, str]:
        """The words that replace the marks in its templates, by mark."""
        (first, last), begins = self.days, self.first_day
        tested = last if self.has_gaps else max(first, last - timedelta(days=_TESTED_DAYS - 1))
        return {
            "@NAME@": self.proposal.name,
            "@SOURCE@": short_name(self.proposal),
            "@TABLE@": self.table,
            "@FILE@": self.proposal.looked[-1].file,
            "@DATA@": word_of_a_shell(self.data),
            "@PATH@": literal(self.data),
            "@DAY@": partition_of(self.proposal),
            "@FIRST@": f"{first}",
            "@LAST@": f"{last}",
            "@TESTED@": f"{tested}" if tested == last else f"{tested}..{last}",
            # One day has no second chunk before which a process could die.
            "@CHECKS@": "[check_deterministic]" if tested == last else "CHECKS",
            "@IMPORTED@": "Check, DomainKit, check_deterministic" if tested == last else "CHECKS, Check, DomainKit",
            "@FIRST_DAY@": f"{begins}",
            "@FIRST_DATE@": f"date({begins.year}, {begins.month}, {begins.day})",
        }

    def chosen(self, template: str) -> str:
        """The lines of a template that are for this file: some are for files with gaps, some for those without."""
        kept, left = ("@GAPS@", "@WHOLE@") if self.has_gaps else ("@WHOLE@", "@GAPS@")
        lines = [line for line in template.splitlines(keepends=True) if not line.startswith(left)]
        return "".join(line.removeprefix(kept) for line in lines)

    def module(self) -> str:
        """The text of its domain.

        Raises:
            CannotUse: The file has no times.
        """
        more = ("Domain", "Policy", "TransformContext", "derived_table", "expression")
        imports = imports_of(self.proposal, more, ("DateType", "LongType", *((self._type and (self._type,)) or ())))
        source, day = variable_of(self.proposal), partition_of(self.proposal)
        lines = [
            f'"""The domain of {self.package}: what arrives, what is computed from it, and who agrees to it."""',
            "",
            "from pyspark.sql import DataFrame",
            "from pyspark.sql import functions as F",
            *imports,
            "",
            *source_of(self.proposal),
            "",
            "",
            "@derived_table(",
            f'    name="silver.{self.table}",',
            f'    inputs={{"{source}": {source}}},',
            f'    key=("{day}",),',
            f'    partition=daily("{day}"),',
            "    schema=StructType(",
            "        [",
            f'            StructField("{day}", DateType(), nullable=False),',
            '            StructField("records", LongType(), nullable=False),',
            *(f'            StructField("{name}", {self._type}()),' for name in self._measures),
            "        ]",
            "    ),",
            '    gates=(expression("some_records", "records > 0"),),',
            '    version="1.0.0",',
            '    policy=Policy(backfill="approve"),  # "auto" asks no second person',
            ")",
            f"def {self.table}({source}: DataFrame, ctx: TransformContext) -> DataFrame:",
            f'    """Grain: one row per day with records{self._said}."""',
            f'    of_a_day = {source}.groupBy("{day}")',
            *self._aggregates(),
            "",
            "",
            *_domain_of(self.package, source, self.table),
        ]
        return "\n".join(lines) + "\n"

    @property
    def _type(self) -> str:
        kinds = {"LONG": "LongType", "DOUBLE": "DoubleType"}
        return kinds[self.measured.kind] if self.measured is not None else ""

    @property
    def _measures(self) -> tuple[str, ...]:
        return ("least", "greatest") if self.measured is not None else ()

    @property
    def _said(self) -> str:
        return f": how many, with the least and the greatest {self.measured.name}" if self.measured is not None else ""

    def _aggregates(self) -> list[str]:
        if self.measured is None:
            return ['    return of_a_day.agg(F.count("*").alias("records"))']
        name = self.measured.name
        return [
            "    return of_a_day.agg(",
            '        F.count("*").alias("records"),',
            f'        F.min("{name}").alias("least"),',
            f'        F.max("{name}").alias("greatest"),',
            "    )",
        ]


def _domain_of(package: str, source: str, table: str) -> list[str]:
    arguments = [f'name="{package}"', f'package="{package}"', f"sources=({source},)", f"derived=({table},)"]
    line = f"DOMAIN = Domain({', '.join(arguments)})"
    return [line] if len(line) <= 120 else ["DOMAIN = Domain(", *(f"    {each}," for each in arguments), ")"]
