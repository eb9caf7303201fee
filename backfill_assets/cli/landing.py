"""Commands that take in: files, and periods of streams."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from backfill_assets.calendar.partitions import days_between
from backfill_assets.cli.answers import (
    OF_THE_SOURCE,
    Answer,
    By,
    DaysFile,
    EveryFrom,
    EveryTo,
    Json,
    OnDuplicate,
    Reason,
    SourceName,
    answering,
    app,
    argument,
    columns_and_values,
    day,
    days_given,
    last_day,
    number,
    text,
    texts,
)
from backfill_assets.cli.session import given_reason, opened, person
from backfill_assets.report.errors import NotGiven, NotTogether

if TYPE_CHECKING:
    from backfill_assets.capture.files.file_capture import FileCapture
    from backfill_assets.cli.session import Session
    from backfill_assets.landing.extract import Extract
    from backfill_assets.report.landed import LandReport
    from backfill_assets.report.report import RunReport


# The command that captures a period of a stream.

NOW = "now"


@app.command()
def capture(
    source: Annotated[str, argument(metavar="SOURCE", help="A source that declares a capture.")],
    first: Annotated[
        str,
        text(
            "--from", metavar="DAY", help=f"First day or month, {OF_THE_SOURCE} (default: the end of the last capture)."
        ),
    ] = "",
    last: Annotated[str, text("--to", metavar="DAY", help=f"Last day or month, {OF_THE_SOURCE}; or `now`.")] = "",
    whole: Annotated[
        bool,
        typer.Option(
            "--snapshot", help="Read everything that the source holds now; keys missing from it are withdrawn."
        ),
    ] = False,
    confirmed_by: Annotated[
        str, text(metavar="NAME", help="Another person, who confirms more withdrawals than the source allows.")
    ] = "",
    reconciles: Annotated[
        bool, typer.Option("--reconcile", help="Read all of the days again; keys missing from them are withdrawn.")
    ] = False,
    by: By = "",
    reason: Reason = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the ranges that would be read, and write nothing.")
    ] = False,
    records_per_minute: Annotated[int | None, number("records", help="The most records read per minute.")] = None,
    bytes_per_minute: Annotated[int | None, number("bytes", help="The most bytes read per minute.")] = None,
    group: Annotated[
        str,
        text(
            "--behind-group",
            metavar="GROUP",
            help="Wait while this consumer group of the stream lags by more than --most-behind.",
        ),
    ] = "",
    most_behind: Annotated[
        int, number("records", least=0, help="The most records by which that group may lag.")
    ] = 10_000,
    load: Annotated[bool, typer.Option("--load/--no-load", help="Build the touched bronze partitions.")] = True,
    as_json: Json = False,
) -> None:
    """Capture a period of a stream as landed files, land them, and build the bronze days they touch."""
    begins = day(first) if first else None
    ends = None if last == NOW else last_day(last) if last else None
    with answering(as_json) as answer:
        from backfill_assets.application import capture as captures

        if whole and (first or last):
            why = "a snapshot is everything that the source holds now, and of no period"
            raise NotTogether(why=why, leave="--from and --to", instead="leave out --snapshot")
        if whole and reconciles:
            why = "a snapshot reconciles by itself"
            raise NotTogether(why=why, leave="--reconcile", instead="leave out --snapshot")
        if not last and not whole:
            raise NotGiven(why="it is not stated where the period ends", add="--to DAY or --to now")
        asked = captures.CaptureRange(
            first=begins, last=ends, is_whole=whole or reconciles, confirmed_by=confirmed_by or None
        )
        if dry_run:
            with opened(quiet=as_json, conditions=False, begins=True) as session:
                plan = captures.plan_capture(session.ws, source, asked)
            answer(plan)
            return
        why = given_reason(reason or ("everything that is new" if not first and last == NOW else ""), by)
        with opened(quiet=as_json, begins=True) as session:
            from backfill_assets.application.propose import step_after_landing
            from backfill_assets.capture.streams import Pace

            pace = Pace(
                records_per_minute=records_per_minute,
                bytes_per_minute=bytes_per_minute,
                group=group,
                most_behind=most_behind,
            )
            acting = session.acting(person(by), on=source)
            report = captures.capture(session.ws, source, asked, acting, reason=why, pace=pace, builds=load)
            following = step_after_landing(session.ws, source) if load else None
        answer(report, following=following, failed=report.needs_a_look)


# The commands that take files in.


@app.command()
def land(
    source: SourceName,
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE", help="JSONL, CSV or Parquet, also gzipped: a path, or an address of https, s3, gs or az."
        ),
    ] = None,
    by: By = "",
    on_duplicate: Annotated[OnDuplicate, typer.Option(help="How to treat content that was landed before.")] = "ignore",
    load: Annotated[bool, typer.Option("--load/--no-load", help="Build the touched bronze partitions.")] = True,
    replaces: Annotated[
        str | None,
        text(
            metavar="DAY..DAY",
            help=f"The files are complete for these days, {OF_THE_SOURCE}: keys missing from them are withdrawn.",
        ),
    ] = None,
    where: Annotated[
        list[str] | None, texts(help="With --replaces: the files are complete only for rows with this value.")
    ] = None,
    reason: Annotated[str, text(help="With --replaces: why (default: complete extract).")] = "",
    confirmed_by: Annotated[
        str,
        text(
            metavar="NAME",
            help="With --replaces: another person, who confirms more withdrawals than the source allows.",
        ),
    ] = "",
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="With --replaces: show the keys that would be withdrawn, and land nothing. With --again-as-declared: "
            "show what the landed files would give.",
        ),
    ] = False,
    sha256: Annotated[
        list[str] | None,
        texts(metavar="HEX", help="The digest that a file has to have, one option per file in their order."),
    ] = None,
    manifest: Annotated[
        str,
        text(metavar="FILE", help="Their producer's list of the files: names, records, sizes, digests."),
    ] = "",
    dropped: Annotated[
        bool,
        typer.Option(
            "--dropped",
            help="Instead of files: land what is finished in the drop folder of the source, or on its SFTP server.",
        ),
    ] = False,
    again: Annotated[
        bool,
        typer.Option(
            "--again-as-declared",
            "--again-as",
            help="Instead of files: read those that have landed anew from their stored bytes, as the source is "
            "declared now (default: those that were read by another declaration).",
        ),
    ] = False,
    imports: Annotated[
        list[str] | None, texts(metavar="IMPORT", help="With --again-as-declared: only these imports.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Land files unchanged, and build the bronze days that they touch."""
    with answering(as_json) as answer:
        from backfill_assets.application.propose import step_after_landing

        if again or imports:
            others = {
                "FILE": files,
                "--manifest": manifest,
                "--replaces": replaces,
                "--where": where,
                "--reason": reason,
            }
            _require_again_alone(again, {**others, "--on-duplicate": on_duplicate != "ignore"})
            some = [each.strip() for given in imports or [] for each in given.split(",") if each.strip()]
            _land_again(answer, source, some, by, load=load, dry_run=dry_run, quiet=as_json)
            return
        if dropped:
            others = {"FILE": files, "--sha256": sha256, "--manifest": manifest, "--replaces": replaces}
            _require_dropped_alone({**others, "--dry-run": dry_run, "--on-duplicate": on_duplicate != "ignore"})
            _land_dropped(answer, source, by, load=load, quiet=as_json)
            return
        if not files:
            raise NotGiven(why="there is nothing to land", add="the files, --dropped or --again-as-declared")
        extract = _extract(replaces, where or [], reason, confirmed_by, dry_run=dry_run, on_duplicate=on_duplicate)
        with (
            opened(quiet=as_json, begins=True) as session,
            _given(session, source, files, sha256 or [], manifest, by) as given,
        ):
            if extract is not None and dry_run:
                from backfill_assets.application.statements import preview_extract

                preview = preview_extract(session.ws, source, given, extract, person(by))
                answer(preview, failed=preview.withdrawn.is_elsewhere)
                return
            acting = session.acting(person(by), on=source)
            if extract is None:
                from backfill_assets.application.land import land_files

                outcome = land_files(session.ws, source, given, acting, on_duplicate=on_duplicate, builds=load)
            else:
                from backfill_assets.application.statements import land_as_extract

                outcome = land_as_extract(session.ws, source, given, extract, acting, builds=load)
            following = step_after_landing(session.ws, source) if load else None
        answer(outcome, following=following, failed=outcome.needs_a_look)


