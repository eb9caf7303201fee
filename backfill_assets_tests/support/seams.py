"""Where tests replace a part of the product: every place by its dotted name, which a test resolves."""

from __future__ import annotations

from enum import StrEnum
from pkgutil import resolve_name
from typing import Any

import pytest


class Seam(StrEnum):
    """A function, a method or a class that tests replace."""

    COMPARE = "backfill_assets.lake.swap._compare"
    COMMIT = "backfill_assets.lake.swap._commit"
    IS_LANDED = "backfill_assets.lake.swap.is_landed"
    COMMIT_PROPERTIES = "backfill_assets.lake.swap.CommitProperties"
    REQUIRE_FILES = "backfill_assets.lake.swap._require_files"
    WRITE_STAGED = "backfill_assets.candidates.stage.write_staged"
    SWAP_OF_PUBLICATIONS = "backfill_assets.requests.publish.swap"
    FENCE_OF_RECOVERY = "backfill_assets.requests.recover.fence"
    REQUIRE_AGREED = "backfill_assets.requests.obstacles.agreed.find"
    REQUIRE_NO_ORPHANS = "backfill_assets.requests.publish.require_no_orphans"
    REQUIRE_INPUTS = "backfill_assets.requests.obstacles.inputs_accepted.find"
    REQUIRE_SAME_TARGET = "backfill_assets.requests.obstacles.same_target.find"
    MUST_BE_THERE = "backfill_assets.ledger.write_publications.PublicationWrites._must_be_there"
    MUST_BE_FREE = "backfill_assets.ledger.write_publications.PublicationWrites._must_be_free"
    MUST_EXPECT_ACCEPTED = "backfill_assets.ledger.write_publications.PublicationWrites._must_expect_what_is_accepted"
    MAY_PUBLISH = "backfill_assets.ledger.write_publications.PublicationWrites._may_publish"
    MUST_BE_ITS_SETS_TURN = "backfill_assets.ledger.publication_checks.PublicationChecks.require_turn_of_set"
    MUST_FOLLOW_ITS_SET = "backfill_assets.ledger.publication_checks.PublicationChecks.require_after_what_it_read"
    MAY_FOLLOW_IN_EVENTS = "backfill_assets.ledger.events.may_follow"
    MAY_FOLLOW_IN_CANCELLATIONS = "backfill_assets.ledger.runs.may_follow"
    TAKE_RUN = "backfill_assets.ledger.runs.RunWrites.take"
    REQUIRE_FREE = "backfill_assets.ledger.leases.LeaseReads.require_free"
    FINISH_PUBLICATION = "backfill_assets.ledger.write_publications.PublicationWrites.finish"
    END_ROLLBACK = "backfill_assets.ledger.write_publications.PublicationWrites.end_rollback"
    TERMS_OF_FOLLOW_UPS = "backfill_assets.application.follow.present_terms"
    ADD_FOLLOW_UP = "backfill_assets.ledger.outbox.OutboxWrites.add_follow_up"
    WITHDRAW = "backfill_assets.ledger.outbox.OutboxSteps.withdraw"
    CANDIDATE_IS_NEEDED = "backfill_assets.upkeep.vacuum._candidate_is_needed"
    HOLDINGS = "backfill_assets.upkeep.vacuum._holdings"
    BEING_PUBLISHED = "backfill_assets.upkeep.vacuum._being_published"
    MOVED = "backfill_assets.upkeep.vacuum._moved"

    @property
    def present(self) -> Any:
        """What is there now: the product's, or what replaces it."""
        return resolve_name(self.value)

    def put(self, patch: pytest.MonkeyPatch, replacement: object) -> None:
        """Puts something else there until the patch ends."""
        patch.setattr(self.value, replacement)
