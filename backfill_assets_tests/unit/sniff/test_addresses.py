"""What an API answers, and a file at an address, are proposed as files of this machine are; no secret is shown."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType

import pytest

from backfill_assets.application.sniff import sniffed
from backfill_assets.capture.errors import BadFile, FileRefused, StreamDenied
from backfill_assets.domain import Cursor, HttpApi, SourceTable
from backfill_assets.report.sniffed import document_of
from backfill_assets.sniff.addresses import Reached

PERMITS = [{"id": each, "issued_at": f"2026-01-{each + 1:02}T10:00:00Z", "who": {"town": "x"}} for each in range(20)]


@contextmanager
def serving(answers: Mapping[str, object]) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """An API on loopback: its address, and what was asked with which key."""
    asked: list[tuple[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append((self.path, self.headers.get("X-Key", "")))
            answer = answers.get(self.path.partition("?")[0])
            body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(401 if answer is None else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def module_of(address: str, reached: Reached) -> tuple[str, SourceTable]:
    """What is printed of an address, and the source that it declares."""
    found = sniffed([address], clock=lambda: datetime(2026, 2, 1, tzinfo=UTC), reached=reached)
    text = document_of(found).module
    module = ModuleType("proposed")
    sys.modules["proposed"] = module
    exec(text, module.__dict__)
    (source,) = module.DOMAIN.sources
    return text, source


def test_an_answer_of_an_api_is_proposed_with_what_was_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUR_KEY", "secret of a header")
    with serving({"/v1/permits": {"results": PERMITS, "next_cursor": "abc"}}) as (at, asked):
        reached = Reached(secrets={"X-Key": "OUR_KEY"}, home=tmp_path)
        text, source = module_of(f"{at}/v1/permits?limit=20&api_key=secret-one", reached)
        assert asked == [("/v1/permits?limit=20&api_key=secret-one", "secret of a header")]
        assert "secret" not in text.replace("secret_", "")
        assert (source.name, source.key, source.event_time) == ("bronze.permits", ("id",), "issued_at")
        assert source.columns == {"who.town": "town"}
        assert source.capture == HttpApi(
            url=f"{at}/v1/permits",
            records="results",
            pages=Cursor(parameter="cursor", next="next_cursor"),
            parameters={"limit": "20"},
            secret_parameters={"api_key": "MY_API_KEY"},
            secret_headers={"X-Key": "OUR_KEY"},
        )
        with pytest.raises(StreamDenied):
            sniffed([f"{at}/v1/others"], clock=lambda: datetime(2026, 2, 1, tzinfo=UTC))


def test_a_file_at_an_address_is_looked_at_as_a_file(tmp_path: Path) -> None:
    rows = b"id,at\n" + b"".join(b"%d,2026-01-%02dT00:00:00Z\n" % (each, each) for each in range(1, 29))
    with serving({"/data/weather.csv": rows, "/page": b"<html>no</html>"}) as (at, _):
        text, source = module_of(f"{at}/data/weather.csv", Reached(home=tmp_path))
        assert (source.name, source.capture, source.key) == ("bronze.weather", None, ("id",))
        assert "# weather.csv: CSV, 28 records" in text.replace("'", "")
        with pytest.raises(BadFile):
            sniffed([f"{at}/page"], clock=lambda: datetime(2026, 2, 1, tzinfo=UTC))


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("kafka://broker/topic", "its servers are 'broker'"),
        ("kafka://broker:9092/", "it is captured from '', which is not the name of a topic"),
        ("kafka://ana:secret@broker:9092/topic", "its servers are"),
        ("https://ana:secret@example.org/v1", "cannot be used"),
        ("ftp://example.org/a.csv", "is not an address of https, s3, gs or az"),
    ],
)
def test_an_address_that_is_none_is_refused_in_a_sentence(address: str, said: str) -> None:
    with pytest.raises(FileRefused) as refused:
        sniffed([address], clock=lambda: datetime(2026, 2, 1, tzinfo=UTC))
    assert said in str(refused.value)
