"""Inputs of a derived table with their windows: `reads(...)` gives an input its own window."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from backfill_assets.core.errors import InvalidDeclaration
from backfill_assets.domain.mistakes import Declared, Kind, wrong
from backfill_assets.planning.partitions import Grain
from backfill_assets.planning.windows import AnyWindow, Months, Window

if TYPE_CHECKING:
    from backfill_assets.domain.tables import Table

References = Mapping[str, Any]
DeclaredWindow = AnyWindow | Callable[[References], AnyWindow]
"""A window, or a function from the references to it."""

WINDOW = Kind(
    words="a Window, Months, or a function of the references",
    test=lambda value: isinstance(value, AnyWindow) or callable(value),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """A table as an input that is read in a way of its own. Written with `reads(...)`.

    Attributes:
        table: What is read.
        window: Its own window; None is the one that the derived table declares for all.
        changes: Whether the changelog is read, not the current rows.
    """

    table: Table
    window: DeclaredWindow | None
    changes: bool = False


def reads(
    table: Table,
    *,
    window: DeclaredWindow | None = None,
    days_back: int | None = None,
    days_ahead: int | None = None,
    changes: bool = False,
) -> Input:
    """An input with a window of its own, in place of the one that the derived table declares for all, or its changelog.

    Args:
        table: What is read.
        window: `Window(...)` for a daily table, `Months(...)` for a monthly one, or a function from the references to
            either. Without it the same days, or with `changes` the window of the derived table.
        days_back: In place of `window`: how many days back.
        days_ahead: In place of `window`: how many days ahead.
        changes: Read the changelog of a source that declares operations: every version of every key, with the columns
            `_operation`, `_valid_from`, `_valid_until` and `_ended_by`. Without it the current rows: deleted keys are
            absent.

    Raises:
        InvalidDeclaration: Both a window and days, a negative number of days, or `changes` that is not a truth value.
    """
    name = getattr(table, "name", table)
    if not isinstance(changes, bool):
        raise InvalidDeclaration(f"{name} is read with changes={changes!r:.60}, which is neither True nor False.")
    if window is None:
        if not changes or days_back is not None or days_ahead is not None:
            window = Window(days_back=days_back or 0, days_ahead=days_ahead or 0)
    elif days_back is not None or days_ahead is not None:
        raise InvalidDeclaration(f"{name} is read with a window and with days back or ahead; give one of the two.")
    return Input(table=table, window=window, changes=changes)


def require_window(table: Declared, grain: Grain, argument: str, window: object) -> AnyWindow:
    """The window of an input, if it counts partitions of the table that declares it.

    Raises:
        InvalidDeclaration: It is no window, or counts days for a monthly table or months for a daily one.
    """
    if not isinstance(window, AnyWindow):
        raise wrong(table, f"the window of its input {argument!r} is {window!r:.60} and has to be {WINDOW.words}")
    if grain is Grain.MONTHLY and isinstance(window, Window) and any(window.counts):
        raise wrong(
            table,
            f"it is a monthly table and reads {argument!r} with {window}, counted in days; a monthly table reads whole "
            f"months, such as Months(back=1)",
        )
    if grain is Grain.DAILY and isinstance(window, Months):
        raise wrong(
            table,
            f"it is a daily table and reads {argument!r} with {window}, counted in months; a daily table counts days, "
            f"such as Window(days_back=31), and reads every month of a monthly input that they touch",
        )
    return window
