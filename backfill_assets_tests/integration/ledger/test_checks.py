"""With which gates accepted versions were measured, as both databases answer it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date
from typing import Any

import pytest
from sqlalchemy import Connection

from backfill_assets.ledger.checks import CheckedGate
from backfill_assets.ledger.findings import FailingKey, Finding
from backfill_assets.ledger.store import Ledger
from backfill_assets_tests.support.ledger_examples import (
    DAYS,
    TABLE,
    gate,
    make_publishable,
    plan,
    publish,
    publish_equal,
    roll_back,
    stage,
    tamper,
)


def gates_of(ledger: Ledger, run_id: str) -> Mapping[str, str]:
    """The digests of the gates of a run."""
    with ledger.read() as reader:
        return dict(reader.runs.get(run_id).manifest.gate_digests)


def lacking(ledger: Ledger, gates: Mapping[str, str]) -> Mapping[str, tuple[date, ...]]:
    with ledger.read() as reader:
        return reader.checks.not_measured(TABLE, gates)


def checked(ledger: Ledger, name: str, term: str, *, days: Iterable[date] = DAYS, passed: bool = True) -> None:
    """A later check of what is accepted."""
    with ledger.write() as writer:
        versions = writer.versions.accepted(TABLE, tuple(days))
        found = [
            CheckedGate(
                table=TABLE,
                partition=day,
                version=version.version,
                gate=name,
                month=day.year * 100 + day.month,
                run_id=version.run_id,
                term=term,
                blocking=True,
                passed=passed,
                digest=version.files.digest,
                finding=Finding.SATISFIED if passed else Finding.UNSATISFIED,
                observed={"rows": 1, "violating_rows": int(not passed), "condition": "true"},
            )
            for day, version in versions.items()
        ]
        keys = [] if passed else [FailingKey(gate=name, partition=found[0].partition, key={"secret": "4711"})]
        writer.checks.record(TABLE, found, actor="eve", keys=keys)


@pytest.fixture
def published(ledger: Ledger) -> Ledger:
    make_publishable(ledger, "bf-1")
    publish(ledger, "bf-1")
    return ledger


def test_a_caller_that_stops_reading_half_way_leaves_no_cursor_open(
    published: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked(published, "new", "digest")
    opened, execute = list[Any](), Connection.execute

    def watched(self: Connection, *given: Any, **named: Any) -> Any:
        opened.append(execute(self, *given, **named))
        return opened[-1]

    with published.read() as reader, monkeypatch.context() as patch:
        patch.setattr(Connection, "execute", watched)
        assert any(True for _ in reader.candidates.every_gate_result([TABLE]))
        assert any(True for _ in reader.checks.every_result([TABLE]))
        assert [each.closed for each in opened] == [True, True]


def test_a_version_was_measured_with_the_gates_of_its_run_and_of_later_checks_of_it(published: Ledger) -> None:
    own = gates_of(published, "bf-1")
    assert lacking(published, own) == {}
    asked = {**own, "added": "a" * 16}
    assert lacking(published, asked) == {"added": DAYS}
    checked(published, "added", "b" * 16)  # with other demands
    assert lacking(published, asked) == {"added": DAYS}
    checked(published, "added", "a" * 16, days=DAYS[:1])
    assert lacking(published, asked) == {"added": DAYS[1:]}
    # A gate that is not declared any more is asked of nobody.
    assert lacking(published, {}) == {}


def test_a_version_that_was_found_equal_was_measured_with_the_gates_of_that_run_while_it_stands(
    published: Ledger, ledger_url: str
) -> None:
    make_publishable(published, "bf-2")
    tamper_gates(ledger_url, "bf-2")
    asked = {"added": "c" * 16}
    assert lacking(published, asked) == {"added": DAYS}
    publication = publish_equal(published, "bf-2", equal=DAYS, at=2)
    assert lacking(published, asked) == {}
    roll_back(published, publication, at=3)
    assert lacking(published, asked) == {"added": DAYS}


def tamper_gates(url: str, run_id: str) -> None:
    """As if a run had been planned with another gate."""
    tamper(url, f"UPDATE runs SET gates = '{{\"added\":\"{'c' * 16}\"}}' WHERE run_id = '{run_id}'")


def test_a_version_that_comes_back_has_what_is_known_of_it(published: Ledger) -> None:
    asked = {"added": "a" * 16}
    checked(published, "added", "a" * 16, passed=False)
    make_publishable(published, "bf-2")
    publication = publish(published, "bf-2", at=2)
    assert lacking(published, asked) == {"added": DAYS}
    with published.read() as reader:
        assert reader.checks.failing(TABLE, asked) == ()
    roll_back(published, publication, at=3)
    assert lacking(published, asked) == {}
    with published.read() as reader:
        assert [each.partition for each in reader.checks.failing(TABLE, asked)] == list(DAYS)
        assert reader.checks.failing(TABLE, {"added": "z" * 16}) == ()


def test_runs_before_the_column_are_read_from_their_manifests(published: Ledger, ledger_url: str) -> None:
    own = gates_of(published, "bf-1")
    tamper(ledger_url, "UPDATE runs SET gates = NULL")
    assert lacking(published, own) == {}
    assert lacking(published, {**own, "added": "a" * 16}) == {"added": DAYS}


def test_a_check_is_recorded_once_and_its_rows_are_protected(published: Ledger, ledger_url: str) -> None:
    checked(published, "added", "a" * 16, passed=False)
    with published.read() as reader:
        head = reader.events.head()
        assert "4711" not in str([dict(each.payload) for each in reader.events.entries()])
    checked(published, "added", "a" * 16, passed=False)
    with published.read() as reader:
        assert reader.events.head() == head
        assert [*reader.events.violations(), *reader.row_checks.violations()] == []
        judged, failed = reader.candidates.of_accepted(TABLE)
        assert (judged["added"], len(failed)) == (len(DAYS), len(DAYS))
    # A later check of the same gate takes its place.
    checked(published, "added", "b" * 16)
    with published.read() as reader:
        assert reader.candidates.of_accepted(TABLE)[1] == ()
        assert [*reader.events.violations(), *reader.row_checks.violations()] == []
    tamper(ledger_url, "UPDATE checked_gates SET passed = NOT passed")
    with published.read() as reader:
        assert any("checked gates" in said for said in reader.row_checks.violations())


def test_what_is_asked_of_thousands_of_partitions_is_one_row_per_set_of_gates(published: Ledger) -> None:
    """Statements that return rows, and how many: also where a gate lacks nowhere."""
    plan(published, "bf-9")
    stage(published, "bf-9", DAYS)
    gate(published, "bf-9", DAYS)
    with published.read() as reader:
        rows: list[int] = []
        ask = reader.checks._rows
        reader.checks._rows = lambda statement: rows.append(len(found := ask(statement))) or found  # type: ignore[method-assign,func-returns-value]
        values = reader.checks._values
        reader.checks._values = lambda statement: rows.append(len(found := values(statement))) or found  # type: ignore[method-assign,func-returns-value]
        assert reader.checks.not_measured(TABLE, gates_of(published, "bf-1")) == {}
    assert rows == [1]
