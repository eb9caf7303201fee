"""A made-up second revision brings a ledger forward with everything in it, or leaves it; a newer one is refused."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from backfill_assets.core.clock import Clock
from backfill_assets.core.errors import Refused
from backfill_assets.ledger import store
from backfill_assets.ledger.connection import connect_engine
from backfill_assets.ledger.schema import HEAD_REVISION
from backfill_assets.ledger.store import Ledger
from backfill_assets_tests.support.advice import refused
from backfill_assets_tests.support.ledger_examples import (
    DAYS,
    an_offered_file,
    dumped,
    make_publishable,
    plan,
    publication_of,
    publish,
    roll_back,
    show_rows,
    states_of_versions,
    tamper,
)

NEXT_REVISION = "9000"
ADD_A_COLUMN = 'op.add_column("runs", sa.Column("added", sa.Text, nullable=False, server_default="later"))'

Release = Callable[[str], None]


@pytest.fixture
def release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Release:
    """Adds a revision to the migrations, whose upgrade is what is given."""

    def of(does: str) -> None:
        folder = tmp_path / "migrations"
        shutil.copytree(store.MIGRATIONS, folder)
        text = f'revision = "{NEXT_REVISION}"\ndown_revision = "{HEAD_REVISION}"\n\n\ndef upgrade():\n    {does}\n'
        (folder / "versions" / "next.py").write_text(f"import sqlalchemy as sa\nfrom alembic import op\n\n{text}")
        monkeypatch.setattr(store, "MIGRATIONS", folder)
        monkeypatch.setattr(store, "HEAD_REVISION", NEXT_REVISION)

    return of


@pytest.fixture
def old_ledger(ledger_url: str, clock: Clock) -> str:
    """The URL of a ledger with some of everything in it, one publication of which is open."""
    ledger = Ledger.open(ledger_url, clock=clock)
    with ledger.write() as writer:
        writer.imports.begin(an_offered_file(), actor="ann")
    make_publishable(ledger, "first")
    publish(ledger, "first", at=1)
    make_publishable(ledger, "wrong", days=DAYS[:1])
    roll_back(ledger, publish(ledger, "wrong", days=DAYS[:1], at=3), at=4)
    show_rows(ledger, "shown")
    make_publishable(ledger, "elsewhere", table="silver.other")
    with ledger.write() as writer:
        writer.publications.begin(publication_of(writer, "elsewhere", table="silver.other"), actor="Bob")
    plan(ledger, "planned")
    ledger.close()
    return ledger_url


def rows(url: str) -> Sequence[str]:
    return [row.replace(", 'later')", ")") for row in dumped(url) if not row.startswith("alembic_version")]


def test_every_row_of_an_earlier_revision_is_there_after_the_upgrade(
    old_ledger: str, release: Release, clock: Clock
) -> None:
    before = rows(old_ledger)
    release(ADD_A_COLUMN)
    Ledger.open(old_ledger, clock=clock).close()
    assert any(row.endswith(", 'later')") for row in dumped(old_ledger)), "the column was added"
    assert rows(old_ledger) == before
    assert len(before) > 50


def test_an_upgraded_ledger_is_carried_on(old_ledger: str, release: Release, clock: Clock) -> None:
    release(ADD_A_COLUMN)
    ledger = Ledger.open(old_ledger, clock=clock)
    with ledger.read() as reader:
        (begun,) = [p for p in reader.publications.records() if p.run_id == "elsewhere"]
    with ledger.write() as writer:
        writer.publications.finish(begun.publication_id, delta_version=1, actor="recover")
    make_publishable(ledger, "third")
    roll_back(ledger, publish(ledger, "third", at=6), at=7)
    with ledger.read() as reader:
        assert states_of_versions(reader, DAYS[0]) == {1: "ACCEPTED", 2: "ROLLED_BACK", 3: "ROLLED_BACK"}
        assert [*reader.events.violations(), *reader.row_checks.violations()] == []
    ledger.close()


def test_a_ledger_of_a_newer_version_is_refused_and_left_alone(ledger_url: str, clock: Clock) -> None:
    Ledger.open(ledger_url, clock=clock).close()
    tamper(ledger_url, "UPDATE alembic_version SET version_num = '9999'")
    before = dumped(ledger_url)
    with refused(Refused, match=r"at revision 9999, which this version does not know.*upgrade backfill-assets"):
        Ledger.open(ledger_url, clock=clock)
    assert dumped(ledger_url) == before


REFUSE_THE_LAST_STEP = {
    "sqlite": (
        f"CREATE TRIGGER last_step BEFORE UPDATE ON alembic_version WHEN NEW.version_num = '{NEXT_REVISION}' "
        "BEGIN SELECT RAISE(ABORT, 'no further'); END",
    ),
    "postgresql": (
        "CREATE FUNCTION no_further() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        f"IF NEW.version_num = '{NEXT_REVISION}' THEN RAISE EXCEPTION 'no further'; END IF; RETURN NEW; END $$",
        "CREATE TRIGGER last_step BEFORE UPDATE ON alembic_version FOR EACH ROW EXECUTE FUNCTION no_further()",
    ),
}
"""The last statement of every upgrade names its revision, whatever else it does."""


def test_an_upgrade_that_fails_half_way_leaves_the_earlier_revision(
    old_ledger: str, release: Release, clock: Clock
) -> None:
    backend = "sqlite" if old_ledger.startswith("sqlite") else "postgresql"
    tamper(old_ledger, *REFUSE_THE_LAST_STEP[backend])
    before = dumped(old_ledger)
    release(ADD_A_COLUMN)
    with pytest.raises(Refused, match="no further"):
        Ledger.open(old_ledger, clock=clock)
    assert dumped(old_ledger) == before
    tamper(old_ledger, "DROP TRIGGER last_step" + ("" if backend == "sqlite" else " ON alembic_version"))
    ledger = Ledger.open(old_ledger, clock=clock)
    with ledger.read() as reader:
        assert reader.events.violations() == ()
    ledger.close()


@pytest.mark.parametrize("ledger_url", ["sqlite"], indirect=True)
def test_an_upgrade_that_loses_a_row_that_others_refer_to_is_refused(
    old_ledger: str, release: Release, clock: Clock
) -> None:
    before = dumped(old_ledger)
    release("op.execute(\"DELETE FROM runs WHERE run_id = 'first'\")")
    with pytest.raises(Refused, match="refer to rows that are not there"):
        Ledger.open(old_ledger, clock=clock)
    assert dumped(old_ledger) == before


@pytest.mark.parametrize("ledger_url", ["sqlite"], indirect=True)
def test_what_an_upgrade_removes_is_overwritten(old_ledger: str, release: Release, clock: Clock) -> None:
    folder = Path(str(connect_engine(old_ledger).url.database)).parent

    def content() -> bytes:
        return b"".join(path.read_bytes() for path in folder.iterdir())

    assert b"case-1742" in content()
    release('op.execute("DELETE FROM samples")')
    Ledger.open(old_ledger, clock=clock).close()
    assert b"case-1742" not in content()
