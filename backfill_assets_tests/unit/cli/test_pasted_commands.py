"""Every command that is advised, pasted into a shell, gives the words that were meant."""

from __future__ import annotations

import io
import shlex
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from backfill_assets.cli.terminal import show
from backfill_assets.core.next_steps import Command, Invocation, Option, do, step
from backfill_assets.core.wording import visible, word_of_a_shell
from backfill_assets.report.command_line import words_of

TEXTS = st.text(
    st.one_of(st.sampled_from("'\"\\$`! ~*#=;&|<>(){}[]?"), st.characters(exclude_categories=["C"])), max_size=60
)
"""Values as people have entered them: a character that steers a terminal is refused."""

INVOCATIONS = st.builds(
    Invocation,
    command=st.sampled_from(Command),
    of=st.lists(TEXTS, max_size=3).map(tuple),
    options=st.lists(st.tuples(st.sampled_from(["where", "reason", "first", "as_of"]), TEXTS | st.just(True))).map(
        tuple
    ),
)
FLAGS = {"where": "--where", "reason": "--reason", "first": "--from", "as_of": "--as-of"}


def meant(asked: Invocation) -> list[str]:
    options = [
        word
        for name, value in asked.options
        for word in (FLAGS.get(name, f"--{name}"), *([] if value is True else [value]))
    ]
    return ["backfill", *asked.command.split(), *asked.of, *map(str, options)]


def in_a_shell(typed: str) -> list[str]:
    """The words of a command as a shell reads it."""
    shell = subprocess.run(["sh", "-c", f"printf '%s\\0' {typed}"], capture_output=True, text=True, check=True)
    return shell.stdout.split("\0")[:-1]


@given(INVOCATIONS)
def test_a_command_is_split_into_the_words_that_were_meant(asked: Invocation) -> None:
    assert shlex.split(words_of(asked)) == meant(asked)
    for name, value in asked.options:
        assert shlex.split(words_of(Option(name, value))) == [FLAGS[name], *([] if value is True else [value])]


@pytest.mark.parametrize(
    ("text", "typed"),
    [
        ("2026-01-03", "2026-01-03"),
        ("", "''"),
        ("two words", "'two words'"),
        ("state = 'OPEN'", "\"state = 'OPEN'\""),
        ("it's $5", "'it'\"'\"'s $5'"),
        ('a "quoted" one', "'a \"quoted\" one'"),
    ],
)
def test_a_condition_with_quotes_is_one_that_a_person_would_write(text: str, typed: str) -> None:
    assert word_of_a_shell(text) == typed
    assert in_a_shell(typed) == [text]


HARD = (
    "state = 'OPEN'",
    'it\'s $HOME `pwd` \\ "x" !',
    "",
    "~",
    "*",
    "-a",
    "a; b # c",
    f"{'a very long reason, ' * 9}isn't it",
)


@pytest.mark.parametrize("width", [20, 40, 80, 119, 120, 200])
@pytest.mark.parametrize("text", HARD, ids=range(len(HARD)))
def test_what_a_terminal_of_any_width_shows_can_be_pasted(width: int, text: str) -> None:
    asked = do(Command.CANCEL, "case_sla_daily-20261130-81571726", text, by="ana", reason=text)
    shown = io.StringIO()
    show(Console(file=shown, width=width), step("next: let another person do it: ", asked))
    assert visible(text) == text
    typed = shown.getvalue()
    assert in_a_shell(typed[typed.index("backfill") :]) == meant(asked)
