"""Policy and safeguards: whose approval a run needs, and what a table declares that keeps rows from changing.

Manifests pin both. A later declaration of a safeguard that is not surely as strict counts as a loosening, which its
author may not do alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, Literal

from backfill_assets.core.identity import document_digest, plain
from backfill_assets.planning.kinds.expire import EXPIRE
from backfill_assets.planning.manifest_parts import GateTerm

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


PUBLISH = "publish"
"""The safeguard that says how the rows of a run become the content of partitions."""

OF = "of"
"""What it says of a version: the table that it is a version of."""

GATE = "gate "
"""How safeguards of gates begin."""

COLUMN = "column "
"""How safeguards of columns begin: one that is gone has no values that could be wrong."""

KNOWN = "golden rows of "
"""How safeguards begin that are rows which are known to be right."""

READ = "reference "
"""How safeguards begin that are a version of a reference that a gate of an author reads."""

UNDETERMINED = "undetermined "
"""How safeguards begin that permit rows to depend on an order that nothing decides."""

CUT_OVER, FOLLOW, LEAVE = "cut over", "lateness", "tolerance"
"""The safeguards that permit one act and say nothing of other runs."""

_OF_ONE_ACT = frozenset({CUT_OVER, EXPIRE, FOLLOW, LEAVE})

NO_PERMIT: AbstractSet[str] = frozenset()

_OF_MODE = frozenset({"AddsOnly", "Merged"})
"""Kinds of gates that a mode of publication has, and no other mode."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Safeguard:
    """One safeguard by its bounds: numbers, of which None is no bound, and texts."""

    name: str  #: Such as `gate row_count`, or `lateness`.
    permits: bool = False  #: True if it allows something that is forbidden without it; else it forbids something.
    least: Mapping[str, float | None] = field(default_factory=dict)  #: Numbers that are looser the smaller they are.
    most: Mapping[str, float | None] = field(default_factory=dict)  #: Numbers that are looser the larger they are.
    among: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  #: Lists that are looser the more they hold.
    holds: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  #: Lists that are looser if they lack anything.
    exactly: Mapping[str, str] = field(default_factory=dict)  #: Texts of which any other one counts as looser.

    def is_looser(self, earlier: Safeguard) -> bool:
        """True if it is not surely as strict as an earlier declaration of it."""
        return self.is_other(earlier) or self.is_surely_looser(earlier)

    def is_other(self, earlier: Safeguard) -> bool:
        """True if the two cannot be compared, such as two functions that measure a gate: neither is known to be as
        strict as the other."""
        kinds = earlier.least.keys() ^ self.least.keys() | earlier.most.keys() ^ self.most.keys()
        return bool(kinds) or self.exactly != earlier.exactly

    def is_surely_looser(self, earlier: Safeguard) -> bool:
        """True if a bound that both have is wider than in an earlier declaration of it."""
        return (
            any(_below(self.least[name], bound) for name, bound in earlier.least.items() if name in self.least)
            or any(_above(self.most[name], bound) for name, bound in earlier.most.items() if name in self.most)
            or any(set(some) - set(earlier.among.get(name, ())) for name, some in self.among.items())
            or self.lacks(earlier) > 0
        )

    def lacks(self, earlier: Safeguard) -> int:
        """The number of entries of an earlier declaration that it does not hold."""
        return sum(len(set(some) - set(self.holds.get(name, ()))) for name, some in earlier.holds.items())

    @property
    def document(self) -> Mapping[str, Any]:
        """The safeguard as manifests keep it. Numbers are texts: a float has no canonical form."""
        parts: dict[str, Any] = {
            "least": {name: _text(bound) for name, bound in self.least.items()},
            "most": {name: _text(bound) for name, bound in self.most.items()},
            "among": {name: sorted(some) for name, some in self.among.items()},
            "holds": {name: sorted(some) for name, some in self.holds.items()},
            "exactly": dict(self.exactly),
        }
        permits = {"permits": True} if self.permits else {}
        return {"name": self.name, **permits, **{name: part for name, part in parts.items() if part}}

    @staticmethod
    def parse(document: Mapping[str, Any]) -> Safeguard:
        """The safeguard that a document holds; `parse(s.document) == s`."""
        least, most = (
            {name: None if bound is None else float(bound) for name, bound in document.get(part, {}).items()}
            for part in ("least", "most")
        )
        return Safeguard(
            name=document["name"],
            permits=document.get("permits", False),
            least=least,
            most=most,
            among={name: tuple(some) for name, some in document.get("among", {}).items()},
            holds={name: tuple(some) for name, some in document.get("holds", {}).items()},
            exactly=document.get("exactly", {}),
        )


def _text(bound: float | None) -> str | None:
    return None if bound is None else repr(float(bound))


def _below(found: float | None, bound: float | None) -> bool:
    return bound is not None and (found is None or found < bound)


def _above(found: float | None, bound: float | None) -> bool:
    return bound is not None and (found is None or found > bound)


_REQUIRED = "not_null"
"""The number of a safeguard of a column: 1 for one that is never null."""

