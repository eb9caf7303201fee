"""What a published run has proven by the same code, references and windows is cited, and by nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from backfill_assets.candidates import cite, prove
from backfill_assets.candidates.cite import cited_proof
from backfill_assets.ledger.records import GateResult
from backfill_assets.ledger.states import RunState
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.manifest_parts import PinnedReference
from backfill_assets.planning.partitions import DayRange
from backfill_assets_tests import operations
from backfill_assets_tests.edited import edit
from backfill_assets_tests.ledger_examples import disarm, tamper
from backfill_assets_tests.shop import Shop

LATE = DayRange.inclusive(date(2026, 1, 5), date(2026, 1, 9))
ONE = DayRange.inclusive(date(2026, 1, 6), date(2026, 1, 6))


def proofs(shop: Shop, run_id: str) -> Mapping[date, GateResult]:
    with shop.ws.ledger.read() as reader:
        return {r.partition: r for r in reader.candidates.gate_results(run_id) if r.gate == "warm_up"}


def cited_by(shop: Shop, run_id: str, **changed: Any) -> str | None:
    """The run whose proof a run cites, if its manifest said something else in these places."""
    with shop.ws.ledger.read() as reader:
        manifest: Manifest = replace(reader.runs.get(run_id).manifest, **changed)
        cited = cited_proof(reader, manifest)
    return None if cited is None else cited.run_id


@pytest.mark.parametrize("days", [LATE, ONE], ids=["days between others", "a day alone"])
def test_a_published_proof_is_cited_and_nothing_is_computed_again(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, days: DayRange
) -> None:
    first = shop.published()
    monkeypatch.setattr(prove, "derived_rows", lambda *_: pytest.fail("a proof was computed"))
    run_id = shop.planned(days, reason="again")
    operations.stage(shop.ws, run_id, actor="ana")
    operations.gate(shop.ws, run_id, actor="ana")
    found = proofs(shop, run_id)
    assert {result.verdict for result in found.values()} == {
        f"proven on 2026-01-04..2026-01-06, 3 days by run {first}, with exactly 2 days back and 1 ahead"
    }
    assert {result.observed["proven_by"] for result in found.values()} == {first}
    assert operations.run_named(shop.ws, run_id).state is RunState.PASSED


def test_a_citation_is_of_the_run_that_computed(shop: Shop) -> None:
    first = shop.published()
    second = shop.published(LATE, reason="the second")
    assert {result.observed["proven_by"] for result in proofs(shop, second).values()} == {first}
    assert cited_by(shop, shop.planned(LATE, reason="the third")) == first


def test_a_proof_is_found_through_the_runs_that_cite_it(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cite, "_LATEST_RUNS", 1)
    first = shop.published()
    shop.published(LATE, reason="the second")
    third = shop.planned(LATE, reason="the third")
    assert cited_by(shop, third) == first
    assert cited_by(shop, third, code_digest="0" * 64) is None
    url = shop.ws.settings.ledger_url
    tamper(url, "UPDATE gate_results SET verdict = 'proven' WHERE gate = 'warm_up' AND run_id = :run", run=first)
    assert cited_by(shop, third) is None


def test_a_citation_that_was_edited_to_name_another_release_is_not_followed(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cite, "_LATEST_RUNS", 1)
    first = shop.published()
    edit(shop.ws)
    second = shop.published(reason="edited")
    third = shop.published(LATE, reason="the third")
    fourth = shop.planned(LATE, reason="the fourth")
    assert cited_by(shop, fourth) == second
    url = shop.ws.settings.ledger_url
    tamper(
        url,
        f"UPDATE gate_results SET observed = replace(observed, '{second}', '{first}') WHERE run_id = :run",
        run=third,
    )
    assert cited_by(shop, fourth) is None


def test_what_was_not_published_is_not_cited(shop: Shop) -> None:
    shop.ready()
    assert cited_by(shop, shop.planned(LATE)) is None


@pytest.mark.long
def test_a_proof_by_checksums_of_an_earlier_form_is_not_cited(shop: Shop) -> None:
    first = shop.published()
    later = shop.planned(LATE, reason="after the upgrade")
    assert cited_by(shop, later) == first
    changed = "UPDATE candidate_partitions SET checksum = 'xx64:1:1:2:0000000000000003' WHERE run_id = :run"
    tamper(shop.ws.settings.ledger_url, changed, run=first)
    assert cited_by(shop, later) is None


def test_a_proof_by_longer_windows_is_not_cited(shop: Shop) -> None:
    shop.published(ONE)
    assert cited_by(shop, shop.planned(LATE)) is None


def test_a_changed_transform_proves_again(shop: Shop) -> None:
    shop.published()
    edit(shop.ws)
    assert cited_by(shop, shop.planned(LATE, reason="edited")) is None


def test_another_release_proves_again(shop: Shop) -> None:
    shop.published()
    assert cited_by(shop, shop.planned(LATE, version="0.9.0")) is None


@pytest.mark.parametrize(
    "changed",
    [
        {"code_digest": "0" * 64},
        {"session_digest": "0" * 64},
        {"versions": {"pyspark": "9.9.9"}},
        {"references": (PinnedReference(name="calendar", version="2", sha256="0" * 64),)},
        {"inputs": ()},
        {"gates": ()},
        {"transform_version": "1.0.1"},
        {"configuration": {"windows": {"sales": {"days_back": 3, "days_ahead": 1}}}},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_anything_that_a_proof_depends_on_makes_a_run_prove_again(shop: Shop, changed: Mapping[str, Any]) -> None:
    first = shop.published()
    run_id = shop.planned(LATE)
    assert cited_by(shop, run_id) == first
    assert cited_by(shop, run_id, **changed) is None


GATED = "action = 'gates_recorded' AND entity_id = :run"
PLANNED = "action = 'planned' AND entity_id = :run"


@pytest.mark.parametrize(
    "edited",
    [
        "UPDATE gate_results SET verdict = 'proven' WHERE gate = 'warm_up' AND run_id = :run",
        "UPDATE gate_results SET blocking = NOT blocking WHERE gate = 'unique_key' AND run_id = :run",
        "DELETE FROM gate_results WHERE gate = 'unique_key' AND run_id = :run",
        f"UPDATE events SET actor = 'eve' WHERE {GATED}",
        f"UPDATE events SET actor = 'eve' WHERE {PLANNED}",
        "UPDATE manifests SET body = replace(body, 'why not', 'because') WHERE run_id = :run",
    ],
)
def test_an_edited_record_is_not_cited(shop: Shop, edited: str) -> None:
    first = shop.published()
    run_id = shop.planned(LATE)
    assert cited_by(shop, run_id) == first
    url = shop.ws.settings.ledger_url
    for table in ("events", "manifests"):
        disarm(url, table)
    tamper(url, edited, run=first)
    assert cited_by(shop, run_id) is None
