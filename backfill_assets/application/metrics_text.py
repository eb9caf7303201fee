"""Metrics in the text format of Prometheus, for `/metrics` of the desk and for the command line."""

from __future__ import annotations

from collections.abc import Mapping

from backfill_assets.application.metrics import MetricsDocument

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
