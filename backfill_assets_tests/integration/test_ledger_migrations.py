"""A ledger of every earlier revision comes forward with everything in it, and a newer one is refused."""

from __future__ import annotations

import json
from datetime import date
from itertools import count
from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, text
from sqlalchemy.exc import IntegrityError

from backfill_assets.clock import Clock
from backfill_assets.errors import Refused
from backfill_assets.ledger.connection import connect_engine
from backfill_assets.ledger.schema import HEAD_REVISION
from backfill_assets.ledger.states import RunState, SetState
from backfill_assets.ledger.store import Ledger
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.ledger.upgrade import MIGRATIONS
from backfill_assets.planning.manifest_parts import CauseKind, Mode
from backfill_assets_tests import ledger_examples
from backfill_assets_tests.integration.test_ledger_schema import schema_of
from backfill_assets_tests.ledger_examples import (
    DAYS,
    carry_out,
    disarm,
    make_publishable,
    publish,
    roll_back,
    rollback_of,
    states_of_versions,
    tamper,
)
from backfill_assets_tests.released_ledgers import RELEASED, Rows, dumped, fill

EARLIER = sorted(path.stem for path in RELEASED.glob("*.json"))

with_row_values = pytest.mark.parametrize("old_ledger", [each for each in EARLIER if each < "0003"], indirect=True)
"""Revision 0003 moved values of rows out of the event chain."""


def configured() -> Config:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    return config


def released(revision: str) -> dict[str, Rows]:
    tables: dict[str, Rows] = json.loads((RELEASED / f"{revision}.json").read_text(encoding="utf-8"))
    return tables


@pytest.fixture(params=EARLIER)
def old_ledger(request: pytest.FixtureRequest, ledger_url: str) -> str:
    """The URL of a ledger as an earlier revision left it."""
    engine = connect_engine(ledger_url)
    config = configured()
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, request.param)
    fill(engine, released(request.param))
    engine.dispose()
    return ledger_url


def test_a_ledger_of_every_earlier_revision_is_kept_for_these_tests() -> None:
    revisions = {script.revision for script in ScriptDirectory.from_config(configured()).walk_revisions()}
    assert set(EARLIER) == revisions - {HEAD_REVISION}, "see released_ledgers.py"


def raw(engine: Engine) -> dict[str, Rows]:
    with engine.connect() as connection:
        return dumped(connection)


def test_every_row_of_an_earlier_revision_is_there_after_the_upgrade(
    old_ledger: str, ledger_url: str, clock: Clock
) -> None:
    engine = connect_engine(ledger_url)
    before = raw(engine)
    assert sum(len(rows) for rows in before.values()) > 50
    Ledger.open(old_ledger, clock=clock).close()
    after = raw(engine)
    for name, rows in before.items():
        kept = [{column: row[column] for column in rows[0]} for row in after[name]] if rows else []
        assert without_row_values(name, kept)[: len(rows)] == without_row_values(name, rows), name
    has_row_values = "samples" not in before
    assert len(after["events"]) == len(before["events"]) + has_row_values, "the upgrade appends what it did"
    engine.dispose()


def without_row_values(table: str, rows: Rows) -> Rows:
    """Rows as they are before and after the upgrade, apart from what it is there to change."""
    moved = {"events": {"payload", "previous_hash", "hash"}, "gate_results": {"verdict", "observed"}}
    moved |= {"chain_head": {"sequence", "hash"}}
    return [
        {
            column: [[path, size, count] for path, size, count, *_ in json.loads(value)]
            if column.endswith("files")
            else value
            for column, value in row.items()
            if column not in moved.get(table, set())
        }
        for row in rows
    ]


