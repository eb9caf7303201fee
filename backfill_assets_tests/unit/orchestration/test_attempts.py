"""Runs whose process is gone are ended, and what a person types as a process stops no sensor."""

from __future__ import annotations

import socket

import pytest
from dagster import DagsterInstance, job

from backfill_assets.orchestration import tags
from backfill_assets.orchestration.tags import is_under_way
from backfill_assets_tests.support.dagster_record import ended_process


@job
def nothing() -> None:
    """Has no ops."""


@pytest.mark.parametrize(
    ("typed", "goes_on"), [(None, False), ("9" * 20, True), ("9" * 5_000, True), ("\u00b2", True), ("", True)]
)
def test_a_process_that_can_be_none_is_not_looked_for(typed: str | None, goes_on: bool) -> None:
    named = {tags.RUN_ID: "lost"}
    with DagsterInstance.ephemeral() as instance:
        pid = typed if typed is not None else str(ended_process())
        instance.create_run_for_job(nothing, tags={**named, tags.PROCESS: f"{socket.gethostname()}:{pid}"})
        assert is_under_way(instance, named) is goes_on
