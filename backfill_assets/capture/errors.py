"""Errors of captures: what is wrong with an offered file or a stream, and where."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from backfill_assets.core.errors import MissingInput, Refused, Retryable, UnreadableFile, sentence


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
    ENCODING = "encoding"
    COLUMNS = "columns"
    NO_COLUMN = "no column"
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
    near: str | None = None


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


@sentence
class NoSecret(MissingInput):
    """the secret {name} is not there: {why}."""

    name: str
    why: str


@sentence
class SecretInHome(Refused):
    """the secret {name} is in {path}, and no secret is read from the home {home}."""

    name: str
    path: str
    home: str


@sentence
class NoStream(MissingInput):
    """{servers} has no {name}."""

    name: str
    servers: str


@sentence
class StreamAway(Retryable):
    """{name} did not answer within {seconds:g} s{why}."""

    name: str
    seconds: float
    why: str = ""


@sentence
class StreamDenied(Refused):
    """{name} does not accept the credentials: {why}."""

    name: str
    why: str


@sentence
class RangeExpired(Refused):
    """partition {partition} of {name} begins at {held_from}{since}, so that what was before it has expired{missing}:
    nothing was read."""

    name: str
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


@sentence
class CreatedAgain(Refused):
    """{name} was created again: it is {found}, and the captures are of {expected}, whose positions
    mean something else."""

    name: str
    expected: str
    found: str
    declare: str = "topic_id"


@sentence
class OtherTopic(Refused):
    """{name} has the id {found}, and its declaration names {expected}."""

    name: str
    expected: str
    found: str


@sentence
class OtherBytes(Refused):
    """{path} is there already with other bytes than {name} gives for the same positions now."""

    path: str
    name: str


@sentence
class ReadFailed(Retryable):
    """reading {name} stopped: {why}."""

    name: str
    why: str


@sentence
class NothingCaptured(Refused):
    """nothing of {source} was captured before, so that it is not known where to go on."""

    source: str


@sentence
class NoGroup(Refused):
    """the consumer group {group} has committed nothing of {name}, so that it is not known how far it is behind."""

    name: str
    group: str


@sentence
class NoGroups(Refused):
    """{name} has no consumer groups that say how far they are."""

    name: str


@sentence
class NotCaptured(Refused):
    """{source} is not captured from a stream: files of people land in it."""

    source: str


@sentence
class NotAsCaptured(Refused):
    """the landed file {path} is not what was captured: its digest is another one."""

    path: str


@sentence
class RecordsMissing(Refused):
    """of the {captured} records that were captured in {path}, {landed} landed, so that none of them counts."""

    path: str
    captured: int
    landed: int


@sentence
class NothingWhole(Refused):
    """{name} has what happened, and no present state that could be read as a whole."""

    name: str


@sentence
class NoSnapshot(Refused):
    """nothing of {name} was captured before, and its changes begin with a snapshot."""

    name: str


@sentence
class NotByTime(Refused):
    """changes of {name} are not found by their time: they go on where the captures end."""

    name: str


@sentence
class CannotBeCaptured(Refused):
    """{name} cannot be captured: {why}."""

    name: str
    why: str


@sentence
class ChangesGone(Refused):
    """the changes of {name} from {expected_from} on are gone: {why}."""

    name: str
    expected_from: str
    why: str


@sentence
class UnknownValue(Refused):
    """a change of {name} at {position} left {column} as it was, and does not say what that is."""

    name: str
    column: str
    position: str


@sentence
class NotReconciled(Refused):
    """{name} is asked for records by {found}, and days are of {expected}: what it lacks may have only moved."""

    name: str
    expected: str
    found: str


@sentence
class NoPeriod(Refused):
    """{name} cannot be asked for a period: a capture reads everything that it has now."""

    name: str


@sentence
class BadAnswer(Refused):
    """{name} answered {position} {why}: nothing of it was kept."""

    name: str
    position: str
    why: str


@sentence
class PositionGone(Refused):
    """{name} no longer knows {position} (410 Gone), from which its capture has to go on."""

    name: str
    position: str


@sentence
class NextPageLoop(Refused):
    """{name} goes round in a circle: behind {position} it has {again} once more."""

    name: str
    position: str
    again: str


@sentence
class AnswerHoldsSecret(Refused):
    """the answer of {name} has the secret {secret} in it, so that it is not kept."""

    name: str
    secret: str


@sentence
class AsksToWait(Retryable):
    """{name} asks to wait for {seconds:g} s, and its capture waits for at most {most:g} s."""

    name: str
    seconds: float
    most: float


@sentence
class VersionGone(Refused):
    """{the_version} of {name} can no longer be read: its files or its log were removed there."""

    name: str
    version: int | None

    @property
    def the_version(self) -> str:
        return "the newest version" if self.version is None else f"version {self.version}"


@sentence
class ChangesUnreadable(Refused):
    """the changes of {name} cannot be read: {why}."""

    name: str
    why: str