@with_row_values
def test_no_value_of_a_row_is_left_where_it_can_never_be_erased(old_ledger: str, clock: Clock) -> None:
    ledger = Ledger.open(old_ledger, clock=clock)
    engine = connect_engine(old_ledger)
    after = raw(engine)
    assert "minValues" not in str(after)
    moved = str(after.pop("samples"))
    assert "case-" not in str(after)
    with ledger.read() as reader:
        if "shown" in {run.run_id for run in reader.runs.records()}:
            assert "case-1742" in moved and "case-1743" in moved
            (changed,) = reader.samples.changed_rows("shown")
            (failing,) = reader.samples.failing_keys("shown")
            assert changed.before == {"state": "é"}
            assert (failing.gate, failing.key) == ("warm_up_proof", {"case_id": "case-1743"})
            verdicts = {result.verdict for result in reader.candidates.gate_results("shown")}
            assert "with 2 instead of 1 day back, 1 of 3 rows differ: the window is too short" in verdicts
        (told,) = [event for event in reader.events.entries() if event.action == "row_values_moved"]
        assert told.payload["broken"] == []
    if old_ledger.startswith("sqlite"):
        content = b"".join(path.read_bytes() for path in Path(str(engine.url.database)).parent.iterdir())
        assert b"minValues" not in content, "what was moved out is overwritten"
    engine.dispose()
    ledger.close()


@with_row_values
def test_every_head_that_an_audit_noted_before_the_upgrade_is_still_contained(old_ledger: str, clock: Clock) -> None:
    engine = connect_engine(old_ledger)
    heads = [f"{event['sequence']}:{event['hash']}" for event in raw(engine)["events"]]
    engine.dispose()
    ledger = Ledger.open(old_ledger, clock=clock)
    with ledger.read() as reader:
        assert all(reader.events.still_contains(head) for head in heads)
        assert not reader.events.still_contains(heads[-1][:-1] + ("0" if heads[-1][-1] != "0" else "1"))
        (told,) = [event for event in reader.events.entries() if event.action == "row_values_moved"]
        assert told.payload["former_head"] == heads[-1]
    ledger.close()


@with_row_values
def test_an_upgrade_does_not_make_an_edited_history_whole(old_ledger: str, clock: Clock) -> None:
    disarm_updates(old_ledger)
    engine = connect_engine(old_ledger)
    last = raw(engine)["events"][-1]["sequence"]
    engine.dispose()
    tamper(old_ledger, f"UPDATE events SET actor = 'mallory' WHERE sequence = {last}")
    ledger = Ledger.open(old_ledger, clock=clock)
    with ledger.read() as reader:
        assert any(f"event {last} was edited or moved before" in found for found in reader.chain_checks.violations())
    ledger.close()


@with_row_values
def test_an_edited_former_hash_shows(old_ledger: str, clock: Clock) -> None:
    ledger = Ledger.open(old_ledger, clock=clock)
    disarm_updates(old_ledger)
    tamper(old_ledger, f"UPDATE events SET former_hash = '{'0' * 64}' WHERE sequence = 3")
    with ledger.read() as reader:
        assert any("before an upgrade were edited" in found for found in reader.chain_checks.violations())
    ledger.close()


def disarm_updates(url: str) -> None:
    """Lets events be edited; the triggers are there again after an upgrade."""
    if url.startswith("sqlite"):
        tamper(
            url,
            "DROP TRIGGER events_refuse_update",
            "CREATE TRIGGER events_refuse_update BEFORE UPDATE ON events BEGIN SELECT 1; END",
        )
    else:
        tamper(url, "ALTER TABLE events DISABLE TRIGGER events_refuse_change")


def test_an_upgraded_ledger_is_shaped_like_a_new_one(
    old_ledger: str, tmp_path_factory: pytest.TempPathFactory, clock: Clock
) -> None:
    Ledger.open(old_ledger, clock=clock).close()
    engine = connect_engine(old_ledger)
    with engine.begin() as connection:
        upgraded = schema_of(connection)
        revision = connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one()
    engine.dispose()
    assert revision == HEAD_REVISION
    if old_ledger.startswith("sqlite"):
        new = f"sqlite:///{tmp_path_factory.mktemp('new') / 'ledger.db'}"
        Ledger.open(new, clock=clock).close()
        engine = connect_engine(new)
        with engine.begin() as connection:
            assert schema_of(connection) == upgraded
        engine.dispose()


