"""Every column of every protected table is edited by hand, and every edit is found."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from datetime import date, timedelta
from pathlib import Path

import pytest
from sqlalchemy import update

from backfill_assets.calendar.partitions import Grain
from backfill_assets.capture.streams import Written
from backfill_assets.core.clock import Clock
from backfill_assets.ledger.checks import CheckedGate
from backfill_assets.ledger.freezes import Freeze
from backfill_assets.ledger.imports import ImportCounts, ImportDay, KeyCounts
from backfill_assets.ledger.records import TableAct
from backfill_assets.ledger.row_digests import PROTECTED, UNPROTECTED
from backfill_assets.ledger.schema import metadata, runs
from backfill_assets.ledger.states import RunState
from backfill_assets.ledger.store import Ledger
from backfill_assets.ledger.table_acts import ComparedPartition
from backfill_assets.planning.manifest_parts import CauseKind, RunCause
from backfill_assets.planning.safeguards import Policy
from backfill_assets.planning.sets import SetManifest, SetMember
from backfill_assets_tests.conftest import NOON
from backfill_assets_tests.support.ledger_examples import (
    DAYS,
    TABLE,
    a_manifest,
    a_replay,
    a_resolution,
    an_offered_file,
    make_publishable,
    plan,
    publish,
    publish_equal,
    read_by_a_gate,
    results_for,
    roll_back,
    show_rows,
    tamper,
    violations,
)


@pytest.fixture(scope="module")
def full_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite ledger that has rows in every protected table, and no triggers."""
    file = tmp_path_factory.mktemp("full") / "ledger.db"
    ledger = Ledger.open(f"sqlite:///{file}", clock=lambda: NOON)
    for run_id in ("first", "equal"):
        make_publishable(ledger, run_id)
    standing = publish(ledger, "first", at=1)
    publish_equal(ledger, "equal", DAYS[:1], at=2)
    make_publishable(ledger, "wrong", days=DAYS[:1])
    roll_back(ledger, publish(ledger, "wrong", days=DAYS[:1], at=3), at=4)
    show_rows(ledger, "shown", reads=(read_by_a_gate("shown"),))
    member = plan(ledger, "member", request_id="set.1")
    agreed = SetManifest(
        set_id="set.1",
        name="monthly",
        reason="both were wrong",
        requested_by="ana",
        requested_at=NOON,
        because="",
        members=(SetMember(run_id="member", table=member.table, manifest_digest=member.digest),),
    )
    with ledger.write() as writer:
        accepted = writer.versions.accepted(TABLE, DAYS[:1])[DAYS[0]]
        result = results_for("first", DAYS[:1])[0]
        checked = CheckedGate.of(result, table=TABLE, version=accepted.version, term="a" * 16)
        writer.checks.record(TABLE, [checked], actor="eve")
        writer.sets.add(agreed, actor="ana")
        import_id = writer.imports.begin(an_offered_file(), actor="ann").import_id
        writer.imports.finish(
            import_id,
            counts=ImportCounts(landed=5, accepted=5),
            days=[ImportDay(import_id=import_id, event_date=day, events=1) for day in DAYS],
            schema_versions=[1],
            ignored_columns=["a"],
            keys=KeyCounts(current=5),
            actor="ann",
        )
        captured = writer.captures.begin(
            "bronze.events",
            a_resolution(),
            period_from=NOON,
            period_to=NOON,
            is_live=False,
            by="ann",
            reason="the topic forgets",
            policy=Policy(),
            waits=True,
        )
        writer.requests.approve(captured.capture_id, by="ben", note="")
        times = Written(records=5, first_at=NOON, last_at=NOON)
        writer.captures.add(captured.capture_id, "0", an_offered_file(), times, by="ann")
        replayed = writer.replays.begin(a_replay()).replay_id
        writer.requests.approve(replayed, by="ben", note="")
        writer.replays.identify(replayed, "topic", by="ann")
        writer.replays.take(replayed, "one process", by="ann")
        writer.replays.progressed(replayed, "one process", 3, by="ann")
        writer.replays.sending(replayed, by="ann")
        writer.replays.sent(replayed, 5, {"0": "7"}, left_out=0, by="ann")
        writer.replays.close(replayed, by="ann", reason="it is done", deleted=True)
        act = writer.acts.ask(
            TableAct.CUT_OVER, name="silver.a", table="silver.b", policy=Policy(), waits=True, by="ann", reason="better"
        )
        writer.requests.approve(act.act_id, by="ben", note="")
        writer.acts.carry_out(act.act_id, by="ann")
        writer.comparisons.record("silver.b", "silver.a", [a_comparison()], gone=[], by="ann")
        cause = RunCause(kind=CauseKind.FOLLOW_UP, publications=(standing,))
        follow_up = a_manifest("follow", table="gold.example", cause=cause)
        assert writer.outbox.add_follow_up(follow_up, actor="dependents")
        freeze = Freeze(
            freeze_id="freeze-1",
            table="gold.example",
            grain=Grain.DAILY,
            first=DAYS[0],
            last=DAYS[-1],
            until=NOON + timedelta(days=900),
            only="follow",
            by="ana",
            reason="it is restated",
            since=NOON,
        )
        writer.freezes.begin(freeze)
        writer.freezes.end(freeze.freeze_id, by="ben", reason="done")
    assert violations(ledger) == ()
    ledger.close()
    with closing(sqlite3.connect(file)) as connection:
        for (trigger,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            connection.execute(f"DROP TRIGGER {trigger}")
        connection.commit()
    return file


def a_comparison() -> ComparedPartition:
    return ComparedPartition(
        table="silver.b",
        partition=DAYS[0],
        with_table="silver.a",
        version=1,
        with_version=2,
        agreed=5,
        changed=1,
        only_here=1,
        only_there=1,
        explained=3,
        terms="0" * 64,
    )


def edit(file: Path, statement: str) -> int:
    """Changes a ledger as a person with the right tools can, past every constraint; returns how many rows."""
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        changed = connection.execute(statement).rowcount
        connection.commit()
        return changed


def test_every_table_is_protected_or_says_why_not() -> None:
    assert PROTECTED.keys() | UNPROTECTED.keys() == set(metadata.tables.values())
    assert not PROTECTED.keys() & UNPROTECTED.keys()


@pytest.mark.parametrize("table", [table.name for table in PROTECTED])
def test_an_edit_of_any_column_is_found(full_file: Path, tmp_path: Path, clock: Clock, table: str) -> None:
    one_row = f"rowid = (SELECT max(rowid) FROM {table})"
    edits = [
        f"UPDATE {table} SET {column.name} = coalesce({column.name}, '') || '7' WHERE {one_row}"
        for column in metadata.tables[table].columns
    ]
    for number, statement in enumerate([*edits, f"DELETE FROM {table} WHERE {one_row}"]):
        file = tmp_path / f"{number}.db"
        shutil.copy(full_file, file)
        assert edit(file, statement) == 1
        ledger = Ledger.open(f"sqlite:///{file}", clock=clock)
        assert any(table.replace("_", " ") in found for found in violations(ledger)), statement
        ledger.close()


def test_an_edit_that_a_later_change_records_is_found(ledger: Ledger, ledger_url: str) -> None:
    make_publishable(ledger, "bf-1")
    tamper(ledger_url, "UPDATE candidate_partitions SET row_count = 7", "UPDATE runs SET note = 'all is well'")
    publish(ledger, "bf-1")
    found = violations(ledger)
    assert len(found) == 2
    assert any(each.startswith("runs of bf-1 were edited after event") for each in found)
    assert any(each.startswith("candidate partitions of bf-1/1 were edited: ") for each in found)


def test_a_version_that_was_edited_is_found_after_it_was_superseded(ledger: Ledger, ledger_url: str) -> None:
    make_publishable(ledger, "bf-1")
    make_publishable(ledger, "bf-2")
    publication_id = publish(ledger, "bf-1")
    tamper(ledger_url, "UPDATE partition_versions SET row_count = 7 WHERE version = 1")
    publish(ledger, "bf-2", at=2)
    [found] = violations(ledger)
    assert found.startswith(f"partition versions of {publication_id}/202410 were edited after event")


def test_a_publication_of_a_day_digests_the_versions_of_its_month_only(ledger: Ledger) -> None:
    """A day of thousands that were published together is superseded without reading the others."""
    quarter = [date(2024, 10, 1) + timedelta(days=number) for number in range(92)]
    make_publishable(ledger, "quarter", days=quarter)
    of_quarter = publish(ledger, "quarter", days=quarter)
    make_publishable(ledger, "day", days=quarter[40:41])
    of_day = publish(ledger, "day", days=quarter[40:41], at=2)
    with ledger.read() as reader:
        digested = [event.digests.get("partition_versions", {}) for event in reader.events.entries(entity_id="day")]
    assert {name for each in digested for name in each} == {f"{of_quarter}/202411", f"{of_day}/202411"}


def test_rows_that_no_event_records_are_not_written(ledger: Ledger) -> None:
    plan(ledger, "bf-1")
    with pytest.raises(AssertionError, match="no event after them"), ledger.write() as writer:
        writer.candidates._log.write(update(runs).values(note="quietly"), of=["bf-1"])
    with ledger.read() as reader:
        assert (reader.runs.header("bf-1").note, reader.runs.state("bf-1")) == ("", RunState.PLANNED)
