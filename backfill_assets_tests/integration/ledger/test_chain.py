from __future__ import annotations

import multiprocessing
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from sqlalchemy import make_url
from sqlalchemy.exc import DatabaseError, IntegrityError

from backfill_assets.core.clock import Clock
from backfill_assets.core.errors import IllegalTransition
from backfill_assets.ledger.errors import Unusable
from backfill_assets.ledger.states import RunState
from backfill_assets.ledger.store import Ledger
from backfill_assets_tests.support.advice import advised
from backfill_assets_tests.support.ledger_examples import (
    disarm,
    make_publishable,
    plan,
    publish,
    tamper,
    violations,
    write_events,
)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE events SET actor = 'somebody else'",
        "DELETE FROM events",
        "UPDATE manifests SET body = '{}'",
        "UPDATE manifests SET digest = 'x'",
        "UPDATE manifests SET run_id = 'bf-2'",
        "DELETE FROM manifests",
    ],
)
def test_the_database_refuses_to_change_what_was_agreed_or_what_happened(
    ledger: Ledger, ledger_url: str, statement: str
) -> None:
    plan(ledger, "bf-1")
    with pytest.raises(DatabaseError, match="never changes"):
        tamper(ledger_url, statement)
    assert violations(ledger) == ()


def test_postgres_refuses_to_empty_the_history(postgres_url: str, clock: Clock) -> None:
    ledger = Ledger.open(postgres_url, clock=clock)
    plan(ledger, "bf-1")
    with pytest.raises(DatabaseError, match="never changes"):
        tamper(postgres_url, "TRUNCATE events")
    ledger.close()


@pytest.mark.parametrize(
    ("statements", "found"),
    [
        (["UPDATE events SET actor = 'mallory' WHERE sequence = 3"], "event 3 .* was edited"),
        (['UPDATE events SET payload = \'{"note":"fine"}\' WHERE sequence = 3'], "event 3 .* was edited"),
        (["UPDATE events SET payload = 'no json' WHERE sequence = 3"], "cannot be read"),
        (["DELETE FROM events WHERE sequence = 2"], "events 2 to 2 were removed"),
        (["DELETE FROM events WHERE sequence = 1"], "events 1 to 1 were removed"),
        (["DELETE FROM events WHERE sequence > 5"], "the chain ends at event 5"),
        (["DELETE FROM events"], "the chain ends at event 0"),
        (
            [
                "UPDATE events SET sequence = 1000 WHERE sequence = 2",
                "UPDATE events SET sequence = 2 WHERE sequence = 3",
                "UPDATE events SET sequence = 3 WHERE sequence = 1000",
            ],
            "event 2 does not follow event 1",
        ),
        (
            ["DELETE FROM events WHERE sequence = 2", "UPDATE events SET sequence = 2 WHERE sequence = 3"],
            "event 2 does not follow event 1",
        ),
        (["UPDATE chain_head SET sequence = 3"], "not the event that its head names"),
        (["DELETE FROM chain_head"], "head of the event chain was removed"),
    ],
)
def test_a_history_that_was_edited_shortened_or_reordered_shows(
    ledger: Ledger, ledger_url: str, statements: list[str], found: str
) -> None:
    make_publishable(ledger, "bf-1")
    assert violations(ledger) == ()
    disarm(ledger_url, "events")
    for statement in statements:
        # Not by name in `text`: a payload holds colons.
        tamper(ledger_url, statement.replace(":", "\\:"))
    with pytest.raises(AssertionError, match=found):
        raise AssertionError("\n".join(violations(ledger)))


def test_an_edited_manifest_shows_even_with_a_digest_that_fits(ledger: Ledger, ledger_url: str) -> None:
    plan(ledger, "bf-1")
    disarm(ledger_url, "manifests")
    tamper(ledger_url, "UPDATE manifests SET body = '{}'")
    assert "manifests of bf-1 were edited" in " ".join(violations(ledger))
    empty_document = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
    tamper(ledger_url, "UPDATE manifests SET digest = :digest", digest=empty_document)
    assert "manifests of bf-1 were edited" in " ".join(violations(ledger))


def test_a_state_that_no_event_explains_shows(ledger: Ledger, ledger_url: str) -> None:
    plan(ledger, "bf-1")
    tamper(ledger_url, "UPDATE runs SET state = 'PASSED'")
    assert violations(ledger) == ("runs of bf-1 were edited: they are not what event 1 recorded.",)
    tamper(ledger_url, "UPDATE runs SET state = 'PLANNED'")
    tamper(
        ledger_url,
        "UPDATE approvals SET state = 'APPROVED', manifest_digest = :d, approved_by = 'x', approved_at = :at",
        d="0" * 64,
        at="2026-01-01 00:00:00",
    )
    assert violations(ledger) == ("approvals of bf-1 were edited: they are not what event 1 recorded.",)


def test_an_unknown_state_is_refused_by_the_database(ledger: Ledger, ledger_url: str) -> None:
    plan(ledger, "bf-1")
    with pytest.raises(IntegrityError):
        tamper(ledger_url, "UPDATE runs SET state = 'FINE'")