def added_by_revision(reader: ReadTransaction) -> dict[str, RunState]:
    """The runs that only ledgers of later revisions have, and the state that these have for a run that is staged."""
    present = {run.run_id for run in reader.runs.headers()}
    added = {"shown": RunState.BLOCKED, "member": RunState.PLANNED}
    followers = {"dry": RunState.PLANNED, "follower": RunState.PLANNED, "staged": RunState.STAGED}
    return (added if "shown" in present else {}) | (followers if "follower" in present else {})


def test_what_a_row_repeats_of_every_run_is_filled_from_its_manifest(old_ledger: str, clock: Clock) -> None:
    ledger = Ledger.open(old_ledger, clock=clock)
    with ledger.read() as reader:
        records = {run.run_id: run for run in reader.runs.records()}
        assert len(records) == len(reader.runs.headers()) > 5
        for run in reader.runs.headers():
            manifest = records[run.run_id].manifest
            assert (run.kind, run.mode, run.because) == (manifest.kind, manifest.mode, manifest.cause.kind)
            assert reader.outbox.followed_by([run.run_id]) == {run.run_id: manifest.followed}
            ends = [reader.runs.headers(over=[day]) for day in (manifest.partitions[0], manifest.partitions[-1])]
            assert all(run in found for found in ends)
        assert reader.runs.headers(over=[date(2030, 1, 1)]) == ()
        if "follower" in records:
            assert [run.run_id for run in reader.runs.headers(modes=[Mode.DRY_RUN])] == ["dry"]
            assert [run.run_id for run in reader.runs.headers(because=CauseKind.FOLLOW_UP)] == ["follower"]
            (first,) = records["follower"].manifest.followed
            assert reader.outbox.following("gold.example", [first]) == {first: set(DAYS)}
    ledger.close()


@pytest.mark.parametrize(
    "edit",
    [
        "UPDATE runs SET mode = 'LIVE' WHERE run_id = 'planned'",
        "UPDATE runs SET because = 'FOLLOW_UP' WHERE run_id = 'planned'",
        "UPDATE runs SET last_partition = '2030-01-01' WHERE run_id = 'planned'",
        "UPDATE runs SET first_partition = NULL WHERE run_id = 'planned'",
        "INSERT INTO run_follows (run_id, publication_id) VALUES ('planned', 'pub-1')",
    ],
)
def test_an_edit_of_what_a_row_repeats_of_a_manifest_shows(old_ledger: str, clock: Clock, edit: str) -> None:
    ledger = Ledger.open(old_ledger, clock=clock)
    tamper(old_ledger, edit)
    with ledger.read() as reader:
        assert list(reader.row_checks.violations()) == [
            "run planned was edited: its row is not what its manifest says."
        ]
    ledger.close()


def test_what_an_earlier_revision_wrote_still_agrees_with_itself(old_ledger: str, clock: Clock) -> None:
    ledger = Ledger.open(old_ledger, clock=clock)
    with ledger.read() as reader:
        assert reader.chain_checks.violations() == ()
        assert list(reader.row_checks.violations()) == []
        assert {run.run_id: run.state for run in reader.runs.records()} == {
            "first": RunState.PUBLISHED,
            "second": RunState.PUBLISHED,
            "wrong": RunState.ROLLED_BACK,
            "elsewhere": RunState.PUBLISHING,
            "planned": RunState.PLANNED,
            "staged": RunState.GATING,
        } | added_by_revision(reader)
        for version in reader.versions.history("silver.example"):
            assert version.files.files[0].path.startswith("_runs/")
        assert states_of_versions(reader, DAYS[0]) == {1: "ACCEPTED", 2: "ROLLED_BACK"}
        assert [record.counts.accepted for record in reader.imports.records()] == [4, 0]
    ledger.close()


