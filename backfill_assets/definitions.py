"""Definitions: the entry point of Dagster."""

from backfill_assets.orchestration.build import build_definitions
from backfill_assets.settings import Settings

defs = build_definitions(Settings.from_environment())
