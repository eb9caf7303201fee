"""Views of the ledger for readers of other programs: runs and publications, each as one row, and reads of them.

Their columns are a promise (docs/export.md). Whoever reads them needs no right to the tables behind them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from enum import StrEnum

from sqlalchemy import BigInteger, Column, Connection, Date, Integer, MetaData, Table, Text, or_, select

from backfill_assets.ledger.queries import Queries
from backfill_assets.ledger.schema import UtcDateTime

_metadata = MetaData()

runs = Table(
    "backfill_runs",
    _metadata,
    Column("sequence", BigInteger, primary_key=True),
    Column("run_id", Text),
    Column("request_id", Text),
    Column("table_name", Text),
    Column("kind", Text),
    Column("mode", Text),
    Column("cause", Text),
    Column("first_partition", Date),
    Column("last_partition", Date),
    Column("state", Text),
    Column("note", Text),
    Column("requested_by", Text),
    Column("reason", Text),
    Column("planned_at", UtcDateTime),
    Column("approval", Text),
    Column("approved_by", Text),
    Column("approved_at", UtcDateTime),
    Column("updated_at", UtcDateTime),
    Column("manifest_sha256", Text),
)
publications = Table(
    "backfill_publications",
    _metadata,
    Column("sequence", BigInteger, primary_key=True),
    Column("publication_id", Text),
    Column("run_id", Text),
    Column("table_name", Text),
    Column("action", Text),
    Column("state", Text),
    Column("undoes", Text),
    Column("asked_by", Text),
    Column("reason", Text),
    Column("started_at", UtcDateTime),
    Column("finished_at", UtcDateTime),
    Column("delta_version", BigInteger),
    Column("partitions_changed", Integer),
    Column("partitions_verified", Integer),
    Column("note", Text),
)


class View(StrEnum):
    """The views that can be exported."""

    RUNS = "runs"
    PUBLICATIONS = "publications"


_TABLES = {View.RUNS: runs, View.PUBLICATIONS: publications}


def create_views(connection: Connection) -> None:
    """Creates the views; JSON is read in the way of the database."""
    is_sqlite = connection.dialect.name == "sqlite"

    def agreed(name: str) -> str:
        return f"json_extract(e.payload, '$.{name}')" if is_sqlite else f"(e.payload::json ->> '{name}')"

    connection.exec_driver_sql(
        "CREATE VIEW backfill_runs AS SELECT r.added_sequence AS sequence, r.run_id, r.request_id, r.table_name, "
        "r.kind, r.mode, r.because AS cause, r.first_partition, r.last_partition, r.state, r.note, "
        f"{agreed('requested_by')} AS requested_by, {agreed('reason')} AS reason, e.at AS planned_at, "
        "a.state AS approval, a.approved_by, a.approved_at, r.updated_at, m.digest AS manifest_sha256 "
        "FROM runs r JOIN manifests m ON m.run_id = r.run_id LEFT JOIN events e ON e.sequence = r.added_sequence "
        "LEFT JOIN approvals a ON a.request_id = r.run_id"
    )
    connection.exec_driver_sql(
        "CREATE VIEW backfill_publications AS SELECT p.begun_sequence AS sequence, p.publication_id, p.run_id, "
        "p.table_name, p.action, p.state, p.undoes, p.asked_by, p.reason, p.started_at, p.finished_at, "
        "p.delta_version, "
        "(SELECT count(*) FROM publication_changes c WHERE c.publication_id = p.publication_id) AS partitions_changed, "
        "(SELECT count(*) FROM verifications v WHERE v.publication_id = p.publication_id) AS partitions_verified, "
        "p.note FROM publications p"
    )


def columns_of(view: View) -> Mapping[str, type]:
    """The columns of a view, in order, with the types of their values."""
    return {
        column.name: datetime if isinstance(column.type, UtcDateTime) else column.type.python_type
        for column in _TABLES[view].columns
    }


_SEARCHED = {
    View.RUNS: ("run_id", "request_id", "table_name", "requested_by", "approved_by", "reason"),
    View.PUBLICATIONS: ("publication_id", "run_id", "table_name", "asked_by", "reason"),
}


class ViewReads(Queries):
    """The contents of the views."""

    def matching(self, view: View, text: str, *, most: int) -> tuple[Mapping[str, object], ...]:
        """The rows in whose ids, names and reasons a text occurs, in any case, the last begun first.

        Cost: every row.
        """
        held = _TABLES[view]
        found = or_(*(held.c[name].icontains(text, autoescape=True) for name in _SEARCHED[view]))
        chosen = select(*held.columns).where(found).order_by(held.c.sequence.desc()).limit(most)
        return tuple(dict(row._mapping) for row in self._rows(chosen))

    def rows(self, view: View) -> Iterator[Mapping[str, object]]:
        """Every row of a view, in the order in which things were begun.

        Cost: every row, a page at a time.
        """
        held = _TABLES[view]
        for row in self._paged(select(*held.columns), held.c.sequence, after=-1):
            yield dict(row._mapping)
