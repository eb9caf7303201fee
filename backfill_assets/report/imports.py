"""Landed files as a table: the part that status, histories and landings share."""

from __future__ import annotations

from collections.abc import Sequence

from backfill_assets.capture.landed_files import STATEMENT
from backfill_assets.ledger.imports import ImportRecord
from backfill_assets.ledger.states import ImportState
from backfill_assets.report.page import Table, Tone, Toned, table
from backfill_assets.report.runs import state_of

_COUNTS = ("landed", "accepted", "duplicate", "superseded", "rejected")


def imports_table(imports: Sequence[ImportRecord]) -> Table:
    """Landed files, and why statements were made and landings stopped."""
    has_notes = any(each.note for each in imports)
    rows = [
        (
            each.import_id,
            each.name,
            import_state(each),
            *(getattr(each.counts, name) for name in _COUNTS),
            *([each.note] if has_notes else []),
        )
        for each in imports
    ]
    heads = ["import", "file", "state", *_COUNTS, *(["note"] if has_notes else [])]
    return table(heads, rows, numbers=_COUNTS, whole=["import", "state"])


def import_state(record: ImportRecord) -> Toned:
    """The state of a landed file; of one without records, or with rejected ones only, that it has no days to build."""
    if record.state is ImportState.LANDED and not record.counts.landed and record.family != STATEMENT:
        return Toned(value="NO RECORDS", tone=Tone.ATTENTION)
    is_refused = record.counts.landed and record.counts.rejected == record.counts.landed
    if record.state is ImportState.LANDED and is_refused:
        return Toned(value="NOTHING ACCEPTED", tone=Tone.ATTENTION)
    return state_of(record.state)
