"""What did ledgers of earlier revisions look like? One of each is kept, with some of everything in it.

Before a new revision is added, the code of the one before writes its ledger down:

    python -m backfill_assets_tests.released_ledgers > backfill_assets_tests/integration/released/<revision>.json
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, inspect, text

from backfill_assets.ledger.connection import connect_engine
from backfill_assets.ledger.import_records import ImportCounts, ImportDay, KeyCounts
from backfill_assets.ledger.records import Sample, SampleKind
from backfill_assets.ledger.sampled import FailingKey, SampledRow
from backfill_assets.ledger.states import RunState
from backfill_assets.ledger.store import Ledger
from backfill_assets.planning.manifest_parts import CauseKind, Mode, RunCause
from backfill_assets.planning.sets import SetManifest, SetMember
from backfill_assets_tests.ledger_examples import (
    DAYS,
    a_manifest,
    an_offered_file,
    make_publishable,
    plan,
    publication_of,
    publish,
    results_for,
    roll_back,
    stage,
    staged,
)

RELEASED = Path(__file__).parent / "integration" / "released"
AT = datetime(2026, 1, 15, 12, tzinfo=UTC)

Rows = list[dict[str, Any]]


def live_a_little(ledger: Ledger) -> None:
    """Imports, runs in many states, a superseded and a rolled back publication, and one whose process died."""
    with ledger.write() as writer:
        import_id = writer.imports.begin(an_offered_file(), actor="ann").import_id
        writer.imports.begin(an_offered_file("b" * 64), actor="ann")
    with ledger.write() as writer:
        writer.imports.finish(
            import_id,
            counts=ImportCounts(landed=5, accepted=4, rejected=1),
            days=[ImportDay(import_id=import_id, event_date=day, events=1, displaced=2) for day in DAYS],
            schema_versions=[1],
            ignored_columns=["é"],
            keys=KeyCounts(current=4),
            actor="ann",
        )
        writer.imports.mark_loaded([import_id], actor="ann")
    make_publishable(ledger, "first")
    first = publish(ledger, "first", at=1)
    plan(ledger, "dry", mode=Mode.DRY_RUN)
    follow(ledger, "follower", first)
    make_publishable(ledger, "second", days=DAYS[1:])
    publish(ledger, "second", days=DAYS[1:], at=2)
    make_publishable(ledger, "wrong", days=DAYS[:1])
    roll_back(ledger, publish(ledger, "wrong", days=DAYS[:1], at=3), at=4)
    show_rows(ledger, "shown")
    make_publishable(ledger, "elsewhere", table="silver.other")
    carry_out_half(ledger, "elsewhere", "silver.other")
    plan(ledger, "planned")
    plan(ledger, "staged")
    stage(ledger, "staged")
    plan_together(ledger, "set.months", "member")


def follow(ledger: Ledger, run_id: str, publication_id: str) -> None:
    """Plans a run that follows a publication."""
    cause = RunCause(kind=CauseKind.FOLLOW_UP, publications=(publication_id,))
    with ledger.write() as writer:
        writer.outbox.add_follow_up(a_manifest(run_id, table="gold.example", cause=cause), actor="follow")


def show_rows(ledger: Ledger, run_id: str) -> None:
    """A run that its gates block, with rows for its reviewer."""
    plan(ledger, run_id)
    stage(ledger, run_id)
    before, after = {"state": "é"}, {"state": "late"}
    changed = SampledRow(partition=DAYS[0], key={"case_id": "case-1742"}, before=before, after=after)
    failing = FailingKey(partition=DAYS[1], gate="unique", key={"case_id": "case-1743"})
    shown = Sample(kind=SampleKind.CHANGED_ROWS, rows=(changed,)), Sample(kind=SampleKind.FAILING_KEYS, rows=(failing,))
    with ledger.write() as writer:
        writer.runs.take(run_id, RunState.GATING, actor="runner", attempt="a1")
        writer.candidates.record_gates(
            run_id, staged(run_id), results_for(run_id), actor="runner", attempt="a1", samples=shown
        )
        writer.runs.move(run_id, RunState.BLOCKED, actor="runner", attempt="a1", note="blocked by unique")


def plan_together(ledger: Ledger, set_id: str, run_id: str) -> None:
    """A set of one run."""
    manifest = plan(ledger, run_id, member_of=set_id)
    member = SetMember(run_id=run_id, table=manifest.table, manifest_digest=manifest.digest)
    with ledger.write() as writer:
        writer.sets.add(
            SetManifest(
                set_id=set_id,
                name="months",
                reason="deadlines were a day off",
                requested_by="Ann Lee",
                requested_at=AT,
                because="bronze.events:2024-10-01..2024-10-03",
                members=(member,),
            ),
            actor="ann",
        )


def carry_out_half(ledger: Ledger, run_id: str, table: str) -> None:
    """Begins a publication that is not finished."""
    with ledger.write() as writer:
        writer.publications.begin(publication_of(writer, run_id, table=table), actor="Bob")


def dumped(connection: Connection) -> dict[str, Rows]:
    """Every row of every table, as SQLite holds it."""
    names = [name for name in inspect(connection).get_table_names() if name != "alembic_version"]
    return {
        name: [dict(row) for row in connection.execute(text(f"SELECT * FROM {name} ORDER BY 1, 2")).mappings()]
        for name in sorted(names)
    }


def fill(engine: Engine, tables: Mapping[str, Rows]) -> None:
    """Puts the rows into the tables of the same revision, without any code of the ledger."""
    waiting = dict(tables)
    with engine.begin() as connection:
        connection.execute(text("DELETE FROM chain_head"))
        references = {
            name: {key["referred_table"] for key in inspect(connection).get_foreign_keys(name)} for name in tables
        }
        while waiting:
            name = next(name for name in waiting if not references[name] & waiting.keys() - {name})
            insert_rows(connection, name, waiting.pop(name))


def insert_rows(connection: Connection, name: str, rows: Rows) -> None:
    if not rows:
        return
    if connection.dialect.name == "postgresql":
        connection.execute(text("SET LOCAL TIME ZONE 'UTC'"))
        populate = text(f"INSERT INTO {name} SELECT * FROM json_populate_recordset(NULL::{name}, :rows)")
        connection.execute(populate, {"rows": json.dumps(rows)})
    else:
        columns = list(rows[0])
        values = ", ".join(f":{column}" for column in columns)
        connection.execute(text(f"INSERT INTO {name} ({', '.join(columns)}) VALUES ({values})"), rows)


def main() -> None:
    """Writes the ledger of this revision to the standard output."""
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/ledger.db"
        ledger = Ledger.open(url, clock=lambda: AT)
        live_a_little(ledger)
        ledger.close()
        engine = connect_engine(url)
        with engine.connect() as connection:
            json.dump(dumped(connection), sys.stdout, ensure_ascii=False, indent=1)
        engine.dispose()
        sys.stdout.write("\n")


if __name__ == "__main__":
    main()
