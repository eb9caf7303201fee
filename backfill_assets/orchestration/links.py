"""Links from Dagster's pages: to the desk where a setting says where it is served, else the command to type."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from urllib.parse import quote

from dagster import MetadataValue

from backfill_assets.core.settings import Settings
from backfill_assets.planning.sets import is_set
from backfill_assets.report.command_line import words_of
from backfill_assets.report.requests import Act, do

REPORT = "report"
AT_THE_DESK = "at the desk"


def report_link(settings: Settings, name: str, *, label: str = REPORT) -> Mapping[str, MetadataValue]:
    """Where the report of a run or a set is read.

    Args:
        settings: Say where the desk is.
        name: Of the run or the set.
        label: Under which the report stands.
    """
    if not settings.desk_url:
        return {label: MetadataValue.text(_command(name))}
    named = quote(name, safe="")
    return {
        label: MetadataValue.url(f"{settings.desk_url}/reports/{named}"),
        AT_THE_DESK: MetadataValue.url(f"{settings.desk_url}/{'sets' if is_set(name) else 'runs'}/{named}"),
    }


@lru_cache(maxsize=64)
def _command(name: str) -> str:
    # A publication has a link for every partition.
    return words_of(do(Act.REPORT, name))
