"""Doctor: whether everything that the commands need is there, each part tried and not only looked up.

What is tried in the places of the lake and of landed files is written below `_doctor/` and `_admission/` there, and
removed again.
"""

from __future__ import annotations

import re
import secrets
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import partial
from os import environ
from pathlib import Path

from pyspark.sql import functions as F

from backfill_assets.capture.landed_files import landing_files
from backfill_assets.core.errors import BackfillError, Refused, StoreAway
from backfill_assets.core.local_files import PRIVATE, readable_by_others, umask_of
from backfill_assets.core.places import InvalidSetting, Place, StoreUrl, for_spark
from backfill_assets.core.progress import Listener, Progress, no_listener
from backfill_assets.core.settings import mistyped
from backfill_assets.core.spark import session_on_server
from backfill_assets.core.wording import word_of_a_shell
from backfill_assets.files import files_at, open_files
from backfill_assets.files.admission import ROUNDS, WRITERS, require_one_winner
from backfill_assets.files.port import Files
from backfill_assets.upkeep.alignment import Behind, tables_out_of_step, words_of
from backfill_assets.upkeep.errors import Fault, NotSound
from backfill_assets.workspace import Workspace

OLDEST_JAVA = 17
LEAST_FREE_BYTES = 1 << 30
FOLDER = "_doctor"
WRITTEN_IN_A_HOME = ("dagster", "landing_in_progress", "logs", "reference_archive", "reports", "last_audit.json")
_SQLITE = "sqlite:///"
_VERSION = re.compile(r'version "(\d+)[^"]*"')


class Health(StrEnum):
    """The health of a part."""

    SOUND = "sound"
    FAILED = "failed"
    NOT_NEEDED = "not needed"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedPart:
    """One thing that operations stand on."""

    part: str  #: Its name.
    health: Health  #: `sound`, `failed`, or `not needed` with these settings.
    found: str  #: What was found, in words.
    #: Why it failed; null when it did not, or when only a library's words are known.
    error: BackfillError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorReport:
    """The findings of `doctor`."""

    is_sound: bool  #: True if nothing failed; else the exit code is 1.
    parts: tuple[CheckedPart, ...]  #: Every part, in the order in which operations need them.


def examine(ws: Workspace, listener: Listener = no_listener) -> DoctorReport:
    """Tries every part; one that fails keeps no other from being tried, but for those of a store that does not answer.

    Args:
        listener: Told what is being tried: a store that does not answer is asked for a minute.
    """
    lake, landing = ws.settings.lake, ws.settings.landing
    tried: tuple[tuple[str, Place | None, Callable[[Workspace], str | None]], ...] = (
        ("names of settings", None, _names_of_settings),
        ("java", None, _java),
        ("ledger", None, _ledger),
        ("free space", None, _free_space),
        ("rights of others", None, _rights_of_others),
        (
            "rights in the lake",
            lake,
            lambda ws: _in_lake(ws, lambda ws: _rights(files_at(ws.settings.lake, ws.settings.access))),
        ),
        ("rights in landing", landing, lambda ws: _rights(landing_files(ws.settings))),
        ("references", ws.reference_files.place, _references),
        ("ledger and tables", lake, lambda ws: _in_lake(ws, _of_one_time)),
        ("one winner", lake, lambda ws: _in_lake(ws, _one_winner)),
        ("spark", None, _spark),
        ("clock", None, _clock),
        ("spark and the lake", lake, lambda ws: _in_lake(ws, lambda ws: _with_spark(ws, lake))),
        ("spark and landing", landing, lambda ws: _with_spark(ws, landing)),
    )
    parts: list[CheckedPart] = []
    is_away = False
    for number, (part, place, check) in enumerate(tried):
        listener(Progress(step="try", done=number, total=len(tried), line=part))
        if is_away and isinstance(place, StoreUrl):
            parts.append(CheckedPart(part=part, health=Health.FAILED, found="not tried: the store does not answer"))
            continue
        try:
            parts.append(_checked(part, partial(check, ws)))
        except StoreAway as error:
            is_away = True
            parts.append(_failed(part, error))
    listener(Progress(step="try", done=len(tried), total=len(tried), line="all parts tried"))
    return DoctorReport(is_sound=all(each.health is not Health.FAILED for each in parts), parts=tuple(parts))


