"""The session of a command: an open workspace, what records its work, and a progress bar."""

from __future__ import annotations

import os
import pwd
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from backfill_assets.cli.answers import app
from backfill_assets.core.local_files import open_regular
from backfill_assets.core.people import NotAPerson, require_person
from backfill_assets.core.progress import hearing_waits
from backfill_assets.core.wording import visible
from backfill_assets.report.errors import NotGiven

if TYPE_CHECKING:
    # These take long to import, and `--help` does not need them.
    from backfill_assets.application.recorder import Acting, Recorder
    from backfill_assets.application.requests import AnyRequest
    from backfill_assets.core.progress import Listener
    from backfill_assets.core.settings import Settings
    from backfill_assets.workspace import Workspace

    Recording = Callable[[Settings], AbstractContextManager[Recorder]]
    """Opens what records the work of a command."""

    Serving = Callable[[Workspace, int | None, Callable[[str], None]], None]
    """Serves pages over a workspace, on a port or any free one, until interrupted; calls back with the address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Parts of other rooms that commands use without knowing them, set by the installed entry point
    (`backfill_assets.main`)."""

    recording: Recording  #: Opens what records their work.
    serving: Serving
    meanwhile: Callable[[], None]  #: Imports what the recorder needs and Spark does not, while Spark starts.


NOBODY = ("it is not stated who is acting", "--by NAME, or set BACKFILL_USER")
"""What a command that a person answers for lacks, and how it is added."""


def acting_name(by: str) -> str:
    """The name of the acting person or service.

    Raises:
        Refused: That was not stated.
    """
    if not by.strip():
        raise NotGiven(why=NOBODY[0], add=NOBODY[1])
    return by.strip()


def person(by: str) -> str:
    """The person who is acting."""
    require_person("the one who acts", acting_name(by))
    return by.strip()


def person_or_account(by: str) -> str:
    """The person who is acting: as given, or else the account that the process belongs to; never who asked for a run.

    Raises:
        Refused: No name was given, and the account has none, or one that is reserved for the system.
    """
    return person(by if by.strip() else _account())


def _account() -> str:
    try:
        name = pwd.getpwuid(os.geteuid()).pw_name
        require_person("the account", name)
    except (KeyError, NotAPerson):  # As in a container.
        return ""
    return name


def given_reason(reason: str, by: str, *, lacks: Sequence[tuple[str, str]] = ()) -> str:
    """Why it is done.

    Args:
        by: Who is acting.
        lacks: What else was not given, each with what is to be added.

    Raises:
        Refused: That was not stated, or not who is acting: one refusal names everything that is missing.
    """
    missing = [*lacks]
    if not reason.strip():
        missing.append(("no reason is given", "--reason WHY"))
    if not by.strip():
        missing.append(NOBODY)
    if missing:
        *before, last = (why for why, _ in missing)
        raise NotGiven(
            why=f"{', '.join(before)}, and {last}" if before else last, add=" ".join(add for _, add in missing)
        )
    return reason.strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """The session of one command."""

    ws: Workspace
    recorder: Recorder
    quiet: bool
    _stack: ExitStack

    def acting(self, by: str, *, on: str) -> Acting:
        """The context of an action, with a progress bar that lasts until the session ends.

        Args:
            by: The person or the part of the system.
            on: What is worked on, such as a run's id.
        """
        from backfill_assets.application.recorder import Acting

        return Acting(by=by.strip(), recorder=self.recorder, listener=self.listener(on=on))

    def listener(self, *, on: str) -> Listener:
        """A progress bar that lasts until the session ends."""
        from backfill_assets.cli.console import progress_listener

        return self._stack.enter_context(progress_listener(on, quiet=self.quiet))

    def request(self, name: str) -> AnyRequest:
        """The request with this id."""
        from backfill_assets.application.requests import request_of

        return request_of(self.ws, name)


