"""Errors of captures: what is wrong with an offered file, and where."""

from __future__ import annotations

from enum import StrEnum

from backfill_assets.core.errors import MissingInput, Refused, UnreadableFile, sentence


class Fault(StrEnum):
    """What is wrong with an offered file, as far as different things can be done about it."""

    PATH = "path"
    NAME = "name"
    DEVICE = "device"
    FOLDER = "folder"
    RIGHTS = "rights"
    SUFFIX = "suffix"
    DAMAGED = "damaged"
    PADDED = "padded"
    LONG_LINE = "long line"
    NOT_TEXT = "not text"
    LINE_ENDS = "line ends"
    OPEN_QUOTE = "open quote"
    QUOTES = "quotes"
    COLUMNS = "columns"
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


@sentence
class BadFile(UnreadableFile):
    """{path} {why}."""

    path: str
    fault: Fault
    why: str
    column: str | None = None
    type_: str | None = None


@sentence
class NoFile(MissingInput):
    """{why}."""

    path: str
    fault: Fault = Fault.PATH
    why: str


@sentence
class FileRefused(Refused):
    """{why}."""

    fault: Fault
    why: str
    path: str | None = None
    source: str | None = None
    import_id: str | None = None