def _failed(part: str, error: BackfillError) -> CheckedPart:
    return CheckedPart(part=part, health=Health.FAILED, found=error.message, error=error)


def _checked(part: str, check: Callable[[], str | None]) -> CheckedPart:
    """The result of a check, or why it failed; raises only that a store does not answer."""
    try:
        found = check()
    except StoreAway:
        raise
    except BackfillError as error:
        return _failed(part, error)
    except Exception as error:  # noqa: BLE001 - whatever a library says is what was found; nothing goes on with it
        said = str(error).strip().partition("\n")[0][:300] or type(error).__name__
        return CheckedPart(part=part, health=Health.FAILED, found=f"{type(error).__name__}: {said}")
    if found is None:
        return CheckedPart(part=part, health=Health.NOT_NEEDED, found="not with these settings")
    return CheckedPart(part=part, health=Health.SOUND, found=found)


def _names_of_settings(_ws: Workspace) -> str:
    found = mistyped(environ)
    for name, near in found.items():
        if near:
            raise InvalidSetting(
                setting=name, why="is set in the environment, and is not the name of a setting", near=near
            )
    others = f"; {', '.join(found)} is not a setting, and is not read" if found else ""
    return f"no name in the environment is a mistyped one{others}"


def _java(ws: Workspace) -> str | None:
    if ws.settings.spark_remote:
        return None
    home = environ.get("JAVA_HOME")
    program = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if program is None or not Path(program).exists():
        raise NotSound(fault=Fault.NO_JAVA, found=f"there is no Java{f' in {home}' if home else ' on the PATH'}.")
    done = subprocess.run([program, "-version"], capture_output=True, text=True, check=False)  # noqa: S603 - no shell
    version = _VERSION.search(done.stderr + done.stdout)
    if version is None or int(version[1]) < OLDEST_JAVA:
        found = version[0] if version else "a program that is not Java"
        needed = f"Spark needs Java {OLDEST_JAVA} or newer"
        raise NotSound(fault=Fault.NO_JAVA, found=f"{program} is {found}, and {needed}.")
    return f"{version[0]} ({program})"


def _ledger(ws: Workspace) -> str:
    with ws.ledger.read() as tx:
        head = tx.events.head()
    ws.ledger.try_writing()
    return f"opened, head of its chain {head[:12]}, and an event written and rolled back"


def _free_space(ws: Workspace) -> str:
    places = {"home": ws.settings.home, "landing": ws.settings.landing, "lake": ws.settings.lake}
    free = {name: _free_bytes(place) for name, place in places.items() if isinstance(place, Path)}
    least = min(free, key=lambda name: free[name])
    if free[least] < LEAST_FREE_BYTES:
        where = f"where the {least} is ({places[least]})"
        raise NotSound(fault=Fault.LITTLE_SPACE, found=f"only {free[least] / 2**20:,.0f} MiB are free {where}.")
    return ", ".join(f"{name}: {size / 2**30:,.1f} GiB" for name, size in free.items())


def _rights_of_others(ws: Workspace) -> str:
    settings = ws.settings
    umask, ledger = umask_of(settings.home), settings.ledger_url
    written = [*(settings.home / name for name in WRITTEN_IN_A_HOME), settings.landing, settings.lake]
    if ledger.startswith(_SQLITE):
        written.append(Path(ledger.removeprefix(_SQLITE)))
    found = readable_by_others((place for place in written if isinstance(place, Path)), umask)
    if found is None:
        return "no file can be read by users who do not share the home"
    raise Refused.coded(
        "readable_by_others",
        "{place} can be read by other users of this machine.",
        then="take it from them: chmod -R {whom}= {home}, and the same for landed files, the lake and the "
        "ledger where they are elsewhere",
        place=str(found),
        whom="go" if umask == PRIVATE else "o",
        home=word_of_a_shell(str(settings.home)),
    )


def _free_bytes(place: Path) -> int:
    there = next(folder for folder in (place, *place.parents) if folder.exists())
    return shutil.disk_usage(there).free


def _in_lake(ws: Workspace, check: Callable[[Workspace], str]) -> str:
    """Tries a part in the lake, but not in place of one that is away."""
    ws.require_lake()
    return check(ws)


