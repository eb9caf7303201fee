"""Citation of a proof: the earlier run that has proven the window already, found in the ledger and nowhere else.

Whether a window is long enough depends on code, references and windows, and not on the days that are computed. So the
partitions that a proof computes alone, or with longer windows, need not be computed again when a published run of the
same table proved the same terms on rows. Seams between chunks are always proven: their rows are computed while chunks
are staged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from backfill_assets.domain.gates import WARM_UP
from backfill_assets.errors import BackfillError, Refused
from backfill_assets.gates.judge_proof import named_proofs, proven_by_rows
from backfill_assets.lake.checksums import is_known
from backfill_assets.ledger.chain import hash_of
from backfill_assets.ledger.event_payloads import gates_payload
from backfill_assets.ledger.records import EventRecord, GateResult, RunRecord
from backfill_assets.ledger.states import EVER_PUBLISHED
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.manifest import Manifest

_LATEST_RUNS = 10
"""How many earlier runs of the table are looked at, each with the run that it cites."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Citation:
    """The proof of an earlier run.

    Attributes:
        run_id: The run that proved the window, by rows that it computed again.
        proven_on: The partitions that it computed again, in words.
    """

    run_id: str
    proven_on: str


def cited_proof(tx: ReadTransaction, manifest: Manifest) -> Citation | None:
    """The latest published run that proved the same terms; None if there is none, and then the run proves them itself.

    A record that is not what its events say is not cited: `audit` names what was edited.

    Args:
        tx: The transaction.
        manifest: Of the run that needs a proof.
    """
    latest = tx.runs.records(table=manifest.table, states=EVER_PUBLISHED, limit=_LATEST_RUNS, unreadable=_not_cited)
    looked_at = {manifest.run_id}
    for run in latest:
        for each in (run, *_cited_by(tx, run)):
            if each.run_id in looked_at:
                continue
            looked_at.add(each.run_id)
            if found := _proof_of(tx, each, manifest):
                return found
    return None


def _cited_by(tx: ReadTransaction, run: RunRecord) -> Iterator[RunRecord]:
    """The run whose proof a run cites. It is only where to look: nothing else of the run that cites is believed."""
    for cited in named_proofs(tx.candidates.gate_results(run.run_id)):
        with suppress(Refused):
            yield tx.runs.get(cited)


def _proof_of(tx: ReadTransaction, run: RunRecord, manifest: Manifest) -> Citation | None:
    """The proof that a run has computed itself, if it was published and proved the terms of this manifest."""
    if run.state not in EVER_PUBLISHED or terms_of(run.manifest) != terms_of(manifest):
        return None
    results = tx.candidates.gate_results(run.run_id)
    proven_on = proven_by_rows(result for result in results if result.gate == WARM_UP)
    if proven_on is None or not is_as_recorded(run, results, tx.events.entries(entity_id=run.run_id)):
        return None
    # Checksums of an earlier form, by which such a proof compared rows, were equal for rows that differ.
    if not all(is_known(each.checksum) for each in tx.candidates.of_run(run.run_id).values()):
        return None
    return Citation(run_id=run.run_id, proven_on=proven_on)


def terms_of(manifest: Manifest) -> tuple[object, ...]:
    """Everything that a proof of the window depends on: the code, its engine and settings, references, windows and the
    contracts of inputs. A manifest of a format without one of them equals no present one."""
    return (
        manifest.table,
        manifest.grain,
        manifest.transform,
        manifest.transform_version,
        manifest.code_digest,
        manifest.session_digest,
        manifest.configuration_digest,
        dict(manifest.versions),
        tuple((read.argument, read.table) for read in manifest.inputs),
        {reference.name: (reference.version, reference.sha256) for reference in manifest.references},
        [term for term in manifest.gates if term.name == WARM_UP],
    )


def is_as_recorded(run: RunRecord, results: Iterable[GateResult], events: Iterable[EventRecord]) -> bool:
    """Whether a run's manifest and gate results are those that its events record, and these events are unchanged."""
    recorded = {(event.entity, event.action): event for event in events}
    planned, gated = recorded.get(("run", "planned")), recorded.get(("gates", "gates_recorded"))
    if planned is None or gated is None or any(hash_of(event) != event.hash for event in (planned, gated)):
        return False
    found = gates_payload(results)
    return planned.payload.get("manifest_digest") == run.manifest.digest == run.manifest_digest and all(
        gated.payload.get(name) == value for name, value in found.items()
    )


def _not_cited(_table: str, _error: BackfillError) -> None:
    """A run whose manifest cannot be read is not cited; the audit names it."""
