"""The safeguards of a table, as it is declared: its gates, how it is published, and what it permits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import assert_never

from backfill_assets.core.identity import canonical_json
from backfill_assets.domain.failing_rows import Failing
from backfill_assets.domain.gates import (
    AcceptedValues,
    ComparedWithAccepted,
    Gate,
    Moved,
    RowCount,
    Usual,
    WarmUpProof,
)
from backfill_assets.domain.operations import Ties, UnknownKeys
from backfill_assets.domain.sources import SourceTable
from backfill_assets.domain.tables import DerivedTable
from backfill_assets.planning.kinds.expire import EXPIRE, MONTHS
from backfill_assets.planning.safeguards import (
    COLUMN,
    CUT_OVER,
    FOLLOW,
    GATE,
    LEAVE,
    OF,
    PUBLISH,
    UNDETERMINED,
    Safeguard,
)

NO_CODE: Mapping[str, str] = {}


def safeguards_of(
    table: SourceTable | DerivedTable, code: Mapping[str, str] = NO_CODE, known: Iterable[Safeguard] = ()
) -> tuple[Safeguard, ...]:
    """Everything that a table declares and that may not be loosened by its author alone.

    Args:
        code: The digests of the author's code that measures gates, by their names: other code is another gate.
        known: What its gates know from references (`transforms.references.known_to`).
    """
    measures = table.breakdown.measures if isinstance(table, DerivedTable) and table.breakdown else {}
    found = [_gate(gate, measures, code) for gate in table.gates]
    found += known
    found += [
        _undetermined(f"{what} in the gate {gate.name}", reason)
        for gate in table.gates
        if isinstance(gate, Failing)
        for what, reason in gate.undetermined.items()
    ]
    match table:
        case SourceTable():
            found += _of_source(table)
        case DerivedTable():
            found += _of_derived(table)
        case _:
            assert_never(table)
    return tuple(found)


def _gate(gate: Gate, measures: Mapping[str, str], code: Mapping[str, str]) -> Safeguard:
    name, blocking = f"{GATE}{gate.name}", float(gate.blocking)
    exactly = {"kind": type(gate).__name__}
    match gate:
        case AcceptedValues():
            among = {"values": tuple(sorted(gate.values))}
            return Safeguard(name=name, least={"blocking": blocking}, among=among, exactly=exactly)
        case RowCount():
            least, most = {"blocking": blocking, "at_least": float(gate.at_least)}, {"at_most": gate.at_most}
            return Safeguard(name=name, least=least, most=most, exactly=exactly)
        case ComparedWithAccepted():
            most = {"removed": gate.max_removed_percent, "changed": gate.max_changed_percent}
            return Safeguard(name=name, least={"blocking": blocking}, most=most, exactly=exactly)
        case Moved():
            most = {"percent": gate.percent, "at_least": gate.at_least}
            exactly |= _measure(gate.measure, measures)
            return Safeguard(name=name, least={"blocking": blocking}, most=most, exactly=exactly)
        case Usual():
            least = {"blocking": blocking, "asks": float(gate.then != "warn")}
            allowed = {"most": gate.most, "at_least": float(gate.at_least), "fewest": float(gate.fewest)}
            exactly |= {
                "by": canonical_json(list(gate.by)),
                "against": gate.against,
                **_measure(gate.measure, measures),
            }
            return Safeguard(name=name, least=least, most=allowed, exactly=exactly)
        case WarmUpProof():
            # None is seven days.
            least = {"blocking": blocking, "partitions": float(gate.asked), "extra_days": float(gate.extra_days or 7)}
            return Safeguard(name=name, least=least, exactly=exactly)
        case Failing():
            exactly |= {"demands": gate.demands, "asks": canonical_json(_asked_by(gate))}
            if gate.name in code:
                exactly |= {"code": code[gate.name]}
            return Safeguard(name=name, least={"blocking": blocking}, exactly=exactly)
        case _:
            return Safeguard(name=name, least={"blocking": blocking}, exactly={**exactly, "demands": gate.demands})


def _asked_by(gate: Failing) -> list[object]:
    """The query of a gate besides its words, which do not tell it where the author has written them."""
    reads = [
        [each.argument, each.table.name, dict(each.window.document), each.changes, each.is_optional]
        for each in gate.reads
    ]
    around = None if gate.around is None else dict(gate.around.document)
    excepted = [dict(gate.undetermined)] if gate.undetermined else []
    return [gate.sql, reads, around, list(gate.references), gate.release, *excepted]


def _measure(name: str, measures: Mapping[str, str]) -> Mapping[str, str]:
    """The sum that a measure bounds: another sum is another bound. `rows` is always the same."""
    return {"of": measures[name]} if name in measures else {}


def _of_source(table: SourceTable) -> Iterator[Safeguard]:
    most = {"most_withdrawn_percent": float(table.most_withdrawn_percent)}
    yield Safeguard(name="most_withdrawn_percent", most=most)
    yield Safeguard(name="plausible_gap_days", most={"days": table.plausible_gap_days})
    if table.lateness is not None:
        yield Safeguard(name=FOLLOW, permits=True, most={"days": table.lateness.days})
    if table.rounds:
        yield Safeguard(name="rounds", permits=True)
    if table.ties != Ties.REFUSE:
        yield Safeguard(name="ties", permits=True)
    if table.unknown == UnknownKeys.DROP:  # keys are taken out of its own rows; what reads them is guarded itself
        yield Safeguard(name="unknown", permits=True)


def _of_derived(table: DerivedTable) -> Iterator[Safeguard]:
    yield from _publish(table)
    for column in table.schema.fields:
        yield Safeguard(name=f"{COLUMN}{column.name}", least={"not_null": float(not column.nullable)})
    for source in {each.name: each for each in table.inputs.values() if isinstance(each, SourceTable)}.values():
        if source.unknown != UnknownKeys.BLOCK:
            yield Safeguard(name=f"unknown {source.name}", permits=True, exactly={"policy": str(source.unknown)})
    if table.keep is not None:
        most = {"months": float(MONTHS[table.keep.then])}
        yield Safeguard(name=EXPIRE, permits=True, least={"days": float(table.keep.days)}, most=most)
    if table.tolerance is not None:
        tolerance = table.tolerance
        exactly = {"measure": tolerance.measure, "by": canonical_json(list(tolerance.by)), "owner": tolerance.owner}
        exactly |= _measure(tolerance.measure, table.breakdown.measures if table.breakdown else {})
        leaves = {"percent": float(tolerance.percent), "at_least": float(tolerance.at_least)}
        yield Safeguard(name=LEAVE, permits=True, most=leaves, exactly=exactly)
    for what, reason in table.undetermined.items():
        yield _undetermined(what, reason)
    if table.phases is not None:
        terms = table.phases.terms
        yield Safeguard(name="phases", least={"hold_s": float(terms.hold_s), "each": float(terms.each)})


def _undetermined(what: str, reason: str) -> Safeguard:
    return Safeguard(name=f"{UNDETERMINED}{what}", permits=True, exactly={"reason": reason})


def _publish(table: DerivedTable) -> Iterator[Safeguard]:
    mode, of = canonical_json(table.publish.document), table.version_of or ""
    yield Safeguard(name=PUBLISH, exactly={"mode": mode, OF: of})
    if version := table.declared_version:
        least, among = {"clean_days": float(version.clean_days)}, {"differs": tuple(sorted(version.differs))}
        yield Safeguard(name=CUT_OVER, least=least, among=among, exactly={"explained": version.explained})
