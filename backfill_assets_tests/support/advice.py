"""What refusals say and advise, in the words of the command line."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from backfill_assets.core.errors import BackfillError
from backfill_assets.core.next_steps import Advice
from backfill_assets.report.command_line import explained, words_of


def advised(error: BackfillError) -> str:
    """The next step of an error as a person reads it; empty without one."""
    return worded(error.next_step)


def worded(advice: Advice | None) -> str:
    """A next step as a person reads it; empty when there is none."""
    return words_of(advice) if advice else ""


@contextmanager
def refused(kind: type[BackfillError], *, match: str) -> Iterator[None]:
    """Like `pytest.raises`, over the message and the next step together."""
    with pytest.raises(kind) as refusal:
        yield
    assert re.search(match, explained(refusal.value))


def has_code(code: str) -> Callable[[BackfillError], bool]:
    """The check, for `pytest.raises`, that an error without a class of its own is the one that has this code."""
    return lambda error: error.code == code
