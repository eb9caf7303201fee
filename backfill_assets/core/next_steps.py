"""Next steps as values: a request, its objects, and its options.

As text, which an error class has in its docstring, a request is in brackets, and so is an option of the reader's own
request: `read it: [report {run_id}]; then [cancel {run_id} by=NAME reason=WHY]`, or `leave [partial=True] out`.

Rooms state what can be done; only the edge decides how it is worded (`report.command_line` as a command, a web
page as a button).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from enum import StrEnum
from string import Formatter
from typing import Protocol, runtime_checkable

from backfill_assets.core.wording import WHY as WHY
from backfill_assets.core.wording import in_text

NAME = "NAME"
"""Stands for the name of the person who acts."""

ANOTHER_PERSON = "ANOTHER_PERSON"
"""Stands for the name of an approver, who is another person than the requester."""


KEY = "KEY"
"""Stands for the value of a column that identifies a row."""


class Command(StrEnum):
    """The commands that can be requested."""

    CAPTURE = "capture"
    REPLAY = "replay"
    LAND = "land"
    WITHDRAW = "withdraw"
    RESTORE = "restore"
    LOAD = "load"
    PLAN_TABLE = "plan table"
    PLAN_WITH_DEPENDENTS = "plan with-dependents"
    PLAN_BECAUSE = "plan because"
    PLAN_STALE = "plan stale"
    PLAN_EXPIRE = "plan expire"
    APPROVE = "approve"
    RUN = "run"
    REPORT = "report"
    DIFF = "diff"
    PUBLISH = "publish"
    ROLLBACK = "rollback"
    CANCEL = "cancel"
    FREEZE = "freeze"
    UNFREEZE = "unfreeze"
    SHADOW = "shadow"
    FOLLOW = "follow"
    PROPOSE = "propose"
    RECOVER = "recover"
    CLEAR = "clear"
    ERASE = "erase"
    VACUUM = "vacuum"
    STATUS = "status"
    STALE = "stale"
    RESOLVE = "resolve"
    HISTORY = "history"
    TRACE = "trace"
    CODE = "code"
    LOCATE = "locate"
    CHECK = "check"
    AUDIT = "audit"
    DOCTOR = "doctor"
    REPRODUCE = "reproduce"
    INIT = "init"
    SNIFF = "sniff"
    DEMO = "demo"
    DESK = "desk"
    EXPORT = "export"
    METRICS = "metrics"
    UP = "up"
    DOWN = "down"


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """One request: the command, its objects, and its options.

    An option is a name with its value, or with True for a flag.
    """

    command: Command
    of: tuple[str, ...] = ()
    options: tuple[tuple[str, str | bool], ...] = ()

    def also(self, *options: tuple[str, str]) -> Invocation:
        """The request with more options, of which several may have one name."""
        return replace(self, options=(*self.options, *options))

    def __str__(self) -> str:
        """The text for logs of this process; a person reads `report.command_line`."""
        return " ".join([self.command, *self.of, *(f"{name}={value}" for name, value in self.options)])


@dataclass(frozen=True, slots=True)
class Option:
    """An option of the reader's own request: its name as in this package, and its value; True if none is given."""

    name: str
    value: str | bool = True

    def __str__(self) -> str:
        """The text for logs of this process; a person reads `report.command_line`."""
        return self.name if isinstance(self.value, bool) else f"{self.name}={self.value}"


@dataclass(frozen=True, slots=True)
class NextStep:
    """A reader's next step: text, requests and options, in order."""

    parts: tuple[str | Invocation | Option, ...]

    def __str__(self) -> str:
        """The text for logs of this process; a person reads `report.command_line`."""
        return "".join(map(str, self.parts))


Advice = NextStep | Invocation | Option | str
"""The arguments of `step`: steps, requests, options, and text."""


class _Range(Protocol):
    """Days that follow each other."""

    @property
    def start(self) -> date: ...

    @property
    def last(self) -> date: ...


@runtime_checkable
class _Days(Protocol):
    """Days in one or several ranges, as planning has them."""

    @property
    def ranges(self) -> Sequence[_Range]: ...


def do(command: Command, *of: str, **options: str | date | bool | _Days | None) -> Invocation:
    """A complete request.

    Args:
        *of: Its objects: a run, a set, a table, files.
        **options: Names as in this package, such as `by`, `reason`, `first` and `last`; None and False are left out.
            Of `days` each range becomes a `first` and a `last`.
    """
    return _request(command, of, options)


def _request(command: Command, of: Sequence[str], options: Mapping[str, object]) -> Invocation:
    given: list[tuple[str, str | bool]] = []
    for name, value in options.items():
        if isinstance(value, _Days):
            ends = [(("first", each.start), ("last", each.last)) for each in value.ranges]
            given += [(end, str(day)) for pair in ends for end, day in pair]
        elif value is not None and value is not False:
            given.append((name, value if isinstance(value, bool) else str(value)))
    return Invocation(command=command, of=tuple(of), options=tuple(given))


def step(*parts: Advice) -> NextStep:
    """A next step from text, requests, options, and other steps."""
    flat: list[str | Invocation | Option] = []
    for part in parts:
        flat += part.parts if isinstance(part, NextStep) else [part]
    return NextStep(tuple(flat))


_REQUEST = re.compile(r"(?<!\[)\[([^\[\]]+)\](?!\])")
_ONE_FIELD = re.compile(r"\{[^{}:!]+\}")
_FORMATTER = Formatter()


