"""Words of gates that accepted rows were not measured with, or that they fail."""

from __future__ import annotations

from backfill_assets.planning.partitions import count_of
from backfill_assets.report.gates_since import FailsGate, NotMeasured


def not_measured_words(found: NotMeasured) -> str:
    """The sentence that accepted rows were not measured with present gates."""
    gates = f"{count_of(len(found.gates), 'gate')} ({', '.join(found.gates)})"
    return f"{found.table} {found.partitions}: not measured with {gates}"


def fails_words(found: FailsGate) -> str:
    """The sentence that accepted rows fail a present gate."""
    only = "" if found.blocking else ", which does not block"
    return f"{found.table} {found.partitions}: accepted rows fail {found.gate}{only}"
