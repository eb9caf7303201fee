"""Who has to agree before a run is published? What a table declares, and what its manifests pin. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Rule = Literal["auto", "approve"]
Cause = Literal["live", "backfill", "follow"]

APPROVERS = "approvers"
"""The reference document that says who is in which group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What needs a person's approval before it is published, and whose.

    Attributes:
        live: Runs of kind LIVE.
        backfill: Every other run that somebody asked for.
        follow: Runs that follow an approved publication of an input.
        approvers: Groups of `approvers.yaml`: a member of one of them approves, and nobody else. Without groups anybody
            but the requester does.
    """

    live: Rule = "auto"
    backfill: Rule = "approve"
    follow: Rule = "auto"
    approvers: tuple[str, ...] = ()

    def rule(self, cause: Cause) -> Rule:
        """What is asked of runs of a cause."""
        match cause:
            case "live":
                return self.live
            case "backfill":
                return self.backfill
            case "follow":
                return self.follow

    @property
    def document(self) -> Mapping[str, Any]:
        """The policy as plain values."""
        return {
            "live": self.live,
            "backfill": self.backfill,
            "follow": self.follow,
            "approvers": list(self.approvers),
        }

    @staticmethod
    def parse(document: Mapping[str, Any]) -> Policy:
        """The policy that a document holds; `parse(p.document) == p`."""
        return Policy(**{**document, "approvers": tuple(document["approvers"])})

    @property
    def sentence(self) -> str:
        """The policy in words."""
        rules = f"live {self.live}, backfill {self.backfill}, follow {self.follow}"
        return rules + (f"; approvers {' or '.join(name.strip() for name in self.approvers)}" if self.approvers else "")


USUAL_POLICY = Policy()
SOURCE_POLICY = Policy(backfill="auto")
"""Of source tables: what they hold is what has landed, whoever loads it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What publication of a run asks for.

    Attributes:
        policy: Why no person has to agree, in words; None when one has to.
        groups: The approver is a member of one group of each of these.
    """

    policy: str | None = None
    groups: tuple[tuple[str, ...], ...] = ()

    @property
    def whom(self) -> str:
        """Who may approve, as a part of a sentence; empty when that is anybody but the requester."""
        return " and ".join(f"of {' or '.join(name.strip() for name in names)}" for names in self.groups)


A_PERSON = Demand()
"""Anybody but the requester has to agree."""


def every(demands: Iterable[Demand]) -> Demand:
    """What the runs of a set ask for together: one person who may approve each of them."""
    return Demand(groups=tuple(dict.fromkeys(groups for each in demands for groups in each.groups)))


def demand(table: str, cause: Cause, *, counting: tuple[Policy, ...], loosened: tuple[Policy, ...] = ()) -> Demand:
    """The strictest of several policies: `approve` beats `auto`, and an approver has to satisfy each that names groups.

    Args:
        table: The table that a run would change.
        cause: Why it would.
        counting: What the manifest pinned and what is declared now.
        loosened: What the table was last published under: it can still ask for an approval, by whomever the others say.
    """
    groups = tuple(dict.fromkeys(policy.approvers for policy in counting if policy.approvers))
    if any(policy.rule(cause) == "approve" for policy in (*counting, *loosened)):
        return Demand(groups=groups)
    return Demand(policy=f"{cause} runs of {table} are published automatically", groups=groups)
