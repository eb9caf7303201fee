"""A document of OpenAPI is a file that `sniff` looks at: what it prints loads as a domain that captures the API."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from backfill_assets.application.sniff import sniffed
from backfill_assets.core.errors import BackfillError
from backfill_assets.domain import HttpApi, Offset, SourceTable
from backfill_assets.domain.domain import load_domain
from backfill_assets.report.sniffed import SniffDocument, document_of
from backfill_assets_tests.unit.capture.test_openapi import document, parameter

PAGED = document({"total": {"type": "integer"}}, [parameter("offset"), parameter("limit", maximum=100)])
BUYERS = document({}, [], path="/v1/buyers")["paths"]


def proposed(path: Path, name: str = "") -> SniffDocument:
    return document_of(sniffed([path], name, clock=lambda: datetime(2026, 1, 31, tzinfo=UTC)))


def written(folder: Path, held: Mapping[str, Any], name: str = "shop.json") -> Path:
    path = folder / name
    is_json = name.endswith(".json")
    path.write_text(
        json.dumps(held) if is_json else yaml.safe_dump(json.loads(json.dumps(held)), sort_keys=False), encoding="utf-8"
    )
    return path


@pytest.fixture
def loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The source of a module that `sniff` printed."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def source(module: str) -> SourceTable:
        name = f"proposed_{abs(hash(module))}"
        (tmp_path / f"{name}.py").write_text(module, encoding="utf-8")
        (table,) = load_domain(name).sources
        del sys.modules[name]
        return table

    yield source


@pytest.mark.parametrize("name", ["shop.json", "shop.yaml", "shop.yml"])
def test_a_document_proposes_a_module_that_captures_its_api(tmp_path: Path, name: str, loaded: Any) -> None:
    found = proposed(written(tmp_path, PAGED, name))
    table = loaded(found.module)
    assert (table.name, table.key, table.event_time) == ("bronze.sales", ("id",), "sold_at")
    assert table.capture == HttpApi(
        url="https://eu.example.org/api/v1/sales",
        records="items",
        pages=Offset(parameter="offset", limit="limit", size=100, total="total"),
    )
    # A member of a member is a column by its path.
    assert table.columns == {"buyer.name": "name"}
    assert [each.kind for each in found.columns][:3] == ["LONG", "TIMESTAMP", "DATE"]


def test_of_several_paths_the_one_that_is_named_is_proposed_and_the_others_are_said(tmp_path: Path) -> None:
    path = written(tmp_path, {**PAGED, "paths": {**PAGED["paths"], **BUYERS}})
    assert proposed(path).table == "bronze.sales"
    assert "/v1/buyers as bronze.buyers" in str([each.message for each in proposed(path).doubts])
    named = proposed(path, "bronze.buyers")
    assert (named.table, "/v1/buyers" in named.module) == ("bronze.buyers", True)
    assert proposed(path, "raw.other").table == "raw.other"


@pytest.mark.parametrize("text", ['"""', "'", "\\", "\n    import os\n", "#", "{0}", "\u2028x", "ü"])
def test_no_document_writes_a_line_of_the_module(tmp_path: Path, text: str, loaded: Any) -> None:
    held = document(
        {f"next{text}": {"type": "string"}, f"a{text}": {"type": "array", "items": {"properties": {"b": {}}}}},
        [parameter(f"limit{text}"), {**parameter(f"x{text}"), "required": True}, parameter("page")],
        servers=[{"url": "https://api.example.org/v1"}],
        security=[{f"k{text}": []}],
        components={
            "schemas": {
                "Sale": {
                    "required": ["id"],
                    "properties": {
                        "id": {"type": "string"},
                        "at": {"type": "string", "format": "date-time"},
                        f"m{text}": {"type": "string"},
                    },
                }
            },
            "securitySchemes": {f"k{text}": {"type": "apiKey", "in": "query", "name": f"key{text}"}},
        },
    )
    table = loaded(proposed(written(tmp_path, held)).module)
    assert table.capture.secret_parameters == {f"key{text}": "SHOP_API_KEY"}
    assert f"m{text}" in {**table.columns, **dict.fromkeys(table.schema.fieldNames())}


@pytest.mark.parametrize(
    ("held", "said"),
    [
        ({"openapi": "3.0.0", "paths": {}}, "no path answers with records that have a time and a key"),
        (
            document({}, [], components={"schemas": {"Sale": {"properties": {"id": {}}}}}),
            "no path answers with records",
        ),
    ],
)
def test_a_document_without_records_is_refused(tmp_path: Path, held: Mapping[str, Any], said: str) -> None:
    with pytest.raises(BackfillError, match=said):
        proposed(written(tmp_path, held))


def test_records_that_mention_openapi_are_records(tmp_path: Path) -> None:
    path = tmp_path / "events.json"
    path.write_text('{"id": 1, "at": "2026-01-01T00:00:00Z", "x": "openapi"}\n' * 3)
    assert proposed(path).files[0].format == "JSON lines"


@pytest.mark.parametrize(
    ("beside", "pages"),
    [
        ({"next": "https://api.example.org/v1?page=2"}, 'NextUrl(next="next")'),
        ({"links": {"next": "/v1?page=2"}}, 'NextUrl(next="links.next")'),
        (
            {"meta": {"next_cursor": "abc", "has_more": True}},
            'Cursor(parameter="cursor", next="meta.next_cursor", more="meta.has_more")',
        ),
        ({"page": 1, "total_pages": 7}, 'PageNumber(parameter="page", total="total_pages")'),
        ({"total": 120, "limit": 2}, 'Offset(parameter="offset", total="total")'),
        ({}, ""),
    ],
)
def test_a_saved_answer_says_how_its_api_goes_on(tmp_path: Path, beside: Mapping[str, Any], pages: str) -> None:
    path = tmp_path / "answer.json"
    sales = [{"id": n, "sold_at": f"2026-01-0{n}T00:00:00Z"} for n in range(1, 4)]
    path.write_text(json.dumps({"results": sales, **beside}))
    said = [each.message for each in proposed(path).doubts if each.kind == "api"]
    assert len(said) == bool(pages)
    assert all(f"records='results', pages={pages}" in each for each in said)
