"""The documents of runs and sets that people approve, and their digests, as recorded (`support/recorded.py`)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import date
from typing import get_args

import pytest
from syrupy.assertion import SnapshotAssertion

from backfill_assets.calendar.partitions import Grain
from backfill_assets.planning.kinds.any_change import AnyChange
from backfill_assets.planning.kinds.append import append
from backfill_assets.planning.kinds.change import Scope
from backfill_assets.planning.kinds.expire import Expire, RetentionRule
from backfill_assets.planning.kinds.load import Load
from backfill_assets.planning.kinds.merge import merge
from backfill_assets.planning.kinds.pilot import Pilot
from backfill_assets.planning.kinds.replace import versioned
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.manifest_parts import Mode, PinnedInput, PinnedPartition, RunPurpose
from backfill_assets.planning.sets import SetManifest
from backfill_assets_tests.support.ledger_examples import a_manifest
from backfill_assets_tests.support.recorded import left_over
from backfill_assets_tests.support.samples import full, samples_of

ACCEPTED = PinnedInput(
    argument="accepted rows",
    table="silver.example",
    partitions=(PinnedPartition(partition=date(2024, 9, 30), version=3, digest="d" * 64),),
)
MERGED = merge(on=("id",), deletes="is_deleted", version="at")
RUN = a_manifest("example-20260115-0a1b2c3d")
RUNS: Mapping[str, Manifest] = {
    "every_field": replace(full(Manifest), change=MERGED),
    "restatement": RUN,
    "monthly": replace(RUN, grain=Grain.MONTHLY, partitions=(date(2024, 10, 1),)),
    "append": replace(RUN, change=append()),
    "merge": replace(RUN, change=MERGED, base=ACCEPTED),
    "versioned": replace(RUN, change=versioned(of="silver.other", differs=("amount",), clean_days=3)),
    "pilot": replace(RUN, change=Pilot(rows=Scope(where=(("shop", "north"),))), base=ACCEPTED),
    "expiry": replace(
        RUN, kind=RunPurpose.EXPIRY, change=Expire(keep=RetentionRule(days=90, then="month")), base=ACCEPTED
    ),
    "load": replace(
        RUN,
        kind=RunPurpose.LIVE,
        mode=Mode.LIVE,
        change=Load(imports=("imp-000001", "imp-000002"), declared_empty=RUN.partitions[1:2]),
        table="bronze.example",
        configuration={},
    ),
}
SETS: Mapping[str, SetManifest] = {f"set_{number}": each for number, each in enumerate(samples_of(SetManifest))}
MANIFESTS: Mapping[str, Manifest | SetManifest] = {**RUNS, **SETS}


@pytest.mark.parametrize("name", MANIFESTS)
def test_a_manifest_is_the_document_that_is_recorded(name: str, recorded: SnapshotAssertion) -> None:
    found = MANIFESTS[name]
    parse: Callable[[str], Manifest | SetManifest] = type(found).parse
    assert f"{json.dumps(found.document, indent=2)}\nsha256 {found.digest}\n" == recorded(name=file_of(name))
    assert parse(found.text).text == found.text


def test_a_manifest_of_every_kind_of_change_is_recorded() -> None:
    assert {type(run.change) for run in RUNS.values()} == set(get_args(AnyChange))


def test_no_manifest_is_recorded_that_none_is(pytestconfig: pytest.Config) -> None:
    names = {file_of(name) for name in MANIFESTS}
    assert left_over("manifests", names, remove=pytestconfig.option.update_snapshots) == []


def file_of(name: str) -> str:
    return f"manifests/{name}.txt"
