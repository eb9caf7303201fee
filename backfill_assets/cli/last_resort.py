"""Last resort: the message for an unforeseen failure, and the file with its details."""

from __future__ import annotations

import errno
import os
import shutil
import sys
import tempfile
import traceback
from pathlib import Path
from typing import IO

from backfill_assets.core.clock import system_clock
from backfill_assets.core.errors import BackfillError, DiskFull, Unexpected, is_full_disk
from backfill_assets.core.settings import DEBUG, Settings
from backfill_assets.core.wording import visible

_LOG = "unexpected.log"
_MOST_CHARACTERS = 300

_MACHINE = {
    errno.EDQUOT: "the disk quota is exhausted",
    errno.EROFS: "the file system is read-only",
    errno.EACCES: "permission denied",
    errno.EPERM: "permission denied",
    errno.EMFILE: "too many files are open",
    errno.ENFILE: "too many files are open",
    errno.EIO: "the device failed",
}


def unexpected(error: Exception) -> BackfillError:
    """An unforeseen error as one sentence; its details are written to a file below the home."""
    show_trace(error)
    if is_full_disk(error):
        return DiskFull(holds=visible(str(getattr(error, "filename", None) or _fullest())))
    written = _write(error)
    where = f"details in {written}" if written else f"its details could not be written; {DEBUG}=1 shows them"
    return Unexpected(why=f"{_sentence(error)}; {where}", log=str(written or ""))


def show_trace(error: Exception) -> None:
    """The trace of an error on standard error, if that is asked for: also of what caused a refusal, such as Spark's."""
    if os.environ.get(DEBUG, "") not in ("", "0"):
        sys.stderr.write("".join(traceback.format_exception(error)))


def _sentence(error: Exception) -> str:
    reason = _MACHINE.get(error.errno or 0) if isinstance(error, OSError) else None
    if isinstance(error, OSError) and reason:
        return f"{reason}: {visible(str(error.filename))}" if error.filename else reason
    first_line = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    text = f"unexpected {type(error).__name__}" + (f": {first_line}" if first_line else "")
    text = visible(text).rstrip(".:")
    return text if len(text) <= _MOST_CHARACTERS else text[:_MOST_CHARACTERS] + "..."


def _write(error: Exception) -> str | None:
    """The file that the details went to, or None when no file could be written."""
    # Every line is indented and escaped, so that quoted text cannot look like the beginning of another error.
    lines = "".join(traceback.format_exception(error)).splitlines()
    text = "".join([f"{system_clock().isoformat()}\n", *(f"    {visible(line)}\n" for line in lines)])
    for opened in (_own_log, _log_elsewhere):
        try:
            with opened() as log:
                log.write(text)
        except OSError:
            continue
        return log.name
    return None


def _own_log() -> IO[str]:
    settings = _settings()
    if settings is None:
        raise FileNotFoundError
    path = settings.home / "logs" / _LOG
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.open("a", encoding="utf-8")


def _log_elsewhere() -> IO[str]:
    # A new file: one that another user had put there would be theirs.
    return tempfile.NamedTemporaryFile("w", prefix="backfill-", suffix=".log", delete=False, encoding="utf-8")


def _fullest() -> Path:
    """The folder with the least free space among those into which commands write."""
    settings = _settings()
    chosen = (settings.home, settings.landing, settings.lake) if settings else ()
    there = [place for place in chosen if isinstance(place, Path) and place.exists()]
    return min((*there, Path(tempfile.gettempdir())), key=lambda place: shutil.disk_usage(place).free)


def _settings() -> Settings | None:
    try:
        return Settings.from_environment()
    except (BackfillError, OSError, ValueError, RuntimeError):  # the settings may be what failed
        return None
