"""A Spark server that stays: one command starts it, the commands after it compute there, until one ends it.

It is Spark Connect of the installed PySpark, on loopback, on a free port, with a token, and belongs to one home: its
state is a file there that only its user can read. A command uses it when its process is the one that was started, when
it listens, and when versions and settings are those of the command; what answers must then say the name of the server
(`core.spark`). It does not end by itself: a process that ends it would have to know that no command is about to use it.

A session is ended with its process. What a killed process left is ended by the next one that opens a session, so that
no job of it still writes while its work is done again.
"""

from __future__ import annotations

import atexit
import fcntl
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path

from backfill_assets.core.clock import Clock
from backfill_assets.core.errors import Refused, Retryable, sentence
from backfill_assets.core.identity import document_digest
from backfill_assets.core.lease import mark_of, this_process, who_locks
from backfill_assets.core.progress import waiting
from backfill_assets.core.session_settings import client_versions
from backfill_assets.core.settings import Settings

FOLDER = "spark_server"
LOG = "spark_server.log"
NAME = "backfill.server"
"""The property of the server's Java with its name: by it a client knows that it has reached this one."""

_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
_TOKEN = "SPARK_CONNECT_AUTHENTICATE_TOKEN"  # noqa: S105 - the name of a variable
_SESSION_HAS_ENDED = "INVALID_HANDLE.SESSION_"
_STATE, _LOCK, _SESSIONS = "server.json", "lock", "sessions"
_USER = "backfill"
_STARTS_WITHIN_S = 300
_ENDS_WITHIN_S = 30
_TASKS_END_WITHIN_S = 2
_ATTEMPTS = 3
"""So many ports are tried: another process may take one between the moment when it was free and its use."""

_LONGEST_LINE = 300


class Unfit(StrEnum):
    """The reasons for which a server that was started is not used."""

    ENDED = "ENDED"
    SILENT = "SILENT"
    OTHER_HOME = "OTHER_HOME"
    OTHER_VERSIONS = "OTHER_VERSIONS"
    OTHER_SETTINGS = "OTHER_SETTINGS"
    UNREADABLE = "UNREADABLE"


@sentence
class NotOfThisMachine(Refused):
    """{setting} is {value}: Spark does not run in a process of this machine that a command could start.

    Next: leave {setting} out, or start what it names
    """

    setting: str
    value: str


@sentence
class DidNotStart(Retryable):
    """the Spark server did not start: {why} (its log is {log})."""

    why: str
    log: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkServer:
    """A server that was started."""

    name: str  #: Differs from that of every other server.
    home: str
    machine: str  #: Its process, `host:pid`; the number is 0 until it is known.
    mark: str  #: What tells its process from any other that ever has this number; empty where the system does not say.
    port: int  #: Where it listens on loopback.
    token: str = field(repr=False)  #: Who has it may use the server.
    since_at: datetime  #: When it was started.
    versions: Mapping[str, str]  #: Of this project, PySpark and Python.
    settings: str  #: The digest of the settings that it was started with.

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def number(self) -> int:
        return _number_of(self.machine)

    @property
    def is_running(self) -> bool:
        if self.number == 0 or self.machine.rpartition(":")[0] != socket.gethostname():
            return False
        return _is_there(self.machine, self.mark)

    def url(self, session_id: str) -> str:
        """The address of a session for a client. PySpark sends a token without TLS to `localhost` alone."""
        return f"sc://localhost:{self.port}/;token={self.token};user_id={_USER};session_id={session_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The server that a home has recorded."""

    server: SparkServer | None  #: The server; None when the state cannot be read.
    unfit: Unfit | None  #: Why it is not used; None when it is.

    @property
    def fit(self) -> SparkServer | None:
        """The server, if it can be used."""
        return self.server if self.unfit is None else None


def look(settings: Settings, conf: Mapping[str, str]) -> Found | None:
    """The server of a home, and whether a command can use it; None when none was started."""
    try:
        text = (settings.home / FOLDER / _STATE).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except OSError:
        return Found(server=None, unfit=Unfit.UNREADABLE)
    try:
        server = _read(text)
    except (ValueError, KeyError, TypeError):
        return Found(server=None, unfit=Unfit.UNREADABLE)
    return Found(server=server, unfit=_unfit(server, settings, conf))


def _unfit(server: SparkServer, settings: Settings, conf: Mapping[str, str]) -> Unfit | None:
    if server.home != str(settings.home):
        return Unfit.OTHER_HOME
    if not server.is_running:
        return Unfit.ENDED
    if server.versions != client_versions():
        return Unfit.OTHER_VERSIONS
    if server.settings != document_digest(dict(conf)):
        return Unfit.OTHER_SETTINGS
    return None if _listens(server.number, server.port) else Unfit.SILENT