def settings_of_command() -> Settings:
    """The environment's settings; a home or a domain that it does not name is named on standard error."""
    from backfill_assets.core.settings import Settings, mistyped

    settings = Settings.from_environment()
    for name, near in mistyped(os.environ).items():
        if near and not settings.log:
            sys.stderr.write(f"note: {name} is not the name of a setting, and is not read; {near} is one\n")
    used = {"BACKFILL_HOME": f"home {settings.home}"}
    if settings.domain:
        used["BACKFILL_DOMAIN"] = f"domain {settings.domain}"
    unset = [name for name in used if not os.environ.get(name)]
    if unset and not settings.log:
        names, values = " and ".join(unset), " and the ".join(used[name] for name in unset)
        unread = ". The settings of .env in this folder are not read: set -a && . ./.env && set +a"
        said = f"note: {names} {'are' if unset[1:] else 'is'} not set, so this is the {visible(values)}"
        sys.stderr.write(f"{said}{unread if _has_unread_settings() else ''}\n")
    return settings


def _has_unread_settings() -> bool:
    """True if the folder has an `.env` with settings of a project, none of which the environment has."""
    try:
        with open_regular(".env") as file:
            text = file.read().decode("utf-8")
    except (OSError, UnicodeDecodeError):
        return False
    named = re.findall(r"^\s*(?:export\s+)?(BACKFILL_[A-Z_]+)\s*=", text, re.MULTILINE)
    return bool(named) and not any(name in os.environ for name in named)


@contextmanager
def opened(
    *, quiet: bool = True, conditions: bool = True, begins: bool = False, examines: bool = False
) -> Iterator[Session]:
    """A session over the environment's settings, whose Spark writes its log to a file and not to the terminal.

    Args:
        quiet: Show no progress, for machines.
        conditions: Check the conditions of the domain's gates. A command that shows, or carries out what was planned,
            needs none of them: the plan has checked them, and they are compared with it.
        begins: The command can be the first one in a home, which it then creates.
        examines: The command looks for what is wrong with the home, whatever that is.

    Raises:
        Refused: The home does not exist, and this command begins none; or it is the home of another domain.
    """
    from backfill_assets.application.recorder import LazyRecorder
    from backfill_assets.cli.console import print_aside, quiet_spark, terminal
    from backfill_assets.workspace import Workspace

    settings = settings_of_command()
    with ExitStack() as stack:
        # Lines of JSON take the place of what a person reads: what collects them reads standard error as well.
        quiet = quiet or bool(settings.log)
        if not settings.log:
            stack.enter_context(hearing_waits(lambda said: print_aside(terminal(sys.stderr), said)))
        open_session = quiet_spark(settings, quiet=quiet, meanwhile=surroundings().meanwhile)
        ws = Workspace.open(settings, open_session=open_session, conditions=conditions)
        stack.callback(ws.close)
        if not settings.log:
            stack.callback(_name_clock, ws)
        if not begins:
            settings.require_home()
        elif not quiet and not settings.home.exists():
            sys.stderr.write(f"a new home: {visible(str(settings.home))}\n")
        if not examines and (not begins or settings.home.exists()):
            ws.require_own_home()
        recorder = stack.enter_context(LazyRecorder(lambda: surroundings().recording(settings)))
        yield Session(ws=ws, recorder=recorder, quiet=quiet, _stack=stack)


def _name_clock(ws: Workspace) -> None:
    """Says on standard error that instants of the ledger were not those of this machine's clock."""
    seconds = ws.ledger.clock_behind.total_seconds() if "ledger" in ws.__dict__ else 0
    if seconds >= 1:
        said = f"the clock of this machine is {seconds:,.0f} s behind the last event of the ledger"
        sys.stderr.write(f"note: {said}, whose time counts instead\n")


def surroundings() -> Surroundings:
    """The surroundings that the entry point has set."""
    found: Surroundings = (app.info.context_settings or {})["obj"]
    return found
