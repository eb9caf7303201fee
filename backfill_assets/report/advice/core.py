"""What to do about errors of settings, names and Spark sessions."""

from __future__ import annotations

from backfill_assets.core.errors import BackfillError, DiskFull
from backfill_assets.core.people import NotAPerson
from backfill_assets.core.places import InvalidSetting
from backfill_assets.core.session_settings import ChangedSession
from backfill_assets.report.requests import NAME, Advice, Option, step


def of_core(error: BackfillError) -> Advice | None:
    """The advice for an error of this room; None for others."""
    match error:
        case DiskFull():
            return "free some, then give the same command again"
        case InvalidSetting() if error.without:
            return f"leave {error.without} out of {error.setting}"
        case InvalidSetting() if error.wanted:
            return f"set {error.setting} to {error.wanted}"
        case NotAPerson(is_placeholder=True):
            return step("give the name of a person instead: ", Option("by", "ana"))
        case NotAPerson(is_mixed=True):
            return step("write the name in one script: ", Option("by", NAME))
        case NotAPerson():
            return step("give the name of a person: ", Option("by", NAME))
        case ChangedSession(transform=str()):
            return "take the setting out of the transform and plan again"
        case ChangedSession():
            return "open a new session (start the command or the server again) without this setting"
        case _:
            return None
