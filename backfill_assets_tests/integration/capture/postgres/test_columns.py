"""Columns and publications that are changed between captures: the captured rows are the selected ones, or a refusal."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from backfill_assets.capture.errors import CannotBeCaptured, ChangesUnreadable
from backfill_assets.capture.postgres.changes import lsn_number
from backfill_assets.capture.postgres.stream import BEGINNING
from backfill_assets.core.errors import Refused
from backfill_assets.report.command_line import explained
from backfill_assets_tests.support.database_shop import CONFLICTS, DatabaseShop, ShopOf, records_of, replayed
from backfill_assets_tests.support.source_database import SourceDatabase


@pytest.fixture(autouse=True)
def no_slot_stays(server: SourceDatabase) -> Iterator[None]:
    """A server has only some slots."""
    yield
    with server.connect() as connection:
        query = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE NOT active"
        connection.execute(query)


RENAMED = ("ALTER TABLE sales RENAME note TO remark", "ALTER TABLE sales RENAME remark TO note")


def captured(shop: DatabaseShop) -> dict[str, Any]:
    """The rows that the captured records say there are: of the last snapshot, and what changed behind it."""
    records = records_of(shop)
    snapshots = [each["pg_lsn"] for each in records if each["pg_operation"] == "snapshot"]
    whole = [each.range_to for each in shop.files() if each.range_from == BEGINNING]
    last = lsn_number(max(whole))
    assert set(snapshots) <= {lsn_number(each) for each in whole}
    found = [each for each in records if each["pg_lsn"] >= last]
    return replayed(sorted(found, key=lambda each: (each["pg_lsn"], each["pg_position"])))


def now(shop: DatabaseShop) -> dict[str, Any]:
    with shop.connect() as connection:
        found = connection.execute("SELECT sale_id::text, amount::text, note::text FROM sales").fetchall()
        return {each[0]: dict(zip(("sale_id", "amount", "note"), each, strict=True)) for each in found}


@pytest.mark.parametrize(
    ("statements", "why"),
    [
        (
            (RENAMED[0], "UPDATE sales SET remark = 'late' WHERE sale_id = 1", RENAMED[1]),
            "its columns had other names or places when they were made",
        ),
        (
            (
                "ALTER TABLE sales ADD other text",
                "ALTER TABLE sales RENAME note TO x",
                "ALTER TABLE sales RENAME other TO note",
                "ALTER TABLE sales RENAME x TO other",
                "UPDATE sales SET note = 'swapped' WHERE sale_id = 1",
            ),
            "its column note was renamed or dropped since",
        ),
        (
            ("ALTER TABLE sales DROP note", "ALTER TABLE sales ADD note text"),
            "its column note was renamed or dropped since",
        ),
        (
            ("ALTER TABLE sales ALTER note TYPE int USING 5", "UPDATE sales SET note = 6 WHERE sale_id = 1"),
            "the type of its column note was changed since",
        ),
        (
            (
                "ALTER TABLE sales ALTER amount TYPE int USING amount * 100",
                "UPDATE sales SET amount = 6 WHERE sale_id = 1",
                "ALTER TABLE sales ALTER amount TYPE numeric(12, 2)",
            ),
            "its column amount was changed and its rows were rewritten since",
        ),
        (
            (
                "ALTER TABLE sales ALTER amount TYPE numeric(12, 1)",
                "ALTER TABLE sales ALTER amount TYPE numeric(12, 2)",
            ),
            "its column amount was changed and its rows were rewritten since",
        ),
        (
            ("ALTER PUBLICATION {slot} SET TABLE sales WHERE (sale_id > 5)", "UPDATE sales SET note = 'not there'"),
            "the publication {slot} leaves out rows or columns",
        ),
        (
            (
                "ALTER PUBLICATION {slot} SET TABLE sales WHERE (sale_id > 5)",
                "UPDATE sales SET note = 'not there'",
                "ALTER PUBLICATION {slot} SET TABLE sales",
            ),
            "was changed or made again since",
        ),
        (
            (
                "ALTER PUBLICATION {slot} SET (publish = 'insert')",
                "DELETE FROM sales WHERE sale_id = 1",
                "ALTER PUBLICATION {slot} SET (publish = 'insert, update, delete, truncate')",
            ),
            "was changed or made again since",
        ),
    ],
)
def test_changes_that_do_not_have_the_columns_or_rows_of_now_are_refused_and_a_snapshot_goes_on(
    shop_of: ShopOf, nothing_lands: None, statements: tuple[str, ...], why: str
) -> None:
    shop = shop_of()
    shop.capture(whole=True)
    # The first capture of changes pins the publication, which the snapshot has made.
    shop.run("UPDATE sales SET note = 'first' WHERE sale_id = 9")
    assert shop.capture().captured == 1
    shop.run(*(each.format(slot=shop.slot) for each in statements))
    have = len(records_of(shop))
    with pytest.raises(Refused, match=why.format(slot=shop.slot)) as refused:
        shop.capture()
    assert len(refused.value.message.splitlines()) == 1
    assert len(records_of(shop)) == have
    if isinstance(refused.value, ChangesUnreadable):
        assert "--snapshot" in explained(refused.value)
        shop.capture(whole=True)
        shop.run("UPDATE sales SET paid = NULL WHERE sale_id = 2", "DELETE FROM sales WHERE sale_id = 7")
        shop.capture()
        assert captured(shop) == now(shop)


@pytest.mark.parametrize(
    "statements",
    [
        RENAMED,
        ("ALTER TABLE sales ADD other text", "UPDATE sales SET other = 'x', note = 'y' WHERE sale_id = 1"),
        (
            "ALTER TABLE sales ADD other text",
            "UPDATE sales SET other = 'x', note = 'y' WHERE sale_id = 1",
            "ALTER TABLE sales DROP other",
            "UPDATE sales SET note = 'z' WHERE sale_id = 2",
        ),
        (
            "UPDATE sales SET note = 'y' WHERE sale_id = 1",
            "ALTER TABLE sales DROP seal",
            "UPDATE sales SET note = 'z' WHERE sale_id = 2",
        ),
        (
            "UPDATE sales SET note = 'y' WHERE sale_id = 1",
            "ALTER TABLE sales ALTER note TYPE varchar(500)",
            "UPDATE sales SET note = 'z' WHERE sale_id = 2",
            "ALTER TABLE sales ALTER note TYPE text",
        ),
        ("ALTER TABLE sales ALTER amount TYPE numeric(14, 2)", "UPDATE sales SET amount = 1000000000.25"),
        ("ALTER TABLE sales ALTER note SET NOT NULL", "UPDATE sales SET note = 'y' WHERE sale_id = 1"),
        ("CREATE TABLE others (a int)", "ALTER PUBLICATION {slot} ADD TABLE others", "UPDATE sales SET note = 'y'"),
    ],
)
def test_what_leaves_the_values_as_they_are_is_captured(
    shop_of: ShopOf, nothing_lands: None, statements: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = shop_of()
    shop.run("ALTER TABLE sales ALTER note TYPE varchar(50)")
    if "DROP seal" in " ".join(statements):
        columns = [each for each in DatabaseShop.source(shop).file_columns if each != "seal"]
        monkeypatch.setattr("backfill_assets.domain.SourceTable.file_columns", columns)
    shop.capture(whole=True)
    shop.run("UPDATE sales SET note = 'first' WHERE sale_id = 9")
    shop.capture()
    shop.run(*(each.format(slot=shop.slot) for each in statements))
    shop.capture()
    assert captured(shop) == now(shop)


def test_a_column_renamed_and_back_is_refused_also_where_another_one_was_dropped_long_before(
    shop_of: ShopOf, nothing_lands: None
) -> None:
    table = """CREATE TABLE sales (sale_id int PRIMARY KEY, sold_at timestamptz NOT NULL, amount numeric(12, 2),
        paid boolean, gone text, note text, seal bytea)"""
    shop = shop_of(table, "ALTER TABLE sales DROP gone")
    shop.capture(whole=True)
    shop.run(RENAMED[0], "UPDATE sales SET remark = 'late' WHERE sale_id = 1", RENAMED[1])
    with pytest.raises(ChangesUnreadable, match="other names or places"):
        shop.capture()


def test_after_a_snapshot_a_change_of_before_it_that_cannot_be_read_is_left_out(
    shop_of: ShopOf, nothing_lands: None
) -> None:
    large = "(SELECT string_agg(md5(i::text), '') FROM generate_series(1, 500) i)"
    shop = shop_of()
    shop.capture(whole=True)
    shop.run(f"UPDATE sales SET note = {large} WHERE sale_id = 1", "UPDATE sales SET amount = 2 WHERE sale_id = 1")
    with pytest.raises(ChangesUnreadable):
        shop.capture()
    shop.run("ALTER TABLE sales REPLICA IDENTITY FULL")
    shop.capture(whole=True)
    shop.run("UPDATE sales SET amount = 3 WHERE sale_id = 1")
    shop.capture()
    assert captured(shop) == now(shop)


def test_a_partition_that_is_published_as_its_root_is_refused(shop_of: ShopOf, nothing_lands: None) -> None:
    root = """CREATE TABLE everything (sale_id int PRIMARY KEY, sold_at timestamptz NOT NULL, amount numeric(12, 2),
        paid boolean, note text, seal bytea) PARTITION BY RANGE (sale_id)"""
    shop = shop_of(root, "CREATE TABLE sales PARTITION OF everything DEFAULT", publication="p")
    shop.run("CREATE PUBLICATION p FOR TABLE everything WITH (publish_via_partition_root)")
    with pytest.raises(CannotBeCaptured, match="publication p does not have it"):
        shop.capture(whole=True)


def test_values_of_domains_are_those_of_their_types(shop_of: ShopOf, nothing_lands: None) -> None:
    shop = shop_of()
    shop.run("CREATE DOMAIN yes AS boolean", "CREATE DOMAIN stamp AS bytea", "CREATE DOMAIN seal AS stamp")
    shop.run("ALTER TABLE sales ALTER paid TYPE yes, ALTER seal TYPE seal")
    shop.capture(whole=True)
    shop.run("UPDATE sales SET paid = true, seal = '\\x0102' WHERE sale_id = 1")
    shop.capture()
    first, *_, last = records_of(shop)
    assert (first["paid"], first["seal"]) == ("false", "AP8=")
    assert (last["paid"], last["seal"]) == ("true", "AQI=")


def test_settings_of_the_role_and_the_database_change_no_text(shop_of: ShopOf, nothing_lands: None) -> None:
    shop = shop_of()
    settings = {
        "DateStyle": "'German, DMY'",
        "IntervalStyle": "'sql_standard'",
        "TimeZone": "'Asia/Kathmandu'",
        "bytea_output": "'escape'",
        "extra_float_digits": "-5",
    }
    with shop.connect() as connection:
        for name, value in settings.items():
            connection.execute(f"ALTER ROLE capture IN DATABASE {shop.database} SET {name} = {value}".encode())
            connection.execute(f"ALTER DATABASE {shop.database} SET {name} = {value}".encode())
    shop.capture(whole=True)
    shop.run("UPDATE sales SET sold_at = '2026-01-02T03:04:05.678901Z', seal = '\\x41ff' WHERE sale_id = 1")
    shop.capture()
    last = records_of(shop)[-1]
    assert (last["sold_at"], last["seal"]) == ("2026-01-02 03:04:05.678901+00", "Qf8=")


@pytest.mark.parametrize("timeline", ["00000002", ""])
def test_a_server_that_took_over_or_was_set_back_without_what_was_captured_is_another_history(
    shop_of: ShopOf, nothing_lands: None, monkeypatch: pytest.MonkeyPatch, timeline: str
) -> None:
    """One that is set back to a copy of its files is on the timeline that it was on."""
    shop = shop_of()
    shop.capture(whole=True)
    shop.run("UPDATE sales SET note = 'y' WHERE sale_id = 1")
    shop.capture()
    if timeline:
        monkeypatch.setattr("backfill_assets.capture.postgres.stream.PostgresStream._timeline", timeline)
    with monkeypatch.context() as patch:
        patch.setattr(
            "backfill_assets.capture.postgres.stream.PostgresStream._end_of_log", lambda _: "00000000-00000001"
        )
        for whole in (False, True):
            with pytest.raises(CannotBeCaptured, match="it is another history"):
                shop.capture(whole=whole)


def test_a_slot_that_was_made_again_does_not_go_on(shop_of: ShopOf, nothing_lands: None) -> None:
    shop = shop_of()
    shop.capture(whole=True)
    with shop.connect() as connection:
        connection.execute("SELECT pg_drop_replication_slot(%s)", [shop.slot])
        connection.execute("UPDATE sales SET note = 'missed' WHERE sale_id = 1")
        connection.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [shop.slot])
    with pytest.raises(ChangesUnreadable):
        shop.capture()


_NAMES = ("note", "remark", "other")


def _ddl(chance: random.Random) -> str:
    one, two = chance.sample(_NAMES, 2)
    return chance.choice(
        (
            f"ALTER TABLE sales RENAME {one} TO {two}",
            f"ALTER TABLE sales RENAME {one} TO {two}",
            f"ALTER TABLE sales ADD {one} text",
            f"ALTER TABLE sales DROP {one}",
            f"ALTER TABLE sales ALTER {one} TYPE varchar({chance.randint(5, 50)})",
            "ALTER TABLE sales ALTER amount TYPE numeric(14, 1) USING amount / 10",
            "ALTER TABLE sales ALTER amount TYPE numeric(12, 2)",
            "ALTER TABLE sales REPLICA IDENTITY FULL",
            "ALTER TABLE sales REPLICA IDENTITY DEFAULT",
            "TRUNCATE sales",
        )
    )


def _dml(chance: random.Random) -> str:
    number, one = chance.randint(1, 12), chance.choice(_NAMES)
    return chance.choice(
        (
            f"UPDATE sales SET {one} = 'n{chance.randint(0, 99)}' WHERE sale_id = {number}",
            f"UPDATE sales SET amount = {chance.randint(0, 99)} WHERE sale_id = {number}",
            f"DELETE FROM sales WHERE sale_id = {number}",
            f"INSERT INTO sales (sale_id, sold_at, amount) VALUES ({number}, now(), 1)",
            f"UPDATE sales SET sale_id = {chance.randint(1, 30)} WHERE sale_id = {number}",
        )
    )


@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(each, marks=pytest.mark.long) for each in range(4, 40))])
def test_whatever_happens_to_the_columns_captured_rows_are_the_selected_ones_or_the_capture_is_refused(
    shop_of: ShopOf, nothing_lands: None, seed: int
) -> None:
    shop, chance = shop_of(), random.Random(seed)
    shop.capture(whole=True)
    for _ in range(6):
        for _ in range(chance.randint(1, 6)):
            statement = _ddl(chance) if chance.random() < 0.35 else _dml(chance)
            try:
                shop.run(statement)
            except (*CONFLICTS, psycopg.DatabaseError):
                continue  # there is no such column now, or there is one already
        try:
            shop.capture()
        except Refused:
            try:
                shop.capture(whole=True)
            except CannotBeCaptured:
                continue  # it has no column note now
        assert captured(shop) == now(shop)