def _require_dropped_alone(others: Mapping[str, object]) -> None:
    if given := next((name for name, value in others.items() if value), None):
        raise NotTogether(
            why="what lands is everything that is dropped for the source, with the manifests that are beside it",
            leave=given,
            instead="leave out --dropped",
        )


def _land_dropped(answer: Answer, source: str, by: str, *, load: bool, quiet: bool) -> None:
    from backfill_assets.application.propose import step_after_landing

    with opened(quiet=quiet, begins=True) as session:
        from backfill_assets.application.drop import land_all_dropped

        outcome = land_all_dropped(session.ws, source, session.acting(person(by), on=source), builds=load)
        following = step_after_landing(session.ws, source) if load else None
    answer(outcome, following=following, failed=outcome.needs_a_look)


@contextmanager
def _given(
    session: Session, source: str, files: list[str], sha256: list[str], manifest: str, by: str
) -> Iterator[list[FileCapture]]:
    """The files that are named, fetched where they are named by an address."""
    from backfill_assets.application.given_files import given_files
    from backfill_assets.core.people import require_person

    require_person("the one who lands", person(by))
    drop = session.ws.domain.source_table(source).drop
    with given_files(session.ws.settings, files, sha256=sha256, manifest=manifest, drop=drop) as found:
        yield found


def _require_again_alone(again: bool, others: Mapping[str, object]) -> None:
    if not again:
        raise NotGiven(why="--imports is about landed files that are read anew", add="--again-as-declared")
    if given := next((name for name, value in others.items() if value), None):
        raise NotTogether(
            why="landed files are read anew from their stored bytes, in the place that they have",
            leave=given,
            instead="land other files without --again-as-declared",
        )


