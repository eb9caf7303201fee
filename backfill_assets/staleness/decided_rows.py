"""Rows that landed files decide: news of changed days, counted in what is accepted of these days.

Apart from `landed_news`, because it reads the lake, which takes long to import.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import date

from backfill_assets.lake.row_values import rows_by_import
from backfill_assets.ledger.transactions import ReadTransaction
from backfill_assets.planning.proposals import SourceDay
from backfill_assets.staleness.landed_news import LandedNews
from backfill_assets.workspace import Workspace


def deciding_news(
    ws: Workspace,
    tx: ReadTransaction,
    news: Mapping[SourceDay, tuple[LandedNews, ...]],
    days: Iterable[SourceDay],
) -> Mapping[SourceDay, tuple[LandedNews, ...]]:
    """The news of some days that decide a row of what is accepted, with the number of these rows.

    Where no file decides one, such as after a file was landed again with fewer records, all news of the day are kept.

    Cost: one column of the accepted rows of these days is read, without Spark.

    Raises:
        MissingInput, UnreadableTable: The accepted rows of a day cannot be read.
    """
    by_source: dict[str, list[date]] = {}
    for source, day in sorted(days):
        by_source.setdefault(source, []).append(day)
    found: dict[SourceDay, tuple[LandedNews, ...]] = {}
    for source, some in by_source.items():
        accepted = tx.versions.accepted(source, some)
        for day in some:
            version = accepted.get(day)
            rows = {} if version is None else rows_by_import(ws.lake, source, version.files)
            counted = [replace(each, rows=rows.get(each.record.import_id, 0)) for each in news.get((source, day), ())]
            found[source, day] = tuple(each for each in counted if each.decides) or tuple(counted)
    return found
