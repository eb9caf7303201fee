"""A code digest leads to lines: in the report, by a command, and for a reproduction after the module was edited."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from backfill_assets.application import look
from backfill_assets.core.errors import BackfillError, ContractBroken, Refused
from backfill_assets.report.documents import as_json
from backfill_assets.report.html import html_file
from backfill_assets.report.markdown import markdown_page
from backfill_assets.report.report import run_report
from backfill_assets.report.run_report import run_page
from backfill_assets.upkeep.audit import audit
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.copied_shop import copied_shop, opened_copy
from backfill_assets_tests.support.shop import OUTPUT, Shop

MODULE = "copied_shop"

Opened = Callable[[], Shop]


@pytest.fixture
def module(tmp_path: Path, stocked_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return copied_shop(tmp_path, stocked_home, monkeypatch)


@pytest.fixture
def opened(tmp_path: Path, module: Path, spark: SparkSession) -> Opened:
    """Opens the shop as a new process would, with the module as it is then."""

    def open_again() -> Shop:
        sys.modules.pop(MODULE, None)
        for compiled in module.parent.glob("__pycache__/*"):
            compiled.unlink()
        return opened_copy(tmp_path, spark)

    return open_again


def edit(module: Path, old: str, new: str) -> None:
    text = module.read_text(encoding="utf-8")
    assert old in text
    module.write_text(text.replace(old, new, 1), encoding="utf-8")


@pytest.mark.long
def test_a_reviewer_sees_the_lines_that_differ_from_those_of_the_published_rows(
    module: Path, opened: Opened, tmp_path: Path
) -> None:
    published = opened().published()
    edit(module, '(sf.sum("amount") * factor)', '(sf.sum("amount") * factor + 1)')
    edit(module, 'earlier={"0.9.0": _doubled},', 'earlier={"0.9.0": _doubled}, notes="one more of each",')
    shop = opened()
    planned = shop.planned(OUTPUT)
    report = run_report(shop.ws, planned)
    (change,) = report.code_changes
    assert change.difference is not None
    (of_module,) = change.difference.modules
    # A declaration is the decorator of its function, so that its notes are lines of the code too.
    assert (of_module.module, of_module.definitions) == (MODULE, ("_recent_sales", "recent_sales"))
    removed = '-        .agg((sf.sum("amount") * factor).cast("long").alias("amount"))'
    added = '+        .agg((sf.sum("amount") * factor + 1).cast("long").alias("amount"))'
    assert [line for line in of_module.lines if line[:1] in "+-" and "earlier=" not in line][2:] == [removed, added]
    for page in (markdown_page(run_page(report)), json.dumps(as_json(report))):
        assert "factor + 1" in page and "one more of each" in page
    assert "factor + 1" in html_file(run_page(report))
    document = look.code_difference(shop.ws, published, planned)
    assert document.modules == change.difference.modules
    look.code(shop.ws, published, texts=False, folder=tmp_path / "written")
    assert "factor + 1" not in (tmp_path / "written" / MODULE / "__init__.py").read_text(encoding="utf-8")
    with pytest.raises(Refused, match="none of its code is archived"):
        look.code(shop.ws, "0" * 12, texts=False, folder=None)
    # What is edited between a plan and its run is named.
    edit(module, "factor + 1", "factor + 2")
    with pytest.raises(ContractBroken, match=r"changed: copied_shop \(_recent_sales"):
        operations.stage(opened().ws, planned, actor="ana")
    assert audit(shop.ws).agrees
    (shop.folder / "home" / "reference_archive" / "code" / f"{change.digest}.json").unlink()
    assert any("archived code" in problem for problem in audit(shop.ws).problems)


@pytest.mark.long
def test_a_run_is_reproduced_by_its_archived_code_after_its_module_was_edited(module: Path, opened: Opened) -> None:
    published = opened().published()
    edit(module, '(sf.sum("amount") * factor)', '(sf.sum("amount") * factor + 1)')
    found = operations.reproduce(opened().ws, published, by="rita", sample=2)
    assert found.identical and found.archived_code
    # What is not archived, since no table reaches it, is as it is now.
    edit(module, '    name="example",', '    name="example",  # a remark')
    assert operations.reproduce(opened().ws, published, by="rita", sample=1).identical
    # A list that is not the one of the manifest is not imported.
    for listed in (opened().folder / "home" / "reference_archive" / "code").glob("*.json"):
        listed.write_bytes(listed.read_bytes() + b" ")
    with pytest.raises(BackfillError, match="not the one that its manifest names"):
        operations.reproduce(opened().ws, published, by="rita", sample=1)
