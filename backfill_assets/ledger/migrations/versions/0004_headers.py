"""Kind, mode, cause and partitions of runs as columns, what they follow as rows, and indexes for long histories."""

import json
from collections.abc import Mapping
from datetime import date
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

PAGE = 500
ADDED = ("kind", "mode", "because")
ENDS = ("first_partition", "last_partition")


def upgrade() -> None:
    for name in ADDED:
        op.add_column("runs", sa.Column(name, sa.Text, nullable=False, server_default=""))
    for name in ENDS:
        op.add_column("runs", sa.Column(name, sa.Date))
    op.create_table(
        "run_follows",
        sa.Column("run_id", sa.Text, sa.ForeignKey("runs.run_id"), primary_key=True),
        sa.Column("publication_id", sa.Text, primary_key=True),
    )
    fill_from_manifests()
    op.drop_index("runs_by_state", "runs")
    add_indexes()


def add_indexes() -> None:
    op.create_index("runs_by_sequence", "runs", ["added_sequence"])
    op.create_index("runs_by_table_and_state", "runs", ["table_name", "state", "mode"])
    op.create_index("runs_by_state", "runs", ["state", "because"])
    op.create_index("runs_by_cause", "runs", ["because", "added_sequence"])
    op.create_index("runs_by_mode", "runs", ["mode", "added_sequence"])
    op.create_index("followers_by_publication", "run_follows", ["publication_id", "run_id"])
    op.create_index("publications_by_table", "publications", ["table_name", "begun_sequence"])
    op.create_index("publications_by_state", "publications", ["state", "begun_sequence"])
    op.create_index("versions_by_publication", "partition_versions", ["publication_id"])
    op.create_index("verifications_by_partition", "verifications", ["partition_date", "version"])
    add_partial_index("rollback_events", "events", "sequence", "entity = 'rollback'")
    add_partial_index("open_outbox_entries", "outbox", "sequence", "delivered_at IS NULL AND withdrawn_at IS NULL")
    add_partial_index("unwithdrawn_outbox_entries", "outbox", "publication_id", "withdrawn_at IS NULL")


def add_partial_index(name: str, table: str, column: str, condition: str) -> None:
    op.create_index(name, table, [column], sqlite_where=sa.text(condition), postgresql_where=sa.text(condition))


def fill_from_manifests() -> None:
    """Repeats what manifests say, a page of them at a time; one that cannot be read keeps empty columns."""
    connection = op.get_bind()
    page = sa.text(
        "SELECT manifests.run_id, body FROM manifests JOIN runs ON runs.run_id = manifests.run_id "
        f"WHERE manifests.run_id > :after ORDER BY manifests.run_id LIMIT {PAGE}"
    )
    columns = ", ".join(f"{name} = :{name}" for name in (*ADDED, *ENDS))
    dates = [sa.bindparam(name, type_=sa.Date) for name in ENDS]
    update = sa.text(f"UPDATE runs SET {columns} WHERE run_id = :run_id").bindparams(*dates)
    insert = sa.text("INSERT INTO run_follows (run_id, publication_id) VALUES (:run_id, :publication_id)")
    after = ""
    while found := connection.execute(page, {"after": after}).all():
        after = found[-1].run_id
        read = [(row.run_id, stated) for row in found if (stated := columns_of(row.body)) is not None]
        if read:
            connection.execute(update, [{"run_id": run_id, **columns} for run_id, (columns, _) in read])
        follows = [
            {"run_id": run_id, "publication_id": publication_id}
            for run_id, (_, followed) in read
            for publication_id in followed
        ]
        if follows:
            connection.execute(insert, follows)


def columns_of(body: str) -> tuple[Mapping[str, str | date | None], tuple[str, ...]] | None:
    """The columns of a manifest's run and the publications that it follows; None when the text cannot be read."""
    try:
        document: Any = json.loads(body)
        partitions = [date.fromisoformat(partition) for partition in document["target"]["partitions"]]
        columns: dict[str, str | date | None] = {"kind": str(document["kind"]), "mode": str(document["mode"])}
        columns |= dict(zip(ENDS, (min(partitions, default=None), max(partitions, default=None)), strict=True))
        if document["format"] < 3:
            # Before format 3 only a run of the kind LIVE was not asked for by a person.
            followed = [document["because"]] if document.get("because") else []
            return {**columns, "because": "LIVE" if document["kind"] == "LIVE" else "PERSON"}, tuple(followed)
        cause = document["cause"]
        return {**columns, "because": str(cause["kind"])}, tuple(dict.fromkeys(cause["publications"]))
    except (ValueError, KeyError, TypeError):
        return None
