"""Grounds of an approval: why its approver may give it, as the event of the approval keeps them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalGrounds:
    """Why the approver of a run may approve it.

    Attributes:
        groups: The approver's groups that count.
        approvers_version: The version of `approvers.yaml` that lists these groups.
        approvers_sha256: sha256 of that file.
    """

    groups: tuple[str, ...]
    approvers_version: str
    approvers_sha256: str

    @property
    def document(self) -> Mapping[str, Any]:
        """Their part of the event's payload."""
        return {
            "groups": list(self.groups),
            "approvers_version": self.approvers_version,
            "approvers_sha256": self.approvers_sha256,
        }

    @classmethod
    def parse(cls, payload: Mapping[str, Any]) -> Self | None:
        """The grounds in the payload of an approval's event; None where any person but the requester may approve."""
        if "groups" not in payload:
            return None
        return cls(
            groups=tuple(payload["groups"]),
            approvers_version=payload["approvers_version"],
            approvers_sha256=payload["approvers_sha256"],
        )
