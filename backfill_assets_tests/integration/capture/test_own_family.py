"""A family of sources that another package adds, as docs/own-family.md has it."""

from __future__ import annotations

import importlib
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from backfill_assets.capture import families
from backfill_assets.core.errors import InvalidDeclaration, Refused
from backfill_assets.core.settings import PROJECT_ROOT
from backfill_assets.domain import SourceTable
from backfill_assets_tests.domains import captured
from backfill_assets_tests.support.captured_shop import StreamShop, sale_records

PAGE = (PROJECT_ROOT / "docs" / "own-family.md").read_text(encoding="utf-8")


@pytest.fixture
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Its declaration, while the package of the page is installed."""
    site = tmp_path / "site"
    for name, text in re.findall(r"```python\n# (journal_family/\w+\.py)\n(.*?)```", PAGE, re.DOTALL):
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(text, encoding="utf-8")
    (entry,) = re.findall(r'^\[project\.entry-points\."(.*)"\]\n(.*)$', PAGE, re.MULTILINE)
    described = site / "journal_family-1.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: journal-family\nVersion: 1\n")
    (described / "entry_points.txt").write_text("[{}]\n{}\n".format(entry[0], entry[1].replace('"', "")))
    monkeypatch.syspath_prepend(site)
    families._installed.cache_clear()
    try:
        yield importlib.import_module("backfill_assets.domain").Journal
    finally:
        families._installed.cache_clear()
        for name in [each for each in sys.modules if each.partition(".")[0] == "journal_family"]:
            del sys.modules[name]


@dataclass(frozen=True, kw_only=True)
class JournalShop(StreamShop):
    """A shop whose sales are captured from a journal."""

    capture_of: Any

    def source(self) -> SourceTable:
        return replace(captured.sales, capture=self.capture_of, replay=None, policy=self.policy, gates=())


def test_a_family_of_another_package_is_captured(journal: Any, tmp_path: Path, spark: SparkSession) -> None:
    sold = tmp_path / "sales.log"
    sales = [str(value) for _, value, _ in sale_records(25, days=1)]
    sold.write_text("".join(f"{each}\n" for each in sales[:20]))
    shop = JournalShop(home=tmp_path / "home", spark=spark, capture_of=journal(path=sold, chunk=8))
    assert [each.records for each in shop.capture().files] == [8, 8, 4]
    with sold.open("a") as more:
        more.write("".join(f"{each}\n" for each in sales[20:]))
    report = shop.capture(None)
    assert report.landed is not None
    assert (report.captured, len(report.landed.imports)) == (5, 2)
    assert {each.partition for each in shop.files()} == {"0"}
    assert json.loads(sales[0])["sale_id"] == "s000000"


def test_its_mistakes_are_those_of_the_table(journal: Any) -> None:
    with pytest.raises(InvalidDeclaration, match=r"bronze\.sales: .*has to be an absolute path"):
        replace(captured.sales, capture=journal(path=Path("sales.log")), replay=None)


def test_a_family_that_is_not_installed_is_named() -> None:
    with pytest.raises(Refused, match="no installed package has the family of sources 'journal'; there are http,"):
        families.family("journal")
    assert not hasattr(importlib.import_module("backfill_assets.domain"), "Journal")