def written(template: str, values: Mapping[str, object]) -> NextStep:
    """A next step from its text.

    In the text `{name}` is a value: other text, a request, or a whole next step. In a request it is an object, or
    several; or the value of an option, which is left out where that is None, False or empty. Brackets and braces that
    the reader sees are written twice.

    Args:
        values: By name.
    """
    parts: list[Advice] = []
    for number, piece in enumerate(_REQUEST.split(template)):
        parts += [_asked(piece, values)] if number % 2 else _filled(piece, values)
    joined: list[Advice] = []
    for part in parts:
        if isinstance(part, str) and joined and isinstance(joined[-1], str):
            joined[-1] += part
        elif part:
            joined.append(part)
    return step(*joined)


def _filled(text: str, values: Mapping[str, object]) -> Iterator[Advice]:
    """The parts of a text between two requests."""
    for literal, name, form, conversion in _FORMATTER.parse(text):
        yield literal.replace("[[", "[").replace("]]", "]")
        if name is None:
            continue
        value = _FORMATTER.get_field(name, (), values)[0]
        if isinstance(value, NextStep | Invocation | Option):
            yield value
        elif value is not None:
            yield format(_FORMATTER.convert_field(in_text(value), conversion), form or "")


def _asked(text: str, values: Mapping[str, object]) -> Advice:
    """The request, or the option, that is between brackets."""
    words: Sequence[str] = text.split()
    options = {name: _given(value, values) for name, given, value in (each.partition("=") for each in words) if given}
    if "=" in words[0]:
        ((name, value),) = options.items()
        return Option(name, value if isinstance(value, bool) else str(value))
    command, words = named_first(words)
    objects: list[str] = []
    for each in words:
        value = None if "=" in each else _given(each, values)
        objects += map(str, value) if isinstance(value, tuple | list) else [] if value is None else [str(value)]
    return _request(command, objects, {name: value or None for name, value in options.items()})


def named_first(words: Sequence[str]) -> tuple[Command, Sequence[str]]:
    """The command that words begin with, and the words after it: some commands are a group and one of its members."""
    two = " ".join(words[:2])
    return (Command(two), words[2:]) if two in Command.__members__.values() else (Command(words[0]), words[1:])


def _given(word: str, values: Mapping[str, object]) -> object:
    """The value of a word of a request: the word, or the value that it names."""
    if word in ("True", "False"):
        return word == "True"
    if _ONE_FIELD.fullmatch(word):
        return _FORMATTER.get_field(word[1:-1], (), values)[0]
    return "".join(map(str, _filled(word, values)))


THEN = "; then "
"""Between a report that is read first and what follows from it."""


def read_first(following: NextStep | None) -> NextStep | None:
    """The next step of a run or a set; where it is an approval, its report comes first."""
    match following:
        case NextStep(parts=(Invocation(command=Command.APPROVE, of=of), *_)):
            return step(do(Command.REPORT, *of), ", and then ", following)
        case _:
            return following


def decline(named: str, following: NextStep) -> Invocation | None:
    """The cancellation of what waits for an approval or for its publication; None where neither is next.

    Args:
        named: The run, or the set that it belongs to.
    """
    match following:
        case NextStep(parts=(*_, Invocation(command=Command.APPROVE | Command.PUBLISH))):
            return to_cancel(named)
        case _:
            return None


def to_undo(named: str) -> Invocation:
    """The rollback of a run or of a set."""
    return do(Command.ROLLBACK, named, by=NAME, reason=WHY)


def to_approve(named: str) -> Invocation:
    """The approval of a run, of a set, or of what else another person than the requester has to agree to."""
    return do(Command.APPROVE, named, by=ANOTHER_PERSON)


def to_publish(named: str) -> Invocation:
    """The publication of a run or of a set, or the carrying out of an act on a version."""
    return do(Command.PUBLISH, named, by=NAME)


def to_cancel(named: str) -> Invocation:
    """The end of a run or of a set that is not published."""
    return do(Command.CANCEL, named, by=NAME, reason=WHY)


def close_replay(replay_id: str) -> Invocation:
    """The end of a replay."""
    return do(Command.REPLAY, "close", replay_id, by=NAME, reason=WHY)


def to_comment(named: str) -> Invocation:
    """The approval of a run or of a set with the comment that its gates demand."""
    return do(Command.APPROVE, named, by=ANOTHER_PERSON, note=WHY)


def once_read(following: NextStep) -> NextStep:
    """A next step for one who has before them the report that it begins with."""
    match following.parts:
        case (Invocation(command=Command.REPORT), then, *rest) if then == THEN:
            return step(*rest)
        case _:
            return following


def compare_again(run_id: str) -> NextStep:
    """The next step of a run whose table has changed since it was compared: its rows stay, and are measured again."""
    return step("compare it with the present rows: ", do(Command.RUN, run_id))


def end_freeze(freeze_id: str) -> NextStep:
    """The next step of a run or a load that waits for a freeze, which ends by itself."""
    return step("wait until then, or end it: ", do(Command.UNFREEZE, freeze_id, by=NAME, reason=WHY))


WAIT_OR_RECOVER = step("wait for it; if its process is gone: ", do(Command.RECOVER))
"""The next step while another process works."""


def wait_or_take_over(work_id: str) -> NextStep:
    """The next step for a run or a landed file on which another process holds a lease."""
    return step("wait for it; if its process is gone: ", do(Command.RECOVER, work_id, now=True, by=NAME))
