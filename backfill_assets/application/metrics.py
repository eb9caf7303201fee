"""Metrics: what is watched, as families of samples. Counters come from the events, gauges from the present ledger."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from backfill_assets.core.errors import Refused
from backfill_assets.core.people import Sensor
from backfill_assets.ledger.records import RunRecord
from backfill_assets.ledger.states import NOT_STAGED, PublicationState, RunState
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.manifest import chunks_of
from backfill_assets.planning.state import estimate
from backfill_assets.report.event_counts import Durations, EventCounts
from backfill_assets.report.sources import captured_sources
from backfill_assets.requests.stuck import still_stuck
from backfill_assets.staleness.decide import Staleness
from backfill_assets.upkeep.audit import last_audit
from backfill_assets.workspace import Workspace

_STUCK = (RunState.BLOCKED, RunState.FAILED)
_MOST_ESTIMATED = 50
"""Of how many runs that are not staged yet the cost is estimated."""


class MetricKind(StrEnum):
    """The kind of a metric: how its value may change."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSample:
    """One value of a metric."""

    suffix: str  #: What follows the name of the metric: of a histogram `_bucket`, `_sum` or `_count`; else empty.
    labels: Mapping[str, str]  #: By name.
    value: float  #: The value.


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A metric with its values."""

    name: str  #: Its name.
    kind: MetricKind  #: How it behaves.
    help: str  #: What it means, in a sentence.
    samples: tuple[MetricSample, ...]  #: Its values.


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsDocument:
    """The watched metrics."""

    as_of: datetime  #: The instant of the values.
    metrics: tuple[Metric, ...]  #: By name.


def metrics(ws: Workspace, counts: EventCounts, stale: Sequence[Staleness] | None) -> MetricsDocument:
    """The present values of the watched metrics.

    Args:
        counts: What the events add up to; it is continued to the last event.
        stale: What is stale, table by table; None where that is not known now, and then it is left out.
    """
    as_of = ws.clock()
    with ws.ledger.read() as tx:
        counts.continue_(tx)
        found = [*_counted(counts), *_present(tx, as_of), *_stuck(ws, tx), *_captured(ws, tx, as_of), _estimated(tx)]
    found += _audited(ws, as_of)
    if stale is not None:
        found.append(
            _gauge(
                "backfill_stale_partitions",
                "Partitions that no longer follow from their inputs, code, configuration and references.",
                (({"table": each.table}, len(each.partitions)) for each in stale),
            )
        )
    return MetricsDocument(as_of=as_of, metrics=tuple(sorted(found, key=lambda metric: metric.name)))


_Values = Iterable[tuple[Mapping[str, str], float]]


def _counted(counts: EventCounts) -> Iterator[Metric]:
    by_table = (
        ("backfill_input_records_total", "Rows that finished chunks have read.", counts.input_rows),
        ("backfill_output_records_total", "Rows that finished chunks have staged.", counts.output_rows),
        ("backfill_chunks_completed_total", "Chunks that were finished.", counts.chunks),
        ("backfill_validation_failures_total", "Results of blocking gates that failed.", counts.failures),
    )
    for name, meaning, found in by_table:
        yield _metric(name, MetricKind.COUNTER, meaning, (({"table": table}, n) for table, n in sorted(found.items())))
    yield _metric(
        "backfill_rejected_records_total",
        MetricKind.COUNTER,
        "Records of landed files that were rejected.",
        (({"source": source}, n) for source, n in sorted(counts.rejected.items())),
    )
    yield _histogram(
        "backfill_chunk_duration_seconds",
        "Seconds from the start of a chunk until its files are recorded.",
        (({"table": table}, found) for table, found in sorted(counts.chunk_seconds.items())),
    )
    yield _histogram(
        "backfill_sink_write_latency_ms",
        "Milliseconds that a chunk takes per staged partition: Spark reads, computes and writes in one pass.",
        (({"table": table}, found) for table, found in sorted(counts.write_ms.items())),
    )
    yield _histogram(
        "backfill_publish_duration_seconds",
        "Seconds from the intent of a publication or rollback to its acknowledgement.",
        (
            ({"table": table, "action": action}, found)
            for (table, action), found in sorted(counts.publish_seconds.items())
        ),
    )


def _present(tx: ReadTransaction, as_of: datetime) -> Iterator[Metric]:
    yield _gauge(
        "backfill_runs",
        "Runs by table and state.",
        (({"table": table, "state": str(state)}, n) for (table, state), n in sorted(tx.runs.counts().items())),
    )
    leases = tx.leases.every()
    yield _gauge(
        "backfill_lease_age_seconds",
        "Seconds since a process began to work on a run or a landed file.",
        (({"work": work, "holder": held.holder}, _age(held.since_at, as_of)) for work, held in leases.items()),
    )
    yield _gauge(
        "backfill_lease_overdue_seconds",
        "Seconds since a lease ended that was not renewed; 0 while it is alive.",
        (({"work": work, "holder": held.holder}, _age(held.until_at, as_of)) for work, held in leases.items()),
    )
    waiting = tx.outbox.entries(open_only=True)
    ages = [_age(entry.created_at, as_of) for entry in waiting]
    yield _gauge("backfill_outbox_open", "Publications that their dependents have not followed.", [({}, len(waiting))])
    yield _gauge(
        "backfill_outbox_age_seconds",
        "Seconds since the oldest publication that its dependents have not followed.",
        [({}, max(ages, default=0.0))],
    )
    open_ones = tx.publications.headers(states=[PublicationState.PUBLISHING])
    yield _gauge(
        "backfill_open_publication_age_seconds",
        "Seconds since a publication began whose outcome is not known.",
        (({"table": each.table}, _age(each.started_at, as_of)) for each in open_ones),
    )


def _stuck(ws: Workspace, tx: ReadTransaction) -> Iterator[Metric]:
    given_up = still_stuck(ws, tx)
    subjects = {entry.publication_id for entry in tx.outbox.entries(open_only=True) if entry.attempts > 0}
    subjects.update(run.run_id for run in tx.outbox.unfinished_follow_ups(_STUCK))
    subjects.update(work.subject for work in given_up if work.sensor is Sensor.FOLLOW)
    yield _gauge(
        "backfill_stuck_follow_ups",
        "Publications whose follow-ups could not be planned, and follow-ups that are blocked, failed or given up.",
        [({}, len(subjects))],
    )
    yield _gauge(
        "backfill_given_up",
        "The work that sensors have given up or have yet to do, as `status` lists it.",
        (({"sensor": str(sensor)}, sum(work.sensor is sensor for work in given_up)) for sensor in Sensor),
    )


def _captured(ws: Workspace, tx: ReadTransaction, as_of: datetime) -> Iterator[Metric]:
    found = captured_sources(tx, ws.domain.sources, as_of=as_of)
    yield _gauge(
        "backfill_capture_lag_seconds",
        "Seconds since the time of the latest record that was captured from a stream.",
        (({"source": each.last.source}, each.lag_seconds) for each in found if each.lag_seconds is not None),
    )
    yield _gauge(
        "backfill_capture_expires_seconds",
        "Seconds until the retention of a stream may take records that are not captured; less than 0 since it may.",
        (
            ({"source": each.last.source}, round((each.expires_at - as_of).total_seconds(), 3))
            for each in found
            if each.expires_at is not None
        ),
    )


def _age(since: datetime, as_of: datetime) -> float:
    return max(0.0, round((as_of - since).total_seconds(), 3))


def _estimated(tx: ReadTransaction) -> Metric:
    """The expected durations of staging and measuring planned runs, where earlier runs of the table allow an
    estimate."""
    seconds: dict[str, float] = {}
    for header in tx.runs.headers(states=NOT_STAGED, limit=_MOST_ESTIMATED):
        try:
            run = tx.runs.get(header.run_id)
        except Refused:
            continue  # Its manifest cannot be read: `status` and an audit name it.
        expected = _expected_seconds(tx, run)
        if expected is not None:
            seconds[header.table] = seconds.get(header.table, 0.0) + expected
    return _gauge(
        "backfill_cost_estimate",
        "Seconds until the gates of runs end, as expected, of the latest fifty that are planned and not staged.",
        (({"table": table}, round(found, 3)) for table, found in sorted(seconds.items())),
    )


def _expected_seconds(tx: ReadTransaction, run: RunRecord) -> float | None:
    partitions = run.manifest.partitions
    accepted, pace = tx.versions.claims(run.table, partitions), tx.candidates.pace(run.table)
    chunks, own_rows = len(chunks_of(run.manifest)), dict.fromkeys(partitions, 0)
    return estimate(partitions, accepted, own_rows=own_rows, pace=pace, chunks=lambda _rows: chunks).seconds


def _audited(ws: Workspace, as_of: datetime) -> Iterator[Metric]:
    found = last_audit(ws.settings.home)
    samples: Sequence[tuple[Mapping[str, str], float]] = [] if found is None else [({}, float(found.agrees))]
    ages: Sequence[tuple[Mapping[str, str], float]] = [] if found is None else [({}, _age(found.at, as_of))]
    yield _gauge("backfill_audit_agrees", "1 when everything agreed at the last audit; missing without one.", samples)
    yield _gauge("backfill_audit_age_seconds", "Seconds since the last audit ended; missing without one.", ages)


def _gauge(name: str, meaning: str, values: _Values) -> Metric:
    return _metric(name, MetricKind.GAUGE, meaning, values)


def _metric(name: str, kind: MetricKind, meaning: str, values: _Values) -> Metric:
    samples = tuple(MetricSample(suffix="", labels=labels, value=value) for labels, value in values)
    return Metric(name=name, kind=kind, help=meaning, samples=samples)


def _histogram(name: str, meaning: str, values: Iterable[tuple[Mapping[str, str], Durations]]) -> Metric:
    samples: list[MetricSample] = []
    for labels, found in values:
        within = 0
        for bound, count in zip(found.bounds, found.counts, strict=True):
            within += count
            samples.append(MetricSample(suffix="_bucket", labels={**labels, "le": f"{bound:g}"}, value=within))
        samples.append(MetricSample(suffix="_bucket", labels={**labels, "le": "+Inf"}, value=found.count))
        samples.append(MetricSample(suffix="_sum", labels=labels, value=round(found.total, 6)))
        samples.append(MetricSample(suffix="_count", labels=labels, value=found.count))
    return Metric(name=name, kind=MetricKind.HISTOGRAM, help=meaning, samples=tuple(samples))


CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def metrics_text(document: MetricsDocument) -> str:
    """The metrics as Prometheus reads them; those without a value are named all the same."""
    lines: list[str] = []
    for metric in document.metrics:
        lines += [f"# HELP {metric.name} {_in_help(metric.help)}", f"# TYPE {metric.name} {metric.kind}"]
        lines += [
            f"{metric.name}{sample.suffix}{_labels(sample.labels)} {_number(sample.value)}" for sample in metric.samples
        ]
    return "\n".join(lines) + "\n"


def _labels(labels: Mapping[str, str]) -> str:
    named = ",".join(f'{name}="{_quoted(value)}"' for name, value in labels.items())
    return f"{{{named}}}" if named else ""


def _quoted(value: str) -> str:
    return _in_help(value).replace('"', '\\"')


def _in_help(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)
