"""The commands that start and end the Spark server that stays."""

from __future__ import annotations

from backfill_assets.cli.answers import Json, answering, app
from backfill_assets.cli.session import settings_of_command


@app.command()
def up(as_json: Json = False) -> None:
    """Start a Spark server that the commands after it use, so that none of them waits until Spark has started."""
    with answering(as_json) as answer:
        from backfill_assets.application import spark_server
        from backfill_assets.cli.console import progress_listener
        from backfill_assets.core.clock import system_clock

        settings = settings_of_command()
        settings.require_home(with_ledger=True)
        with progress_listener("the Spark server", quiet=as_json or bool(settings.log)) as listener:
            document = spark_server.up(settings, clock=system_clock, listener=listener)
        answer(document)


@app.command()
def down(as_json: Json = False) -> None:
    """End the Spark server of the home; what still computes there stops, and is resumed by the same command."""
    with answering(as_json) as answer:
        from backfill_assets.application import spark_server

        answer(spark_server.down(settings_of_command()))
