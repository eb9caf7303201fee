"""The record of the last audit: what is none of ours counts as none."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from backfill_assets.upkeep.audit import AuditReport, last_audit, record_audit

AGREES = AuditReport(
    agrees=True,
    head=f"7:{'0' * 64}",
    events=7,
    partitions=0,
    commits=0,
    files=0,
    imports=0,
    size_bytes=0,
    problems=(),
    references=0,
    accounts=(),
    unreadable=(),
    has_open_publications=False,
)


@pytest.mark.parametrize("head", ["seven", 7, None, f"{10**18}:{'0' * 64}"])
def test_a_record_whose_head_is_that_of_no_chain_is_none(tmp_path: Path, head: object) -> None:
    kept = record_audit(tmp_path, AGREES, at=datetime(2026, 3, 10, tzinfo=UTC), is_quick=True)
    assert kept is not None
    assert last_audit(tmp_path) is not None
    kept.write_text(json.dumps({**json.loads(kept.read_text()), "head": head}))
    assert last_audit(tmp_path) is None


def test_a_verdict_is_given_although_it_cannot_be_kept(tmp_path: Path) -> None:
    # As of a home that is mounted read-only, nothing can be removed there either.
    nowhere = tmp_path / ("x" * 300)
    assert record_audit(nowhere, AGREES, at=datetime(2026, 3, 10, tzinfo=UTC), is_quick=True) is None
