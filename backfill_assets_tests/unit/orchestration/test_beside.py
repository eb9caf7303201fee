"""Dagster's record beside a command: one that is damaged keeps nothing from being done, and is said at the end."""

from __future__ import annotations

from pathlib import Path

import pytest

from backfill_assets.core.errors import Unrecorded
from backfill_assets.core.settings import Settings
from backfill_assets.orchestration.background_recorder import RecordedBeside
from backfill_assets.workspace import Workspace
from backfill_assets_tests.domains import streamed


def test_a_command_goes_on_although_dagsters_record_is_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    settings = Settings.from_environment(
        {"BACKFILL_HOME": str(tmp_path), "BACKFILL_DOMAIN": streamed.__name__, "BACKFILL_FIRST_DAY": "2026-01-01"}
    )
    (tmp_path / "dagster" / "history").mkdir(parents=True)
    (tmp_path / "dagster" / "history" / "runs.db").write_bytes(b"no database" * 1_000)
    ws = Workspace.open(settings)
    went_on = False
    with pytest.raises(Unrecorded, match="file is not a database"), RecordedBeside(settings) as recorder:
        assert not recorder.is_elsewhere("some-run")
        recorder.captured(ws, ws.domain.sources[0], "cap-000001")
        went_on = True
    assert went_on
    ws.close()
