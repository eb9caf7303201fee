"""How are values of rows kept so that they can be erased, and how are they erased?"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import delete, insert, select

from backfill_assets.errors import Refused
from backfill_assets.identity import canonical_json
from backfill_assets.ledger.read_samples import ERASED, SampleReader, salted_digest
from backfill_assets.ledger.records import Sample
from backfill_assets.ledger.schema import samples
from backfill_assets.ledger.write_runs import RunWriter
from backfill_assets.ledger.writing import Happening, typed

SALT_BYTES = 32


class SampleWriter(RunWriter, SampleReader):
    """Keeps samples beside the events, and erases them."""

    def _append_with_samples(self, happening: Happening, run_id: str, kept: Iterable[Sample]) -> int:
        """Appends an event that names the salted digests of these samples; none of their values gets into it."""
        held = [_held(sample, run_id) for sample in kept if sample.rows]
        digests = {str(each["kind"]): salted_digest(each["salt"], each["body"]) for each in held}
        payload = {**happening.payload, "samples": digests} if held else happening.payload
        sequence = self._append(
            Happening(
                actor=happening.actor,
                entity=happening.entity,
                entity_id=happening.entity_id,
                action=happening.action,
                payload=payload,
            )
        )
        if held:
            self._connection.execute(insert(samples), [{**each, "sequence": sequence} for each in held])
        return sequence

    def erase_samples(self, *run_ids: str, by: str, reason: str) -> int:
        """Deletes every value of rows that the ledger holds of these runs, and records of each who did and why.

        Returns:
            How many samples were erased.

        Raises:
            UnknownName: There is no such run.
            Refused: A name or a reason is missing, or none of the runs has any.
        """
        eraser, why = typed("the name", by), typed("the reason", reason)
        erased = sum(self._erase_samples_of(run_id, eraser, why) for run_id in run_ids)
        if not erased:
            raise Refused(
                f"the ledger holds no values of rows of run {' or '.join(run_ids)}.",
                next_step=f"backfill report {run_ids[0]}",
                run_id=run_ids[0],
            )
        return erased

    def _erase_samples_of(self, run_id: str, eraser: str, why: str) -> int:
        self._run_state(run_id)
        of_run = samples.c.run_id == run_id
        found = self._rows(select(samples.c.sequence, samples.c.kind).where(of_run).order_by(samples.c.sequence))
        if not found:
            return 0
        self._connection.execute(delete(samples).where(of_run))
        self._append(
            Happening(
                actor=eraser,
                entity="samples",
                entity_id=run_id,
                action=ERASED,
                payload={"reason": why, "erased": [[row.sequence, str(row.kind)] for row in found]},
            )
        )
        return len(found)


def _held(sample: Sample, run_id: str) -> Mapping[str, Any]:
    return {
        "run_id": run_id,
        "kind": sample.kind,
        "salt": secrets.token_hex(SALT_BYTES),
        "body": canonical_json([dict(row) for row in sample.rows]),
    }
