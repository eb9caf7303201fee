"""The views of the ledger say what the records say, and an export has every row in every format."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from backfill_assets.application.export import export
from backfill_assets.core.errors import Refused
from backfill_assets.core.settings import Settings
from backfill_assets.ledger.store import Ledger
from backfill_assets.ledger.views import View, columns_of
from backfill_assets.workspace import Workspace
from backfill_assets_tests.support.ledger_examples import make_publishable, plan, publish, roll_back, tamper


def held(ledger: Ledger, view: View) -> list[Mapping[str, object]]:
    with ledger.read() as tx:
        return list(tx.views.rows(view))


def test_a_run_is_one_row_with_who_asked_and_who_approved(ledger: Ledger) -> None:
    make_publishable(ledger, "bf-1")
    publication = publish(ledger, "bf-1")
    plan(ledger, "bf-2")
    first, second = held(ledger, View.RUNS)
    with ledger.read() as tx:
        runs = [tx.runs.get(run_id) for run_id in ("bf-1", "bf-2")]
    for row, run in zip((first, second), runs, strict=True):
        assert list(row) == list(columns_of(View.RUNS))
        assert (row["run_id"], row["state"], row["approval"]) == (run.run_id, run.state, run.approval)
        assert (row["requested_by"], row["reason"]) == (run.manifest.requested_by, run.manifest.reason)
        assert (row["approved_by"], row["manifest_sha256"]) == (run.approved_by, run.manifest.digest)
        assert (row["first_partition"], row["last_partition"]) == (
            run.manifest.partitions[0],
            run.manifest.partitions[-1],
        )
        assert isinstance(row["planned_at"], datetime) and row["planned_at"].tzinfo is not None
    (row,) = held(ledger, View.PUBLICATIONS)
    with ledger.read() as tx:
        record = tx.publications.get(str(row["publication_id"]))
    assert row["publication_id"] == publication
    assert row["partitions_changed"] == len(record.changes)
    assert (row["finished_at"], row["delta_version"]) == (record.finished_at, record.delta_version)


def test_a_rollback_is_a_row_that_names_what_it_undid(ledger: Ledger) -> None:
    make_publishable(ledger, "bf-1")
    publication = publish(ledger, "bf-1")
    roll_back(ledger, publication)
    first, second = held(ledger, View.PUBLICATIONS)
    assert (first["action"], first["state"], second["action"]) == ("PUBLISH", "ROLLED_BACK", "ROLLBACK")
    assert second["undoes"] == first["publication_id"]


@pytest.mark.parametrize("view", list(View))
def test_an_export_has_every_row_in_every_format(
    settings: Settings, ledger: Ledger, tmp_path: Path, view: View
) -> None:
    make_publishable(ledger, "bf-1")
    roll_back(ledger, publish(ledger, "bf-1"))
    plan(ledger, "bf-2")
    ws = Workspace.open(settings)
    ws.__dict__["ledger"] = ledger
    rows = held(ledger, view)
    files = {suffix: tmp_path / f"out{suffix}" for suffix in (".csv", ".jsonl", ".parquet")}
    files[".csv"].write_text("of an earlier export")
    for file in files.values():
        assert export(ws, view, file).rows == len(rows) > 1
    assert pq.read_table(files[".parquet"]).to_pylist() == [dict(row) for row in rows]
    with files[".csv"].open(newline="") as lines_of_csv:
        read = list(csv.DictReader(lines_of_csv))
    assert [list(row) for row in read] == [list(columns_of(view))] * len(rows)
    assert [row["sequence"] for row in read] == [str(row["sequence"]) for row in rows]
    lines = [json.loads(line) for line in files[".jsonl"].read_text().splitlines()]
    assert [line["reason"] for line in lines] == [row["reason"] for row in rows]
    assert sorted(path.name for path in tmp_path.glob("out*")) == ["out.csv", "out.jsonl", "out.parquet"]
    assert not list(tmp_path.glob(".out*"))


@pytest.mark.parametrize("reason", ["=1+1", "+1", "-2 days", "@SUM(A1)", " =1", "\t=1", "\uff1d1", "right"])
def test_a_text_that_a_spreadsheet_would_compute_is_a_text_in_csv(
    settings: Settings, ledger: Ledger, ledger_url: str, tmp_path: Path, reason: str
) -> None:
    make_publishable(ledger, "bf-1")
    roll_back(ledger, publish(ledger, "bf-1"))
    ws = Workspace.open(settings)
    ws.__dict__["ledger"] = ledger
    tamper(ledger_url, "UPDATE publications SET reason = :r", r=reason)
    export(ws, View.PUBLICATIONS, tmp_path / "out.csv")
    with (tmp_path / "out.csv").open(newline="") as lines:
        assert {row["reason"] for row in csv.DictReader(lines)} == {reason if reason == "right" else f"'{reason}"}


def test_a_file_of_no_known_format_is_refused(settings: Settings, tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"is not a \.csv, \.jsonl or \.parquet file"):
        export(Workspace.open(settings), View.RUNS, tmp_path / "out.xlsx")
    assert not list(tmp_path.glob("*out*"))
