"""Definitions: the entry point of Dagster."""

from dagster import Definitions, in_process_executor

from backfill_assets.core.local_files import keep_private
from backfill_assets.core.settings import Settings
from backfill_assets.orchestration.build import definitions_of

_settings = Settings.from_environment()
# Java is started by a step, and inherits it.
keep_private(_settings.home)
# Assets that are launched without a job are executed in one process as well: one per step would start a JVM per step.
defs = Definitions.merge(definitions_of(_settings), Definitions(executor=in_process_executor))
