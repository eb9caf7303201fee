"""The stricter of two policies counts, and what a manifest pinned is read back as it was."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.core.errors import InvalidDeclaration
from backfill_assets.domain import Domain, Policy, Reference
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.safeguards import Cause, Demand, demand, every
from backfill_assets.requests.approvers import parse_approvers
from backfill_assets.requests.errors import members
from backfill_assets_tests.support.declared import source
from backfill_assets_tests.unit.planning.test_manifest import MANIFEST

RULES = st.sampled_from(["auto", "approve"])
GROUPS = st.lists(st.sampled_from(["finance", "platform", "audit"]), unique=True, max_size=2).map(tuple)
POLICIES = st.builds(Policy, live=RULES, backfill=RULES, follow=RULES, approvers=GROUPS)
CAUSES: st.SearchStrategy[Cause] = st.sampled_from(["live", "backfill", "follow"])


@given(POLICIES, POLICIES, POLICIES, CAUSES)
def test_no_policy_is_loosened_by_another_one(pinned: Policy, present: Policy, last: Policy, cause: Cause) -> None:
    asked = demand(cause, counting=(pinned, present), agreed=(last,))
    is_auto = all(policy.rule(cause) == "auto" for policy in (pinned, present, last))
    assert (asked.policy is not None) == is_auto
    assert set(asked.groups) == {policy.approvers for policy in (pinned, present, last) if policy.approvers}


@given(POLICIES, CAUSES)
def test_a_policy_beside_itself_asks_for_what_it_asks_alone(policy: Policy, cause: Cause) -> None:
    assert demand(cause, counting=(policy, policy)) == demand(cause, counting=(policy,))


def test_a_set_is_approved_by_who_may_approve_every_run_of_it() -> None:
    runs = [Demand(groups=(("finance",),)), Demand(), Demand(groups=(("platform",), ("finance",)))]
    assert every(runs) == Demand(groups=(("finance",), ("platform",)))
    unsure, sure = Demand(loosened=("gate a", "gate b"), unsure=("gate a", "gate b")), Demand(loosened=("gate a",))
    assert every([unsure, sure]) == Demand(loosened=("gate a", "gate b"), unsure=("gate b",))


@given(POLICIES)
def test_a_manifest_keeps_the_policy_that_it_was_planned_under(policy: Policy) -> None:
    manifest = replace(MANIFEST, policy=policy)
    assert Manifest.parse(manifest.text) == manifest
    assert Manifest.parse(manifest.text).text == manifest.text


@pytest.mark.parametrize(
    ("policy", "mistake"),
    [
        (Policy(backfill="Auto"), "'Auto', which is neither 'auto' nor 'approve'"),  # type: ignore[arg-type]
        (Policy(approvers="finance"), "not a tuple of names"),  # type: ignore[arg-type]
        (Policy(approvers=(" ",)), "not a tuple of names"),
    ],
)
def test_a_policy_that_cannot_be_meant_fails_when_it_is_declared(policy: Policy, mistake: str) -> None:
    with pytest.raises(InvalidDeclaration, match=mistake):
        source(policy=policy)


def test_the_file_of_approvers_is_no_reference_of_a_domain() -> None:
    reference = Reference(name="approvers", parse=parse_approvers)
    with pytest.raises(InvalidDeclaration, match="the file of the groups of approvers"):
        Domain(name="example", package="example", sources=(source(),), derived=(), references=(reference,))


def test_approvers_are_found_by_their_names_however_these_are_written() -> None:
    approvers = parse_approvers({"version": "7", "groups": {"Finance": [" Ben", "cara"], "platform": ["BEN"]}})
    assert approvers.version == "7"
    assert approvers.groups_of("ben") == {"Finance", "platform"}
    assert approvers.groups_of("Cara ") == {"Finance"}
    assert approvers.groups_of("ana") == frozenset()
    assert (approvers.members_of("finance "), approvers.members_of("audit")) == (("Ben", "cara"), ())


def test_who_may_approve_is_named_as_far_as_it_is_known_and_of_a_large_group_the_first() -> None:
    groups = (("finance", "audit "), ("ops",))
    assert members(groups) == "of finance or audit and of ops"
    people = {"finance": ("ben", "cara"), "audit ": (), "ops": tuple("abcdefgh")}
    assert members(groups, people) == (
        "of finance (ben, cara) or audit (nobody) and of ops (a, b, c, d, e, f, 2 others)"
    )


@pytest.mark.parametrize(
    ("document", "mistake"),
    [
        (None, "`version` and `groups`"),
        ({"groups": {}}, "`version` and `groups`"),
        ({"version": "1", "groups": {}, "more": 1}, "nothing else"),
        ({"version": 1, "groups": {}}, "has to be a text"),
        ({"version": "1", "groups": ["ana"]}, "lists of names by group"),
        ({"version": "1", "groups": {"finance": "ana"}}, "list of names"),
        ({"version": "1", "groups": {"finance": [1]}}, "list of names"),
        ({"version": "1", "groups": {"finance": ["policy:x"]}}, "reserved for the system"),
        ({"version": "1", "groups": {"finance": [""]}}, "has no name"),
        ({"version": "1", "groups": {"finance": ["e\u0475e"]}}, "mixes letters of Cyrillic and Latin"),
        ({"version": "1", "groups": {"finance": [], "f\u0456nance": []}}, "the name of another group"),
        ({"version": "1", "groups": {"finance": [], "FINANCE ": []}}, "the name of another group"),
        ({"version": "1", "groups": {3: []}}, "has no name"),
    ],
)
def test_what_is_wrong_with_a_file_of_approvers_is_one_sentence(document: object, mistake: str) -> None:
    with pytest.raises(ValueError, match=mistake):
        parse_approvers(document)
