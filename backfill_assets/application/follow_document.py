"""The results of follow-ups as a document."""

from __future__ import annotations

from backfill_assets.application.follow import FollowedAll
from backfill_assets.report.follow import (
    FollowCancellation,
    FollowReport,
    follow_report,
    followed_run,
    unplanned_run,
    waiting_sentences,
)


def follow_document(found: FollowedAll) -> FollowReport:
    """The results of the follow-ups; `failed` states whether a person has to examine them."""
    done = (followed_run(each.run, each.error) for each in found.done)
    unplanned = (unplanned_run(each) for each in found.failed)
    waiting = (sentence for each in found.waiting for sentence in waiting_sentences(each))
    return follow_report((*done, *unplanned), found.elsewhere, waiting)


def cancelled_document(publication_id: str, *, by: str, reason: str) -> FollowCancellation:
    """The decision that nothing follows a publication."""
    return FollowCancellation(
        publication_id=publication_id,
        cancelled_by=by,
        reason=reason.strip(),
        sentences=(f"nothing follows {publication_id} any more; what depends on it is as it was",),
    )
