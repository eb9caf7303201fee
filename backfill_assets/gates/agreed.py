"""Agreed gates: whether the gates that a table declares are those of a manifest; imported by planners without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from backfill_assets.domain import Failing, Table
from backfill_assets.domain.errors import PlannedOtherwise
from backfill_assets.domain.failing_rows import AROUND
from backfill_assets.domain.gates import WARM_UP, ComparedWithAccepted, Gate, OnlyExpired, OutsideScope
from backfill_assets.domain.safeguards import NO_CODE, safeguards_of
from backfill_assets.planning.kinds.any_change import AnyChange
from backfill_assets.planning.kinds.replace import REPLACE
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.manifest_parts import GateInput, GateTerm
from backfill_assets.planning.safeguards import COLUMN, GATE, Agreed, gate_digests

_OF_CHANGES: Mapping[str, Gate] = {gate.name: gate for gate in (ComparedWithAccepted(), OnlyExpired(), OutsideScope())}


def gates_of(table: Table, change: AnyChange) -> tuple[Gate, ...]:
    """The gates of a run: those that its table declares, and those of its kind of change."""
    return change.gates(table.gates, _OF_CHANGES)


def gate_terms(table: Table, change: AnyChange = REPLACE, *, code: Mapping[str, str] = NO_CODE) -> tuple[GateTerm, ...]:
    """The gates of a run as they are recorded in its manifest.

    Args:
        code: The digests of the author's code that measures gates, by their names.
    """
    return tuple(
        GateTerm(
            name=gate.name,
            demands=gate.demands,
            blocking=gate.blocking,
            code=code.get(gate.name) or (gate.release if isinstance(gate, Failing) else ""),
            reads=tables_read(gate, table) if isinstance(gate, Failing) else (),
            references=gate.references if isinstance(gate, Failing) else (),
        )
        for gate in gates_of(table, change)
    )


def tables_read(gate: Failing, table: Table) -> tuple[GateInput, ...]:
    """The tables whose accepted rows a gate reads: those that it names, and its own around the partitions of a run."""
    others = [
        GateInput(
            argument=each.argument,
            table=each.table.name,
            window=each.window,
            changes=each.changes,
            is_optional=each.is_optional,
        )
        for each in gate.reads
    ]
    if gate.around is not None:
        others.append(GateInput(argument=AROUND, table=table.name, window=gate.around, is_optional=True))
    return tuple(others)


def asked_of_accepted(table: Table, code: Mapping[str, str]) -> Mapping[str, str]:
    """By name, the digests of the declared gates that can be asked of accepted rows.

    Args:
        code: As of `gate_terms`.
    """
    asked = {gate.name for gate in table.gates if gate.of_accepted}
    digests = gate_digests(gate_terms(table, code=code), safeguards_of(table, code))
    return {name: digest for name, digest in digests.items() if name in asked}


def _in_short(terms: Iterable[GateTerm]) -> Sequence[GateTerm]:
    """The terms that are compared: what the proof of the window computes is pinned separately in the manifest."""
    return [replace(term, demands="") if term.name == WARM_UP else term for term in terms]


def _bounded_otherwise(manifest: Manifest, table: Table, code: Mapping[str, str]) -> Sequence[str]:
    """The conditions of gates, besides their words, that are declared otherwise now: sums, and columns that are
    never null."""
    declared = {each.name: each for each in safeguards_of(table, code)}
    pinned = (each for each in manifest.safeguards if each.name.startswith((GATE, COLUMN)))
    return [each.name for each in pinned if each.name in declared and declared[each.name].document != each.document]


def gates_since(manifest: Manifest, table: Table, code: Mapping[str, str] = NO_CODE) -> tuple[str, ...]:
    """The gates of a table, and its columns that are never null, that are declared more strictly than a run was planned
    with, or otherwise so that neither is known to be as strict: what it has staged was not measured with them.

    Args:
        code: As of `require_agreed_gates`.
    """
    if not manifest.computed or not manifest.safeguards:
        # Without rows there is nothing to measure, and manifests of earlier revisions have no bounds of gates.
        return ()
    declared, pinned = (
        tuple(each for each in some if each.name.startswith((GATE, COLUMN)))
        for some in (safeguards_of(table, code), manifest.safeguards)
    )
    return Agreed(safeguards=(declared,)).loosened_by(pinned)


def require_agreed_gates(manifest: Manifest, table: Table, code: Mapping[str, str] = NO_CODE) -> None:
    """Refuses to measure by other gates than those of the manifest.

    Args:
        code: The present digests of the author's code that measures gates, by their names.

    Raises:
        ContractBroken: The table declares other gates now.
    """
    declared = gate_terms(table, manifest.change, code=code)
    if _in_short(declared) == _in_short(manifest.gates):
        if manifest.computed and (changed := _bounded_otherwise(manifest, table, code)):
            difference = f"was planned with other bounds than {table.name} declares now ({', '.join(changed)})"
            raise PlannedOtherwise(run_id=manifest.run_id, difference=difference, manifest=manifest)
        return
    agreed_names, declared_names = ({term.name for term in terms} for terms in (manifest.gates, declared))
    differences = [
        f"{what} {', '.join(sorted(names))}"
        for what, names in (
            ("no longer declared:", agreed_names - declared_names),
            ("new:", declared_names - agreed_names),
            (
                "changed:",
                {term.name for term in set(_in_short(declared)) ^ set(_in_short(manifest.gates))}
                & agreed_names
                & declared_names,
            ),
        )
        if names
    ]
    different = "; ".join(differences) or "in another order"
    difference = f"was planned with other gates than {table.name} declares now ({different})"
    raise PlannedOtherwise(run_id=manifest.run_id, difference=difference, manifest=manifest)
