"""Pins are cut out of a manifest's text without parsing it, whatever people have written into the rest of it."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.calendar.partitions import Grain
from backfill_assets.ledger.bases import without_pins
from backfill_assets.planning.kinds.load import Load
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.manifest_parts import (
    Limits,
    Mode,
    MoreDays,
    PinnedInput,
    PinnedPartition,
    Proof,
    RunPurpose,
)
from backfill_assets.planning.safeguards import USUAL_POLICY

TRAPS = ['"inputs":[{"argument":', '"partitions":[[', ']],"table":', '"]]', "]", "plain"]
WORDS = st.lists(st.sampled_from(TRAPS), min_size=1, max_size=4).map("".join)
PINS = st.builds(
    PinnedPartition,
    partition=st.dates(date(2024, 1, 1), date(2024, 3, 1)),
    version=st.integers(0, 12),
    digest=st.sampled_from(["", "a" * 64]),
    from_run=st.none() | WORDS,
)
INPUTS = st.lists(
    st.builds(PinnedInput, argument=WORDS, table=WORDS, partitions=st.lists(PINS, max_size=3).map(tuple)), max_size=3
).map(tuple)


@given(reason=WORDS, inputs=INPUTS, proven=INPUTS)
def test_what_is_cut_out_and_what_is_left_make_the_whole(
    reason: str, inputs: tuple[PinnedInput, ...], proven: tuple[PinnedInput, ...]
) -> None:
    manifest = Manifest(
        run_id="run",
        request_id="run",
        kind=RunPurpose.BACKFILL,
        mode=Mode.BACKFILL,
        reason=reason,
        requested_by=reason,
        requested_at=datetime(2026, 1, 1, tzinfo=UTC),
        domain="d",
        table=reason,
        grain=Grain.DAILY,
        partition_column="day",
        partitions=(date(2024, 1, 1), date(2024, 1, 2)),
        transform=reason,
        transform_version="1",
        code_digest="c",
        configuration={"windows": {reason: {"days_back": 1, "days_ahead": 0}}},
        inputs=inputs,
        change=Load(imports=(reason,)),
        limits=Limits(chunk_partitions=1),
        session_digest="s",
        policy=USUAL_POLICY,
        proof=Proof(
            beside=1, partitions=(date(2024, 1, 1),), more=(MoreDays(argument=reason, back=1, ahead=0),), inputs=proven
        ),
    )
    document, pins = without_pins(manifest.text)
    whole: dict[str, Any] = json.loads(json.dumps(document))
    for pinned in [*whole["inputs"], *whole["proof"]["inputs"]]:
        if pinned["partitions"] != []:
            pinned["partitions"] = json.loads(f"[{pins[pinned['partitions']]}]")
    assert whole == json.loads(manifest.text)
