"""Checks: what gates found in accepted versions later than their runs, and with which gates versions were measured.

A version was measured with the gates of the run that made it, with those of every run that found it equal and whose
publication stands, and with those of later checks. A gate is compared by the digest of everything by which it judges
(`planning.safeguards.gate_digests`), so that one that was changed counts as another one. A version that a rollback
brings back has what was known of it before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from sqlalchemy import Select, and_, delete, insert, or_, select

from backfill_assets.core.grouped import grouped
from backfill_assets.ledger import queries
from backfill_assets.ledger.bases import without_pins
from backfill_assets.ledger.candidates import append_with_samples
from backfill_assets.ledger.events import Event, Writes
from backfill_assets.ledger.findings import FailingKey, Finding, GateResult
from backfill_assets.ledger.queries import Queries, batches
from backfill_assets.ledger.schema import checked_gates, manifests, partition_versions, publications, runs
from backfill_assets.ledger.states import VersionState
from backfill_assets.ledger.versions import found_equal, month_of
from backfill_assets.planning.manifest_parts import GateTerm
from backfill_assets.planning.safeguards import Safeguard, gate_digests

GATES_CHECKED = "gates_checked"
KEYS_KEPT = "keys_kept"

Version = tuple[date, int]
"""A partition of a table, and the number of one of its versions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedGate:
    """One gate's finding in one accepted version. Key: table, partition, version, gate."""

    table: str  #: The table.
    partition: date  #: The partition.
    version: int  #: The version that was measured.
    gate: str  #: The name of the gate.
    month: int  #: That of the partition, such as 202410.
    run_id: str  #: The run that made the version.
    term: str  #: The digest of everything by which the gate judged.
    blocking: bool  #: True if its failure blocks a run.
    passed: bool  #: True if it passed.
    digest: str  #: The file set digest of exactly the files that were measured.
    finding: Finding  #: What it found; with `observed` it is the verdict.
    observed: Mapping[str, Any]  #: Counts; never values of rows.

    @staticmethod
    def of(result: GateResult, *, table: str, version: int, term: str) -> CheckedGate:
        """A result of a gate, as one of a version."""
        return CheckedGate(
            table=table,
            partition=result.partition,
            version=version,
            gate=result.gate,
            month=month_of(result.partition),
            run_id=result.run_id,
            term=term,
            blocking=result.blocking,
            passed=result.passed,
            digest=result.digest,
            finding=result.finding,
            observed=result.observed,
        )

    @property
    def result(self) -> GateResult:
        """The finding in the form that gates give: of the run that made the version."""
        return GateResult(
            run_id=self.run_id,
            partition=self.partition,
            gate=self.gate,
            blocking=self.blocking,
            passed=self.passed,
            digest=self.digest,
            finding=self.finding,
            observed=self.observed,
        )

    @property
    def found(self) -> tuple[object, ...]:
        """The part of a finding that distinguishes it from an earlier one of the same version."""
        return (self.term, self.blocking, self.passed, self.digest, self.finding, dict(self.observed))


_checked = queries.read_as(CheckedGate)


