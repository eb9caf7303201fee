"""Definitions: the entry point of Dagster."""

from backfill_assets.core.file_rights import keep_private
from backfill_assets.core.settings import Settings
from backfill_assets.orchestration.build import build_definitions

_settings = Settings.from_environment()
# Java is started by a step, and inherits it.
keep_private(_settings.home)
defs = build_definitions(_settings)
