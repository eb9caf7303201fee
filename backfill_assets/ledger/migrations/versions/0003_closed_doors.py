"""What closing the doors needs of the ledger; one function per subject, in the order they are called."""

import re

import sqlalchemy as sa
from alembic import op

from backfill_assets.ledger.migrations.row_values import move_out

revision = "0003"
down_revision = "0002"

EVENT_IS_FINAL = "an event never changes: what happened has happened"
RUN_STATES = (
    *("PLANNED", "STAGING", "STAGED", "GATING", "PASSED", "BLOCKED", "FAILED"),
    *("PUBLISHING", "PUBLISHED", "SUPERSEDED", "ROLLED_BACK", "CANCELLED"),
)
SET_STATES = ("PLANNED", "PUBLISHING", "PUBLISHED", "ROLLING_BACK", "ROLLED_BACK", "CANCELLED")


def upgrade() -> None:
    add_states("runs", "run_state", RUN_STATES)
    add_states("restatement_sets", "set_state", SET_STATES)
    add_leases()
    add_seams()
    move_row_values_out()
    withdraw_what_undone_publications_asked_for()


def add_leases() -> None:
    op.create_table(
        "leases",
        sa.Column("work_id", sa.Text, primary_key=True),
        sa.Column("attempt", sa.Text, nullable=False),
        sa.Column("holder", sa.Text, nullable=False),
        sa.Column("machine", sa.Text, nullable=False),
        sa.Column("since_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("until_at", sa.DateTime(timezone=True), nullable=False),
    )


def add_seams() -> None:
    """What a chunk found when it computed the last partition of the chunk before it once more."""
    op.add_column("chunk_runs", sa.Column("seam_checksum", sa.Text, nullable=False, server_default=""))


def add_states(table: str, constraint: str, states: tuple[str, ...]) -> None:
    """Lets the column `state` of a table hold exactly these."""
    allowed = f"state IN ({', '.join(repr(state) for state in states)})"
    if op.get_bind().dialect.name == "postgresql":
        op.drop_constraint(constraint, table)
        op.create_check_constraint(constraint, table, allowed)
    else:
        rebuild(table, rf"CONSTRAINT {constraint} CHECK \(state IN \([^)]*\)\)", f"CONSTRAINT {constraint} CHECK ({allowed})")


def rebuild(table: str, pattern: str, replacement: str) -> None:
    """SQLite cannot change a constraint: the table is made anew beside itself, with its rows and indexes."""
    connection = op.get_bind()
    of_table = {"table": table}
    (definition,) = connection.scalars(
        sa.text("SELECT sql FROM sqlite_master WHERE type = 'table' AND name = :table"), of_table
    )
    indexes = connection.scalars(
        sa.text("SELECT sql FROM sqlite_master WHERE type = 'index' AND tbl_name = :table AND sql IS NOT NULL"), of_table
    ).all()
    changed, count = re.subn(pattern, replacement, definition)
    assert count == 1, f"{table} has not the constraint that revision 0001 or 0002 gave it"
    beside, count = re.subn(rf'^CREATE TABLE "?{table}"?', f"CREATE TABLE {table}_beside", changed)
    assert count == 1, definition
    for statement in (
        beside,
        f"INSERT INTO {table}_beside SELECT * FROM {table}",
        f"DROP TABLE {table}",
        f"ALTER TABLE {table}_beside RENAME TO {table}",
        *indexes,
    ):
        connection.exec_driver_sql(statement)


def move_row_values_out() -> None:
    """Values of rows go to a table from which they can be erased."""
    op.create_table(
        "samples",
        sa.Column("sequence", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column(
            "kind",
            sa.Enum(
                *("CHANGED_ROWS", "FAILING_KEYS"),
                name="sample_kind",
                native_enum=False,
                create_constraint=True,
                length=16,
            ),
            primary_key=True,
        ),
        sa.Column("run_id", sa.Text, sa.ForeignKey("runs.run_id"), nullable=False),
        sa.Column("salt", sa.Text, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
    )
    op.create_index("samples_by_run", "samples", ["run_id", "sequence"])
    op.add_column("events", sa.Column("former_hash", sa.String(64)))
    is_sqlite = op.get_bind().dialect.name == "sqlite"
    op.execute(
        "DROP TRIGGER events_refuse_update" if is_sqlite else "ALTER TABLE events DISABLE TRIGGER events_refuse_change"
    )
    move_out(op.get_bind())
    op.execute(
        f"CREATE TRIGGER events_refuse_update BEFORE UPDATE ON events BEGIN SELECT RAISE(ABORT, '{EVENT_IS_FINAL}'); END"
        if is_sqlite
        else "ALTER TABLE events ENABLE TRIGGER events_refuse_change"
    )


def withdraw_what_undone_publications_asked_for() -> None:
    op.add_column("outbox", sa.Column("withdrawn_at", sa.DateTime(timezone=True)))
    op.add_column("outbox", sa.Column("attempts", sa.Integer, nullable=False, server_default="0"))
    op.add_column("outbox", sa.Column("note", sa.Text, nullable=False, server_default=""))
    op.execute(
        "UPDATE outbox SET note = 'undone by a rollback', withdrawn_at = ("
        "SELECT max(back.finished_at) FROM publications AS back "
        "WHERE back.undoes = outbox.publication_id AND back.state = 'PUBLISHED') "
        "WHERE publication_id IN (SELECT publication_id FROM publications WHERE state = 'ROLLED_BACK')"
    )
