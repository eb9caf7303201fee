"""docs/reference/messages.md, written from the classes of errors: what each says, and what to do then (`make docs`).

The next step of an error follows from its class and its fields. So each class is made with every value that its fields
of few values can have, and the different next steps are listed. Texts stand for what a field would have: `RUN_ID`.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import importlib
import itertools
import pkgutil
import re
import sys
import typing
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from enum import Enum
from pathlib import Path
from string import Formatter
from typing import Any

import backfill_assets
from backfill_assets.calendar.partitions import DayRange, Grain, Partitions
from backfill_assets.core.errors import BackfillError, Refused
from backfill_assets.core.next_steps import NAME, WHY, Command, do
from backfill_assets.core.settings import PROJECT_ROOT
from backfill_assets.report.command_line import words_of

PAGE = PROJECT_ROOT / "docs" / "reference" / "messages.md"
MOST_TRIED = 4_000
"""How many errors of one class are made, at most."""

ROOMS: Mapping[str, str] = {
    "domain": "Declarations",
    "core": "Settings, people and the machine",
    "capture": "Captures",
    "landing": "Landing",
    "files": "Files and object stores",
    "lake": "Tables",
    "calendar": "Days and partitions",
    "planning": "Plans",
    "transforms": "Functions and references",
    "candidates": "Staging",
    "requests": "Approval, publication and rollback",
    "deliver": "Replays",
    "ledger": "The ledger",
    "upkeep": "Upkeep",
    "report": "What is typed",
    "application": "Servers of tests and demos",
}
_HEAD = """# Messages and what to do

