"""A document of OpenAPI proposes a declaration that captures its API, and says what it guessed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets import domain
from backfill_assets.capture.http.client import HttpSecrets
from backfill_assets.capture.http.openapi import ProposedApi, is_openapi, proposed_apis
from backfill_assets_tests.support.any_api import AnyApi, AnyCapture, Asked, Said, any_api

SALE = {
    "type": "object",
    "required": ["id", "sold_at", "amount"],
    "properties": {
        "id": {"type": "integer", "format": "int64"},
        "sold_at": {"type": "string", "format": "date-time"},
        "day": {"type": "string", "format": "date", "nullable": True},
        "amount": {"type": "number"},
        "note": {"type": ["string", "null"]},
        "is_paid": {"type": "boolean"},
        "lines": {"type": "array", "items": {"type": "object"}},
        "buyer": {"$ref": "#/components/schemas/Buyer"},
    },
}
BUYER = {"type": "object", "properties": {"name": {"type": "string"}}}


def parameter(name: str, type_: str = "integer", **more: Any) -> Mapping[str, Any]:
    return {"name": name, "in": "query", "schema": {"type": type_, **more}}


def document(
    members: Mapping[str, Any] | None, parameters: list[Any], *, path: str = "/v1/sales", **more: Any
) -> Mapping[str, Any]:
    """A document of one path, whose answer has an array of sales at `items` and these members, or is the array."""
    sales = {"type": "array", "items": {"$ref": "#/components/schemas/Sale"}}
    answer = sales if members is None else {"type": "object", "properties": {"items": sales, **members}}
    headers = more.pop("headers", {})
    content = {"application/json": {"schema": answer}}
    operation = {"parameters": parameters, "responses": {"200": {"content": content, "headers": headers}}}
    return {
        "openapi": "3.0.3",
        "info": {"title": "Shop API"},
        "servers": [{"url": "https://{region}.example.org/api/", "variables": {"region": {"default": "eu"}}}],
        "paths": {path: {"get": {**operation, **more.pop("operation", {})}}},
        **more,
        "components": {"schemas": {"Sale": SALE, "Buyer": BUYER}, **more.get("components", {})},
    }


def proposed(given_: Mapping[str, Any], **more: Any) -> ProposedApi:
    (found,) = proposed_apis(given_, **more)
    return found


def declared(found: ProposedApi) -> domain.HttpApi:
    """The declaration, as a person gets it who copies the text."""
    api: domain.HttpApi = eval(found.declaration, {name: getattr(domain, name) for name in found.names})
    assert not list(api.mistakes())
    return api


NULL_TEXT = {"type": "string", "nullable": True}
URI = {**NULL_TEXT, "format": "uri"}
PAGINGS = [
    (
        {"next_cursor": NULL_TEXT},
        [parameter("cursor", "string")],
        domain.Cursor(parameter="cursor", next="next_cursor"),
    ),
    (
        {
            "meta": {
                "type": "object",
                "properties": {"nextPageToken": NULL_TEXT, "hasMore": {"type": "boolean"}},
            }
        },
        [parameter("pageToken", "string")],
        domain.Cursor(parameter="pageToken", next="meta.nextPageToken", more="meta.hasMore"),
    ),
    ({"next": URI, "count": {"type": "integer"}}, [parameter("offset")], domain.NextUrl(next="next")),
    ({"@odata.nextLink": NULL_TEXT}, [parameter("$skip")], domain.NextUrl(next="@odata.nextLink")),
    ({"links": {"type": "object", "properties": {"next": NULL_TEXT}}}, [], domain.NextUrl(next="links.next")),
    (
        {"_links": {"properties": {"next": {"type": "object", "properties": {"href": {"type": "string"}}}}}},
        [],
        domain.NextUrl(next="_links.next.href"),
    ),
    (
        {"total": {"type": "integer"}},
        [parameter("offset"), parameter("limit", maximum=100)],
        domain.Offset(parameter="offset", limit="limit", size=100, total="total"),
    ),
    ({}, [parameter("startIndex", minimum=1)], domain.Offset(parameter="startIndex", first=1)),
    (
        {"total_pages": {"type": "integer"}},
        [parameter("page", default=1), parameter("per_page", maximum=50)],
        domain.PageNumber(parameter="page", total="total_pages"),
    ),
    ({}, [parameter("page", minimum=0)], domain.PageNumber(parameter="page", first=0)),
    ({}, [parameter("starting_after", "string")], domain.IdRange(after="starting_after", member="id")),
    ({}, [], None),
]


@pytest.mark.parametrize(("members", "parameters", "expected"), PAGINGS)
def test_how_answers_go_on_is_found_by_parameters_and_answers(
    members: Mapping[str, Any], parameters: list[Any], expected: object
) -> None:
    found = proposed(document(members, parameters))
    api = declared(found)
    assert (api.url, api.records, api.pages) == ("https://eu.example.org/api/v1/sales", "items", expected)
    if expected is None:
        assert "does not say how answers are paged" in str(found.notes)


def test_an_array_alone_goes_on_by_its_headers() -> None:
    links = declared(proposed(document(None, [parameter("per_page", maximum=100)], headers={"Link": {}})))
    assert (links.records, links.pages, links.parameters) == ("", domain.LinkHeader(), {"per_page": "100"})
    totals = declared(proposed(document(None, [parameter("skip")], headers={"X-Total-Count": {}})))
    assert totals.pages == domain.Offset(parameter="skip", total=domain.InHeader("X-Total-Count"))


def test_columns_have_the_types_of_the_schema_and_a_key_and_a_time_are_proposed() -> None:
    found = proposed(document({}, []))
    assert {each.name: (each.kind, each.nullable, each.is_json) for each in found.columns} == {
        "id": ("LONG", False, False),
        "sold_at": ("TIMESTAMP", False, False),
        "day": ("DATE", True, False),
        "amount": ("DOUBLE", False, False),
        "note": ("STRING", True, False),
        "is_paid": ("BOOLEAN", True, False),
        "lines": ("STRING", True, True),
        "buyer.name": ("STRING", True, False),
    }
    assert (found.key, found.event_time) == (("id",), "sold_at")


@pytest.mark.parametrize(
    ("scheme", "flows", "expected"),
    [
        ({"type": "apiKey", "in": "header", "name": "X-Key"}, [], {"secret_headers": {"X-Key": "SHOP_API_KEY"}}),
        ({"type": "apiKey", "in": "query", "name": "key"}, [], {"secret_parameters": {"key": "SHOP_API_KEY"}}),
        ({"type": "http", "scheme": "Bearer"}, [], {"secret_headers": {"Authorization": "SHOP_API_TOKEN"}}),
        (
            {"type": "http", "scheme": "basic"},
            [],
            {"basic": domain.Basic(secrets={"user": "SHOP_API_USER", "password": "SHOP_API_PASSWORD"})},
        ),
        (
            {"type": "oauth2", "flows": {"clientCredentials": {"tokenUrl": "https://login.example.org/token"}}},
            ["sales.read", "sales.list"],
            {
                "token": domain.Token(
                    url="https://login.example.org/token",
                    secrets={"client_id": "SHOP_API_ID", "client_secret": "SHOP_API_SECRET"},
                    form={"grant_type": "client_credentials", "scope": "sales.read sales.list"},
                )
            },
        ),
        ({"type": "openIdConnect"}, [], {"secret_headers": {"Authorization": "SHOP_API_TOKEN"}}),
        (
            {"type": "oauth2", "flows": {"authorizationCode": {"tokenUrl": "https://a.org/t"}}},
            [],
            {"secret_headers": {"Authorization": "SHOP_API_TOKEN"}},
        ),
        ({"type": "mutualTLS"}, [], {}),
    ],
)
def test_who_asks_is_declared_by_the_names_of_secrets(
    scheme: Mapping[str, Any], flows: list[str], expected: Mapping[str, Any]
) -> None:
    components = {"securitySchemes": {"login": scheme}}
    found = proposed(document({}, [], security=[{"login": flows}], components=components))
    api = declared(found)
    for name in ("secret_headers", "secret_parameters", "basic", "token"):
        assert getattr(api, name) == (
            expected[name] if name in expected else getattr(domain.HttpApi(url=api.url), name)
        )
    if not expected:
        assert "the API is asked by login, for which there is no declaration" in found.notes


def test_keys_that_are_sent_together_are_declared_together() -> None:
    schemes = {
        "client": {"type": "apiKey", "in": "header", "name": "X-Client-Id"},
        "secret": {"type": "apiKey", "in": "header", "name": "X-Client-Secret"},
        "unknown": {"type": "mutualTLS"},
    }
    security: list[Any] = [{"client": [], "unknown": []}, {"client": [], "secret": []}]
    found = proposed(document({}, [], security=security, components={"securitySchemes": schemes}))
    assert declared(found).secret_headers == {
        "X-Client-Id": "SHOP_API_X_CLIENT_ID_KEY",
        "X-Client-Secret": "SHOP_API_X_CLIENT_SECRET_KEY",
    }


@pytest.mark.parametrize(
    ("start", "end", "format_", "form", "of"),
    [
        ("from", "to", "date-time", "iso", "sold_at"),
        ("startDate", "endDate", "date", "day", "sold_at"),
        ("sold_since", "sold_until", "date", "", ""),
    ],
)
def test_a_period_is_asked_for_by_the_parameters_that_are_usual(
    start: str, end: str, format_: str, form: str, of: str
) -> None:
    parameters = [parameter(start, "string", format=format_), parameter(end, "string", format=format_)]
    window = declared(proposed(document({}, parameters))).window
    assert (window and (window.start, window.end, window.form, window.of)) == ((start, end, form, of) if form else None)


def test_swagger_names_its_server_in_parts_and_its_answers_without_content() -> None:
    operation = {
        "parameters": [{"name": "page", "in": "query", "type": "integer", "minimum": 0}],
        "responses": {200: {"schema": {"type": "array", "items": {"$ref": "#/definitions/Sale"}}}},
    }
    found = proposed(
        {
            "swagger": "2.0",
            "host": "api.example.org",
            "basePath": "/v2/",
            "schemes": ["http", "https"],
            "paths": {"/sales": {"get": operation}, "/sales/{id}": {"get": operation}},
            "definitions": {
                "Sale": {"allOf": [{"properties": {"saleId": {"type": "string"}}, "required": ["saleId"]}]}
            },
            "securityDefinitions": {"basic": {"type": "basic"}},
            "security": [{"basic": []}],
        }
    )
    api = declared(found)
    assert (api.url, api.pages) == ("https://api.example.org/v2/sales", domain.PageNumber(parameter="page", first=0))
    assert (found.key, found.columns[0].nullable, api.basic is not None) == (("saleId",), False, True)


def test_a_server_that_is_a_path_is_where_the_document_is() -> None:
    given_ = {**document({}, []), "servers": [{"url": "/api"}]}
    assert declared(proposed(given_, origin="https://shop.example/docs/openapi.json")).url.startswith(
        "https://shop.example/api/v1"
    )
    assert "does not name its server" in str(proposed(given_).notes)


def test_several_lists_required_parameters_and_a_search_are_said() -> None:
    other = {"others": {"type": "array", "items": {"$ref": "#/components/schemas/Buyer"}}}
    required = {**parameter("region", "string"), "required": True}
    found = proposed(document(other, [required]))
    assert "records may also be at 'others'" in str(found.notes)
    assert "region has to be sent" in str(found.notes)
    paths = {"/v1/sales/search": {"post": document({}, [])["paths"]["/v1/sales"]["get"]}}
    search = proposed({**document({}, []), "paths": paths})
    assert declared(search).method == "POST"
    assert "add it to body=" in str(search.notes)


def test_a_search_is_paged_by_what_its_body_has() -> None:
    operation = document({"next_cursor": NULL_TEXT}, [])["paths"]["/v1/sales"]["get"]
    properties = {
        "cursor": {"type": "string"},
        "count": {"type": "integer", "maximum": 500},
        "start_date": {"type": "string", "format": "date"},
        "end_date": {"type": "string", "format": "date"},
    }
    schema = {"type": "object", "required": ["region"], "properties": {**properties, "region": {"type": "string"}}}
    operation["requestBody"] = {"content": {"application/json": {"schema": schema}}}
    found = proposed({**document({}, []), "paths": {"/sales/list": {"post": operation}}})
    api = declared(found)
    assert (api.method, api.body) == ("POST", {"count": 500})
    assert api.pages == domain.Cursor(parameter=domain.InBody("cursor"), next="next_cursor")
    assert api.window is not None
    assert (api.window.start, api.window.end) == (domain.InBody("start_date"), domain.InBody("end_date"))
    assert "region has to be sent" in str(found.notes)


def test_a_record_of_one_of_several_kinds_has_what_each_of_them_may_have() -> None:
    kinds = [{"$ref": "#/components/schemas/Buyer"}, {"properties": {"id": {"type": "integer"}}, "required": ["id"]}]
    found = proposed(document({}, [], components={"schemas": {"Sale": {"oneOf": kinds}, "Buyer": BUYER}}))
    assert {each.name: each.nullable for each in found.columns} == {"name": True, "id": True}


def test_what_an_address_is_about_is_left_to_the_author() -> None:
    paths = document({}, [], path="/v1/shops/{shopId}/sales")["paths"]
    paths |= {"/v1/sales/{id}": paths["/v1/shops/{shopId}/sales"], "/v1/sales#all": paths["/v1/shops/{shopId}/sales"]}
    first, second = proposed_apis({**document({}, []), "paths": paths})
    assert (declared(first).url, declared(second).url) == (
        "https://eu.example.org/api/v1/sales",
        "https://eu.example.org/api/v1/shops/SHOP_ID/sales",
    )
    assert "SHOP_ID in the address stands for what is asked about: replace it" in second.notes


def test_a_cursor_of_which_no_answer_tells_is_not_guessed() -> None:
    found = proposed(document({}, [parameter("cursor", "string")]))
    assert declared(found).pages is None
    assert "does not say how answers are paged" in str(found.notes)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "paths",
                    "get",
                    "/a",
                    "parameters",
                    "responses",
                    "200",
                    "content",
                    "application/json",
                    "schema",
                    "items",
                ]
                + [
                    "properties",
                    "$ref",
                    "allOf",
                    "type",
                    "name",
                    "in",
                    "security",
                    "servers",
                    "url",
                    "anyOf",
                    "headers",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(st.dictionaries(st.sampled_from(["openapi", "paths", "components", "servers", "security"]), json_values))
def test_no_document_breaks_the_proposal(given_: Mapping[str, Any]) -> None:
    assert is_openapi(given_) in (True, False)
    for each in proposed_apis(given_):
        declared(each)


def test_references_that_lead_to_themselves_end() -> None:
    loop = {"type": "object", "properties": {"id": {"type": "string"}, "next": {"$ref": "#/components/schemas/Sale"}}}
    found = proposed(
        document({"again": {"$ref": "#/components/schemas/Sale"}}, [], components={"schemas": {"Sale": loop}})
    )
    assert found.key == ("id",)


@pytest.fixture
def api() -> Iterator[AnyApi]:
    with any_api() as found:
        yield found


def test_what_is_proposed_captures_an_api(api: AnyApi, tmp_path: Path) -> None:
    def answer(asked: Asked) -> Said:
        assert asked.headers["x-key"] == "the-key-of-the-shop"
        at, size = int(asked.parameters["offset"]), min(2, int(asked.parameters["limit"]))
        return Said(document={"items": [{"id": n} for n in range(at, min(7, at + size))], "total": 7})

    api.answer = answer
    given_ = document(
        {"total": {"type": "integer"}},
        [parameter("offset"), parameter("limit", maximum=3)],
        servers=[{"url": api.url}],
        security=[{"key": []}],
        components={
            "schemas": {"Sale": SALE, "Buyer": BUYER},
            "securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "X-Key"}},
        },
    )
    capture = AnyCapture(tmp_path, declared(proposed(given_)), HttpSecrets(headers={"X-Key": "the-key-of-the-shop"}))
    assert capture.run() == 7


def test_every_other_list_and_a_bound_at_one_end_are_named() -> None:
    lists = {each: {"type": "array", "items": {"$ref": "#/components/schemas/Sale"}} for each in ("sold", "returned")}
    inner = {"type": "object", "properties": {"day": {"type": "object", "properties": lists}}}
    given_ = document({}, [parameter("since", "string", format="date-time")])
    answer = given_["paths"]["/v1/sales"]["get"]["responses"]["200"]["content"]["application/json"]
    answer["schema"] = {"type": "object", "properties": {"data": inner}}
    found = proposed(given_)
    assert 'records="data.day.sold"' in found.declaration
    assert "records may also be at 'data.day.returned'" in found.notes
    assert "since bounds a period at one end alone, so that no window is asked for: see parameters" in found.notes
    both = document({}, [parameter(each, "string", format="date-time") for each in ("since", "until")])
    assert "at one end alone" not in str(proposed(both).notes)
