"""`land` and `load` as a person types them: what is asked, what is filled, and when a command ends with 1."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import date

import pytest
from typer.testing import CliRunner, Result

from backfill_assets.main import app
from backfill_assets_tests.support.shop import SALES, Shop, WorkIn, sale

Types = Callable[..., Result]


@pytest.fixture
def types(shop: Shop, work_in: WorkIn) -> Types:
    """A person at a terminal in the shop, in which January has landed."""
    work_in(shop.ws.settings.home)

    def typed(*words: str) -> Result:
        return CliRunner().invoke(app, list(words), catch_exceptions=False)

    return typed


def written(shop: Shop, name: str, sales: Sequence[Mapping[str, object]]) -> str:
    path = shop.folder / name
    path.write_text("".join(json.dumps(each) + "\n" for each in sales), encoding="utf-8")
    return str(path)


def without_offset(day: int) -> Mapping[str, object]:
    return {"sale_id": f"local-{day}", "sold_at": f"2026-01-{day:02}T12:00:00", "amount": 1}


@pytest.mark.long
def test_a_file_most_of_whose_records_are_rejected_ends_with_1_and_its_other_records_land(
    shop: Shop, types: Types
) -> None:
    some = written(shop, "some.jsonl", [without_offset(5), sale(date(2026, 1, 6), sale_id="one")])
    assert types("land", "sales", some, "--no-load", "--by", "ana").exit_code == 0, "half of them are not most"
    path = written(shop, "most.jsonl", [*map(without_offset, (7, 8)), sale(date(2026, 1, 9), sale_id="two")])
    first = types("land", "sales", path, "--no-load", "--by", "ana")
    assert first.exit_code == 1, first.output
    assert "only 1 of 3 records of most.jsonl could land: exit code 1" in first.stdout
    assert types("land", "sales", path, "--no-load", "--by", "ana").exit_code == 1, "the same command says the same"
    with shop.ws.ledger.read() as tx:
        last = tx.imports.records(SALES)[-1]
    assert (last.counts.accepted, last.counts.rejected) == (1, 2)
    every = written(shop, "every.jsonl", list(map(without_offset, (7, 8, 9))))
    result = types("land", "sales", every, "--no-load", "--by", "ana", "--json")
    assert result.exit_code == 1
    (landed,) = (document := json.loads(result.stdout))["imports"]
    assert document["mostly_rejected"] == [landed["import_id"]]
    assert (landed["is_new"], landed["counts"]["rejected"], len(landed["rejected"])) == (True, 3, 3)
    assert [each["row_number"] for each in landed["rejected"]] == ["1", "2", "3"]
    again = types("land", "sales", every, "--no-load", "--by", "ana")
    assert "none of 3 records of every.jsonl could land: exit code 1" in again.stdout
    said = " ".join(again.stdout.split())
    assert "next: correct what the reasons above and in " in said
    assert f"land it again: backfill land sales {every} --by NAME" in said
    assert f"backfill land sales --again-as-declared --imports {landed['import_id']} --by NAME" in said


def loaded(shop: Shop) -> set[date]:
    with shop.ws.ledger.read() as tx:
        return set(tx.versions.claims(SALES))


def january(*numbers: int) -> set[date]:
    return {date(2026, 1, number) for number in numbers}


@pytest.mark.long
def test_days_of_a_short_gap_that_are_built_without_events_are_said(shop: Shop, types: Types) -> None:
    path = written(shop, "gap.jsonl", [sale(day) for day in sorted(january(11, 14, 15))])
    said = types("land", "sales", path, "--by", "ana")
    assert said.exit_code == 0, said.output
    assert (
        "bronze.sales: built the UTC dates 2026-01-11..2026-01-15, 5 days, of these 2 without events "
        "(2026-01-12..2026-01-13)"
    ) in " ".join(said.stdout.split())
    more = written(shop, "more.jsonl", [sale(day) for day in sorted(january(16, 18, 19))])
    document = json.loads(types("land", "sales", more, "--by", "ana", "--json").stdout)
    assert document["without_events"]["ranges"] == ["2026-01-17"]
    last = written(shop, "last.jsonl", [sale(date(2026, 1, 20))])
    assert "without events" not in types("land", "sales", last, "--by", "ana").stdout


@pytest.mark.long
def test_gaps_between_files_are_asked_about_in_one_line_and_one_command_declares_them(shop: Shop, types: Types) -> None:
    files = [written(shop, f"{day}.jsonl", [sale(day)]) for day in sorted(january(13, 15, 18))]
    said = types("land", "sales", *files, "--by", "ana")
    assert said.exit_code == 0, said.output
    assert (
        "bronze.sales: no events on 5 days (UTC dates) from 2026-01-11 to 2026-01-17, at most 2 of them in a row; if "
        "nothing happened then: backfill load sales --missing --empty --reason WHY --by NAME"
    ) in " ".join(said.stdout.split())
    before = january(*range(1, 11), 13, 15, 18)
    assert loaded(shop) == before
    refused = types("load", "sales", "--missing", "--by", "ana")
    assert refused.exit_code == 1
    assert "backfill load sales --missing --empty --reason WHY --by NAME" in " ".join(refused.stderr.split())
    assert loaded(shop) == before
    built = types("load", "sales", "--missing", "--empty", "--reason", "nothing happened", "--by", "ana", "--json")
    assert built.exit_code == 0, built.output
    with shop.ws.ledger.read() as tx:
        manifest = tx.runs.get(json.loads(built.stdout)["run_id"]).manifest
    assert set(manifest.partitions) == set(manifest.change.declared_empty) == january(11, 12, 14, 16, 17)
    again = types("load", "sales", "--missing", "--empty", "--reason", "nothing happened", "--by", "ana")
    assert (again.exit_code, "no day of bronze.sales is missing" in again.stdout) == (0, True)
    for words in ((), ("--missing", "--from", "2026-01-01", "--to", "2026-01-02"), ("--from", "2026-01-01")):
        assert types("load", "sales", "--by", "ana", *words).exit_code == 1
