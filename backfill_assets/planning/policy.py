"""Policy: whose approval a run needs before it is published, as a table declares it and its manifests pin it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Rule = Literal["auto", "approve"]
Cause = Literal["live", "backfill", "follow"]

APPROVERS = "approvers"
"""The reference document that defines the groups of approvers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Which runs need a person's approval before they are published, and whose.

    Attributes:
        live: Runs of kind LIVE.
        backfill: Every other run that a person asked for.
        follow: Runs that follow an approved publication of an input.
        approvers: Groups of `approvers.yaml`, a member of which has to approve. Without groups any person but the
            requester may.
    """

    live: Rule = "auto"
    backfill: Rule = "approve"
    follow: Rule = "auto"
    approvers: tuple[str, ...] = ()

    def rule(self, cause: Cause) -> Rule:
        match cause:
            case "live":
                return self.live
            case "backfill":
                return self.backfill
            case "follow":
                return self.follow

    @staticmethod
    def parse(document: Mapping[str, Any]) -> Policy:
        """The policy that a document holds; `parse(plain(p)) == p`."""
        return Policy(**{**document, "approvers": tuple(document["approvers"])})


USUAL_POLICY = Policy()
SOURCE_POLICY = Policy(backfill="auto")
"""The policy of source tables: they hold what has landed, regardless of who loads it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """The approval that publication of a run requires.

    Attributes:
        policy: The cause whose rule is `auto`, so that no person has to approve; None when one has to.
        groups: The approver must be a member of at least one group in each of these.
        comment_on: The gates that the approver has to comment on, and no standing approval has.
    """

    policy: Cause | None = None
    groups: tuple[tuple[str, ...], ...] = ()
    comment_on: tuple[str, ...] = ()


A_PERSON = Demand()
"""Any person but the requester has to approve."""


def every(demands: Iterable[Demand]) -> Demand:
    """What the runs of a set require together: one person who may approve each of them."""
    return Demand(groups=tuple(dict.fromkeys(groups for each in demands for groups in each.groups)))


def demand(cause: Cause, *, counting: tuple[Policy, ...], loosened: tuple[Policy, ...] = ()) -> Demand:
    """The strictest of several policies: `approve` beats `auto`, and an approver has to satisfy each that names groups.

    Args:
        cause: Why a run would change the table.
        counting: The policy that the manifest pinned and the one that is declared now.
        loosened: The policy under which the table was last published: it can still require an approval, by a person
            whom the other policies allow.
    """
    groups = tuple(dict.fromkeys(policy.approvers for policy in counting if policy.approvers))
    if any(policy.rule(cause) == "approve" for policy in (*counting, *loosened)):
        return Demand(groups=groups)
    return Demand(policy=cause, groups=groups)
