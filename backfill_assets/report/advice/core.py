"""What to do about errors of settings, names and Spark sessions, and about what was typed at an edge."""

from __future__ import annotations

import shlex
from datetime import datetime
from difflib import get_close_matches

from backfill_assets.core.errors import BackfillError, DiskFull, PackageMissing, Unexpected, Unrecorded
from backfill_assets.core.people import NotAPerson
from backfill_assets.core.places import InvalidSetting
from backfill_assets.core.session_settings import ChangedSession
from backfill_assets.core.spark_server import ForeignServer, NotOfThisMachine, OtherServer
from backfill_assets.ledger.states import RunState
from backfill_assets.report import errors
from backfill_assets.report.requests import NAME, Act, Advice, Option, do, step


def of_core(error: BackfillError) -> Advice | None:
    """The advice for an error of this room; None for others."""
    return _of_machine(error) or _of_edge(error)


def _of_machine(error: BackfillError) -> Advice | None:
    match error:
        case Unrecorded():
            return step("repair what is named; then ", do(Act.RECOVER), ", which shows in Dagster what is accepted")
        case Unexpected():
            return step(do(Act.RECOVER), ", which ends unfinished work; then the command again")
        case DiskFull():
            return "free some, then give the same command again"
        case InvalidSetting() if error.without:
            return f"leave {error.without} out of {error.setting}"
        case InvalidSetting() if error.wanted:
            return f"set {error.setting} to {error.wanted}"
        case InvalidSetting():
            return f"correct {error.setting}, or leave it out"
        case OtherServer():
            return step(do(Act.DOWN), ", then ", do(Act.UP))
        case ForeignServer():
            return step(do(Act.DOWN), "; then the command again")
        case NotOfThisMachine():
            return f"leave {error.setting} out, or start what it names"
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


def _of_edge(error: BackfillError) -> Advice | None:
    match error:
        case errors.NotGiven():
            return f"add {error.add}"
        case errors.WrongUsage():
            return error.instead
        case errors.NotOfKey():
            near = get_close_matches(error.column, error.key, n=1)
            if near or not error.key:
                return f"write {near[0]}=VALUE" if near else f"leave {error.column} out"
            return f"write {' '.join(f'{name}=VALUE' for name in error.key)}"
        case errors.WordWithoutValue():
            example = " ".join(shlex.quote(f"{name}={value}") for name, value in error.example)
            return f"write it like {example}" if example else f"leave {error.word} out"
        case errors.NotTogether():
            return f"leave {error.leave} out, or {error.instead}"
        case errors.NotDoneWith():
            return step(do(Act.STATUS, error.name), " says what is done with it")
        case errors.Malformed():
            return f"write it like {error.example}"
        case errors.NotOneOf():
            return "choose one of these, or leave it out"
        case errors.CannotUse():
            return f"choose {error.instead}"
        case errors.NothingThen(seen_last_at=datetime() as at):
            words = (f"{name}={value}" for name, value in error.key.items())
            typed = f"{at.replace(tzinfo=None).isoformat()}Z"
            then = do(Act.TRACE, error.table, error.partition, *words, at=typed)
            return step("what readers saw last: ", then)
        case errors.NothingThen():
            return step(do(Act.HISTORY, error.table, partition=error.partition), " lists what readers saw")
        case errors.NotYet():
            return "name a time that has passed, or leave it out for now"
        case PackageMissing():
            return f"pip install 'backfill-assets[{error.extra}]'"
        case errors.NotAsPlanned():
            return step(f"launch {error.launch}; or ", do(Act.RUN, error.run_id))
        case errors.NoRunYet():
            name = error.table.partition(".")[2]
            before = [f"candidate/{name}", *([] if error.state is RunState.STAGED else [f"validation/{name}"])]
            return f"materialize {' and '.join(before)} for these partitions first"
        case errors.Undeclared():
            return "declare it again, or set BACKFILL_DOMAIN to the module that does"
        case errors.RunInterrupted():
            return error.following
        case _:
            return None
