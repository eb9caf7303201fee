"""The Spark server that stays, as commands show it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from backfill_assets.core.spark_server import Found, Unfit

UNFIT: Mapping[Unfit, str] = {
    Unfit.ENDED: "its process has ended",
    Unfit.SILENT: "its process does not listen on its port",
    Unfit.OTHER_HOME: "it was started for another home",
    Unfit.OTHER_VERSIONS: "it was started by another version of this project, PySpark or Python",
    Unfit.OTHER_SETTINGS: "it was started with other settings of Spark",
    Unfit.UNREADABLE: "its file in the home cannot be read",
}
"""Why a command does not use it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerDocument:
    """The Spark server of a home. Its token is not shown."""

    address: str | None  #: Where it listens, on loopback; null when its state cannot be read.
    process: str | None  #: Its process, `host:pid`; null likewise.
    since_at: datetime | None  #: When it was started; null likewise.
    versions: Mapping[str, str] | None  #: Of the project, PySpark and Python that started it; null likewise.
    unfit: Unfit | None  #: Why commands do not use it; null when they do.


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerUp:
    """A Spark server that commands use from now on."""

    server: ServerDocument  #: The server.
    is_new: bool  #: Whether it was started now; false for one that ran.
    start_s: float  #: How long it took until it listened, in seconds; about what a command without a server waits.
    warm_up_s: float  #: How long it took to warm it up with a small computation, in seconds.


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerDown:
    """Reports that no Spark server runs."""

    #: The one that was ended, or of which nothing was ended, with the reason; null when none was started.
    server: ServerDocument | None


def server_document(found: Found | None) -> ServerDocument | None:
    """The recorded server of a home; None without one."""
    if found is None:
        return None
    server = found.server
    return ServerDocument(
        address=server.address if server else None,
        process=server.machine if server else None,
        since_at=server.since_at if server else None,
        versions=server.versions if server else None,
        unfit=found.unfit,
    )