What can be refused, or fail, and the next step that is printed with it; a word in italics stands for what a message
names, and one in capitals for what its next step names. A step can depend on what was found: then all of them are
listed. `--json` has the class as `type`, or the one above it; exit codes are in [JSON of the commands](../cli.md). This
page is written from the code by `make docs`.
"""
_CAN_BE_EMPTY = ("without", "wanted", "near", "open_runs", "set_id", "of_set", "place")
_ODD = ("cli", "orchestration", "desk", "definitions", "main", "examples", "testing", "ledger.migrations")
_DAY = date(2026, 1, 31)
_SAMPLES: Mapping[Any, tuple[object, ...]] = {
    bool: (False, True),
    int: (2,),
    float: (2.0,),
    date: (_DAY,),
    datetime: (datetime(2026, 1, 31, 12, tzinfo=UTC),),
    timedelta: (timedelta(hours=1),),
    type(None): (None,),
    Partitions: (Partitions.of(Grain.DAILY, (_DAY,)),),
    DayRange: (DayRange.inclusive(_DAY, _DAY),),
}
_PLAN = do(Command.PLAN_TABLE, "TABLE", first="DAY", last="DAY", reason=WHY, by=NAME)
_STEPS: Mapping[str, object] = {
    **dict.fromkeys(("planned", "planned_again", "snapshots"), _PLAN),
    "loaded": do(Command.LOAD, "TABLE", first="DAY", last="DAY", by=NAME),
    "declared_empty": do(Command.LOAD, "TABLE", first="DAY", last="DAY", empty=True, reason=WHY, by=NAME),
    "read_anew": "correct the declaration, and read the files with rejected records anew",
    "following": "the next step of the cause",
    "of_code": True,
}
"""Next steps and options that errors without a class are raised with, by the names of their fields."""


@functools.cache
def errors() -> tuple[type[BackfillError], ...]:
    """The classes that say a sentence of their own, by room and name."""
    for module in pkgutil.walk_packages(backfill_assets.__path__, f"{backfill_assets.__name__}."):
        if not module.name.removeprefix(f"{backfill_assets.__name__}.").startswith(_ODD):
            importlib.import_module(module.name)
    found = (kind for kind in _below(BackfillError) if dataclasses.is_dataclass(kind))
    ours = {kind for kind in found if kind.__module__.startswith(backfill_assets.__name__)}
    # What several errors have in common says nothing by itself, and belongs to no category.
    said = {kind for kind in ours if not kind.__name__.startswith("_") and _category(kind) is not BackfillError}
    order = list(ROOMS)
    return tuple(sorted(said, key=lambda kind: (order.index(_room(kind)), kind.__name__)))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Coded:
    """An error without a class of its own, as the place where it is raised has it (`BackfillError.coded`)."""

    room: str
    kind: type[BackfillError]
    code: str
    said: str
    steps: tuple[str, ...]

    def samples(self) -> Iterator[BackfillError]:
        """The error, with the names of its fields in capitals as their values, or with a next step that they hold."""
        for then in self.steps:
            names = [name for text in (self.said, then) for _, name, _, _ in Formatter().parse(text) if name]
            values = {name: _STEPS.get(name, name.upper()) for name in names}
            yield self.kind.coded(self.code, self.said, then=then, **values)


@functools.cache
def coded() -> tuple[Coded, ...]:
    """The errors without a class of their own, by code."""
    kinds = {kind.__name__: kind for kind in _below(BackfillError) if kind.__module__ == BackfillError.__module__}
    package = Path(backfill_assets.__file__).parent
    found: list[Coded] = []
    for path in sorted(package.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if ".coded(" in text else ():
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Name(id=kind), attr="coded"), args=args, keywords=keywords):
                    code, said = (ast.literal_eval(each) for each in args)
                    steps = next((tuple(_texts(each.value)) for each in keywords if each.arg == "then"), ("",))
                    room, *within = path.relative_to(package).parts
                    found.append(
                        Coded(room=room if within else "core", kind=kinds[kind], code=code, said=said, steps=steps)
                    )
    return tuple(sorted(found, key=lambda each: each.code))


def _texts(node: ast.expr) -> Iterator[str]:
    """The text that is written there, or each of those between which a condition chooses."""
    if isinstance(node, ast.IfExp):
        yield from (*_texts(node.body), *_texts(node.orelse))
    else:
        yield ast.literal_eval(node)


def _below(kind: type[BackfillError]) -> Iterator[type[BackfillError]]:
    for each in kind.__subclasses__():
        yield each
        yield from _below(each)


def _category(kind: type) -> type:
    return next(each for each in kind.__mro__ if each.__module__ == BackfillError.__module__)


def _room(kind: type) -> str:
    return kind.__module__.split(".")[1]


def sentence_of(kind: type[BackfillError]) -> str:
    """The sentence of a class, with its fields in italics."""
    return _in_italics(" ".join((kind.__doc__ or "").partition("Next: ")[0].split()))


def _in_italics(text: str) -> str:
    return re.sub(r"\{(\w+)[^}]*\}", lambda found: f"*{found[1].replace('_', ' ').strip()}*", text)


def next_steps_of(kind: type[BackfillError]) -> tuple[str, ...]:
    """Every different next step that an error of a class can have."""
    hints = typing.get_type_hints(kind, localns=vars(sys.modules[kind.__module__]))
    named = {each.name: _values(hints[each.name], each.name) for each in dataclasses.fields(kind)}  # type: ignore[arg-type]
    found: dict[str, None] = {}
    for values in itertools.islice(itertools.product(*named.values()), MOST_TRIED):
        try:
            step = typing.cast("Any", kind)(**dict(zip(named, values, strict=True))).next_step
        except Exception:  # noqa: BLE001 - these values do not occur together
            continue
        if step is not None:
            found[words_of(step)] = None
    return tuple(found)


def _values(hint: Any, name: str) -> tuple[object, ...]:
    origin, inside = typing.get_origin(hint), typing.get_args(hint)
    if hint in _SAMPLES:
        return _SAMPLES[hint]
    if hint is str and name == "table":
        return ("silver.TABLE",)
    if hint is str and name == "request_id":
        return ("RUN_ID",)
    if hint is str:
        return (
            (name.upper(), "")
            if name in ("without", "wanted", "near", "open_runs", "set_id", "of_set")
            else (name.upper(),)
        )
    if isinstance(hint, type) and issubclass(hint, Enum):
        return tuple(hint)
    if origin is typing.Literal:
        return inside
    if origin is typing.Union or str(origin) == "<class 'types.UnionType'>":
        return tuple(itertools.chain.from_iterable(_values(each, name) for each in inside))
    if origin is tuple and Ellipsis not in inside:
        return tuple(itertools.islice(itertools.product(*(_values(each, name) for each in inside)), 3))
    if origin is not None and inside and len(inside) == 2 and Ellipsis not in inside:
        keys, values = (_values(each, name)[:1] for each in inside)
        return (dict(zip(keys, values, strict=True)),)
    if origin is not None and inside:
        return ((_values(inside[0], name)[0],), *([()] if name in _CAN_BE_EMPTY else []))
    if isinstance(hint, type) and issubclass(hint, BackfillError):
        return (Refused("the cause."),)
    if dataclasses.is_dataclass(hint):
        of = typing.get_type_hints(hint)
        needed = [each for each in dataclasses.fields(hint) if each.init and _is_needed(each)]
        return (hint(**{each.name: _values(of[each.name], each.name)[0] for each in needed}),)  # type: ignore[operator]
    return (name.upper(),)


def _is_needed(each: dataclasses.Field[Any]) -> bool:
    return each.default is dataclasses.MISSING and each.default_factory is dataclasses.MISSING


def page() -> str:
    """The whole page."""
    parts = [_HEAD]
    for room, title in ROOMS.items():
        entries = {title_of(kind): _entry(kind) for kind in errors() if _room(kind) == room}
        entries |= {each.code: _entry_of(each) for each in coded() if each.room == room}
        parts += [
            f"## {title}\n",
            *(entries[name] for name in sorted(entries, key=lambda name: name.replace("_", "").lower())),
        ]
    return "\n".join(parts).rstrip("\n") + "\n"


def _alike(name: str) -> str:
    return name.replace("_", "").lower()


def title_of(kind: type[BackfillError]) -> str:
    """The name of a class, with its room where another room has one of this name."""
    is_shared = sum(each.__name__ == kind.__name__ for each in errors()) > 1
    return f"{kind.__name__} ({_room(kind)})" if is_shared else kind.__name__


def _entry(kind: type[BackfillError]) -> str:
    steps = next_steps_of(kind)
    written = "".join(f"- {_in_markdown(step)}\n" for step in steps) or "- What to do follows from what it names.\n"
    return f"### {title_of(kind)}\n\n{sentence_of(kind)}\n\n{written}"


def _entry_of(each: Coded) -> str:
    steps = [_in_markdown(words_of(step)) for error in each.samples() if (step := error.next_step)]
    written = "".join(f"- {step}\n" for step in steps or ["What to do follows from what it names."])
    return f"### {each.code}\n\n{_in_italics(each.said)}\n\n{written}"


def _in_markdown(text: str) -> str:
    """Commands as they are; nothing in a step is markup."""
    return re.sub(r"([<>|])", r"\\\1", text.replace("*", "\\*"))


def main(path: Path = PAGE) -> None:
    """Writes the page."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
