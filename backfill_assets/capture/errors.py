"""Errors of captures: what is wrong with an offered file or a stream, and where."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from backfill_assets.core.about import Because
from backfill_assets.core.errors import BackfillError, MissingInput, Refused, Retryable, UnreadableFile, sentence


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


@sentence
class NoFile(Because, MissingInput):
    """{why}."""

    path: str
    fault: Fault = Fault.PATH


@sentence
class FileRefused(Because, Refused):
    """{why}."""

    fault: Fault
    path: str | None = None
    source: str | None = None
    import_id: str | None = None


@sentence
class NoSecret(Because, MissingInput):
    """the secret {name} is not there: {why}."""

    name: str


@sentence
class SecretInHome(Refused):
    """the secret {name} is in {path}, and no secret is read from the home {home}."""

    name: str
    path: str
    home: str


@sentence
class NoStream(OfStream, MissingInput):
    """{servers} has no {name}."""

    servers: str


@sentence
class StreamAway(OfStream, Retryable):
    """{name} did not answer within {seconds:g} s{why}."""

    seconds: float
    why: str = ""


@sentence
class StreamDenied(OfStream, Because, Refused):
    """{name} does not accept the credentials: {why}."""


@sentence
class OtherHostKey(OfStream, Refused):
    """{name} shows another host key than its declaration has, {found}: nothing was sent to it."""

    found: str


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


@sentence
class StillOpen(OfStream, Retryable):
    """{records:,} records of the period may be behind a transaction of partition {partition} of {name} that began at
    {position} and is not finished: nothing was read."""

    partition: str
    position: str
    records: int


@sentence
class CreatedAgain(OfStream, Refused):
    """{name} was created again: it is {found}, and the captures are of {expected}, whose positions
    mean something else."""

    expected: str
    found: str
    declare: str = "topic_id"


@sentence
class OtherTopic(OfStream, Refused):
    """{name} has the id {found}, and its declaration names {expected}."""

    expected: str
    found: str


@sentence
class OtherBytes(OfStream, Refused):
    """{path} is there already with other bytes than {name} gives for the same positions now."""

    path: str


@sentence
class ReadFailed(OfStream, Because, Retryable):
    """reading {name} stopped: {why}."""


@sentence
class NothingCaptured(Refused):
    """{source} was never captured, so there is no position from which to continue."""

    source: str


@sentence
class NoGroup(OfStream, Refused):
    """the consumer group {group} has committed no offset of {name}, so its lag is not known."""

    group: str


@sentence
class NoGroups(OfStream, Refused):
    """{name} has no consumer groups that say how far they are."""


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
    """of the {captured} records that were captured in {path}, {landed} landed, so none counts."""

    path: str
    captured: int
    landed: int


@sentence
class NothingWhole(OfStream, Refused):
    """{name} holds changes, and no present state that a snapshot could read."""


@sentence
class NoSnapshot(OfStream, Refused):
    """{name} was never captured, and its changes begin with a snapshot."""


@sentence
class NotByTime(OfStream, Refused):
    """changes of {name} are not found by their time: a capture continues where the last one ended."""


@sentence
class CannotBeCaptured(OfStream, Because, Refused):
    """{name} cannot be captured: {why}."""


@sentence
class ChangesGone(OfStream, Because, Refused):
    """the changes of {name} from {expected_from} on are gone: {why}."""

    expected_from: str


@sentence
class UnknownValue(OfStream, Refused):
    """a change of {name} at {position} left {column} as it was, and does not say what that is."""

    column: str
    position: str


@sentence
class NotReconciled(OfStream, Refused):
    """{name} is asked for records by {found}, and days are of {expected}: records that it lacks may only have moved."""

    expected: str
    found: str


@sentence
class NotSettled(OfStream, Retryable):
    """no day of the period is over in {name}: records of the first one may come until {settles_at:%Y-%m-%d %H:%M}
    UTC."""

    settles_at: datetime


@sentence
class NoPeriod(OfStream, Refused):
    """{name} cannot be asked for a period: a capture reads everything that it has now."""


@sentence
class BadAnswer(OfStream, Because, Refused):
    """{name} answered {position} {why}: the answer was not kept."""

    position: str


@sentence
class PositionGone(OfStream, Refused):
    """{name} no longer knows {position} (410 Gone), from which its capture has to continue."""

    position: str


@sentence
class NextPageLoop(OfStream, Refused):
    """{name} goes round in a circle: behind {position} it has {again} once more."""

    position: str
    again: str


@sentence
class AnswerHoldsSecret(OfStream, Refused):
    """the answer of {name} has the secret {secret} in it, so that it is not kept."""

    secret: str


@sentence
class AsksToWait(OfStream, Retryable):
    """{name} asks to wait for {seconds:g} s, and its capture waits for at most {most:g} s."""

    seconds: float
    most: float


@sentence
class VersionGone(OfStream, Refused):
    """{the_version} of {name} can no longer be read: its files or its log were removed there."""

    version: int | None

    @property
    def the_version(self) -> str:
        return "the newest version" if self.version is None else f"version {self.version}"


@sentence
class WentBack(OfStream, Refused):
    """{name} ends at {position} {found} now, and its captures end at {position} {captured}: it has another history."""

    captured: int
    found: int
    position: str = "version"


@sentence
class ChangesUnreadable(OfStream, Because, Refused):
    """the changes of {name} cannot be read: {why}."""