def test_events_are_read_after_a_cursor_and_by_entity(ledger: Ledger) -> None:
    plan(ledger, "bf-1")
    plan(ledger, "bf-2")
    with ledger.write() as writer:
        sequence = writer.events.record(
            actor="ann", entity="landing", entity_id="a.csv", action="duplicate_ignored", payload={"sha256": "a"}
        )
    with ledger.read() as reader:
        assert [event.entity_id for event in reader.events.entries(entity_id="bf-2")] == ["bf-2"]
        [last] = reader.events.entries(after=2)
        assert (last.sequence, last.entity, last.payload) == (sequence, "landing", {"sha256": "a"})


def test_what_happened_is_still_there_after_reopening(ledger: Ledger, ledger_url: str, clock: Clock) -> None:
    make_publishable(ledger, "bf-1")
    publish(ledger, "bf-1")
    with ledger.read() as reader:
        before = reader.runs.records(), list(reader.events.entries()), reader.publications.records()
    ledger.close()
    again = Ledger.open(ledger_url, clock=clock)
    with again.read() as reader:
        assert (reader.runs.records(), list(reader.events.entries()), reader.publications.records()) == before
    with again.write() as writer:
        writer.events.record(actor="ann", entity="test", entity_id="x", action="went_on")
    assert violations(again) == ()
    again.close()


@pytest.mark.long
def test_processes_that_open_and_write_at_once_make_one_chain(ledger_url: str, clock: Clock) -> None:
    spawning = multiprocessing.get_context("spawn")
    processes = [spawning.Process(target=write_events, args=(ledger_url, f"p{n}", 25)) for n in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0, 0, 0]
    ledger = Ledger.open(ledger_url, clock=clock)
    with ledger.read() as reader:
        events = list(reader.events.entries())
        assert [event.sequence for event in events] == list(range(1, 76))
        for name in ("p0", "p1", "p2"):
            assert [e.payload["number"] for e in events if e.actor == name] == list(range(25))
        assert reader.events.violations() == ()
    ledger.close()


def test_threads_that_share_a_ledger_make_one_chain(ledger: Ledger) -> None:
    def write(number: int) -> None:
        with ledger.write() as writer:
            writer.events.record(actor=f"t{number}", entity="test", entity_id="x", action="wrote")

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(write, range(60)))
    with ledger.read() as reader:
        assert len(list(reader.events.entries())) == 60
        assert reader.events.violations() == ()


def test_of_two_who_take_the_same_step_one_is_refused(ledger: Ledger) -> None:
    plan(ledger, "bf-1")
    with ledger.write() as writer:
        writer.runs.take("bf-1", RunState.STAGING, actor="ann", attempt="a1")

    def fail(number: int) -> bool:
        try:
            with ledger.write() as writer:
                writer.runs.give_up("bf-1", actor=f"t{number}", note="gone")
        except IllegalTransition as error:
            assert "FAILED" in str(error)
            return False
        return True

    with ThreadPoolExecutor(4) as threads:
        assert sorted(threads.map(fail, range(4))) == [False, False, False, True]


def test_a_reader_sees_one_state_of_the_ledger_while_others_write(ledger: Ledger) -> None:
    plan(ledger, "bf-1")
    with ledger.read() as reader:
        assert len(reader.runs.records()) == 1
        plan(ledger, "bf-2")
        assert len(reader.runs.records()) == 1
    with ledger.read() as reader:
        assert len(reader.runs.records()) == 2


def test_what_was_edited_is_found_behind_the_first_page_of_a_long_history(ledger: Ledger, ledger_url: str) -> None:
    for number in range(41):
        plan(ledger, f"bf-{number:02}")
    assert violations(ledger) == ()
    tamper(ledger_url, "UPDATE runs SET mode = 'LIVE' WHERE run_id IN ('bf-20', 'bf-40')")
    assert [each.split()[2] for each in violations(ledger)] == ["bf-20", "bf-40"]


@pytest.mark.parametrize("may_use_schema", [True, False])
@pytest.mark.parametrize("is_new", [True, False])
def test_what_a_role_lacks_is_named_as_the_grant_that_gives_it_until_the_ledger_can_be_written(
    postgres_url: str, clock: Clock, may_use_schema: bool, is_new: bool
) -> None:
    if not is_new:
        Ledger.open(postgres_url, clock=clock).close()
    address, granted = make_url(postgres_url), list[str]()
    tamper(postgres_url, "CREATE ROLE reader LOGIN PASSWORD 'secret'")
    if not may_use_schema:
        tamper(postgres_url, "REVOKE USAGE ON SCHEMA public FROM PUBLIC")
    role = address.set(username="reader", password="secret").render_as_string(hide_password=False)
    try:
        while len(granted) < 60:
            try:
                ledger = Ledger.open(role, clock=clock)
                with closing(ledger):
                    plan(ledger, "bf-1")
                    break
            except Unusable as refused:
                grant = refused.message.partition("; its owner can ")[2].rstrip(".")
                assert grant not in granted and grant.endswith(' TO "reader"'), refused.message
                assert "secret" not in refused.message
                assert advised(refused) == "let its owner do that, then give the same command again"
                tamper(postgres_url, grant)
                granted.append(grant)
        assert ('GRANT USAGE ON SCHEMA "public" TO "reader"' in granted) is not may_use_schema
        assert ('GRANT CREATE ON SCHEMA "public" TO "reader"' in granted) is is_new
        for privilege in () if is_new else ("SELECT ON", "INSERT"):
            assert any(each.startswith(f"GRANT {privilege}") for each in granted)
    finally:
        tamper(postgres_url, "DROP OWNED BY reader")
        tamper(postgres_url, "DROP ROLE reader")
