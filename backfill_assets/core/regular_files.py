"""Regular files: opened without waiting. A pipe without a writer would keep its reader waiting for ever."""

from __future__ import annotations

import errno
import os
import stat
from io import BufferedReader
from pathlib import Path


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