def start(settings: Settings, conf: Mapping[str, str], *, clock: Clock) -> tuple[SparkServer, bool]:
    """The server of a home, which is started when there is none that runs; of two at once, the other one waits.

    Returns:
        The server, and whether it is new.

    Raises:
        Refused: One runs that a command with these settings would not use.
    """
    _require_own(settings)
    with _locked(settings.home) as folder:
        found = _adopted(look(settings, conf), folder)
        if found and found.fit:
            return found.fit, False
        if found and found.server and found.unfit is not Unfit.OTHER_HOME and found.server.is_running:
            raise Refused.coded(
                "other_server_runs",
                "the Spark server of {home} runs as process {process}, and this command cannot use it: {why}.",
                then="[down], then [up]",
                home=str(settings.home),
                process=found.server.machine,
                why=found.unfit or Unfit.SILENT,
            )
        _forget(folder)
        for _ in range(_ATTEMPTS - 1):
            with suppress(_PortTaken):
                return _started(settings, folder, conf, clock()), True
        return _started(settings, folder, conf, clock()), True


def stop(settings: Settings) -> Found | None:
    """Ends the process of the server of a home. Of what is not its process nothing is ended.

    Returns:
        The server that was ended, or why nothing was ended; None when none was started.
    """
    with _locked(settings.home) as folder:
        found = _adopted(look(settings, {}), folder)
        server = found.server if found else None
        if server is not None and server.home == str(settings.home) and server.is_running:
            _end_process(server.number)
            found = Found(server=server, unfit=None)
        _forget(folder)
        return found


class _PortTaken(DidNotStart):
    """Another process took the port that was free."""


def _require_own(settings: Settings) -> None:
    if settings.spark_remote:
        raise NotOfThisMachine(setting="BACKFILL_SPARK_REMOTE", value=settings.spark_remote.partition(";")[0])
    if not settings.spark_master.startswith("local"):
        raise NotOfThisMachine(setting="BACKFILL_SPARK_MASTER", value=settings.spark_master)


@contextmanager
def _locked(home: Path) -> Iterator[Path]:
    folder = home / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    with (folder / _LOCK).open("a") as lock:
        with waiting(lambda: f"waiting for the Spark server, which {_who_holds(folder)} starts or stops"):
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder


def _who_holds(folder: Path) -> str:
    return who_locks(folder / _LOCK) or "another process"


def _started(settings: Settings, folder: Path, conf: Mapping[str, str], at: datetime) -> SparkServer:
    import pyspark

    name, token, port = secrets.token_hex(8), secrets.token_urlsafe(32), free_port()
    spark = Path(pyspark.__file__).parent
    state = {
        "name": name,
        "home": str(settings.home),
        "machine": f"{socket.gethostname()}:0",
        "mark": "",
        "port": port,
        "token": token,
        "since_at": at.isoformat(),
        "versions": client_versions(),
        "settings": document_digest(dict(conf)),
    }
    # Before there is a process: one that is recorded nowhere would stay for ever.
    _write(folder / _STATE, json.dumps(state))
    given = {
        **conf,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
    }
    extra = given.pop("spark.driver.extraJavaOptions", "")
    # In a file that only this user can read: what is given to a process is shown by the list of processes.
    _write(folder / "spark.properties", "".join(f"{key}={_escaped(value)}\n" for key, value in given.items()))
    options = {
        "class": _CLASS,
        "properties-file": str(folder / "spark.properties"),
        "driver-java-options": f"{extra} -D{NAME}={name}".strip(),
    }
    words = [word for option, value in options.items() for word in (f"--{option}", value)]
    command = (str(spark / "bin" / "spark-submit"), *words, "spark-internal")
    log = settings.home / "logs" / LOG
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        began = output.tell()
        process = subprocess.Popen(  # noqa: S603 - of this environment's Spark
            command,
            env={**os.environ, "SPARK_HOME": str(spark), "PYSPARK_PYTHON": sys.executable, _TOKEN: token},
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    machine = state["machine"] = f"{socket.gethostname()}:{process.pid}"
    state["mark"] = mark_of(machine)
    _write(folder / _STATE, json.dumps(state))
    server = _read(json.dumps(state))
    try:
        _await(process, server, log, began)
    except BaseException:
        process.terminate()
        process.wait()
        _forget(folder)
        raise
    return server


def _await(process: subprocess.Popen[bytes], server: SparkServer, log: Path, began: int) -> None:
    until = time.monotonic() + _STARTS_WITHIN_S
    with waiting(lambda: f"waiting until the Spark server of process {process.pid} listens"):
        while time.monotonic() < until:
            if process.poll() is not None:
                why = f"its process ended with {process.returncode}{_last_line(log, began)}"
                raise (_PortTaken if _answers(server.port) else DidNotStart)(why=why, log=str(log))
            if _listens(process.pid, server.port):
                return
            time.sleep(0.1)
    raise DidNotStart(why=f"it does not listen after {_STARTS_WITHIN_S} s", log=str(log))


def _last_line(log: Path, began: int) -> str:
    with log.open("rb") as written:
        written.seek(began)
        lines = [line.strip() for line in written.read().decode(errors="replace").splitlines() if line.strip()]
    told = next((line for line in lines if "Exception" in line or "Error" in line), lines[-1] if lines else "")
    return f": {told[:_LONGEST_LINE]}" if told else ""


def _adopted(found: Found | None, folder: Path) -> Found | None:
    """A server whose starter died before it had written the number of the process, found by its name."""
    server = found.server if found else None
    if server is None or server.number:
        return found
    named = f"-D{NAME}={server.name}".encode()
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if any(named in word for word in line.read_bytes().split(b"\0")):
                _end_process(int(line.parent.name))
    _forget(folder)
    return None


def _end_process(number: int) -> None:
    """Ends a process, and waits for it."""
    for how in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.kill(number, how)
        until = time.monotonic() + _ENDS_WITHIN_S
        with waiting(lambda: f"waiting until the Spark server, process {number}, has ended"):
            while time.monotonic() < until:
                with suppress(ChildProcessError):
                    os.waitpid(number, os.WNOHANG)
                if not _is_alive(number):
                    return
                time.sleep(0.05)


def _forget(folder: Path) -> None:
    for path in (folder / _STATE, folder / "spark.properties", *(folder / _SESSIONS).glob("*")):
        path.unlink(missing_ok=True)


# --------------------------------------------------------------------------------------------------------- sessions


def new_session(server: SparkServer) -> str:
    """A session of this process on a server: written down first, and ended with the process."""
    session_id = str(uuid.uuid4())
    folder = Path(server.home) / FOLDER / _SESSIONS
    folder.mkdir(parents=True, exist_ok=True)
    machine = this_process()
    _write(folder / session_id, json.dumps({"machine": machine, "mark": mark_of(machine)}))
    atexit.register(_close, folder / session_id)
    return session_id


def _close(written: Path) -> None:
    from pyspark.sql import SparkSession

    if (session := SparkSession.getActiveSession()) is not None:
        session.stop()
    written.unlink(missing_ok=True)


def end_abandoned(server: SparkServer) -> int:
    """Ends the sessions of processes that were killed, with the jobs that they left; says how many there were."""
    from pyspark.errors import PySparkException
    from pyspark.sql.connect.client import SparkConnectClient

    ended = 0
    for written in sorted((Path(server.home) / FOLDER / _SESSIONS).glob("*")):
        try:
            of = json.loads(written.read_text(encoding="utf-8"))
            is_there = _is_there(of["machine"], of["mark"])
        except (OSError, ValueError, KeyError):
            continue  # it has just ended, or is just being written
        if is_there:
            continue
        client = SparkConnectClient(server.url(written.name))
        try:
            stopped = client.interrupt_all()
            client.release_session()
            if stopped:
                # Its tasks end by themselves, and then remove what they have written.
                with waiting(lambda: f"waiting for tasks that {of['machine']} left on the Spark server"):  # noqa: B023
                    time.sleep(_TASKS_END_WITHIN_S)
        except PySparkException as error:
            # Its process was killed between the end of the session and that of its file, or the server gave it up.
            if _SESSION_HAS_ENDED not in str(error):
                raise
        finally:
            client.close()
        written.unlink(missing_ok=True)
        ended += 1
    return ended


# ---------------------------------------------------------------------------------------------------------- machine


def _read(text: str) -> SparkServer:
    found = json.loads(text)
    _number_of(found["machine"])
    return SparkServer(**{**found, "since_at": datetime.fromisoformat(found["since_at"])})


def _number_of(machine: str) -> int:
    return int(machine.rpartition(":")[2])


def _write(path: Path, text: str) -> None:
    """Puts a file in place whole, readable by its user alone."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.unlink(missing_ok=True)
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    beside.replace(path)


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n")


def free_port() -> int:
    """A port of loopback that nothing listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def _listens(number: int, port: int) -> bool:
    """True if a process listens on a port; where the system has no `/proc`, if any process does."""
    tables = [path for path in (Path("/proc/net/tcp"), Path("/proc/net/tcp6")) if path.exists()]
    if not tables:
        return _answers(port)
    listening = {
        fields[9]
        for path in tables
        for fields in map(str.split, path.read_text(encoding="ascii").splitlines()[1:])
        if fields[3] == "0A" and int(fields[1].rpartition(":")[2], 16) == port
    }
    wanted = {f"socket:[{inode}]" for inode in listening}
    try:
        held = list(Path(f"/proc/{number}/fd").iterdir())
    except OSError:
        return False
    return any(_target(each) in wanted for each in held)


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except OSError:
        return ""


def _is_there(machine: str, mark: str) -> bool:
    """True if a process of this machine has this mark."""
    return mark_of(machine) == mark if mark else _is_alive(_number_of(machine))


def _is_alive(number: int) -> bool:
    """True if a process runs: one that has ended keeps its number until its exit status is read."""
    if mark_of(this_process()):
        return bool(mark_of(f"{socket.gethostname()}:{number}"))
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
