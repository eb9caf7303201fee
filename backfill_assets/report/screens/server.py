"""The Spark server that stays: started, ended, and as `status` shows it."""

from __future__ import annotations

from backfill_assets.report.page import Note, Page, Tone, page, words
from backfill_assets.report.requests import Act, do
from backfill_assets.report.server import ServerDocument, ServerDown, ServerUp
from backfill_assets.report.words.server import UNFIT


def up_page(up: ServerUp) -> Page:
    """That commands of the home compute there from now on."""
    how = f"started in {up.elapsed_s:,.0f} s" if up.is_new else "running already"
    said = words(
        f"{how}: commands of this home use it until ", do(Act.DOWN), "; it keeps its memory and does not end by itself"
    )
    return page("Spark server", Note(text=server_line(up.server), tone=Tone.GOOD), Note(text=said, tone=Tone.SOFT))


def down_page(down: ServerDown) -> Page:
    """That the server has ended, or that there was none."""
    said = "there was none; nothing was ended" if down.server is None else f"{server_line(down.server)} is ended"
    return page("Spark server", Note(text=said))


def server_line(server: ServerDocument) -> str:
    """Where it is, since when, and of which version; or why commands do not use it."""
    if server.unfit is not None:
        where = f"{server.address} (process {server.process}) " if server.address else ""
        return f"{where}is not used: {UNFIT[server.unfit]}"
    versions = ", ".join(f"{name} {version}" for name, version in (server.versions or {}).items())
    since = f"{server.since_at:%Y-%m-%d %H:%M} UTC" if server.since_at else "?"
    return f"{server.address} (process {server.process}) since {since}, {versions}"
