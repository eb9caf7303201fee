"""Local files: written with the rights of the user, or of the group of the home, and opened without waiting."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from io import BufferedReader
from pathlib import Path

# Rights of files: what this project writes is for the user who runs it alone, or for the group that shares the
# home.
#
# A home has rows in many places: landed files, tables, samples of rows in the ledger, logs, quarantine, Spark's
# scratch. So the rights are decided once per process, by its umask, which the processes that it starts inherit.
# The umask has to be set before Java starts. Folders that exist keep their rights, and so do files.

PRIVATE = 0o077


def umask_of(home: Path) -> int:
    """The permissions that a process in a home removes from its files.

    Everything for group and others; only where the home is opened to its group and to nobody else, new files have the
    rights for the group that the home has.
    """
    try:
        rights = home.stat().st_mode
    except OSError:
        return PRIVATE
    return PRIVATE if rights & stat.S_IRWXO else PRIVATE & ~(rights & stat.S_IRWXG)


def keep_private(home: str | Path) -> None:
    """Sets the umask of this process to that of a home, which need not exist."""
    try:
        folder = Path(home).expanduser()
    except RuntimeError:  # it names a user who is not there, which the settings say
        folder = Path(home)
    os.umask(umask_of(folder))


def readable_by_others(places: Iterable[Path], umask: int, *, above: Path | None = None) -> Path | None:
    """A file in some folders that users can read or write whom a umask keeps out; None where there is none.

    Args:
        places: Files and folders; links in them are not followed, and one that is missing has no files.
        umask: That of their home.
        above: The folder up to which it matters who may enter; the root of the file system by default.
    """
    return next((found for place in places if _is_reached(place, umask, above) for found in _open(place, umask)), None)


def _is_reached(place: Path, umask: int, above: Path | None) -> bool:
    """True if those users can enter every folder above a place."""
    folders = [folder for folder in place.resolve().parents if above is None or folder.is_relative_to(above.resolve())]
    return all(folder.stat().st_mode & umask & _ENTER for folder in folders if folder.exists())


def _open(path: Path, umask: int) -> Iterator[Path]:
    try:
        rights = path.lstat().st_mode & umask
        if path.is_symlink():
            return
        if path.is_dir():
            if rights & _ENTER:
                for inside in sorted(path.iterdir()):
                    yield from _open(inside, umask)
        elif rights & _USE:
            yield path
    except OSError:  # it is gone by now, or not this user's
        return


_ENTER = stat.S_IXGRP | stat.S_IXOTH
_USE = stat.S_IRGRP | stat.S_IWGRP | stat.S_IROTH | stat.S_IWOTH


# Regular files: opened without waiting. A pipe without a writer would keep its reader waiting for ever.


class NotRegular(OSError):
    """A pipe, a socket or a device, of which nothing is read."""


def open_regular(path: str | Path) -> BufferedReader:
    """Opens a regular file, or a link to one, for reading.

    Raises:
        NotRegular: It is a pipe, a socket or a device.
        OSError: There is no such file, it is a folder, or it may not be read.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a socket
            raise NotRegular(errno.ENXIO, "it is not a regular file", str(path)) from error
        raise
    try:
        mode = os.fstat(handle).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(mode):
            raise NotRegular(errno.EINVAL, "it is not a regular file", str(path))
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise
