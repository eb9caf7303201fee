"""Objects of the ledger's database are dropped, replaced or added: an audit names each of them."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from backfill_assets.ledger.connection import connect_engine
from backfill_assets.ledger.creation import PARTIAL_INDEXES
from backfill_assets.ledger.schema import metadata
from backfill_assets.ledger.store import Ledger
from backfill_assets_tests.support.ledger_examples import tamper


def changed(ledger: Ledger) -> str:
    return "\n".join(ledger.changed_definitions())


def test_a_ledger_has_what_it_was_created_with_and_a_comparison_leaves_nothing(ledger: Ledger, ledger_url: str) -> None:
    assert (changed(ledger), changed(ledger)) == ("", "")
    if ledger_url.startswith("postgres"):
        engine = connect_engine(ledger_url)
        with engine.connect() as connection:
            left = "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'backfill_audit%'"
            assert connection.execute(text(left)).scalar_one() == 0
        engine.dispose()


INDEXES = sorted({str(index.name) for table in metadata.tables.values() for index in table.indexes})


def test_every_index_that_is_dropped_is_named(ledger: Ledger, ledger_url: str) -> None:
    assert {str(index.name) for index in PARTIAL_INDEXES} < set(INDEXES)
    for name in INDEXES:
        tamper(ledger_url, f"DROP INDEX {name}")
    assert set(ledger.changed_definitions()) == {
        f"the index {name} of the ledger's database was dropped." for name in INDEXES
    }


def triggers(url: str) -> list[str]:
    """The triggers that refuse edits, as `DROP TRIGGER` names them."""
    if url.startswith("sqlite"):
        return [f"{table}_refuse_{verb}" for table in ("events", "manifests") for verb in ("update", "delete")]
    return [f"{table}_refuse_{verb} ON {table}" for table in ("events", "manifests") for verb in ("change", "truncate")]


def test_every_trigger_that_is_dropped_is_named(ledger: Ledger, ledger_url: str) -> None:
    for name in triggers(ledger_url):
        tamper(ledger_url, f"DROP TRIGGER {name}")
        assert f"{name.partition(' ')[0]} of the ledger's database was dropped" in changed(ledger)


@pytest.mark.parametrize("view", ["backfill_runs", "backfill_publications"])
def test_a_view_that_is_dropped_or_replaced_is_named(ledger: Ledger, ledger_url: str, view: str) -> None:
    tamper(ledger_url, f"DROP VIEW {view}")
    assert changed(ledger) == f"the view {view} of the ledger's database was dropped."
    tamper(ledger_url, f"CREATE VIEW {view} AS SELECT run_id FROM runs")
    assert changed(ledger) == f"the view {view} of the ledger's database was replaced."


def test_what_acts_on_a_table_of_the_ledger_and_was_added_is_named(ledger: Ledger, ledger_url: str) -> None:
    if ledger_url.startswith("sqlite"):
        tamper(ledger_url, "CREATE TRIGGER quiet AFTER INSERT ON approvals BEGIN DELETE FROM outbox; END")
        assert changed(ledger) == "the trigger quiet was added to the ledger's database."
    else:
        tamper(ledger_url, "CREATE RULE quiet AS ON INSERT TO outbox DO INSTEAD NOTHING")
        assert changed(ledger) == "the rule outbox.quiet was added to the ledger's database."


def test_a_trigger_of_postgresql_that_is_switched_off_is_named(ledger: Ledger, ledger_url: str) -> None:
    if ledger_url.startswith("sqlite"):
        pytest.skip("SQLite has no such switch")
    tamper(ledger_url, "ALTER TABLE events DISABLE TRIGGER events_refuse_change")
    assert "events_refuse_change of the ledger's database was replaced" in changed(ledger)


def test_tables_and_views_of_others_in_the_same_database_are_theirs(ledger: Ledger, ledger_url: str) -> None:
    tamper(ledger_url, "CREATE TABLE notes (line TEXT)")
    tamper(ledger_url, "CREATE VIEW my_runs AS SELECT run_id FROM runs")
    assert changed(ledger) == ""
