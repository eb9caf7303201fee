"""A ledger of every earlier revision comes forward with everything in it, and a newer one is refused."""

from __future__ import annotations

import json
from itertools import count

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
from backfill_assets.ledger.upgrade import MIGRATIONS
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
        assert [{column: row[column] for column in rows[0]} for row in after[name]] == rows if rows else True, name
    engine.dispose()


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


def test_what_an_earlier_revision_wrote_still_agrees_with_itself(old_ledger: str, clock: Clock) -> None:
    ledger = Ledger.open(old_ledger, clock=clock)
    with ledger.read() as reader:
        assert reader.chain_violations() == ()
        assert list(reader.row_violations()) == []
        assert {run.run_id: run.state for run in reader.runs()} == {
            "first": RunState.PUBLISHED,
            "second": RunState.PUBLISHED,
            "wrong": RunState.ROLLED_BACK,
            "elsewhere": RunState.PUBLISHING,
            "planned": RunState.PLANNED,
            "staged": RunState.GATING,
        }
        for version in reader.versions("silver.example"):
            assert version.files.files[0].path.startswith("_runs/")
        assert states_of_versions(reader, DAYS[0]) == {1: "ACCEPTED", 2: "ROLLED_BACK"}
        assert [record.counts.accepted for record in reader.imports()] == [4, 0]
    ledger.close()


def test_an_upgraded_ledger_is_carried_on(old_ledger: str, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_examples, "_publication_numbers", count(100))  # the kept ledgers begin with 1
    ledger = Ledger.open(old_ledger, clock=clock)
    with ledger.read() as reader:
        (begun,) = [p for p in reader.publications() if p.intent.run_id == "elsewhere"]
        (second,) = [p for p in reader.publications() if p.intent.run_id == "second"]
    with ledger.write() as writer:
        writer.finish_publication(begun.intent.publication_id, delta_version=1, actor="recover")
    with ledger.read() as reader:
        undo = rollback_of(reader, second.intent.publication_id)
    carry_out(ledger, undo, delta_version=5)
    make_publishable(ledger, "third")
    roll_back(ledger, publish(ledger, "third", at=6), at=7)
    with ledger.read() as reader:
        assert {day: version.run_id for day, version in reader.accepted("silver.example").items()} == dict.fromkeys(
            DAYS, "first"
        )
        assert reader.chain_violations() == ()
        assert list(reader.row_violations()) == []
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
        assert any("was edited" in problem for problem in reader.row_violations())
    disarm(old_ledger, "events")
    tamper(old_ledger, "UPDATE events SET actor = 'mallory' WHERE sequence = 3")
    with ledger.read() as reader:
        assert any("was edited" in problem for problem in reader.chain_violations())
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


def test_an_upgrade_that_fails_half_way_leaves_the_earlier_revision(old_ledger: str, clock: Clock) -> None:
    # One of the last statements of an upgrade is refused, because a table of that name is there already.
    tamper(old_ledger, "CREATE TABLE leases (this INTEGER, that INTEGER)")
    engine = connect_engine(old_ledger)
    before = raw(engine)
    with pytest.raises(Refused, match="leases"):
        Ledger.open(old_ledger, clock=clock)
    assert raw(engine) == before
    engine.dispose()
    tamper(old_ledger, "DROP TABLE leases")
    ledger = Ledger.open(old_ledger, clock=clock)
    with ledger.read() as reader:
        assert reader.chain_violations() == ()
    ledger.close()
