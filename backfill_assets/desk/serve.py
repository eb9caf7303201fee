"""Serving: the desk on a port of loopback, until Ctrl-C."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress

from backfill_assets.core.errors import PackageMissing
from backfill_assets.report.errors import CannotUse
from backfill_assets.workspace import Workspace

LOOPBACK = "127.0.0.1"
_OPTIONAL = ("starlette", "uvicorn")


def serve_desk(ws: Workspace, port: int | None, ready: Callable[[str], None]) -> None:
    """Serves the desk until the process is interrupted.

    Args:
        port: A port of this machine; any free one by default.

    Raises:
        Refused: The port is taken, or may not be used, or the packages of the extra `desk` are not installed.
    """
    try:
        import uvicorn

        from backfill_assets.desk.app import create_app
    except ModuleNotFoundError as error:
        if error.name not in _OPTIONAL:
            raise
        raise PackageMissing(what="the desk", package=error.name, extra="desk") from error
    with _listening(port) as listener:
        app = create_app(ws)
        config = uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=1)
        ready(f"http://{LOOPBACK}:{listener.getsockname()[1]}/")
        with suppress(KeyboardInterrupt):  # Ctrl-C is how a desk ends; requests have been answered by then
            uvicorn.Server(config).run(sockets=[listener])


def _listening(port: int | None) -> socket.socket:
    listener = socket.socket()
    # A desk that was ended a moment ago does not keep its port.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((LOOPBACK, port or 0))
        listener.listen()
    except OSError as error:
        listener.close()
        raise CannotUse(
            what=f"port {port}", why=str(error.strerror), instead="another port, or leave it out for any free one"
        ) from error
    return listener
