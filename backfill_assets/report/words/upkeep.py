"""Words of clean-ups: why files stay or go, and why a table was left alone."""

from __future__ import annotations

from collections.abc import Mapping

from backfill_assets.upkeep.retention import LeftAlone, Why

WHY: Mapping[Why, str] = {
    Why.ACCEPTED: "readers see it",
    Why.LIVE: "the table's log names it",
    Why.CANDIDATE: "candidate of a run that can still be published",
    Why.WRITING: "its run is being staged or gated",
    Why.TRIAL: "candidate of a trial run, within the rollback horizon",
    Why.ROLLED_BACK: "rolled back, within the rollback horizon",
    Why.REPLACED: "a rollback would bring it back",
    Why.INPUT: "input of a run that can still be published",
    Why.EVIDENCE: "published within the reproduction horizon",
    Why.REPRODUCTION: "input of a run published within the reproduction horizon",
    Why.IN_USE: "a reproduction may be using it",
    Why.UNKNOWN: "of no run or landed file of this ledger",
    Why.PAST: "replaced or rolled back, past every horizon",
    Why.FINISHED: "candidate of a run that is past every horizon",
    Why.CANCELLED: "candidate of a run that was cancelled",
    Why.ATTEMPT: "left by staging, and no candidate refers to it",
    Why.SCRATCH: "left by a reproduction that did not finish",
    Why.NOT_LIVE: "records that were quarantined again",
}

LEFT_ALONE: Mapping[LeftAlone, str] = {
    LeftAlone.OPEN_PUBLICATION: "a publication is open",
    LeftAlone.UNREADABLE_MANIFEST: "a manifest that may need files of it cannot be read",
    LeftAlone.MOVED_ON: "it was published or taken up again meanwhile; vacuum it again",
}
