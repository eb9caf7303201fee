"""Metrics: their names and values, and that the dashboard and the alerts speak of metrics that there are."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
import yaml
from markupsafe import escape
from starlette.requests import Request

from backfill_assets.application import look
from backfill_assets.application.metrics import Metric, MetricKind, MetricSample, MetricsDocument, metrics_text
from backfill_assets.core.next_steps import Command
from backfill_assets.core.people import Sensor
from backfill_assets.core.settings import PROJECT_ROOT, Settings
from backfill_assets.desk.pages import Pages, StalenessInBackground
from backfill_assets.ledger.outbox import GivenUp
from backfill_assets.ledger.states import RunState
from backfill_assets.report.command_line import words_of
from backfill_assets.report.event_counts import Durations, EventCounts
from backfill_assets.report.follow import stuck_words
from backfill_assets.report.status import StatusDocument
from backfill_assets.workspace import Workspace
from backfill_assets_tests.conftest import NOON
from backfill_assets_tests.support import ledger_examples as examples
from backfill_assets_tests.support.ledger_examples import DAYS, TABLE
from backfill_assets_tests.support.prometheus import program

DASHBOARD = PROJECT_ROOT / "deploy" / "grafana" / "backfill_assets.json"
ALERTS = PROJECT_ROOT / "deploy" / "prometheus" / "alerts.yml"

OF_SECTION_25 = {
    "backfill_input_records_total",
    "backfill_output_records_total",
    "backfill_rejected_records_total",
    "backfill_chunks_completed_total",
    "backfill_chunk_duration_seconds",
    "backfill_sink_write_latency_ms",
    "backfill_validation_failures_total",
    "backfill_cost_estimate",
    "backfill_publish_duration_seconds",
}
"""The names that were agreed with those who watch."""


class Ticking:
    """A clock that a test moves, and that goes on by a second whenever it is read."""

    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now


@pytest.fixture
def clock_of_the_test() -> Ticking:
    return Ticking()


@pytest.fixture
def ws(settings: Settings, clock_of_the_test: Ticking) -> Iterator[Workspace]:
    chosen = replace(settings, domain="backfill_assets_tests.domains.example")
    opened = Workspace.open(chosen, clock=clock_of_the_test)
    yield opened
    opened.close()


def values(document: MetricsDocument, name: str, suffix: str = "") -> dict[tuple[str, ...], float]:
    """The values of a metric by the values of its labels."""
    (metric,) = (metric for metric in document.metrics if metric.name == name)
    return {tuple(s.labels.values()): s.value for s in metric.samples if s.suffix == suffix}


def test_every_agreed_metric_is_there_from_the_beginning(ws: Workspace) -> None:
    names = [metric.name for metric in look.metrics(ws, None, ()).metrics]
    assert set(names) >= OF_SECTION_25
    assert {"backfill_lease_age_seconds", "backfill_outbox_age_seconds", "backfill_stuck_follow_ups"} <= set(names)
    assert names == sorted(set(names))


def test_what_is_staged_and_gated_is_counted_by_table(ws: Workspace) -> None:
    for run_id in ("a", "b"):
        examples.plan(ws.ledger, run_id)
        examples.stage(ws.ledger, run_id)
        examples.gate(ws.ledger, run_id)
    found = look.metrics(ws, None, ())
    assert values(found, "backfill_input_records_total") == {(TABLE,): 20}
    assert values(found, "backfill_output_records_total") == {(TABLE,): 18}
    assert values(found, "backfill_chunks_completed_total") == {(TABLE,): 2}
    assert values(found, "backfill_validation_failures_total") == {(TABLE,): 0}
    assert values(found, "backfill_chunk_duration_seconds", "_count") == {(TABLE,): 2}
    assert values(found, "backfill_sink_write_latency_ms", "_count") == {(TABLE,): 2}
    assert values(found, "backfill_runs") == {(TABLE, "PASSED"): 2}


def test_staging_again_never_makes_a_counter_smaller(ws: Workspace) -> None:
    examples.plan(ws.ledger, "a")
    examples.stage(ws.ledger, "a")
    before = look.metrics(ws, None, ())
    with ws.ledger.write() as tx:
        tx.runs.take("a", RunState.STAGING, actor="runner", attempt="a2")
        tx.candidates.clear("a")
    between = look.metrics(ws, None, ())
    assert values(between, "backfill_output_records_total") == values(before, "backfill_output_records_total")


def test_counting_on_gives_what_counting_from_the_beginning_gives(ws: Workspace) -> None:
    counts = EventCounts()
    for run_id in ("a", "b", "c"):
        examples.make_publishable(ws.ledger, run_id)
        look.metrics(ws, counts, ())
    continued, anew = look.metrics(ws, counts, ()), look.metrics(ws, None, ())
    assert continued.metrics == anew.metrics
    with ws.ledger.read() as tx:
        assert f"{counts.last}:" in tx.events.head()


def test_a_chunk_that_began_before_the_last_scrape_is_timed_all_the_same(
    ws: Workspace, clock_of_the_test: Ticking
) -> None:
    counts = EventCounts()
    examples.plan(ws.ledger, "a")
    with ws.ledger.write() as tx:
        tx.runs.take("a", RunState.STAGING, actor="runner", attempt="a1")
        tx.candidates.start_chunk("a", 1, DAYS, attempt="a1")
    look.metrics(ws, counts, ())
    clock_of_the_test.now += timedelta(seconds=90)
    with ws.ledger.write() as tx:
        tx.candidates.finish_chunk(
            "a", 1, input_rows=10, output_rows=9, candidates=examples.staged("a"), attempt="a1", checksum="xx64:1"
        )
    found = look.metrics(ws, counts, ())
    (seconds,) = values(found, "backfill_chunk_duration_seconds", "_sum").values()
    assert 90 < seconds < 100
    (ms,) = values(found, "backfill_sink_write_latency_ms", "_sum").values()
    assert ms == pytest.approx(seconds * 1000 / len(DAYS))
    assert values(found, "backfill_chunk_duration_seconds", "_bucket")[TABLE, "60"] == 0
    assert values(found, "backfill_chunk_duration_seconds", "_bucket")[TABLE, "300"] == 1


def test_a_lease_that_is_not_renewed_becomes_overdue(ws: Workspace, clock_of_the_test: Ticking) -> None:
    examples.plan(ws.ledger, "a")
    with ws.ledger.write() as tx:
        tx.runs.take("a", RunState.STAGING, actor="ana", attempt="a1", lease=timedelta(seconds=120))
    found = look.metrics(ws, None, ())
    assert values(found, "backfill_lease_overdue_seconds") == {("a", "ana"): 0}
    clock_of_the_test.now += timedelta(seconds=300)
    found = look.metrics(ws, None, ())
    assert 170 < values(found, "backfill_lease_overdue_seconds")["a", "ana"] < 190
    assert 295 < values(found, "backfill_lease_age_seconds")["a", "ana"] < 310


def test_publications_and_rollbacks_are_timed_and_what_is_not_followed_ages(
    ws: Workspace, clock_of_the_test: Ticking
) -> None:
    examples.make_publishable(ws.ledger, "a")
    publication_id = examples.publish(ws.ledger, "a")
    clock_of_the_test.now += timedelta(hours=2)
    found = look.metrics(ws, None, ())
    assert values(found, "backfill_publish_duration_seconds", "_count") == {(TABLE, "PUBLISH"): 1}
    assert values(found, "backfill_outbox_open") == {(): 1}
    assert 7_200 < values(found, "backfill_outbox_age_seconds")[()] < 7_260
    examples.roll_back(ws.ledger, publication_id)
    found = look.metrics(ws, None, ())
    assert values(found, "backfill_publish_duration_seconds", "_count") == {
        (TABLE, "PUBLISH"): 1,
        (TABLE, "ROLLBACK"): 1,
    }


def test_a_publication_without_an_outcome_ages(ws: Workspace, clock_of_the_test: Ticking) -> None:
    examples.make_publishable(ws.ledger, "a")
    with ws.ledger.read() as tx:
        intent = examples.publication_of(tx, "a")
    with ws.ledger.write() as tx:
        tx.publications.begin(intent, actor="Bob")
    clock_of_the_test.now += timedelta(hours=1)
    found = look.metrics(ws, None, ())
    assert 3_600 < values(found, "backfill_open_publication_age_seconds")[(TABLE,)] < 3_660
    assert values(found, "backfill_publish_duration_seconds", "_count") == {}


def test_what_sensors_have_given_up_is_counted_and_shown_by_the_desk_as_status_lists_it(ws: Workspace) -> None:
    examples.make_publishable(ws.ledger, "a")
    publication_id = examples.publish(ws.ledger, "a")
    examples.make_publishable(ws.ledger, "b")
    assert set(values(look.metrics(ws, None, ()), "backfill_given_up").values()) == {0}
    with ws.ledger.write() as tx:
        tx.stuck.give_up(Sensor.FOLLOW, GivenUp(subject=publication_id, why="an input is gone."))
        tx.stuck.give_up(Sensor.PUBLISH, GivenUp(subject="b", why="<b> is outdated"))
        tx.stuck.give_up(Sensor.PUBLISH, GivenUp(subject="a", why="it was published by hand since"))
    status = look.status(ws, None)
    assert isinstance(status, StatusDocument)
    assert [(each.work.sensor, each.work.subject) for each in status.stuck] == [
        ("follow", publication_id),
        ("publish", "b"),
    ]
    found = look.metrics(ws, None, ())
    assert {sensor: n for (sensor,), n in values(found, "backfill_given_up").items() if n} == {
        "follow": 1,
        "publish": 1,
    }
    assert values(found, "backfill_stuck_follow_ups") == {(): 1}
    desk = Pages(ws=ws, staleness=StalenessInBackground(ws, patience_s=0))
    shown = bytes(desk.overview(Request({"type": "http"})).body).decode()
    for each in status.stuck:
        assert str(escape(words_of(stuck_words(each)))) in re.sub(r"</?(?:code|span)[^>]*>", "", shown)
    assert "(an input is gone). To try again: " in shown
    with ws.ledger.write() as tx:
        tx.stuck.clear("b", by="ben")
    assert values(look.metrics(ws, None, ()), "backfill_given_up")["publish",] == 0


def test_failed_blocking_gates_are_counted(ws: Workspace) -> None:
    examples.plan(ws.ledger, "a")
    examples.stage(ws.ledger, "a")
    results = [replace(each, passed=each.partition != DAYS[0]) for each in examples.results_for("a")]
    with ws.ledger.write() as tx:
        tx.runs.take("a", RunState.GATING, actor="runner", attempt="a1")
        tx.candidates.record_gates("a", examples.staged("a"), results, actor="runner", attempt="a1")
        tx.runs.move("a", RunState.BLOCKED, actor="runner", attempt="a1")
    assert values(look.metrics(ws, None, ()), "backfill_validation_failures_total") == {(TABLE,): 1}


def test_what_is_planned_is_estimated_by_the_pace_of_earlier_runs(ws: Workspace) -> None:
    examples.plan(ws.ledger, "a")
    assert values(look.metrics(ws, None, ()), "backfill_cost_estimate") == {}
    examples.stage(ws.ledger, "a")
    examples.gate(ws.ledger, "a")
    examples.plan(ws.ledger, "b")
    (seconds,) = values(look.metrics(ws, None, ()), "backfill_cost_estimate").values()
    with ws.ledger.read() as tx:
        pace = tx.candidates.pace(TABLE)
    assert pace is not None
    (earlier,) = pace.runs
    assert seconds == pytest.approx(earlier.staging_seconds + earlier.gating_seconds)


def test_bounds_are_counted_once_and_summed_up_in_the_text() -> None:
    found = Durations((1.0, 10.0))
    for value in (0.5, 1.0, 5.0, 100.0):
        found.add(value)
    assert (found.counts, found.count, found.total) == ([2, 1], 4, 106.5)


def test_the_text_quotes_what_would_end_a_label() -> None:
    sample = MetricSample(suffix="", labels={"holder": 'a"b\\c\nd'}, value=1.5)
    metric = Metric(name="x", kind=MetricKind.GAUGE, help="two\nlines", samples=(sample,))
    text = metrics_text(MetricsDocument(as_of=NOON, metrics=(metric,)))
    assert text == '# HELP x two\\nlines\n# TYPE x gauge\nx{holder="a\\"b\\\\c\\nd"} 1.5\n'


def named_in(text: str) -> set[str]:
    """The metrics that an expression names, by the name of their family."""
    found = set(re.findall(r"\bbackfill_[a-z_]+\b", text)) - {"backfill_assets"}
    return {re.sub(r"_(bucket|sum|count)$", "", name) for name in found}


def test_the_dashboard_shows_every_metric_and_no_other(ws: Workspace) -> None:
    document = json.loads(DASHBOARD.read_text())
    expressions = [target["expr"] for panel in document["panels"] for target in panel["targets"]]
    known = {metric.name for metric in look.metrics(ws, None, ()).metrics}
    assert set().union(*map(named_in, expressions)) == known
    ids = [panel["id"] for panel in document["panels"]]
    assert len(ids) == len(set(ids)) > 10


def alerts() -> list[dict[str, object]]:
    (group,) = yaml.safe_load(ALERTS.read_text())["groups"]
    rules: list[dict[str, object]] = group["rules"]
    return rules


def test_alerts_speak_of_metrics_and_commands_that_there_are(ws: Workspace) -> None:
    known = {metric.name for metric in look.metrics(ws, None, ()).metrics}
    for rule in alerts():
        assert named_in(str(rule["expr"])) and named_in(str(rule["expr"])) <= known, rule["alert"]
        commands = re.findall(r"backfill ([a-z]+)\b", str(rule["annotations"]))
        assert set(commands) <= set(Command), rule["alert"]


def test_every_alert_is_in_the_tests_of_the_rules_or_is_a_threshold_alone() -> None:
    tried = (ALERTS.parent / "alerts_test.yml").read_text()
    urgent = {str(rule["alert"]) for rule in alerts() if rule["labels"] != {"severity": "info"}}
    assert {name for name in urgent if f"alertname: {name}\n" not in tried} == {"BackfillPublishSlow"}


@pytest.mark.parametrize("words", [("check", "rules", "alerts.yml"), ("test", "rules", "alerts_test.yml")])
def test_prometheus_accepts_the_rules(words: tuple[str, ...]) -> None:
    done = subprocess.run([program("promtool"), *words], cwd=ALERTS.parent, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_reads_the_text(ws: Workspace) -> None:
    examples.make_publishable(ws.ledger, "a")
    text = metrics_text(look.metrics(ws, None, look.staleness(ws)))
    done = subprocess.run([program("promtool"), "check", "metrics"], input=text, capture_output=True, text=True)
    # The unit is in the agreed name.
    assert done.stderr.strip() in (
        "",
        "backfill_sink_write_latency_ms metric names should not contain abbreviated units",
    )
    assert done.stdout == ""
