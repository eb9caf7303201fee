"""Who asks an API: HTTP Basic, and tokens that a client is given, which last for a while and are kept nowhere."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest

from backfill_assets.capture.errors import BadAnswer, StreamDenied
from backfill_assets.capture.http.client import HttpSecrets
from backfill_assets.capture.streams import Pace
from backfill_assets.core.errors import Refused
from backfill_assets.domain import Basic, HttpApi, PageNumber, Token
from backfill_assets_tests.support.advice import has_code
from backfill_assets_tests.support.any_api import AnyApi, AnyCapture, Asked, Said

CLIENT, SECRET = "client: 4711", "the+secret/word of the client"
TOKEN = Token(url="https://api.example.org/token", secrets={"client_id": "A", "client_secret": "B"})
SECRETS = HttpSecrets(token={"client_id": CLIENT, "client_secret": SECRET})


def basic(user: str, password: str) -> str:
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


@pytest.mark.parametrize(
    ("declared", "given", "user", "password"),
    [
        (Basic(user="reader", secrets={"password": "A"}), {"password": "pass: wörd"}, "reader", "pass: wörd"),
        (Basic(secrets={"user": "A"}), {"user": "the-key-of-the-api"}, "the-key-of-the-api", ""),
        (
            Basic(secrets={"user": "A", "password": "B"}),
            {"user": "ana-maria", "password": "word-word"},
            "ana-maria",
            "word-word",
        ),
    ],
)
def test_a_name_and_a_password_are_sent_as_http_basic_and_kept_nowhere(
    api: AnyApi, tmp_path: Path, declared: Basic, given: Mapping[str, str], user: str, password: str
) -> None:
    api.answer = lambda _: Said(document=[{"id": 1}])
    capture = AnyCapture(tmp_path, HttpApi(url=f"{api.url}/v1", basic=declared), HttpSecrets(basic=given))
    assert capture.run() == 1
    (asked,) = api.asked
    assert asked.headers["authorization"] == basic(user, password)
    secrets = [value for name, value in given.items() if name == "password" or len(given) == 1]
    for echoed in (asked.headers["authorization"], *secrets):
        api.answer = lambda _, echoed=echoed: Said(document=[{"id": echoed}])  # type: ignore[misc]
        again = AnyCapture(tmp_path, HttpApi(url=f"{api.url}/v1", basic=declared), HttpSecrets(basic=given))
        if echoed.isascii():
            with pytest.raises(Refused, check=has_code("answer_holds_secret")):
                again.run()
    # A user beside a password may be in records.
    api.answer = lambda _: Said(document=[{"id": user}])
    if password:
        assert AnyCapture(tmp_path, HttpApi(url=f"{api.url}/v1", basic=declared), HttpSecrets(basic=given)).run() == 1
    # A 401 is not answered with another one.
    api.answer = lambda _: Said(status=401)
    with pytest.raises(StreamDenied):
        again.run()


class Login:
    """A server that gives tokens, each for so many requests or seconds."""

    def __init__(self, api: AnyApi, *, requests: int = 1_000, answer: Mapping[str, Any] | None = None) -> None:
        self.api, self.left, self.requests, self.answer = api, 0, requests, answer or {}
        self.tokens: list[Asked] = []
        self.seen: list[str] = []
        api.answer = self.said

    def said(self, asked: Asked) -> Said:
        if asked.path == "/token":
            self.tokens.append(asked)
            self.left = self.requests
            return Said(document={"access_token": f"token-number-{len(self.tokens)}", **self.answer})
        self.left -= 1
        self.seen.append(asked.headers.get("authorization", ""))
        if self.left < 0 or self.seen[-1] != f"Bearer token-number-{len(self.tokens)}":
            return Said(status=401)
        page = int(asked.parameters["page"])
        return Said(document=[{"id": page}] if page <= 9 else [])

    def capture(self, folder: Path, token: Token, pace: Pace | None = None, secrets: HttpSecrets = SECRETS) -> int:
        declared = HttpApi(
            url=f"{self.api.url}/v1",
            pages=PageNumber(parameter="page"),
            token=replace(token, url=f"{self.api.url}/token"),
        )
        return AnyCapture(folder, declared, secrets).run(pace=pace)


def test_a_client_is_sent_in_the_form_with_its_scope(api: AnyApi, tmp_path: Path) -> None:
    login = Login(api)
    scoped = replace(TOKEN, form={"grant_type": "client_credentials", "scope": "sales.read sales.list"})
    assert login.capture(tmp_path, scoped) == 9
    (asked,) = login.tokens
    assert asked.headers["content-type"] == "application/x-www-form-urlencoded"
    assert dict(parse_qsl(asked.body.decode())) == {
        **{"grant_type": "client_credentials", "scope": "sales.read sales.list"},
        **{"client_id": CLIENT, "client_secret": SECRET},
    }
    assert "authorization" not in asked.headers


def test_a_client_is_sent_as_http_basic_as_the_standard_writes_it(api: AnyApi, tmp_path: Path) -> None:
    login = Login(api)
    assert login.capture(tmp_path, replace(TOKEN, client_in_header=True)) == 9
    (asked,) = login.tokens
    # RFC 6749, 2.3.1: both are written as in a form before they are joined.
    assert asked.headers["authorization"] == basic("client%3A+4711", "the%2Bsecret%2Fword+of+the+client")
    assert dict(parse_qsl(asked.body.decode())) == {"grant_type": "client_credentials"}


def test_a_client_may_be_an_object_of_json(api: AnyApi, tmp_path: Path) -> None:
    login = Login(api)
    assert login.capture(tmp_path, replace(TOKEN, as_json=True)) == 9
    (asked,) = login.tokens
    assert json.loads(asked.body) == {
        **{"grant_type": "client_credentials", "client_id": CLIENT, "client_secret": SECRET}
    }


def test_a_session_is_a_token_of_another_place_and_header(api: AnyApi, tmp_path: Path) -> None:
    def said(asked: Asked) -> Said:
        if asked.path == "/token":
            return Said(document={"data": {"token": "the-session-word"}}, status=201)
        return Said(document=[{"id": 1}]) if asked.headers.get("x-session") == "the-session-word" else Said(status=401)

    api.answer = said
    token = Token(
        url=f"{api.url}/token",
        secrets={"user": "A"},
        form={},
        as_json=True,
        member="data.token",
        header="X-Session",
        scheme="",
    )
    secrets = HttpSecrets(token={"user": "ana"})
    assert AnyCapture(tmp_path, HttpApi(url=f"{api.url}/v1", token=token), secrets).run() == 1


@pytest.mark.parametrize("lasts", [60, "60", 60.5])
def test_another_token_is_had_before_one_expires(api: AnyApi, tmp_path: Path, lasts: object) -> None:
    login, now = Login(api, answer={"expires_in": lasts}), 0.0

    def tick() -> float:
        nonlocal now
        now += 9.0
        return now

    assert login.capture(tmp_path, TOKEN, Pace(wait=lambda _: None, now=tick)) == 9
    assert 2 <= len(login.tokens) <= 4
    assert len(login.seen) == 10  # none was answered with 401


def test_another_token_is_had_when_one_no_longer_counts_and_not_for_ever(api: AnyApi, tmp_path: Path) -> None:
    login = Login(api, requests=4)
    assert login.capture(tmp_path, TOKEN) == 9
    assert (len(login.tokens), len(login.seen)) == (3, 12)
    none = Login(api, requests=0)
    with pytest.raises(StreamDenied, match="401 Unauthorized"):
        none.capture(tmp_path, TOKEN)
    assert len(none.tokens) == 2


@pytest.mark.parametrize("answer", [{"access_token": None}, {"access_token": ""}, {"access_token": {"a": 1}}])
def test_an_answer_without_a_token_is_refused(api: AnyApi, tmp_path: Path, answer: Mapping[str, Any]) -> None:
    login = Login(api, answer=answer)
    with pytest.raises(BadAnswer, match="without 'access_token', where the token is declared to be"):
        login.capture(tmp_path, TOKEN)


@pytest.mark.parametrize("status", [400, 401, 403])
def test_a_client_that_is_not_known_is_one_sentence_without_it(api: AnyApi, tmp_path: Path, status: int) -> None:
    api.answer = lambda _: Said(status=status, document={"error": "invalid_client", "said": SECRET})
    declared = HttpApi(url=f"{api.url}/v1", token=replace(TOKEN, url=f"{api.url}/token", client_in_header=True))
    with pytest.raises(StreamDenied, match=f"does not accept the credentials: {status}") as refused:
        AnyCapture(tmp_path, declared, SECRETS).run()
    assert not any(each in str(refused.value) for each in (SECRET, CLIENT, "invalid_client"))


def test_a_token_in_an_answer_is_not_kept(api: AnyApi, tmp_path: Path) -> None:
    def said(asked: Asked) -> Said:
        return Said(document={"access_token": "a-token-word"} if asked.path == "/token" else [{"id": "a-token-word"}])

    api.answer = said
    declared = HttpApi(url=f"{api.url}/v1", token=replace(TOKEN, url=f"{api.url}/token"))
    with pytest.raises(Refused, check=has_code("answer_holds_secret")):
        AnyCapture(tmp_path, declared, SECRETS).run()
