"""Every command that this project advises is one that the command line takes: read from the source, and parsed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from backfill_assets.core.next_steps import ANOTHER_PERSON, NAME, WHY, Command, Option, do, named_first
from backfill_assets.core.settings import PROJECT_ROOT
from backfill_assets.report.command_line import words_of
from backfill_assets_tests.support.commands import command_of, commands

COMMANDS = commands()
DAY = "2026-01-03"
OF_THEIR_OWN = {"kind": "repair", "on_duplicate": "ignore", "references": "as-recorded", "mode": "dry-run"}
"""Options that take certain words only."""

_ACTS = frozenset({"by"})
_DECIDES = frozenset({"by", "reason"})
REQUIRED = {
    **dict.fromkeys((Command.LAND, Command.LOAD, Command.APPROVE, Command.PUBLISH, Command.CLEAR), _ACTS),
    **dict.fromkeys((Command.ROLLBACK, Command.CANCEL, Command.ERASE, Command.UNFREEZE), _DECIDES),
    **dict.fromkeys((each for each in Command if each.startswith("plan ")), _DECIDES),
}
WITH_OPTION = {"cancel": _DECIDES, "now": _ACTS}
"""Who acts and why, where a command, or an option of one, is refused without it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advised:
    """One place in the source that says what to ask for."""

    where: str
    command: Command
    arguments: int
    options: tuple[str, ...]


def calls(function: str) -> Iterator[tuple[str, ast.Call]]:
    for path in sorted((PROJECT_ROOT / "backfill_assets").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        # Every run of the tests collects this module: of a file without such a call no tree is made.
        for node in ast.walk(ast.parse(text)) if f"{function}(" in text else ():
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == function:
                yield f"{_named(path)}:{node.lineno}", node


def _named(path: Path) -> str:
    return path.relative_to(PROJECT_ROOT / "backfill_assets").as_posix()


def everything_advised() -> Iterator[Advised]:
    for where, call in calls("do"):
        chosen, *arguments = call.args
        assert all(keyword.arg for keyword in call.keywords), where
        for command in (chosen.body, chosen.orelse) if isinstance(chosen, ast.IfExp) else (chosen,):
            # Else the source would not show what is advised.
            assert isinstance(command, ast.Attribute) and isinstance(command.value, ast.Name), where
            assert command.value.id == "Command", where
            yield Advised(
                where=where,
                command=Command[command.attr],
                arguments=len(arguments),
                options=tuple(str(keyword.arg) for keyword in call.keywords),
            )
    for where, words in in_texts():
        if "=" not in words[0]:
            named, rest = named_first(words)
            yield Advised(
                where=where,
                command=named,
                arguments=sum("=" not in each for each in rest),
                options=tuple(each.partition("=")[0] for each in rest if "=" in each),
            )


def in_texts() -> Iterator[tuple[str, list[str]]]:
    """The requests and options of next steps that are written as text, each as its words."""
    for path in sorted((PROJECT_ROOT / "backfill_assets").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if IN_TEXT.search(text) else ():
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield from ((f"{_named(path)}:{node.lineno}", words.split()) for words in IN_TEXT.findall(node.value))


IN_TEXT = re.compile(rf"(?<!\[)\[((?:(?:{'|'.join(Command)})(?= )|[a-z_-]+=)[^\[\]]+|{'|'.join(Command)})\](?!\])")


def flags(asked: Command) -> Mapping[str, bool]:
    """The options of a command as they are typed, and whether they are given without a value."""
    command = COMMANDS[asked]
    return {name: param.is_flag for param in command.params if param.param_type_name == "option" for name in param.opts}


DEEDS = {Command.SHADOW: "status"}
"""First arguments that are one of a few words."""

DAYS = {Command.TRACE: DAY}
"""Second arguments that are a day."""


def typed(advised: Advised) -> list[str]:
    """What a person types who follows the advice: every option at once, with values of its kind."""
    first = DEEDS.get(advised.command, "bf-1")
    second = DAYS.get(advised.command, "bf-1")
    arguments = [first, second, *["bf-1"] * (advised.arguments - 2)][: advised.arguments]
    known = flags(advised.command)
    options: dict[str, str | bool] = {}
    for name in advised.options:
        (option,) = (word for word in words_of(do(advised.command, **{name: True})).split() if word.startswith("--"))
        assert option in known, f"{advised.where}: {advised.command} has no {option}"
        value = OF_THEIR_OWN.get(name, DAY)
        options[name] = known[option] or value
    return words_of(do(advised.command, *arguments, **options)).split()[1:]


@pytest.mark.parametrize("advised", list(everything_advised()), ids=lambda each: f"{each.where} {each.command}")
def test_what_is_advised_can_be_typed_and_has_the_options_without_which_it_is_refused(advised: Advised) -> None:
    name, words = command_of(typed(advised))
    command = COMMANDS[name]
    command.make_context(name, words).close()
    # Nobody is asked who only looks.
    required = {
        *(REQUIRED.get(advised.command, ()) if "dry_run" not in advised.options else ()),
        *(each for name in advised.options for each in WITH_OPTION.get(name, ())),
    }
    assert required <= set(advised.options)


def test_a_reader_fills_in_who_acts_and_why_and_nothing_else() -> None:
    """Other placeholders, such as DAY or RUN, would be refused as they are printed."""
    given = [(where, part) for name in ("do", "undo") for where, call in calls(name) for part in values(call)]
    given += [(where, each.rpartition("=")[2]) for where, words in in_texts() if "=" not in words[0] for each in words]
    assert [(where, part) for where, part in given if part.isupper() and part not in (NAME, ANOTHER_PERSON, WHY)] == []


def values(call: ast.Call) -> Iterator[str]:
    for value in (*call.args, *(keyword.value for keyword in call.keywords)):
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            yield value.value


def test_an_option_that_is_named_by_itself_is_one_of_a_command() -> None:
    known = {option for act in Command for option in flags(act)}
    named = list(calls("Option"))
    assert named
    for where, call in named:
        if isinstance(call.args[0], ast.Constant):
            assert words_of(Option(str(call.args[0].value))) in known, where
    for where, (first, *_) in in_texts():
        assert "=" not in first or words_of(Option(first.partition("=")[0])) in known, where


def test_an_option_that_does_not_exist_would_be_found() -> None:
    gone = Advised(where="here", command=Command.STATUS, arguments=0, options=("with_dependents",))
    with pytest.raises(AssertionError, match="status has no --with-dependents"):
        typed(gone)
    with pytest.raises(Exception, match="unexpected extra argument"):
        COMMANDS["status"].make_context("status", ["bf-1", "bf-2"])


def test_every_act_is_a_command() -> None:
    assert set(Command) == set(COMMANDS)


def test_the_source_advises_most_acts() -> None:
    assert len({advised.command for advised in everything_advised()}) > 10
    assert len([*in_texts()]) > 100