_OF_COLUMNS = "SchemaMatches"
"""The kind of gate that is about required columns."""


def gate_digests(terms: Iterable[GateTerm], safeguards: Iterable[Safeguard]) -> Mapping[str, str]:
    """By name, the digest of everything by which a gate judges: rows that were measured with a gate of another digest
    were not measured with this one.

    Args:
        terms: The gates, as agreed or as declared.
        safeguards: Those beside them: the bounds of gates, and the columns that are never null.
    """
    bounds = {each.name: each for each in safeguards}
    required = sorted(name for name, each in bounds.items() if name.startswith(COLUMN) and each.least.get(_REQUIRED))
    found: dict[str, str] = {}
    for term in terms:
        own = bounds.get(f"{GATE}{term.name}")
        columns = required if own is not None and own.exactly.get("kind") == _OF_COLUMNS else []
        document = [term.document, {} if own is None else own.document, columns]
        found[term.name] = document_digest(document)[:_DIGITS]
    return found


_DIGITS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class AgreedTerms:
    """The terms with which a table was declared when a run was planned, as far as its author may not loosen them
    alone."""

    policy: Policy  #: The policy of the table.
    #: Of a version of a table, the policy of the table whose readers may be shown it.
    name_policy: Policy | None = None
    safeguards: tuple[Safeguard, ...] = ()

    @property
    def document(self) -> Mapping[str, Any]:
        """The terms as the ledger keeps them beside the run."""
        return {
            "policy": plain(self.policy),
            "name_policy": plain(self.name_policy),
            "safeguards": [each.document for each in self.safeguards],
        }

    @staticmethod
    def parse(document: Mapping[str, Any]) -> AgreedTerms:
        """The terms that a document holds; `parse(t.document) == t`."""
        named = document["name_policy"]
        return AgreedTerms(
            policy=Policy.parse(document["policy"]),
            name_policy=None if named is None else Policy.parse(named),
            safeguards=tuple(map(Safeguard.parse, document["safeguards"])),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreed:
    """The terms last agreed to for a table: the newest that a person has agreed to, and all that were used since.

    What counts is the strictest of them.
    """

    policies: tuple[Policy, ...] = ()
    safeguards: tuple[tuple[Safeguard, ...], ...] = ()

    def loosened_by(self, *declared: Iterable[Safeguard]) -> tuple[str, ...]:
        """The names of the safeguards that one of these declarations loosens, and of a list how much it lacks."""
        found = (name for now in declared for was in self.safeguards for name in _loosened(was, tuple(now)))
        return tuple(dict.fromkeys(found))

    def surely_loosened_by(self, *declared: Iterable[Safeguard]) -> frozenset[str]:
        """Those of them that are looser without doubt; the others are changed, and may well be stricter."""
        return frozenset(
            name for now in declared for was in self.safeguards for name in _loosened(was, tuple(now), surely=True)
        )

    def lacking(self, name: str, *declared: Iterable[Safeguard]) -> frozenset[str]:
        """The entries of a safeguard's lists that one of these declarations does not hold."""
        return frozenset(
            each for now in declared for was in self.safeguards for each in _held(was, name) - _held(now, name)
        )

    def loosened_for_runs(self, *declared: Iterable[Safeguard], permit: AbstractSet[str]) -> tuple[str, ...]:
        """Those of them that concern a run.

        Args:
            permit: The safeguards of one act that permit what the run does; see `Change.permits`.
        """
        others = _OF_ONE_ACT - permit
        return tuple(name for name in self.loosened_by(*declared) if name not in others)

    def loosened_by_version(self, declared: Iterable[Safeguard]) -> tuple[str, ...]:
        """Those that a version loosens which readers would be shown in place of the table; how each of the two is
        published is not compared."""
        without_mode = (
            tuple(each for each in some if each.exactly.get("kind") not in _OF_MODE) for some in self.safeguards
        )
        found = Agreed(safeguards=tuple(without_mode)).loosened_by(declared)
        return tuple(name for name in found if name not in (PUBLISH, CUT_OVER))

    def was_version_of(self, table: str) -> bool:
        """True if the table was only ever published as a version of another table."""
        return all(each.exactly.get(OF) == table for some in self.safeguards for each in some if each.name == PUBLISH)


def _held(safeguards: Iterable[Safeguard], name: str) -> AbstractSet[str]:
    return {each for own in safeguards if own.name == name for some in own.holds.values() for each in some}


def _loosened(was: Iterable[Safeguard], now: Iterable[Safeguard], *, surely: bool = False) -> Iterable[str]:
    before, after = ({each.name: each for each in some} for some in (was, now))
    for name in before.keys() | after.keys():
        earlier, later = before.get(name), after.get(name)
        if later is None and name.startswith(COLUMN):
            continue
        if earlier is None or later is None:
            given = earlier or later
            if given is not None and given.permits == (earlier is None):
                yield name
        elif later.is_surely_looser(earlier) if surely else later.is_looser(earlier):
            held = sum(map(len, earlier.holds.values()))
            yield f"{name}: {later.lacks(earlier):,} of {held:,} are gone or changed" if held else name
