"""What a run brings along besides what made it necessary."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

from backfill_assets.ledger.provenance import DerivedProvenance
from backfill_assets.planning.manifest_parts import Cause, Reason
from backfill_assets.report.releases import differences
from backfill_assets.report.words.plans import brought_along_words, changed_by_table, changed_words
from backfill_assets.report.words.states import NEW_VERSION
from backfill_assets_tests.unit.planning.test_manifest import FIRST, MANIFEST

SECOND = date(2006, 7, 2)
SAME = DerivedProvenance(
    code="c" * 64,
    configuration="d" * 64,
    inputs={},
    manifest="m" * 64,
    references={"sla_policy": ("1", "e" * 64)},
    session="s" * 64,
    transform="case-sla",
    transform_version="3.1.0",
)


def test_a_run_of_the_same_release_and_references_brings_nothing_along() -> None:
    assert list(differences(MANIFEST, [(FIRST, SAME), (SECOND, SAME)])) == []


def test_a_newer_release_and_another_reference_are_named_with_their_partitions() -> None:
    older = replace(SAME, transform_version="3.0.0", references={"sla_policy": ("0", "f" * 64)})
    found = list(differences(MANIFEST, [(FIRST, older), (SECOND, replace(SAME, transform_version="2.4.1"))]))
    assert [brought_along_words(each) for each in found] == [
        "silver.case_sla_daily gets release 3.1.0 in place of 3.0.0: 2006-07-01, 1 day",
        "silver.case_sla_daily gets sla_policy 1 in place of 0: 2006-07-01, 1 day",
        "silver.case_sla_daily gets release 3.1.0 in place of 2.4.1: 2006-07-02, 1 day",
    ]


def test_other_content_of_the_same_version_counts_and_a_later_release_is_no_newer_one() -> None:
    edited = replace(SAME, transform_version="3.2.0", references={"sla_policy": ("1", "f" * 64)})
    (only,) = differences(MANIFEST, [(FIRST, edited)])
    assert brought_along_words(only) == (
        "silver.case_sla_daily gets sla_policy 1 with other content in place of 1: 2006-07-01, 1 day"
    )
    (first,) = differences(MANIFEST, [(FIRST, replace(SAME, references={}))])
    assert (first.what, first.was, first.now) == ("sla_policy", "none", "1")


def test_changed_code_under_the_same_version_is_named_and_under_another_one_it_is_expected() -> None:
    edited = replace(SAME, code="0" * 64)
    (only,) = differences(MANIFEST, [(FIRST, edited), (SECOND, SAME)])
    assert brought_along_words(only) == (
        "the code of silver.case_sla_daily 3.1.0 is not what computed 2006-07-01, 1 day under this version: "
        "give the transform a new version, so that a number names its code"
    )
    assert [each.what for each in differences(MANIFEST, [(FIRST, replace(edited, transform_version="3.0.0"))])] == [
        "release"
    ]


def test_a_plan_says_once_what_is_to_be_done_about_changed_code() -> None:
    why = Reason(cause=Cause.CODE_CHANGED, name="3.1.0", was="aaa", now="bbb")
    changed = replace(MANIFEST, changed=(why,))
    (brought,) = differences(changed, [(FIRST, replace(SAME, code="0" * 64))])
    for since in (changed_words(changed), changed_by_table([changed])):
        said = "; ".join((*since, brought_along_words(brought)))
        assert "the code changed and 3.1.0 is still its version (sha256 aaa, now bbb)" in said
        assert said.count(NEW_VERSION) == 1
