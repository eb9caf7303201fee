"""What `sniff` found, for programs: each column, each doubt, and the module that declares it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from backfill_assets.core.python_text import literal
from backfill_assets.report.sniffed import python_of, said_of
from backfill_assets.sniff.proposal import DoubtKind, Looked, Proposal


@dataclass(frozen=True, slots=True, kw_only=True)
class SniffedColumn:
    """A column of the contract.

    Attributes:
        name: Its name in the contract.
        written: What files call it, as Python: a name, the path of a member, a position, or several of them.
        kind: Its type, such as `LONG`.
        forms: How its times are written, as Python, where that has to be declared.
        values: How many values it has in the sample.
        nulls: How many records have none.
        fitting: How many of the values are of its type.
    """

    name: str
    written: str
    kind: str
    forms: tuple[str, ...]
    values: int
    nulls: int
    fitting: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SniffedDoubt:
    """Something to decide, or a reason for which records would be rejected.

    Attributes:
        kind: What it is about.
        column: The column, or empty.
        values: Texts of the file, and alternatives.
        records: How many records of the sample it is about; 0 where that is no number.
        rejects: Whether these records would be rejected.
        message: It in one sentence.
    """

    kind: DoubtKind
    column: str
    values: tuple[str, ...]
    records: int
    rejects: bool
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SniffDocument:
    """What was found in files, and what is proposed.

    Attributes:
        table: The source table.
        files: What was looked at, file by file.
        columns: The columns of the contract.
        left_out: Columns of the file that it leaves out.
        key: What identifies a record.
        keys: What else could.
        event_time: The time of a record.
        event_times: What else could be.
        orders: Columns that could order versions of a key.
        first_on: The first day of an event, or null.
        last_on: The last one, or null.
        longest_gap_days: The most days in a row without events.
        doubts: What a person has to decide.
        module: The Python that declares it.
    """

    table: str
    files: tuple[Looked, ...]
    columns: tuple[SniffedColumn, ...]
    left_out: tuple[str, ...]
    key: tuple[str, ...]
    keys: tuple[str, ...]
    event_time: str
    event_times: tuple[str, ...]
    orders: tuple[str, ...]
    first_on: date | None
    last_on: date | None
    longest_gap_days: int
    doubts: tuple[SniffedDoubt, ...]
    module: str


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
