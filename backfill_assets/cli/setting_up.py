"""The commands that set something up: the Spark server that stays, and a project of one's own."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from backfill_assets.cli.answers import (
    Json,
    answering,
    app,
    argument,
    columns_and_values,
    print_json,
    text,
    texts,
)
from backfill_assets.cli.session import settings_of_command
from backfill_assets.core.wording import word_of_a_shell
from backfill_assets.report.server import Example


@app.command()
def up(as_json: Json = False) -> None:
    """Start a Spark server for later commands, so that they need not start Spark themselves."""
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
    """Stop the Spark server of the home; a computation that it stops is resumed by the same command."""
    with answering(as_json) as answer:
        from backfill_assets.application import spark_server

        answer(spark_server.down(settings_of_command()))


@app.command()
def sniff(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE",
            help="CSV, TSV, JSON, Parquet, Excel, Avro, also packed; several of one kind, or their folder. Or OpenAPI, "
            "the address of an answer of an API, or kafka://HOST:PORT/TOPIC.",
        ),
    ],
    name: Annotated[
        str, text("--as", metavar="TABLE", help="The source table (default: bronze, and the name of the last file).")
    ] = "",
    setting: Annotated[
        list[str] | None, texts(metavar="NAME=VALUE", help="A setting of the client of Kafka, such as its protocol.")
    ] = None,
    secret: Annotated[
        list[str] | None,
        texts(
            metavar="NAME=VARIABLE",
            help="A secret setting of the client of Kafka, or header of an API, and the variable that has its value.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Look at files, and print Python that declares the source table in which their records land.

    What is printed loads as a domain by itself: backfill sniff FILE > weather.py
    """
    with answering(as_json):
        from backfill_assets.application.sniff import sniffed
        from backfill_assets.core.clock import system_clock
        from backfill_assets.report.command_line import words_of
        from backfill_assets.report.sniffed import document_of, next_of, spoken_of
        from backfill_assets.sniff.addresses import Reached

        reached = None
        if any("://" in each for each in files):
            of_command = settings_of_command()
            reached = Reached(
                settings=columns_and_values(setting or [], "--setting"),
                secrets=columns_and_values(secret or [], "--secret"),
                home=of_command.home,
                access=of_command.access,
            )
        proposal = sniffed(files, name, clock=system_clock, reached=reached)
        document = document_of(proposal)
        if as_json:
            print_json(document)
            return
        landed = [Path(file).is_dir() and not proposal.capture for file in files]
        shown = " ".join(f"{word_of_a_shell(file)}{'/*' * each}" for file, each in zip(files, landed, strict=True))
        steps = next_of(proposal, files, shown, is_shown=sys.stdout.isatty())
        lines = [*spoken_of(proposal), "next:", *(f"  {words_of(each)}" for each in steps)]
        sys.stderr.write("".join(f"{line}\n" for line in lines))
        sys.stdout.write(document.module)


@app.command()
def init(
    name: Annotated[str, argument(metavar="NAME", help="The project's folder, package and domain: my_shop.")],
    example: Annotated[
        Example,
        typer.Option(
            help="The template: a table of the last week's orders; a log with complete extracts; a change feed that is "
            "merged by key."
        ),
    ] = "orders",
    file: Annotated[
        Path | None,
        typer.Option("--from", metavar="FILE", help="Begin with this file in place of a template; see `sniff`."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write a project of your own: a domain with sample data and tests, which runs at once."""
    with answering(as_json) as answer:
        from backfill_assets.application.new_project import new_project, project_of_file
        from backfill_assets.core.clock import system_clock

        if file is not None:
            answer(project_of_file(name, file, into=Path.cwd(), clock=system_clock))
        else:
            answer(new_project(name, example, into=Path.cwd()))
