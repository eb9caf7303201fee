"""Which versions of references a request asks for, and how rows of several versions are told apart: pure planning."""

from __future__ import annotations

from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.calendar.partitions import Grain
from backfill_assets.core.errors import MissingInput, Refused
from backfill_assets.planning.manifest_parts import PinnedReference, ReferenceSemantics
from backfill_assets.planning.request import (
    THE_PRESENT,
    AskedReferences,
    Recorded,
    by_recorded_versions,
    parse_reference,
    require_one_group,
    require_used,
)
from backfill_assets.report.words.plans import references_described
from backfill_assets_tests.support.advice import advised

CURRENT, CORRECTED, AS_RECORDED = ReferenceSemantics
TABLE = "silver.charges"
FIRST = date(2026, 1, 1)
RECORDED = AskedReferences(semantics=AS_RECORDED)


def pin(version: str, name: str = "tariff", semantics: ReferenceSemantics = AS_RECORDED) -> PinnedReference:
    return PinnedReference(name=name, version=version, sha256=version.rjust(64, "0"), semantics=semantics)


def day(number: int) -> date:
    return FIRST + timedelta(days=number - 1)


@given(st.lists(st.sampled_from("123"), min_size=1, max_size=20), st.data())
def test_every_partition_is_in_exactly_one_group_and_has_its_own_versions(
    versions: list[str], data: st.DataObject
) -> None:
    recorded: Recorded = {day(n): {"tariff": pin(v), "gone": pin("x", "gone")} for n, v in enumerate(versions, start=1)}
    asked = sorted(data.draw(st.sets(st.sampled_from(sorted(recorded)), min_size=1)))
    groups = by_recorded_versions(TABLE, Grain.DAILY, ["tariff"], asked, recorded)
    assert sorted(p for group in groups for p in group.partitions) == asked
    assert len({group.references for group in groups}) == len(groups)
    for group in groups:
        assert list(group.partitions) == sorted(group.partitions)
        # A reference that the table does not declare any more is not read.
        assert {group.references} == {(pin(versions[(p - FIRST).days]),) for p in group.partitions}


def test_two_documents_of_one_version_are_two_groups() -> None:
    edited = PinnedReference(name="tariff", version="1", sha256="f" * 64, semantics=AS_RECORDED)
    recorded: Recorded = {day(1): {"tariff": pin("1")}, day(2): {"tariff": edited}}
    assert len(by_recorded_versions(TABLE, Grain.DAILY, ["tariff"], [day(1), day(2)], recorded)) == 2


def test_one_run_has_one_version_and_the_refusal_names_a_plan_for_every_group() -> None:
    recorded: Recorded = {day(n): {"tariff": pin("2" if n == 2 else "1")} for n in (1, 2, 3)}
    groups = by_recorded_versions(TABLE, Grain.DAILY, ["tariff"], [day(1), day(2), day(3)], recorded)
    assert require_one_group(TABLE, Grain.DAILY, groups[:1]) == groups[0]
    with pytest.raises(Refused, match="tariff 1; 2026-01-02, 1 day, with tariff 2") as refused:
        require_one_group(TABLE, Grain.DAILY, groups)
    plans = advised(refused.value).removeprefix("plan them one by one: ").split("; ")
    assert [plan.split("--from ")[1][:10] for plan in plans] == ["2026-01-01", "2026-01-02"]
    assert all("--references as-recorded" in plan for plan in plans)


@pytest.mark.parametrize(
    ("recorded", "sentence"),
    [
        ({day(1): {"tariff": pin("1")}}, r"has never been published for 2026-01-02, 1 day"),
        ({day(1): {"tariff": pin("1")}, day(2): None}, r"rows of 2026-01-02, 1 day for which no version of tariff"),
        ({day(1): {"tariff": pin("1")}, day(2): {}}, r"rows of 2026-01-02, 1 day for which no version of tariff"),
    ],
)
def test_without_a_record_there_is_nothing_to_compute_with(recorded: Recorded, sentence: str) -> None:
    with pytest.raises(MissingInput, match=sentence) as refused:
        by_recorded_versions(TABLE, Grain.DAILY, ["tariff"], [day(1), day(2)], recorded)
    assert "--from 2026-01-02 --to 2026-01-02" in advised(refused.value)


def test_a_choice_has_to_be_one_that_a_run_can_make() -> None:
    require_used(THE_PRESENT, {TABLE: []})
    require_used(RECORDED, {TABLE: ["tariff"], "gold.months": []})
    with pytest.raises(Refused, match=r"no reference is used by silver\.charges"):
        require_used(RECORDED, {TABLE: []})
    asked = AskedReferences(semantics=CORRECTED, named=(("tariff", "1"), ("tax", "2")))
    require_used(asked, {TABLE: ["tariff"], "gold.bills": ["tax"]})
    with pytest.raises(Refused, match=r"tax is not a reference of silver\.charges; used are tariff"):
        require_used(asked, {TABLE: ["tariff"]})


@pytest.mark.parametrize(
    ("semantics", "named"),
    [
        (CORRECTED, ()),
        (CURRENT, (("tariff", "1"),)),
        (AS_RECORDED, (("tariff", "1"),)),
        (CORRECTED, (("tariff", "1"), ("tariff", "2"))),
    ],
)
def test_words_that_contradict_each_other_are_refused(
    semantics: ReferenceSemantics, named: tuple[tuple[str, str], ...]
) -> None:
    with pytest.raises(Refused) as refused:
        AskedReferences(semantics=semantics, named=named)
    assert "--reference" in advised(refused.value)


def test_a_reference_is_named_with_its_version() -> None:
    assert parse_reference(" tariff = a=b ") == ("tariff", "a=b")
    for wrong in ("tariff", "=1", "tariff=", " = "):
        with pytest.raises(Refused, match="does not name a version of a reference"):
            parse_reference(wrong)


def test_the_words_say_which_truth_it_is() -> None:
    assert references_described([]) is None
    assert references_described([pin("2", semantics=CURRENT)]) == "current: tariff 2"
    assert references_described([pin("1")]) == "as recorded, which the replaced rows had used: tariff 1"
    both = [pin("1", semantics=CORRECTED), pin("3", "tax", semantics=CURRENT)]
    assert references_described(both) == "corrected, as named: tariff 1; current: tax 3"
