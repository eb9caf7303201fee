"""A manifest is its canonical JSON, and the JSON is the manifest."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.calendar.partitions import DayRange, Grain
from backfill_assets.core.columns import ColumnChange
from backfill_assets.core.identity import DataFile, FileSet, canonical_json, document_digest
from backfill_assets.core.tariff import Tariff
from backfill_assets.planning.kinds.any_change import AnyChange
from backfill_assets.planning.kinds.append import append
from backfill_assets.planning.kinds.expire import Expire, RetentionRule
from backfill_assets.planning.kinds.load import Load
from backfill_assets.planning.kinds.merge import merge
from backfill_assets.planning.manifest import FORMAT, MERGED_WITH, Manifest, chunks_of
from backfill_assets.planning.manifest_parts import (
    A_PERSON,
    Cause,
    CauseKind,
    GateTerm,
    Limits,
    Mode,
    PinnedInput,
    PinnedPartition,
    PinnedReference,
    Reason,
    ReferenceSemantics,
    RunCause,
    RunPurpose,
    semantics_of,
)
from backfill_assets.planning.safeguards import SOURCE_POLICY, USUAL_POLICY

FIRST = date(2006, 7, 1)

MANIFEST = Manifest(
    run_id="case_sla_daily-20260115-0a1b2c3d",
    request_id="case_sla_daily-20260115-0a1b2c3d",
    kind=RunPurpose.RESTATEMENT,
    mode=Mode.BACKFILL,
    reason="deadlines were computed in UTC",
    requested_by="ana",
    requested_at=datetime(2026, 1, 15, 12, tzinfo=UTC),
    domain="enforcement_sla",
    table="silver.case_sla_daily",
    grain=Grain.DAILY,
    partition_column="business_date",
    partitions=(FIRST, date(2006, 7, 2)),
    transform="case-sla",
    transform_version="3.1.0",
    code_digest="c" * 64,
    configuration={"windows": {"events": {"days_back": 251, "days_ahead": 1}}},
    inputs=(
        PinnedInput(
            argument="events",
            table="bronze.case_events",
            partitions=(PinnedPartition(partition=FIRST, version=2, digest="d" * 64),),
        ),
    ),
    references=(PinnedReference(name="sla_policy", version="1", sha256="e" * 64),),
    gates=(GateTerm(name="unique_key", demands="no two rows share a key", blocking=True),),
    limits=Limits(
        chunk_partitions=10, max_rows=1000, max_cost=Tariff(cores=2, price=Decimal("0.36"), currency="EUR").spent(1_800)
    ),
    session_digest="a" * 64,
    cause=RunCause(kind=CauseKind.FOLLOW_UP, publications=("pub-1", "pub-2")),
    code_modules=("shop.tables",),
    versions={"pyspark": "4.3.0"},
    supersedes=("case_sla_daily-20260101-1a1b2c3d",),
    policy=USUAL_POLICY,
)


@given(
    st.text(min_size=1),
    st.sampled_from(RunPurpose),
    st.sampled_from(Mode),
    st.lists(st.dates(), unique=True, min_size=1, max_size=5),
)
def test_parsing_the_text_gives_the_manifest_back(reason: str, kind: RunPurpose, mode: Mode, days: list[date]) -> None:
    try:
        reason.encode()
    except UnicodeEncodeError:
        return
    manifest = replace(MANIFEST, reason=reason, kind=kind, mode=mode, partitions=tuple(sorted(days)))
    assert Manifest.parse(manifest.text) == manifest
    assert Manifest.parse(manifest.text).digest == manifest.digest


@pytest.mark.parametrize(
    "changed",
    [
        {"reason": "another"},
        {"partitions": (FIRST,)},
        {"transform_version": "2.4.1"},
        {"code_digest": "f" * 64},
        {"references": ()},
        {"references": (replace(MANIFEST.references[0], semantics=ReferenceSemantics.AS_RECORDED),)},
        {"references": (replace(MANIFEST.references[0], semantics=ReferenceSemantics.CORRECTED),)},
        {"gates": ()},
        {"requested_by": "ben"},
        {"limits": Limits(chunk_partitions=10)},
        {"limits": Limits(chunk_partitions=10, max_cost=Tariff(cores=2).spent(5))},
        {"limits": Limits(chunk_partitions=10, max_cost=Tariff(cores=2, price=Decimal(1)).spent(0))},
        {"inputs": ()},
        {"session_digest": "b" * 64},
        {"cause": A_PERSON},
        {"code_modules": ()},
        {"versions": {}},
        {"supersedes": ()},
        {"columns": (ColumnChange(column="risk", was=None, becomes="string"),)},
        {"changed": (Reason(cause=Cause.VERSION_CHANGED, was="orders 1.0.0", now="orders 2.0.0"),)},
        {
            "changed": (
                Reason(
                    cause=Cause.INPUT_CHANGED,
                    name="bronze.orders",
                    days=(DayRange.inclusive(FIRST, FIRST),),
                    run_id="orders-1",
                ),
            )
        },
        {"changed": (Reason(cause=Cause.REFERENCE_KEPT, name="tax", semantics=ReferenceSemantics.CORRECTED),)},
        {"policy": SOURCE_POLICY},
        {"chunks": (1, 1)},
        {"request_id": "set.months"},
        {"change": Load(declared_empty=(FIRST,))},
        {"change": append()},
        {"change": Expire(keep=RetentionRule(days=90, then="quarter"))},
        {"change": merge(on=("a",))},
        {"base": PinnedInput(argument=MERGED_WITH, table="silver.case_sla_daily", partitions=())},
    ],
)
def test_whatever_changes_in_a_manifest_changes_its_digest(changed: dict[str, object]) -> None:
    manifest = replace(MANIFEST, **changed)  # type: ignore[arg-type]
    assert manifest.digest != MANIFEST.digest
    assert Manifest.parse(manifest.text) == manifest


def test_a_manifest_keeps_how_its_changes_are_merged_and_with_what() -> None:
    base = PinnedInput(
        argument=MERGED_WITH,
        table="silver.case_sla_daily",
        partitions=(PinnedPartition(partition=FIRST, version=1, digest="d" * 64),),
    )
    merges = [merge(on=("a", "b"), deletes="gone", version="n", older="ignore"), merge(on=("a",))]
    merges += [replace(merges[-1], keys_move=True), merge(on=("a",), keeps_withdrawn=True)]
    modes: list[AnyChange] = [append(), *merges]
    for mode in modes:
        manifest = replace(MANIFEST, change=mode, base=base)
        assert Manifest.parse(manifest.text) == manifest
        assert manifest.pinned == (*MANIFEST.inputs, base)


def test_a_manifest_of_another_format_is_not_read() -> None:
    document = {**json.loads(MANIFEST.text), "format": FORMAT + 1}
    with pytest.raises(ValueError, match=f"format {FORMAT + 1}"):
        Manifest.parse(json.dumps(document))


def test_canonical_json_does_not_depend_on_the_order_of_keys() -> None:
    assert canonical_json({"b": [1, None], "a": "ä"}) == '{"a":"ä","b":[1,null]}'
    assert document_digest({"b": 1, "a": 2}) == document_digest({"a": 2, "b": 1})


def test_a_float_has_no_canonical_form() -> None:
    with pytest.raises(TypeError, match="float"):
        canonical_json({"rate": [0.1]})


def test_a_file_set_does_not_depend_on_the_order_of_its_files() -> None:
    one, two = DataFile(path="a", size_bytes=1, rows=1), DataFile(path="b", size_bytes=2, rows=2)
    assert FileSet.of([one, two]).digest == FileSet.of([two, one]).digest
    assert FileSet.of([one, two]).digest != FileSet.of([one]).digest
    assert FileSet.of([one]).digest != FileSet.of([replace(one, size_bytes=2)]).digest
    assert FileSet.of([one]).digest == FileSet.of([replace(one, sha256="aa")]).digest


@given(st.integers(min_value=1, max_value=40), st.integers(min_value=1, max_value=50))
def test_chunks_are_the_partitions_in_order_and_none_is_larger_than_allowed(size: int, count: int) -> None:
    partitions = tuple(FIRST + timedelta(days=offset) for offset in range(count))
    chunks = chunks_of(replace(MANIFEST, partitions=partitions, limits=Limits(chunk_partitions=size)))
    assert tuple(day for chunk in chunks for day in chunk.partitions) == partitions
    assert all(0 < len(chunk.partitions) <= size for chunk in chunks)
    assert [chunk.number for chunk in chunks] == list(range(1, len(chunks) + 1))


@pytest.mark.parametrize("semantics", ReferenceSemantics)
def test_a_manifest_says_which_truth_its_references_give(semantics: ReferenceSemantics) -> None:
    chosen = replace(MANIFEST.references[0], semantics=semantics)
    present = PinnedReference(name="zones", version="7", sha256="f" * 64)
    found = Manifest.parse(replace(MANIFEST, references=(chosen, present)).text)
    assert found.references == (chosen, present)
    assert semantics_of(found.references) is semantics
    assert semantics_of(()) is None
