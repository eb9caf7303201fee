"""Errors of captures: what is wrong with an offered file or a stream, and where."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum

from backfill_assets.core.about import Because
from backfill_assets.core.errors import BackfillError, MissingInput, Refused, Retryable, UnreadableFile, sentence
from backfill_assets.core.wording import visible


class Fault(StrEnum):
    """The kinds of faults of an offered file, by what can be done about them."""

    PATH = "path"
    NAME = "name"
    DEVICE = "device"
    FOLDER = "folder"
    RIGHTS = "rights"
    CHANGING = "changing"
    SUFFIX = "suffix"
    DAMAGED = "damaged"
    PADDED = "padded"
    LONG_LINE = "long line"
    EVENTS = "events"
    NOT_TEXT = "not text"
    RENAMED = "renamed"
    PACKED = "packed"
    WORKBOOK = "workbook"
    PAGE = "page"
    DELIMITER = "delimiter"
    BANNER = "banner"
    DIALECT = "dialect"
    FORMULA = "formula"
    CODEC = "codec"
    LINE_ENDS = "line ends"
    OPEN_QUOTE = "open quote"
    QUOTES = "quotes"
    ENCODING = "encoding"
    COLUMNS = "columns"
    NO_COLUMN = "no column"
    MEMBERS = "members"
    DIGITS = "digits"
    TYPE = "type"
    ZONE = "zone"
    NO_VERSION = "no version"
    SEVERAL_VERSIONS = "several versions"
    LANDED_BEFORE = "landed before"
    NO_KEY = "no key"
    ROWS_WITHOUT_KEY = "rows without key"
    SAME_NAME = "same name"
    NAMED_TWICE = "named twice"
    OTHER_DAYS = "other days"
    REJECTED_KEYS = "rejected keys"
    ADDRESS = "address"
    NO_ANSWER = "no answer"
    DIGEST = "digest"
    DELIVERY = "delivery"
    MANIFEST = "manifest"


_TO_DO: Mapping[Fault, str] = {
    Fault.PATH: "check the path",
    Fault.NAME: "rename the file",
    Fault.DEVICE: "write what it gives into a file, and land that",
    Fault.FOLDER: "name the files in it",
    Fault.CHANGING: "land it when it is complete; whoever writes it can rename it then",
    Fault.SUFFIX: "rename the file with the suffix of its format",
    Fault.DAMAGED: "get the file again from its source",
    Fault.PADDED: "remove what follows: gunzip it, which ignores that, and gzip it again",
    Fault.LONG_LINE: "write one record per line",
    Fault.NOT_TEXT: "land JSON lines, CSV or Parquet",
    Fault.PACKED: "unpack it, and land what is in it",
    Fault.WORKBOOK: "save each of its sheets as CSV in UTF-8",
    Fault.PAGE: "get the file itself from its source, which may have answered with an error or a login",
    Fault.DELIMITER: "declare that, or write it with commas between its values",
    Fault.BANNER: "declare that, or remove the lines before its header",
    Fault.EVENTS: "land it as the source whose events they are, or declare what they are: envelope=Debezium(...)",
    Fault.DIALECT: "correct its declaration, or the file",
    Fault.FORMULA: "open it in a program for spreadsheets, which computes it, and save it",
    Fault.CODEC: "write it with Snappy, gzip or Zstandard",
    Fault.ENCODING: "save it as UTF-8",
    Fault.COLUMNS: "split its rows, or land it as Parquet",
    Fault.LINE_ENDS: "declare that, or end every row with the same line break",
    Fault.OPEN_QUOTE: "look for a quote that is never closed",
    Fault.QUOTES: "put a value with a quote into quotes, and double the quotes inside",
    Fault.LANDED_BEFORE: "land it with [on_duplicate=ignore], reprocess or correct",
    Fault.NO_KEY: "name the days for which it is complete: [replaces=DAY..DAY]",
    Fault.ROWS_WITHOUT_KEY: "leave out [where=True]",
    Fault.SAME_NAME: "if it takes the place of that one, name the days for which it is complete: [replaces=DAY..DAY]; "
    "otherwise give it another name",
    Fault.NAMED_TWICE: "rename all but one",
    Fault.OTHER_DAYS: "name all its days with [replaces=DAY..DAY], or give it another name",
    Fault.REJECTED_KEYS: "correct the files, and land all of them again",
    Fault.ADDRESS: "give an address such as https://example.org/orders.csv or s3://bucket/orders.csv, or a file",
    Fault.NO_ANSWER: "try again later, or get the file in another way and land that",
    Fault.DIGEST: "give the digest that the source of the file says",
    Fault.DELIVERY: "get the files again from who delivers them, or ask for a manifest of what was delivered",
    Fault.MANIFEST: "correct the manifest: a list of files, each with name, records, size_bytes, sha256 or md5",
}
"""What to do about a fault, where no column is named."""


@sentence
class OfStream(BackfillError):
    """{name}"""

    name: str


@sentence
class BadFile(Because, UnreadableFile):
    """{path} {why}."""

    path: str
    fault: Fault
    column: str | None = None
    type_: str | None = None
    near: str | None = None

    @property
    def advice(self) -> str | None:
        if self.column is not None:
            return _of_a_column(self.fault, self.near)
        match self.fault:
            case Fault.RENAMED:
                return "rename it, so that its name ends in {near}"
            case Fault.SUFFIX if self.near is not None:
                return "fetch it under a name that ends in the suffix of its format, and land that"
            case Fault.LONG_LINE | Fault.WORKBOOK if self.near is not None:
                return f"declare that, or {_TO_DO[self.fault]}"
            case _:
                return _TO_DO.get(self.fault)

    @property
    def meant(self) -> str:
        return visible(self.near or "")

    @property
    def named(self) -> str:
        """The declaration that a file calls the column what it is probably called there."""
        return f"columns={{{visible(repr(self.near or 'NAME'))}: {self.column!r}}}"

    @property
    def first_of_them(self) -> str:
        """The declaration that the first of several columns is meant."""
        return f"columns={{{visible(repr((self.near, 1)))}: {self.column!r}}}"


def _of_a_column(fault: Fault, near: str | None) -> str | None:
    match fault:
        case Fault.NO_COLUMN if near:
            return "if {meant} is meant, declare {named}; otherwise add the column"
        case Fault.NO_COLUMN:
            return "declare what the file calls it: {named}; or add it to the file, or land it as another source"
        case Fault.COLUMNS if near:
            return "say which of them is meant: {first_of_them}"
        case Fault.COLUMNS:
            return "leave one {column} in the header"
        case Fault.MEMBERS:
            return "declare the member that it is read from: columns={{'NAME': {column!r}}}"
        case Fault.DIGITS:
            return "write {column} in microseconds, or declare rounds=True"
        case Fault.TYPE if near:
            return "declare {column} as {near}, or write it as {type_}"
        case Fault.TYPE:
            return "write {column} as {type_}"
        case Fault.ZONE:
            return (
                "write {column} as {type_} with a zone, such as UTC, or declare the zone of its times: "
                "timezone='Europe/Amsterdam'"
            )
        case Fault.NO_VERSION:
            return "write the columns of one version, or name it in a column {column}"
        case Fault.SEVERAL_VERSIONS:
            return "write every column of its version, or name it in a column {column}"
        case _:
            return None


@sentence
class NoFile(Because, MissingInput):
    """{why}."""

    path: str
    fault: Fault = Fault.PATH

    @property
    def advice(self) -> str | None:
        return _TO_DO.get(self.fault)


@sentence
class FileRefused(Because, Refused):
    """{why}."""

    fault: Fault
    path: str | None = None
    source: str | None = None
    import_id: str | None = None

    @property
    def advice(self) -> str | None:
        return _TO_DO.get(self.fault)


@sentence
class NoSecret(Because, MissingInput):
    """the secret {name} is not there: {why}.

    Next: set {name}, or {name}_FILE to the path of a file that holds it
    """

    name: str


@sentence
class NoStream(OfStream, MissingInput):
    """{servers} has no {name}.

    Next: check the name and the servers that the source declares
    """

    servers: str


@sentence
class StreamDenied(OfStream, Because, Refused):
    """{name} does not accept the credentials: {why}.

    Next: check the user and the secrets that the source declares, and what the user may read
    """


@sentence
class RangeExpired(OfStream, Refused):
    """partition {partition} of {name} begins at {held_from}{since}, so that what was before it has expired{missing}:
    nothing was read."""

    partition: str
    held_from: str
    first_at: datetime | None
    expected_from: str | None

    @property
    def since(self) -> str:
        return f" ({self.first_at:%Y-%m-%d %H:%M} UTC)" if self.first_at else ""

    @property
    def missing(self) -> str:
        return f", and the captures end at {self.expected_from}" if self.expected_from else ""

    @property
    def advice(self) -> str:
        if self.expected_from is None:
            return "begin on a later day, or land what is missing from another place first"
        return "begin on a day that the stream still has, and land what is missing from another place"


@sentence
class CreatedAgain(OfStream, Refused):
    """{name} was created again: it is {found}, and the captures are of {expected}, whose positions
    mean something else."""

    expected: str
    found: str
    declare: str = "topic_id"

    @property
    def advice(self) -> str:
        if not self.declare:
            return "declare another source for it: its versions begin anew"
        return "if it is meant to be captured as well, declare {declare}={new!r}"

    @property
    def new(self) -> str:
        return self.found.rpartition("/")[2]


@sentence
class OtherTopic(OfStream, Refused):
    """{name} has the id {found}, and its declaration names {expected}.

    Next: declare the topic that is meant
    """

    expected: str
    found: str


@sentence
class StreamFailed(OfStream, Because, Retryable):
    """work with {name} stopped: {why}.

    Next: repeat the command: it continues where it stopped
    """


@sentence
class NothingCaptured(Refused):
    """{source} was never captured, so there is no position from which to continue.

    Next: say where to begin: [first=DAY]
    """

    source: str


@sentence
class NotAsCaptured(Refused):
    """the landed file {path} is not what was captured: its digest is another one.

    Next: restore the file from a copy
    """

    path: str


@sentence
class RecordsMissing(Refused):
    """of the {captured} records that were captured in {path}, {landed} landed, so none counts.

    Next: restore the file from a copy
    """

    path: str
    captured: int
    landed: int


@sentence
class CannotBeCaptured(OfStream, Because, Refused):
    """{name} cannot be captured: {why}."""


@sentence
class NotOffered(OfStream, Because, Refused):
    """{name} {why}.

    Next: to read what is new: [last=now]
    """


@sentence
class BadAnswer(OfStream, Because, Refused):
    """{name} answered {position} {why}: the answer was not kept.

    Next: compare what the source declares with what the API says; what was captured before stays
    """

    position: str


@sentence
class VersionGone(OfStream, Refused):
    """{the_version} of {name} can no longer be read: its files or its log were removed there.

    Next: read everything once more: [snapshot=True]
    """

    version: int | None

    @property
    def the_version(self) -> str:
        return "the newest version" if self.version is None else f"version {self.version}"


@sentence
class WentBack(OfStream, Refused):
    """{name} ends at {position} {found} now, and its captures end at {position} {captured}: it has another history.

    Next: declare another source for it: its positions begin anew
    """

    captured: int
    found: int
    position: str = "version"


@sentence
class ChangesUnreadable(OfStream, Because, Refused):
    """the changes of {name} cannot be read: {why}.

    Next: read everything once more: [snapshot=True]
    """


def no_answer_within(seconds: float, why: str = "") -> str:
    """The reason of a `StreamFailed` that a server did not answer."""
    return f"it did not answer within {seconds:g} s{why and f' ({why})'}"