def _land_again(
    answer: Answer, source: str, imports: Sequence[str], by: str, *, load: bool, dry_run: bool, quiet: bool
) -> None:
    from backfill_assets.application.land_again import land_again, preview_again
    from backfill_assets.application.propose import step_after_landing, step_after_reading

    with opened(quiet=quiet) as session:
        if dry_run:
            answer(preview_again(session.ws, source, imports))
            return
        outcome = land_again(session.ws, source, imports, session.acting(person(by), on=source), builds=load)
        following = step_after_reading(session.ws, outcome) or step_after_landing(session.ws, source) if load else None
    answer(outcome, following=following, failed=outcome.needs_a_look)


@app.command()
def withdraw(
    source: SourceName,
    key: Annotated[list[str] | None, texts(help="The key, one option per column.")] = None,
    reason: Reason = "",
    by: By = "",
    as_json: Json = False,
) -> None:
    """Withdraw one key of a source, and build the bronze days that it leaves; `restore` undoes it."""
    from backfill_assets.application.statements import withdraw as withdraw_key

    _state(withdraw_key, source, key, reason, by, as_json=as_json)


@app.command()
def restore(
    import_id: Annotated[str, argument(metavar="IMPORT", help="The import that withdrew them, such as imp-000007.")],
    reason: Reason = "",
    key: Annotated[list[str] | None, texts(help="Only keys with this value (default: all of them).")] = None,
    by: By = "",
    as_json: Json = False,
) -> None:
    """Undo a withdrawal or the withdrawals of an extract, and build the bronze days to which the keys return."""
    from backfill_assets.application.statements import restore as restore_keys

    _state(restore_keys, import_id, key, reason, by, as_json=as_json)


def _state(
    statement: Callable[..., LandReport], on: str, key: list[str] | None, reason: str, by: str, *, as_json: bool
) -> None:
    """States something about keys, and builds the days that it touches."""
    with answering(as_json) as answer:
        from backfill_assets.application.propose import step_after_landing

        why, values = given_reason(reason, by), columns_and_values(key or [], "--key")
        with opened(quiet=as_json) as session:
            outcome = statement(session.ws, on, values, session.acting(person(by), on=on), reason=why)
            following = step_after_landing(session.ws, outcome.source)
        answer(outcome, following=following, failed=outcome.needs_a_look)


def _extract(
    replaces: str | None, where: list[str], reason: str, confirmed_by: str, *, dry_run: bool, on_duplicate: str
) -> Extract | None:
    """The statement that the files are complete; None when they are ordinary files.

    Raises:
        Refused: Options of extracts without their days, or days that are none.
    """
    from backfill_assets.application.statements import complete_extract

    if replaces is None:
        if where or reason or confirmed_by or dry_run:
            raise NotGiven(
                why="--where, --reason, --confirmed-by and --dry-run are about complete extracts",
                add="--replaces DAY..DAY: the days for which the files are complete",
            )
        return None
    if on_duplicate != "ignore":
        raise NotTogether(
            why="files of a complete extract land again even where equal files landed before",
            leave="--on-duplicate",
            instead="land them as ordinary files, without --replaces",
        )
    return complete_extract(
        days_between(replaces),
        where=columns_and_values(where, "--where"),
        reason=reason or "complete extract",
        confirmed_by=confirmed_by or None,
    )


@app.command()
def load(
    source: SourceName,
    first: EveryFrom = None,
    last: EveryTo = None,
    days_file: DaysFile = None,
    missing: Annotated[
        bool, typer.Option("--missing", help="Every missing day between the first and the last landed event.")
    ] = False,
    by: By = "",
    empty: Annotated[
        bool, typer.Option("--empty", help="Declare those of the days that have no landed events empty.")
    ] = False,
    reason: Annotated[str, text(help="Why; required with --empty.")] = "",
    as_json: Json = False,
) -> None:
    """Build bronze days from landed files; with --empty, declare days without events empty."""
    with answering(as_json) as answer:
        days = days_given(first, last, days_file)
        if missing is (days is not None):
            raise typer.BadParameter("give both --from and --to, or --days FILE, or --missing")
        from backfill_assets.application.land import load as load_days
        from backfill_assets.application.land import load_missing
        from backfill_assets.application.propose import step_after_landing
        from backfill_assets.report.landed import NothingToLoad

        reason = given_reason(reason, by) if empty else reason or "build bronze from landed files"
        with opened(quiet=as_json) as session:
            acting = session.acting(person(by), on=source)
            report: RunReport | NothingToLoad
            if days is None:
                report = load_missing(session.ws, source, acting, empty=empty, reason=reason)
            else:
                report = load_days(session.ws, source, days, acting, empty=empty, reason=reason)
            following = step_after_landing(session.ws, source)
        if isinstance(report, NothingToLoad):
            answer(report, following=following)
            return
        answer(report if as_json else report.run, following=following, failed=report.is_blocked)
