"""The Spark server that stays: started and warmed up, and ended."""

from __future__ import annotations

import tempfile
import time

from backfill_assets.core.clock import Clock
from backfill_assets.core.java_classes import compute
from backfill_assets.core.progress import Listener, Progress
from backfill_assets.core.settings import Settings
from backfill_assets.core.spark import found_server, open_spark, require_meaning, spark_conf
from backfill_assets.core.spark_server import FOLDER, Found, start, stop
from backfill_assets.report.server import ServerDown, ServerUp, server_document


def up(settings: Settings, *, clock: Clock, listener: Listener) -> ServerUp:
    """Starts the server of the home unless one runs, verifies a session of it, and warms it up.

    Args:
        clock: For when it was started.

    Raises:
        BackfillError: The errors of `spark_server.start`, and those of a session that is not as it should be, in which
            case the server is ended.
    """
    began = time.monotonic()
    found = found_server(settings)
    is_there = found is not None and found.fit is not None
    if not is_there:
        listener(Progress(step="start", done=0, total=2, line="starting a Spark server for the commands that follow"))
    server, is_new = start(settings, spark_conf(settings), clock=clock)
    started = time.monotonic()
    if is_new:
        line = "warming it up for the first command; commands may be given already"
        listener(Progress(step="start", done=1, total=2, line=line))
        try:
            session = open_spark(settings)
            require_meaning(session)
            with tempfile.TemporaryDirectory(dir=settings.home / FOLDER) as folder:
                compute(session, folder)
        except BaseException:
            stop(settings)
            raise
    if is_new or not is_there:
        listener(Progress(step="start", done=2, total=2, line="ready"))
    document = server_document(Found(server=server, unfit=None))
    assert document is not None
    start_s, warm_up_s = round(started - began, 1), round(time.monotonic() - started, 1)
    return ServerUp(server=document, is_new=is_new, start_s=start_s, warm_up_s=warm_up_s)


def down(settings: Settings) -> ServerDown:
    """Ends the server of the home; of a process that is not its own nothing is ended."""
    return ServerDown(server=server_document(stop(settings)))
