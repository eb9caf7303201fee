"""Members: the runs of a restatement set, and the table versions at which the set can be read as one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from backfill_assets.ledger.read_publications import PublicationReads
from backfill_assets.ledger.read_runs import RunReads
from backfill_assets.ledger.records import RunRecord, SetRecord
from backfill_assets.ledger.states import SetState


def members_of(runs: RunReads, record: SetRecord) -> Sequence[RunRecord]:
    """The runs of a set in the order of publication."""
    return runs.named(member.run_id for member in record.manifest.members)


def versions_of(publications: PublicationReads, record: SetRecord) -> Mapping[str, int]:
    """The version of every table at which readers see the whole of a set; none unless all of it is published."""
    found: dict[str, int] = {}
    if record.state is not SetState.PUBLISHED:
        return found
    landed = publications.landed(member.run_id for member in record.manifest.members)
    for member in record.manifest.members:
        landing = landed.get(member.run_id)
        if landing is not None and landing.delta_version is not None:
            found[member.table] = max(found.get(member.table, 0), landing.delta_version)
    return found
