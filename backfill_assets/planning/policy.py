"""Policy: whose approval a run needs before it is published, as a table declares it and its manifests pin it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Rule = Literal["auto", "approve"]
Cause = Literal["live", "backfill", "follow", "repair"]

APPROVERS = "approvers"
"""The reference document that defines the groups of approvers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """A policy: the runs that need a person's approval before they are published, and whose."""

    live: Rule = "auto"  #: Runs of kind LIVE.
    backfill: Rule = "approve"  #: Every other run that a person asked for.
    follow: Rule = "auto"  #: Runs that follow an approved publication of an input.
    #: Groups of `approvers.yaml`, a member of which has to approve. Without groups any person but the requester may.
    approvers: tuple[str, ...] = ()

    def rule(self, cause: Cause) -> Rule:
        match cause:
            case "live":
                return self.live
            case "backfill":
                return self.backfill
            case "follow":
                return self.follow
            case "repair":
                # Its rows are those that were agreed to: the ledger compares them with what it recorded then.
                return "auto"

    @staticmethod
    def parse(document: Mapping[str, Any]) -> Policy:
        """The policy that a document holds; `parse(plain(p)) == p`."""
        return Policy(**{**document, "approvers": tuple(document["approvers"])})


USUAL_POLICY = Policy()
SOURCE_POLICY = Policy(backfill="auto")
"""The policy of source tables: they hold what has landed, regardless of who loads it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """The approval that publication of a run requires."""

    #: The cause whose rule is `auto`, so that no person has to approve; None when one has to.
    policy: Cause | None = None
    groups: tuple[tuple[str, ...], ...] = ()  #: The approver must be a member of at least one group in each of these.
    #: What was declared more strictly when rows were last agreed to; the approver agrees to that as well.
    loosened: tuple[str, ...] = ()
    #: Of these, what was changed and may be looser or stricter, such as a gate whose code was edited.
    unsure: tuple[str, ...] = ()
    comment_on: tuple[str, ...] = ()  #: The gates that the approver has to comment on, and no standing approval has.


A_PERSON = Demand()
"""Any person but the requester has to approve."""


def every(demands: Iterable[Demand]) -> Demand:
    """The joint requirement of the runs of a restatement: one person who may approve each of them."""
    asked = tuple(demands)
    if len(asked) == 1:
        return asked[0]
    surely = {name for each in asked for name in each.loosened if name not in each.unsure}
    return Demand(
        groups=tuple(dict.fromkeys(groups for each in asked for groups in each.groups)),
        loosened=tuple(dict.fromkeys(name for each in asked for name in each.loosened)),
        unsure=tuple(dict.fromkeys(name for each in asked for name in each.unsure if name not in surely)),
    )


def demand(
    cause: Cause,
    *,
    counting: tuple[Policy, ...],
    agreed: tuple[Policy, ...] = (),
    loosened: tuple[str, ...] = (),
    surely: Collection[str] = (),
) -> Demand:
    """The strictest of several policies: `approve` beats `auto`, and an approver has to satisfy each that names groups.

    Args:
        cause: Why a run would change the table.
        counting: The policy that was pinned and the one that is declared now.
        agreed: The policies that were last agreed to.
        loosened: The safeguards that are looser than was last agreed to: a person has to agree to that, whatever the
            policies say.
        surely: Those of them that are looser without doubt.
    """
    groups = tuple(dict.fromkeys(policy.approvers for policy in (*counting, *agreed) if policy.approvers))
    if not loosened and all(policy.rule(cause) == "auto" for policy in (*counting, *agreed)):
        return Demand(policy=cause, groups=groups)
    declared = {policy.approvers for policy in counting}
    is_looser = any(
        (policy.approvers and policy.approvers not in declared)
        or (policy.rule(cause) == "approve" and all(each.rule(cause) == "auto" for each in counting))
        for policy in agreed
    )
    unsure = tuple(name for name in loosened if name not in surely)
    return Demand(groups=groups, loosened=(*(["policy"] if is_looser else []), *loosened), unsure=unsure)
