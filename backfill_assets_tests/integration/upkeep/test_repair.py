"""Files of a home are removed, truncated or changed by a byte: `audit` finds each, and its next steps lead to a home
without problems, with the rows that were recorded."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError
from pyspark.sql import SparkSession

from backfill_assets.application.land import land_files
from backfill_assets.application.land import load as load_days
from backfill_assets.application.plan import described_plan
from backfill_assets.application.recorder import Acting, Unrecorded
from backfill_assets.application.recover import recover
from backfill_assets.calendar.partitions import DayRange, days_in
from backfill_assets.core.columns import LINEAGE
from backfill_assets.core.errors import Refused
from backfill_assets.core.next_steps import Command, Invocation
from backfill_assets.domain import expression
from backfill_assets.lake.append import validation_table
from backfill_assets.landing import conformed
from backfill_assets.ledger.states import RunState
from backfill_assets.planning.kinds.change import Scope
from backfill_assets.planning.manifest_parts import RunPurpose
from backfill_assets.planning.request import PlanRequest
from backfill_assets.report.markdown import markdown_page
from backfill_assets.report.page import Page
from backfill_assets.report.planned import plan_page
from backfill_assets.report.report import run_report
from backfill_assets.report.run_report import run_page
from backfill_assets.report.runs import approval, run_document, run_summary_page
from backfill_assets.report.upkeep import after_audit
from backfill_assets.requests.errors import NotAgreed
from backfill_assets.upkeep.audit import audit
from backfill_assets.upkeep.damage import Amiss
from backfill_assets_tests.domains.modes import EVERY_MODE
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.lakes import folder_at, folder_of, path_of
from backfill_assets_tests.support.ledger_book import ENTRIES, FIRST, Book, entry, open_book
from backfill_assets_tests.support.ledgers import copy_home
from backfill_assets_tests.support.mode_model import ACCOUNTS, BALANCES, BY_TWO, MODES, SUMS
from backfill_assets_tests.support.shop import ticking_clock

DAYS = [FIRST + timedelta(days=n) for n in range(1, 5)]
START = datetime(2026, 1, 15, 12, tzinfo=UTC)
COLUMNS = ("day", "account", "amount", "version")


def removed(path: Path) -> None:
    path.unlink()


def truncated(path: Path) -> None:
    path.chmod(0o644)
    path.write_bytes(path.read_bytes()[:-3])


def changed(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.chmod(0o644)
    path.write_bytes(content)


DAMAGES: Mapping[str, Callable[[Path], None]] = {each.__name__: each for each in (removed, truncated, changed)}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    """A home in which a table of every mode was published, the merged ones twice, and a pilot of one over a day."""
    home = tmp_path_factory.mktemp("repair") / "book"
    book = opened(home, spark)
    rejected = {**entry(DAYS[0], "nobody"), "amount": "much"}
    book.land("first", [*(entry(day, f"{name}{day.day}") for day in (FIRST, *DAYS) for name in "ab"), rejected])
    for table in MODES.values():
        book.published(table, DAYS[::2] if table == BY_TWO else DAYS)
    with pytest.MonkeyPatch.context() as compacting:
        compacting.setattr(conformed, "MOST_FOLDERS", 1)
        book.land("later", [entry(DAYS[2], f"{name}{DAYS[2].day}", 25, version=2) for name in "abc"])
    for table in (ACCOUNTS, BALANCES):
        book.published(table, DAYS)
    pilot = PlanRequest(
        table=SUMS,
        days=DayRange.inclusive(DAYS[2], DAYS[2]),
        reason="a first",
        by="ana",
        scope=Scope(where=(("account", f"a{DAYS[2].day}"),)),
    )
    book.through(operations.plan(book.ws, pilot).manifest.run_id)
    book.ws.close()
    return home


def opened(home: Path, spark: SparkSession, at: datetime = START) -> Book:
    book = open_book(home, clock=ticking_clock(at), spark=spark)
    return replace(book, ws=replace(book.ws, domain=EVERY_MODE))


@pytest.fixture
def book(tmp_path: Path, template: Path, spark: SparkSession) -> Iterator[Book]:
    copy_home(template, tmp_path / "home")
    found = opened(tmp_path / "home", spark, START + timedelta(hours=3))
    yield found
    found.ws.close()


def accepted_file(book: Book, table: str, day: date) -> Path:
    with book.ws.ledger.read() as tx:
        file = tx.versions.accepted(table)[day].files.files[0]
    return folder_of(book.ws.lake, table) / file.path


def stale(book: Book) -> Sequence[object]:
    """What is stale and why, without the run that a partition was piloted by."""
    return [
        (each.table, of.partitions, [replace(why, run_id="") for why in of.reasons])
        for each in operations.stale_tables(book.ws)
        for of in each.ranges
    ]


def repaired(book: Book, table: str, *days: date | DayRange, published_by: Book | None = None) -> str:
    """A repair that ana plans, runs and publishes, to which nobody agrees."""
    ranges = [each if isinstance(each, DayRange) else DayRange.inclusive(each, each) for each in days]
    request = PlanRequest(table=table, days=days_in(ranges), reason="a lost file", by="ana", kind=RunPurpose.REPAIR)
    run_id = operations.plan(book.ws, request).manifest.run_id
    operations.stage(book.ws, run_id, actor="ana")
    operations.gate(book.ws, run_id, actor="ana")
    operations.publish((published_by or book).ws, run_id, by="ana")
    return run_id


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("table", MODES.values(), ids=MODES)
def test_a_lost_file_of_each_mode_comes_back_as_recorded_without_a_new_agreement(
    book: Book, table: str, damage: str
) -> None:
    before, was_stale, day = book.rows(table, COLUMNS), stale(book), DAYS[2]
    DAMAGES[damage](accepted_file(book, table, day))
    assert any(f"day={day}" in problem for problem in audit(book.ws).problems)
    run_id = repaired(book, table, day)
    assert audit(book.ws).problems == ()
    assert book.rows(table, COLUMNS) == before
    assert stale(book) == was_stale
    assert operations.run_named(book.ws, run_id).state is RunState.PUBLISHED


def with_a_gate(book: Book, table: str) -> Book:
    """As another process, whose table declares a gate that none of its rows pass."""
    domain = book.ws.domain
    stricter = [
        replace(each, gates=(*each.gates, expression("none_left", "amount < 0"))) if each.name == table else each
        for each in domain.derived
    ]
    return replace(book, ws=replace(book.ws, domain=replace(domain, derived=tuple(stricter))))


@pytest.mark.parametrize("is_measured", [False, True], ids=["measured with it", "declared since it was measured"])
def test_a_gate_that_is_declared_later_keeps_no_reader_without_lost_rows_that_come_back_as_recorded(
    book: Book, is_measured: bool
) -> None:
    before, day = book.rows(SUMS, COLUMNS), DAYS[1]
    removed(accepted_file(book, SUMS, day))
    gated = with_a_gate(book, SUMS)
    run_id = repaired(book if is_measured else gated, SUMS, day, published_by=gated)
    assert (audit(gated.ws).problems, gated.rows(SUMS, COLUMNS)) == ((), before)
    failed = [each.gate for each in run_report(gated.ws, run_id).gates if each.failed]
    assert failed == ([] if is_measured else ["none_left"])


@pytest.mark.long
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_lost_file_of_bronze_is_built_again_from_what_has_landed(book: Book, damage: str) -> None:
    columns = ("entry_id", "amount", "version")
    before, was_stale, day = book.rows(ENTRIES, columns), stale(book), DAYS[2]
    DAMAGES[damage](accepted_file(book, ENTRIES, day))
    assert audit(book.ws).problems
    load_days(
        book.ws,
        ENTRIES,
        DayRange.inclusive(day, day),
        Acting(by="ana", recorder=Unrecorded()),
        empty=False,
        reason="a lost file",
    )
    assert audit(book.ws).problems == ()
    assert book.rows(ENTRIES, columns) == before
    assert stale(book) == was_stale


def stored_file(book: Book, kind: str) -> Path:
    """A file of a kind, of what the first import brought."""
    with book.ws.ledger.read() as tx:
        landed = tx.imports.records()[0]
        run = tx.versions.history(BALANCES, DAYS[2])[0]
    landing, lake = folder_at(book.ws.settings.landing), book.ws.lake
    match kind:
        case "landed file":
            return landing / landed.stored_path
        case "conformed records":
            assert landed.conformed is not None
            return landing / landed.conformed.paths[0]
        case "quarantined records":
            (path,) = [*(folder_of(lake, book.ws.domain.sources[0].quarantine)).rglob("_runs/**/*.parquet")]
            return path
        case "earlier version":
            return folder_of(lake, BALANCES) / run.files.files[0].path
        case "compacted versions":
            return min(landing.rglob("versions/**/*.parquet"))
        case "archived code":
            return min(path for path in path_of(str(book.ws.reference_archive.place)).rglob("*") if path.is_file())
        case "lineage of runs" | "results of gates":
            return min((folder_of(lake, _evidence(kind))).rglob("*.parquet"))
        case "log of the lineage of runs" | "log of the results of gates":
            return sorted((folder_of(lake, _evidence(kind)) / "_delta_log").glob("*.json"))[1]
        case "commit behind a checkpoint" | "commit in the middle" | "commit without a backup":
            log = folder_of(lake, BALANCES) / "_delta_log"
            if kind == "commit behind a checkpoint":
                DeltaTable(str(log.parent)).create_checkpoint()
            return sorted(log.glob("*.json"))[1]
        case _:
            log = folder_of(lake, BALANCES) / "_delta_log"
            DeltaTable(str(log.parent)).create_checkpoint()
            return next(log.glob("*.checkpoint.parquet")) if kind == "checkpoint" else log / "_last_checkpoint"


def _evidence(kind: str) -> str:
    return LINEAGE if "lineage" in kind else validation_table(BALANCES)


def commands(book: Book) -> Sequence[Invocation]:
    """The requests that the next steps of an audit name, but that for another audit."""
    found = audit(book.ws)
    led_out = {each.damage.table for each in found.problems if isinstance(each, Amiss)}
    led_out |= {each.table for each in found.unreadable if each.error.next_step}
    others = [each for each in found.problems if not isinstance(each, Amiss) and each not in map(str, found.unreadable)]
    assert {each.partition(" ")[0] for each in others} <= led_out, "what follows from a loss goes with it"
    steps = after_audit(found)
    assert steps
    asked = [part for each in steps for part in each.parts if isinstance(part, Invocation)]
    return [each for each in asked if each.command is not Command.AUDIT]


def carried_out(book: Book, asked: Invocation) -> None:
    """Does what a next step names, in the name of ana."""
    options, acting = dict(asked.options), Acting(by="ana", recorder=Unrecorded())
    match asked.command:
        case Command.LAND:
            source, path = asked.of
            how = str(options.get("on_duplicate", "ignore"))
            there = [Path(path)] if Path(path).exists() else [*folder_at(book.ws.settings.landing).rglob(path)]
            land_files(book.ws, source, there, acting, on_duplicate=how, builds=True)
        case Command.RECOVER:
            (table,) = asked.of
            recover(book.ws, only=table, by="ben", reason="tried")
        case Command.LOAD:
            (source,) = asked.of
            first, last = (date.fromisoformat(str(options[name])) for name in ("first", "last"))
            load_days(book.ws, source, DayRange.inclusive(first, last), acting, empty=False, reason="lost")
        case Command.PLAN_TABLE:
            assert options["kind"] == "repair"
            (table,) = asked.of
            ends = [[date.fromisoformat(str(v)) for n, v in asked.options if n == name] for name in ("first", "last")]
            repaired(book, table, *map(DayRange.inclusive, *ends))
        case _:
            raise AssertionError(asked)


REMOVED_BY_HAND = ("checkpoint", "mark of the last checkpoint")
RESTORED = ("archived code", "commit in the middle", "commit behind a checkpoint")
EVIDENCE = ("lineage of runs", "log of the lineage of runs", "results of gates", "log of the results of gates")
HARMLESS = [
    (kind, damage)
    for kind in ("mark of the last checkpoint", "quarantined records", *EVIDENCE)
    for damage in ("changed", "removed", "truncated")
    if damage == "changed" or kind.startswith("log of")
]
"""What may leave everything that is read of a file as it was: of these no bytes are recorded."""
KINDS = (
    *("landed file", "conformed records", "quarantined records", "earlier version", "compacted versions"),
    *("commit without a backup", *REMOVED_BY_HAND, *RESTORED, *EVIDENCE),
)


def moved_away(advised: str, home: Path) -> None:
    """Moves away what a step says."""
    place = path_of(advised.partition("move ")[2].partition(" away")[0])
    shutil.move(place, home / f"moved {place.name}")


def can_be_opened(folder: Path) -> bool:
    try:
        DeltaTable(str(folder))
    except (OSError, ValueError, DeltaError):
        return False
    return True


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("kind", KINDS)
def test_the_next_steps_of_an_audit_lead_to_a_home_without_problems(book: Book, kind: str, damage: str) -> None:
    held = {table: book.rows(table, COLUMNS) for table in MODES.values()}
    path = stored_file(book, kind)
    whole = path.read_bytes()
    DAMAGES[damage](path)
    if kind in REMOVED_BY_HAND and damage == "removed":
        return  # readers begin with the commits
    if (kind, damage) in HARMLESS and not audit(book.ws).problems:
        return
    assert audit(book.ws).problems
    if kind == "landed file":
        with book.ws.ledger.read() as tx:
            original = Path(tx.imports.records()[0].original_path)
        assert original.read_bytes() == whole, "what is in the archive"
    if kind in REMOVED_BY_HAND:
        steps = [str(each) for each in after_audit(audit(book.ws))]
        named = [path_of(step.removeprefix("remove ").partition(": ")[0]) for step in steps]
        assert path in named
        assert all(step.startswith("remove ") for step in steps), steps
        for each in named:
            each.unlink()
    elif kind in RESTORED:
        for advised in (str(each) for each in after_audit(audit(book.ws))):
            assert path_of(advised.split()[1]) == path, advised
        path.write_bytes(whole)
    else:
        advised = "; ".join(str(each) for each in after_audit(audit(book.ws)))
        asking = commands(book)
        if kind == "commit without a backup":
            moved_away(advised, book.ws.settings.home)
        if kind in EVIDENCE and not can_be_opened(folder_of(book.ws.lake, _evidence(kind))):
            moved_away(advised, book.ws.settings.home)
        if kind == "compacted versions":
            shutil.rmtree(path_of(advised.removeprefix("remove ").partition(": ")[0]))
        for asked in asking:
            carried_out(book, asked)
    assert audit(book.ws).problems == ()
    assert {table: book.rows(table, COLUMNS) for table in MODES.values()} == held


def shown(what: Page) -> str:
    return " ".join(markdown_page(what).replace("\\", "").split())


@pytest.mark.long
def test_no_page_says_that_a_repair_waits_for_an_approval_that_it_does_not_need(book: Book) -> None:
    removed(accepted_file(book, ACCOUNTS, DAYS[2]))
    request = PlanRequest(
        table=ACCOUNTS,
        days=DayRange.inclusive(DAYS[2], DAYS[2]),
        reason="a lost file",
        by="ana",
        kind=RunPurpose.REPAIR,
    )
    plan = operations.plan(book.ws, request)
    run_id = plan.manifest.run_id
    planned = shown(plan_page(described_plan(book.ws, plan)))
    assert "where its rows are exactly those that were recorded, no approval is needed" in planned
    assert "where its report says that it waits for an approval" in planned
    assert f"status {run_id}" in "".join(map(str, after_audit(audit(book.ws))))
    operations.stage(book.ws, run_id, actor="ana")
    operations.gate(book.ws, run_id, actor="ana")
    (step,) = after_audit(audit(book.ws))
    assert f"publish {run_id}" in str(step)
    summary = run_document(book.ws, run_id)
    status = shown(run_summary_page(summary))
    assert approval(summary) == "not needed"
    assert "not needed: its rows are exactly those that were recorded" in status
    assert "DRAFT" not in status
    assert "approves it" not in status
    report = shown(run_page(run_report(book.ws, run_id)))
    assert "waits for an approval" not in report
    assert "restores exactly the earlier files" not in report
    assert "Then the dependents follow" not in report
    assert "it cannot be rolled back, because the earlier files are gone or damaged" in report
    operations.publish(book.ws, run_id, by="ana")
    assert audit(book.ws).problems == ()


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_lost_accepted_file_is_repaired_by_what_the_audit_says(book: Book, damage: str) -> None:
    before = book.rows(BALANCES, COLUMNS)
    DAMAGES[damage](accepted_file(book, BALANCES, DAYS[2]))
    DAMAGES[damage](accepted_file(book, ENTRIES, DAYS[1]))
    for asked in commands(book):
        carried_out(book, asked)
    assert audit(book.ws).problems == ()
    assert book.rows(BALANCES, COLUMNS) == before


@pytest.mark.long
@pytest.mark.parametrize("version", [1, 7])
def test_a_stray_commit_file_beside_a_complete_log_is_removed(book: Book, version: int) -> None:
    log = folder_of(book.ws.lake, BALANCES) / "_delta_log"
    last = max(int(path.stem) for path in log.glob("*.json"))
    stray = log / f"{last + version:020}.json"
    stray.write_bytes(b"{")
    steps = [str(each) for each in after_audit(audit(book.ws))]
    if version == 1 or steps:  # readers stop at a gap
        assert [step.partition(":")[0] for step in steps] == [f"remove {stray}"], audit(book.ws).problems
    stray.unlink()
    assert audit(book.ws).problems == ()


@pytest.mark.long
@pytest.mark.parametrize("by", ["the advised step", "a restore"])
def test_a_commit_of_another_program_is_explained_once_it_is_undone(book: Book, by: str) -> None:
    before = book.rows(BALANCES, COLUMNS)
    table = book.ws.lake.open(BALANCES)
    version = table.version()
    write_deltalake(table, table.to_pyarrow_table().slice(0, 1), mode="append")
    assert "a commit (WRITE) that no publication explains" in "\n".join(audit(book.ws).problems)
    if by == "a restore":
        book.ws.lake.open(BALANCES).restore(version)
        assert "commits of another program, the last of which undid the others" in audit(book.ws).undone[0]
    else:
        for asked in commands(book):
            carried_out(book, asked)
    assert audit(book.ws).problems == ()
    assert book.rows(BALANCES, COLUMNS) == before
    removed(accepted_file(book, BALANCES, DAYS[2]))
    repaired(book, BALANCES, DAYS[2])
    assert audit(book.ws).problems == ()


@pytest.mark.long
def test_a_table_that_was_repaired_is_rolled_back_past_the_repair(book: Book) -> None:
    with book.ws.ledger.read() as tx:
        made_by = tx.versions.accepted(BALANCES)[DAYS[2]]
        (before,) = [each for each in tx.versions.history(BALANCES, DAYS[2]) if each.version == made_by.replaces]
    removed(accepted_file(book, BALANCES, DAYS[2]))
    run_id = repaired(book, BALANCES, DAYS[2])
    with pytest.raises(Refused, match="was lost"):
        operations.rollback(book.ws, run_id, by="ben", reason="its files are lost")
    operations.rollback(book.ws, made_by.run_id, by="ben", reason="not what was meant")
    with book.ws.ledger.read() as tx:
        assert tx.versions.accepted(BALANCES)[DAYS[2]].version == before.version
    assert audit(book.ws).problems == ()


@pytest.mark.long
def test_lost_rows_that_no_one_run_computes_as_they_were_are_planned_by_the_commands_of_the_refusal(book: Book) -> None:
    book.published(SUMS, [DAYS[3]])
    before, was_stale = book.rows(SUMS, COLUMNS), stale(book)
    for day in DAYS[1:]:
        removed(accepted_file(book, SUMS, day))
    request = PlanRequest(
        table=SUMS, days=DayRange.inclusive(DAYS[1], DAYS[3]), reason="lost", by="ana", kind=RunPurpose.REPAIR
    )
    with pytest.raises(
        Refused, match="computed with different versions of its code, scope, references or inputs"
    ) as no:
        operations.plan(book.ws, request)
    advised = no.value.next_step
    assert advised is not None
    asked = [part for part in advised.parts if isinstance(part, Invocation)]
    assert len(asked) == 2
    for each in asked:
        carried_out(book, each)
    assert audit(book.ws).problems == ()
    assert book.rows(SUMS, COLUMNS) == before
    assert stale(book) == was_stale


@pytest.mark.long
def test_rows_that_come_out_otherwise_wait_for_an_approval(book: Book) -> None:
    day = DAYS[1]
    with book.ws.ledger.read() as tx:
        read = tx.versions.history(ENTRIES, day)
    before = book.rows(SUMS, COLUMNS)
    book.land("other", [entry(day, f"a{day.day}", 99, name=f"a{day.day}-{day}-1")])
    removed(accepted_file(book, SUMS, day))
    for version in read:  # what it was computed from is lost as well
        removed(folder_of(book.ws.lake, ENTRIES) / version.files.files[0].path)
    with pytest.raises(Refused, match="is BLOCKED"):
        repaired(with_a_gate(book, SUMS), SUMS, day)
    with pytest.raises(NotAgreed):
        repaired(book, SUMS, day)
    with book.ws.ledger.read() as tx:
        run = tx.runs.records(table=SUMS)[0]
    operations.approve(book.ws, run.run_id, by="ben")
    operations.publish(book.ws, run.run_id, by="ana")
    changed = {row for row in book.rows(SUMS, COLUMNS) if row not in before}
    assert {row[:2] for row in changed} == {(day, f"a{day.day}")}
