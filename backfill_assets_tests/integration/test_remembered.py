"""An act that was remembered leaves what it left the first time, and whatever could change it has it carried out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from backfill_assets.core.clock import system_clock
from backfill_assets.domain import Domain
from backfill_assets.workspace import Workspace
from backfill_assets_tests.conftest import NOON
from backfill_assets_tests.integration.conftest import ONE_HOUR
from backfill_assets_tests.support.edited import edit
from backfill_assets_tests.support.ledgers import only_with_sqlite
from backfill_assets_tests.support.remembered import Memory, TickingClock
from backfill_assets_tests.support.shop import Shop, open_shop

Change = Callable[[Shop], Shop]


@pytest.fixture
def memory(tmp_path: Path) -> Memory:
    only_with_sqlite("homes with a ledger elsewhere are not remembered")
    return Memory(folder=tmp_path / "remembered", is_trusted=True)


@pytest.fixture
def two(tmp_path: Path) -> Iterator[tuple[Shop, Shop]]:
    """Two homes that are alike."""
    shops = tuple(open_shop(tmp_path / name / "home", clock=TickingClock(NOON)) for name in ("one", "other"))
    yield shops[0], shops[1]
    for shop in shops:
        shop.ws.close()


def written(ws: Workspace) -> str:
    """An act that leaves a file, a note in the ledger and a clock that has moved on."""
    with ws.ledger.write() as writer:
        writer.events.record(actor="ana", entity="test", entity_id="x", action="written")
    (ws.settings.home / "a file").write_text("written", encoding="utf-8")
    return "done"


def refuse() -> str:
    raise AssertionError("it is carried out")


def events(ws: Workspace) -> list[object]:
    with ws.ledger.read() as reader:
        return [(event.action, event.at) for event in reader.events.entries()]


def test_the_home_the_clock_and_the_answer_are_those_of_the_first_time(memory: Memory, two: tuple[Shop, Shop]) -> None:
    one, other = two
    for shop in two:
        assert events(shop.ws) == []
    assert memory.once(one.ws, "write", lambda: written(one.ws)) == "done"
    assert memory.once(other.ws, "write", refuse) == "done"
    assert events(one.ws) == events(other.ws) != []
    assert (other.ws.settings.home / "a file").read_text(encoding="utf-8") == "written"
    assert one.ws.clock() == other.ws.clock()


def _other_file(shop: Shop) -> Shop:
    (shop.folder / "sales.jsonl").write_text("", encoding="utf-8")
    return shop


def _other_permissions(shop: Shop) -> Shop:
    shop.folder.chmod(0o500)
    return shop


def _other_ledger(shop: Shop) -> Shop:
    with shop.ws.ledger.write() as writer:
        writer.events.record(actor="ben", entity="test", entity_id="x", action="looked")
    return shop


def _other_instant(shop: Shop) -> Shop:
    shop.ws.clock()
    return shop


def _other_settings(shop: Shop) -> Shop:
    return replace(shop, ws=replace(shop.ws, settings=replace(shop.ws.settings, chunk_partitions=1)))


def _other_domain(shop: Shop) -> Shop:
    known = shop.ws.domain
    domain = Domain(name=known.name, package=known.package, sources=known.sources, derived=())
    return replace(shop, ws=replace(shop.ws, domain=domain))


def _other_code(shop: Shop) -> Shop:
    edit(shop.ws)
    return shop


def _other_clock(shop: Shop) -> Shop:
    return replace(shop, ws=replace(shop.ws, clock=system_clock))


def _later_clock(shop: Shop) -> Shop:
    return replace(shop, ws=replace(shop.ws, clock=TickingClock(NOON + ONE_HOUR)))


def _may_be_killed(shop: Shop) -> Shop:
    return replace(shop, ws=replace(shop.ws, reached=lambda _point: None))


@pytest.mark.parametrize(
    "change",
    [
        _other_file,
        _other_permissions,
        _other_ledger,
        _other_instant,
        _other_settings,
        _other_domain,
        _other_code,
        _other_clock,
        _later_clock,
        _may_be_killed,
    ],
)
def test_what_could_make_a_difference_has_the_act_carried_out(
    memory: Memory, two: tuple[Shop, Shop], change: Change
) -> None:
    one, other = two
    memory.once(one.ws, "write", lambda: written(one.ws))
    with pytest.raises(AssertionError, match="it is carried out"):
        memory.once(change(other).ws, "write", refuse)


def test_another_act_is_carried_out_and_so_is_each_where_code_is_replaced(
    memory: Memory, two: tuple[Shop, Shop]
) -> None:
    one, other = two
    memory.once(one.ws, "write", lambda: written(one.ws))
    with pytest.raises(AssertionError, match="it is carried out"):
        memory.once(other.ws, "write again", refuse)
    memory.is_trusted = False
    with pytest.raises(AssertionError, match="it is carried out"):
        memory.once(other.ws, "write", refuse)


def test_an_act_that_failed_is_carried_out_again(memory: Memory, two: tuple[Shop, Shop]) -> None:
    one, other = two
    with pytest.raises(AssertionError):
        memory.once(one.ws, "write", refuse)
    assert memory.once(other.ws, "write", lambda: written(other.ws)) == "done"