def _rights(files: Files) -> str:
    path = f"{FOLDER}/{secrets.token_hex(8)}"
    try:
        files.put_if_absent(path, path.encode())
    except OSError as error:
        why = f"{files.place} cannot be written: {error.strerror}."
        raise NotSound(fault=Fault.NOT_WRITABLE, found=why) from error
    try:
        listed = [each.path for each in files.listed(FOLDER)]
        if path not in listed or files.read(path) != path.encode():
            why = f"a file that was put into {files.place} is not listed, or holds something else."
            raise NotSound(fault=Fault.NOT_LISTED, found=why)
    finally:
        files.remove([path])
    if files.stat(path) is not None:
        raise NotSound(fault=Fault.NOT_REMOVED, found=f"a file in {files.place} could not be removed.")
    return f"put, listed, read and removed a file in {files.place}"


def _of_one_time(ws: Workspace) -> str:
    for name, found in tables_out_of_step(ws):
        if isinstance(found, BackfillError):
            raise found
        if found.behind is not Behind.OTHERS:
            raise NotSound(fault=Fault.OTHER_TIMES, found=f"the table {name} {words_of(found)}.")
    return "the log of each table ends with what the ledger has recorded last"


def _references(ws: Workspace) -> str:
    found = len(ws.references)
    return f"{found} read from {ws.reference_files.place}, kept in {ws.reference_archive.place}"


def _one_winner(ws: Workspace) -> str:
    place, access = ws.lake.root, ws.lake.access
    rounds = ROUNDS if isinstance(place, StoreUrl) else ROUNDS // 10
    require_one_winner(lambda: open_files(place, access), rounds=rounds)
    return f"{rounds} keys, {WRITERS} writers each, one winner each"


def _spark(ws: Workspace) -> str:
    session = ws.spark()
    on_server = session_on_server(ws.settings) is session
    where = "the server of this home" if on_server else ws.settings.spark_remote or ws.settings.spark_master
    if session.range(1000).count() != 1000:
        raise NotSound(fault=Fault.DOES_NOT_COUNT, found=f"Spark at {where} does not count.")
    return f"Spark {session.version} at {where}"


def _clock(ws: Workspace) -> str:
    behind = ws.now() - ws.clock()
    if behind > ws.settings.lease / 2:
        seconds = f"{behind.total_seconds():,.0f} s behind the last event of the ledger"
        raise NotSound(fault=Fault.CLOCKS_APART, found=f"the clock of this machine is {seconds}.")
    # As text: an instant would become a local time of this process.
    before = ws.clock()
    (row,) = ws.spark().range(1).select(F.unix_millis(F.current_timestamp()).alias("now_ms")).collect()
    there, after = datetime.fromtimestamp(row["now_ms"] / 1000, UTC), ws.clock()
    # The question takes a while, and the answer is of some instant of it.
    apart = max(before - there, there - after, timedelta())
    if apart > ws.settings.lease / 2:
        seconds = f"{apart.total_seconds():,.0f} s apart, more than half a lease"
        raise NotSound(
            fault=Fault.CLOCKS_APART, found=f"the clocks of this machine and of Spark's driver are {seconds}."
        )
    return f"{apart.total_seconds():.1f} s from the clock of Spark's driver"


def _with_spark(ws: Workspace, place: Place) -> str:
    files, folder = files_at(place, ws.settings.access), f"{FOLDER}/{secrets.token_hex(8)}"
    target = for_spark(place, folder)
    try:
        session = ws.spark()
        session.range(10).write.parquet(target)
        rows = session.read.parquet(target).count()
        seen = [each.path for each in files.listed(folder) if each.path.endswith(".parquet")]
    except Exception as error:
        if "S3AFileSystem" in str(error):
            raise NotSound(fault=Fault.NO_JARS, found="Spark lacks the jars that read s3a: paths.") from error
        raise
    finally:
        files.remove_folder(folder)
        files.remove([f"{folder}/_"])  # and the folder above it, which is empty unless another doctor is at work
    if rows != 10 or not seen:
        came = f"{rows} came back from {len(seen)} files that we see"
        raise NotSound(fault=Fault.FILES_NOT_SHARED, found=f"Spark wrote 10 rows to {target}, and {came}.")
    return f"wrote and read 10 rows in {target.rpartition('/' + FOLDER)[0]}"
