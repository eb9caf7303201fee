"""What `up` and `down` say of the Spark server."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from rich.console import Console

from backfill_assets.cli.terminal import show
from backfill_assets.core.spark_server import Unfit
from backfill_assets.report.pages import page_of
from backfill_assets.report.server import ServerDocument, ServerDown, ServerUp

WHERE = "127.0.0.1:4040 (process host:7)"


def text_of(document: ServerUp | ServerDown) -> str:
    console = Console(width=400, force_terminal=False)
    with console.capture() as captured:
        show(console, page_of(document))
    return captured.get()


def server(unfit: Unfit | None = None) -> ServerDocument:
    return ServerDocument(
        address="127.0.0.1:4040",
        process="host:7",
        since_at=datetime(2026, 1, 1, tzinfo=UTC),
        versions={"pyspark": "4.0"},
        unfit=unfit,
    )


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (None, "no server was running; nothing was stopped"),
        (server(), f"{WHERE} since 2026-01-01 00:00 UTC, pyspark 4.0 is ended"),
        (server(Unfit.ENDED), f"{WHERE} had died before; nothing was ended"),
        (server(Unfit.OTHER_HOME), f"{WHERE} is not used: it was started for another home; nothing was ended"),
    ],
)
def test_down_says_what_was_ended_or_why_nothing_was(found: ServerDocument | None, said: str) -> None:
    assert text_of(ServerDown(server=found)).strip() == said


def test_up_says_what_its_start_saves() -> None:
    new = text_of(ServerUp(server=server(), is_new=True, start_s=8.2, warm_up_s=11.9))
    assert (
        "started in 8 s and warmed up in 12 s: commands of this home that compute use it, and each saves about 8 s"
        in new
    )
    old = text_of(ServerUp(server=server(), is_new=False, start_s=0.1, warm_up_s=0.0))
    assert "running already: commands of this home use it until backfill down" in old
