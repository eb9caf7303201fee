"""The findings of `sniff`, for programs: each column, each doubt, and the module that declares it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from backfill_assets.core.wording import literal
from backfill_assets.report.sniffed import python_of, said_of
from backfill_assets.sniff.proposal import DoubtKind, Looked, Proposal


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
    rejects: bool  #: Whether these records would be rejected.
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