def test_an_upgraded_ledger_is_carried_on(old_ledger: str, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_examples, "_publication_numbers", count(100))  # the kept ledgers begin with 1
    ledger = Ledger.open(old_ledger, clock=clock)
    with ledger.read() as reader:
        (begun,) = [p for p in reader.publications.records() if p.intent.run_id == "elsewhere"]
        (second,) = [p for p in reader.publications.records() if p.intent.run_id == "second"]
    with ledger.write() as writer:
        writer.publications.finish(begun.intent.publication_id, delta_version=1, actor="recover")
    with ledger.read() as reader:
        undo = rollback_of(reader, second.intent.publication_id)
    carry_out(ledger, undo, delta_version=5)
    make_publishable(ledger, "third")
    roll_back(ledger, publish(ledger, "third", at=6), at=7)
    with ledger.read() as reader:
        assert {
            day: version.run_id for day, version in reader.versions.accepted("silver.example").items()
        } == dict.fromkeys(DAYS, "first")
        assert reader.chain_checks.violations() == ()
        assert list(reader.row_checks.violations()) == []
    ledger.close()


def test_an_upgraded_ledger_holds_every_state_and_no_other(old_ledger: str, clock: Clock) -> None:
    Ledger.open(old_ledger, clock=clock).close()
    tamper(
        old_ledger,
        "INSERT INTO restatement_sets (set_id, name, state, note, added_sequence, updated_at) "
        "SELECT run_id, 'a set', 'PLANNED', '', 1, updated_at FROM runs WHERE run_id = 'first'",
    )
    for table, states in (("runs", RunState), ("restatement_sets", SetState)):
        for state in states:
            tamper(old_ledger, f"UPDATE {table} SET state = '{state}'")
        with pytest.raises(IntegrityError):
            tamper(old_ledger, f"UPDATE {table} SET state = 'FORGOTTEN'")


def test_an_edit_of_what_an_earlier_revision_wrote_shows(old_ledger: str, clock: Clock) -> None:
    ledger = Ledger.open(old_ledger, clock=clock)
    tamper(old_ledger, "UPDATE publication_changes SET new_files = expected_files")
    with ledger.read() as reader:
        assert any("was edited" in problem for problem in reader.row_checks.violations())
    disarm(old_ledger, "events")
    tamper(old_ledger, "UPDATE events SET actor = 'mallory' WHERE sequence = 3")
    with ledger.read() as reader:
        assert any("was edited" in problem for problem in reader.chain_checks.violations())
    ledger.close()


def test_a_ledger_of_a_newer_version_is_refused_and_left_alone(ledger_url: str, clock: Clock) -> None:
    Ledger.open(ledger_url, clock=clock).close()
    tamper(ledger_url, "UPDATE alembic_version SET version_num = '9999'")
    engine = connect_engine(ledger_url)
    before = raw(engine)
    with pytest.raises(Refused, match=r"at revision 9999, which this version does not know.*upgrade backfill-assets"):
        Ledger.open(ledger_url, clock=clock)
    assert raw(engine) == before
    engine.dispose()


REFUSE_THE_LAST_STEP = {
    "sqlite": (
        "CREATE TRIGGER last_step BEFORE UPDATE ON alembic_version WHEN NEW.version_num = '{head}' "
        "BEGIN SELECT RAISE(ABORT, 'no further'); END",
    ),
    "postgresql": (
        "CREATE FUNCTION no_further() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "IF NEW.version_num = '{head}' THEN RAISE EXCEPTION 'no further'; END IF; RETURN NEW; END $$",
        "CREATE TRIGGER last_step BEFORE UPDATE ON alembic_version FOR EACH ROW EXECUTE FUNCTION no_further()",
    ),
}
"""The last statement of every upgrade names its revision, whatever else it does."""


def test_an_upgrade_that_fails_half_way_leaves_the_earlier_revision(old_ledger: str, clock: Clock) -> None:
    backend = "sqlite" if old_ledger.startswith("sqlite") else "postgresql"
    tamper(old_ledger, *(statement.format(head=HEAD_REVISION) for statement in REFUSE_THE_LAST_STEP[backend]))
    engine = connect_engine(old_ledger)
    before = raw(engine)
    with pytest.raises(Refused, match="no further"):
        Ledger.open(old_ledger, clock=clock)
    assert raw(engine) == before
    engine.dispose()
    tamper(old_ledger, "DROP TRIGGER last_step" + ("" if backend == "sqlite" else " ON alembic_version"))
    ledger = Ledger.open(old_ledger, clock=clock)
    with ledger.read() as reader:
        assert reader.chain_checks.violations() == ()
    ledger.close()