class CheckReads(Queries):
    """Checks of accepted versions."""

    def not_measured(self, table: str, gates: Mapping[str, str]) -> Mapping[str, tuple[date, ...]]:
        """The accepted partitions that were not measured with each gate; gates without any are absent.

        Cost: one row per set of gates with which runs of accepted versions were planned. Only where one of these lacks
        a gate, one short row per version that such a run made, or that was found equal or checked.

        Args:
            gates: Digests by name.
        """
        held, of_table = partition_versions, _accepted(table)
        made = select(runs.c.gates).join_from(held, runs, runs.c.run_id == held.c.run_id).where(of_table).distinct()
        sets = self._values(made)
        lacking = [each for each in sets if each is None or _lacks(each, gates)]
        if not lacking:
            return {}
        known: dict[Version, dict[str, str]] = {}
        of_others = [each for each in lacking if each is not None]
        planned_so = or_(runs.c.gates.in_(of_others), *([runs.c.gates.is_(None)] if None in lacking else []))
        own = select(held.c.partition_date, held.c.version, runs.c.run_id, runs.c.gates)
        own = own.join_from(held, runs, runs.c.run_id == held.c.run_id)
        for version, some in self._of_runs(own, of_table, planned_so):
            known[version] = dict(some)
        equal = found_equal(held.c.partition_date, held.c.version, runs.c.run_id, runs.c.gates)
        for version, some in self._of_runs(equal.join(runs, runs.c.run_id == publications.c.run_id), of_table):
            if version in known:
                _add(known[version], some, gates)
        checked = checked_gates
        later = select(held.c.partition_date, held.c.version, checked.c.gate, checked.c.term).join(checked, _IS_CHECKED)
        for partition, number, gate, term in self._columns(later.where(of_table)):
            if (partition, number) in known:
                _add(known[partition, number], {gate: term}, gates)
        found = {
            name: tuple(sorted(day for (day, _), some in known.items() if some.get(name) != term))
            for name, term in gates.items()
        }
        return {name: days for name, days in found.items() if days}

    def failing(self, table: str, gates: Mapping[str, str]) -> tuple[CheckedGate, ...]:
        """The failures that checks with these gates found in rows that readers see now, by gate and partition.

        Cost: one index range over the checks of the table; those that failed are read.

        Args:
            gates: Digests by name; checks with others do not count.
        """
        checked = checked_gates
        chosen = select(checked).join(partition_versions, _IS_CHECKED)
        failed = chosen.where(_accepted(table), checked.c.table_name == table, checked.c.passed.is_(False))
        found = map(_checked, self._rows(failed.order_by(checked.c.gate, checked.c.partition_date)))
        return tuple(each for each in found if gates.get(each.gate) == each.term)

    def of_versions(self, table: str, versions: Iterable[Version]) -> Mapping[tuple[date, int, str], CheckedGate]:
        """The last checks of some versions, by partition, version and gate. Cost: one index range per partition."""
        wanted, checked = set(versions), checked_gates
        chosen = select(checked).where(checked.c.table_name == table)
        found = map(_checked, self._rows_with(chosen, checked.c.partition_date, sorted({day for day, _ in wanted})))
        return {
            (each.partition, each.version, each.gate): each
            for each in found
            if (each.partition, each.version) in wanted
        }

    def not_known(self, table: str, found: Iterable[CheckedGate]) -> tuple[CheckedGate, ...]:
        """The findings of a check that differ from the last recorded ones of these versions. Cost: as `of_versions`."""
        given = tuple(found)
        known = self.of_versions(table, ((each.partition, each.version) for each in given))
        before = {key: each.found for key, each in known.items()}
        return tuple(each for each in given if before.get((each.partition, each.version, each.gate)) != each.found)

    def every_result(self, tables: Iterable[str]) -> Iterator[tuple[int, GateResult]]:
        """The checks of tables, each with the version that it measured. Cost: every check, a page at a time."""
        chosen = select(checked_gates).where(checked_gates.c.table_name.in_(tuple(tables)))
        for each in map(_checked, self._streamed(chosen)):
            yield each.version, each.result

    def _of_runs(self, chosen: Select[*tuple[Any, ...]], *where: Any) -> Iterator[tuple[Version, Mapping[str, str]]]:
        """Versions, each with the gates of a run; those of runs of an earlier release are read from its manifest."""
        found = self._columns(chosen.where(*where))
        earlier = self._of_manifests({run_id for _, _, run_id, gates in found if gates is None})
        for partition, version, run_id, gates in found:
            yield (partition, version), earlier[run_id] if gates is None else gates

    def _of_manifests(self, run_ids: Iterable[str]) -> Mapping[str, Mapping[str, str]]:
        chosen, found = select(manifests.c.run_id, manifests.c.body), dict[str, Mapping[str, str]]()
        for run_id, body in (tuple(row) for row in self._rows_with(chosen, manifests.c.run_id, sorted(run_ids))):
            document = without_pins(body)[0]
            terms = [GateTerm(**each) for each in document["gates"]]
            found[run_id] = gate_digests(terms, map(Safeguard.parse, document.get("safeguards", ())))
        return found


_IS_CHECKED = and_(
    checked_gates.c.table_name == partition_versions.c.table_name,
    checked_gates.c.partition_date == partition_versions.c.partition_date,
    checked_gates.c.version == partition_versions.c.version,
)


def _accepted(table: str) -> Any:
    held = partition_versions
    return and_(held.c.table_name == table, held.c.state == VersionState.ACCEPTED)


def _lacks(measured: Mapping[str, str], gates: Mapping[str, str]) -> bool:
    return any(measured.get(name) != term for name, term in gates.items())


def _add(known: dict[str, str], measured: Mapping[str, str], gates: Mapping[str, str]) -> None:
    """Adds the gates that are those that were asked for; one that was changed since adds nothing."""
    known.update((name, term) for name, term in measured.items() if gates.get(name) == term)


class CheckWrites(CheckReads, Writes):
    """Checks, as they are made. They change nothing that readers see."""

    def record(self, table: str, found: Iterable[CheckedGate], *, actor: str, keys: Iterable[FailingKey] = ()) -> None:
        """Records the findings of gates in versions, each in place of an earlier check of that version and gate. What
        is known already is not written again.

        Cost: one row per version and gate, and the checks of the same months for their digest; one event, and one for
        each run of whose rows keys are kept.

        Args:
            found: One per version and gate.
            keys: Rows that fail a gate, which are kept as values of rows of the runs that made them.
        """
        new = self.not_known(table, found)
        if not new:
            return
        held = checked_gates
        for gate, some in grouped((each.gate, each) for each in new).items():
            for version, of_version in grouped((each.version, each) for each in some).items():
                for batch in batches(each.partition for each in of_version):
                    of_gate = (held.c.table_name == table) & (held.c.gate == gate) & (held.c.version == version)
                    months = sorted({(table, month_of(day)) for day in batch})
                    self._log.write(delete(held).where(of_gate, held.c.partition_date.in_(batch)), of=months)
        written = [queries.row_of(each, checked_at=self._log.now) for each in new]
        self._log.write(insert(held), written, of=sorted({(table, each.month) for each in new}))
        payload = {
            "gates": {each.gate: each.term for each in sorted(new, key=lambda each: each.gate)},
            "partitions": len({each.partition for each in new}),
            "results": len(new),
            "failures": sum(not each.passed for each in new),
        }
        self._log.append(Event("check", table, GATES_CHECKED, actor=actor, payload=payload))
        made_by = {(each.partition, each.gate): each.run_id for each in new}
        shown = [(made_by[key.partition, key.gate], key) for key in keys if (key.partition, key.gate) in made_by]
        for run_id, some_keys in grouped(shown).items():
            kept = Event("check", run_id, KEYS_KEPT, actor=actor, payload={"table": table, "keys": len(some_keys)})
            append_with_samples(self._log, kept, run_id, [some_keys])
