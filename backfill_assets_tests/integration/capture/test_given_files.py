"""Files that are named by an address come whole, from where was asked, and are what was said of them, or are refused
before anything lands; nothing secret of an address is kept."""

from __future__ import annotations

import fcntl
import gzip
import hashlib
import json
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import date
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from backfill_assets.application.given_files import given_files
from backfill_assets.application.land import offered
from backfill_assets.calendar.partitions import DayRange
from backfill_assets.capture.errors import BadFile, Fault, FileRefused, NoFile
from backfill_assets.capture.files import fetched_files
from backfill_assets.capture.files.fetched_files import Address
from backfill_assets.capture.files.file_capture import read_manifest
from backfill_assets.core.places import StoreAccess
from backfill_assets.core.settings import Settings
from backfill_assets.landing.attempt import Landed
from backfill_assets.landing.extract import Extract, preview
from backfill_assets.landing.imports import OnDuplicate
from backfill_assets.landing.land import land_files
from backfill_assets.ledger.states import ImportState
from backfill_assets_tests.support.landing_examples import EVENTS, LANDED_AT, event, json_lines, landing_room
from backfill_assets_tests.support.s3_server import NoStore, running_store
from backfill_assets_tests.support.sftp_server import PASSWORD as SFTP_PASSWORD
from backfill_assets_tests.support.sftp_server import running_sftp

CONTENT = b"id,at\n1,2026-01-01T00:00:00Z\n2,2026-01-02T00:00:00Z\n"
SHA256 = hashlib.sha256(CONTENT).hexdigest()
Answer = tuple[int, Mapping[str, str], bytes]


@dataclass
class Web:
    """A server on loopback."""

    #: By path, what it says, one after the other; the last one again and again.
    answers: dict[str, list[Answer]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)  #: The paths with what is behind them.
    headers: Mapping[str, str] = field(default_factory=dict)  #: Those of the last request.
    port: int = 0
    holds: threading.Event = field(default_factory=threading.Event)  #: Not set while answers are not ended.

    def __post_init__(self) -> None:
        self.holds.set()

    def at(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def gives(self, path: str, *answers: Answer) -> str:
        self.answers[path] = list(answers)
        return self.at(path)


def whole(headers: Mapping[str, str] | None = None, body: bytes = CONTENT) -> Answer:
    return 200, {"Content-Length": str(len(body)), **(headers or {})}, body


@pytest.fixture
def web(monkeypatch: pytest.MonkeyPatch) -> Iterator[Web]:
    monkeypatch.setattr("backfill_assets.capture.files.fetched_files.time.sleep", lambda _: None)
    with serving() as found:
        yield found


@contextmanager
def serving() -> Iterator[Web]:
    web = Web()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            web.asked.append(self.path)
            web.headers = dict(self.headers)
            # One store writes every letter as it is, another one each dot as %2E.
            path = self.path.partition("?")[0].replace("%2E", ".")
            answers = web.answers.get(path, [(404, {"Content-Length": "0"}, b"")])
            status, headers, body = answers.pop(0) if len(answers) > 1 else answers[0]
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)
            self.wfile.flush()
            web.holds.wait(60)

        do_HEAD = do_GET  # noqa: N815 - so it is called

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    web.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield web
    finally:
        server.shutdown()
        server.server_close()


def test_a_file_of_the_web_is_there_while_it_lands_and_nothing_is_left(web: Web, settings: Settings) -> None:
    address = web.gives("/a/day%20one.csv", (302, {"Location": "/b?c=d", "Content-Length": "0"}, b""))
    web.gives("/b", whole())
    with given_files(settings, [f"{address}?token=secret#top"], sha256=[SHA256.upper()]) as (found,):
        assert (found.name, found.path.read_bytes()) == ("day one.csv", CONTENT)
        assert found.original == address  # without what is behind the question mark
        assert web.asked == ["/a/day%20one.csv?token=secret", "/b?c=d"]
        assert web.headers["Accept-Encoding"] == "identity"
        assert "Authorization" not in web.headers
    assert not list((settings.home / "landing_in_progress" / ".fetched").iterdir())


def test_a_folder_that_another_process_is_making_is_not_taken_for_one_of_a_killed_process(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent = settings.home / "landing_in_progress" / ".fetched"
    others: list[threading.Thread] = []
    lock = fcntl.flock

    def slowly(held: int, operation: int) -> None:
        if not others and any(parent.glob("*/.lock")):
            others.append(threading.Thread(target=lambda: fetched_files._new_folder(parent)))
            others[0].start()
            others[0].join(0.2)
        lock(held, operation)

    monkeypatch.setattr(fcntl, "flock", slowly)
    folder = fetched_files._new_folder(parent)
    others[0].join()
    assert folder.exists()


def test_what_a_killed_process_left_is_removed_by_the_next_one(web: Web, settings: Settings) -> None:
    left = settings.home / "landing_in_progress" / ".fetched" / "tmp-of-another"
    left.mkdir(parents=True)
    (left / ".lock").touch()
    address = web.gives("/a.csv", whole())
    with given_files(settings, [address]), given_files(settings, [address]) as (second,):
        assert not left.exists()
        # One that is alive keeps its files.
        assert len(list(second.path.parents[2].iterdir())) == 2


def _fetch(settings: Settings, address: str) -> None:
    """Fetches a file in a process of its own."""
    with given_files(settings, [address]):
        raise AssertionError("it was fetched")


@pytest.mark.long
def test_a_process_that_is_killed_while_it_fetches_leaves_nothing_once_the_same_command_is_done(
    web: Web, settings: Settings
) -> None:
    body = CONTENT * 100_000
    headers = {"Content-Length": str(len(body))}
    address = web.gives("/a.csv", (200, headers, body[: len(body) // 2]), whole(body=body))
    web.holds.clear()
    process = multiprocessing.get_context("spawn").Process(target=_fetch, args=(settings, address))
    process.start()
    fetched = settings.home / "landing_in_progress" / ".fetched"
    until = time.monotonic() + 60
    while not any(each.stat().st_size for each in fetched.rglob("a.csv*")) and time.monotonic() < until:
        time.sleep(0.05)
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    web.holds.set()
    (left,) = (each for each in fetched.iterdir() if each.is_dir())
    with given_files(settings, [address], sha256=[hashlib.sha256(body).hexdigest()]) as (found,):
        assert found.path.read_bytes() == body
        assert not left.exists()
    assert not list(fetched.iterdir())


def test_a_file_whose_address_does_not_say_what_it_is_is_to_be_fetched_under_another_name(
    web: Web, settings: Settings
) -> None:
    address = web.gives("/export/download", whole())
    with given_files(settings, [address]) as (found,), pytest.raises(BadFile, match="ends in no suffix") as refused:
        found.require()
    assert str(refused.value.next_step).startswith("fetch it under a name that ends in the suffix of its format")


def test_a_request_that_fails_is_made_again(web: Web, tmp_path: Path) -> None:
    address = web.gives("/a.csv", (503, {}, b""), (429, {}, b""), whole())
    Address.of(address).fetch(tmp_path / "a.csv", StoreAccess())
    assert (tmp_path / "a.csv").read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((503, {"Content-Length": "0"}, b""), "it answered 503, tried 3 times"),
        ((200, {"Content-Length": "100"}, b"half"), "broke off, tried 3 times"),
        ((200, {}, CONTENT), "without its length"),
        (whole({"Content-Encoding": "gzip"}), "sent packed as gzip"),
        ((200, {"Content-Length": str(1 << 40)}, b""), "has more than 50 GiB"),
        ((403, {"Content-Length": "0"}, b""), "answers 403"),
        ((302, {"Location": "/a.csv", "Content-Length": "0"}, b""), "leads to another address more than 5 times"),
        ((302, {"Location": "http://example.org/a.csv", "Content-Length": "0"}, b""), "http://example.org, which is n"),
        ((302, {"Location": "file:///etc/passwd", "Content-Length": "0"}, b""), "leads to file://, which is not https"),
    ],
)
def test_an_answer_that_is_not_the_whole_file_is_refused(
    web: Web, settings: Settings, answer: Answer, said: str
) -> None:
    address = web.gives("/a.csv", answer)
    with pytest.raises(FileRefused, match=said) as refused, given_files(settings, [f"{address}?sig=secret"]):
        pass
    assert "secret" not in str(refused.value)


def test_a_packed_file_is_the_bytes_that_are_sent(web: Web, settings: Settings) -> None:
    packed = gzip.compress(CONTENT)
    address = web.gives("/a.csv.gz", whole({"Content-Encoding": "gzip"}, packed))
    with given_files(settings, [address]) as (found,):
        assert found.path.read_bytes() == packed


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("http://example.org/a.csv", "has no encryption"),
        ("https://ana:secret@example.org/a.csv", "the address of example.org has the name of a user"),
        ("https://example.org/", "has no name of a file"),
        ("https://example.org/a%2Fb.csv", "has no name of a file"),
        ("https://example.org/a b.csv", "writes as %20"),
        ("ftp://example.org/a.csv", "is not an address of https, s3, gs or az"),
        ("ftps://example.org/a.csv", "is not an address of https, s3, gs or az"),
        ("s3://bucket", "is not the address of a file in a bucket"),
        ("s3://bucket/a/", "has no name of a file"),
        ("s3://key:secret@bucket/a.csv", "the name of a user"),
        ("https:///a.csv", "is not an address"),
    ],
)
def test_an_address_that_would_not_be_safe_is_refused_before_anything_is_asked(text: str, said: str) -> None:
    with pytest.raises(FileRefused, match=said) as refused:
        Address.of(text)
    assert refused.value.fault is Fault.ADDRESS
    assert "secret" not in str(refused.value)


def test_a_file_that_is_not_there_is_named(web: Web, settings: Settings) -> None:
    with pytest.raises(NoFile, match=r"there is no file http://127\.0\.0\.1:\d+/none\.csv: it answers 404"):
        given_files(settings, [web.at("/none.csv?sig=secret")]).__enter__()


def test_a_file_of_a_store_is_the_one_that_was_there(settings: Settings) -> None:
    try:
        with running_store() as store:
            bucket = store.make_bucket("deliveries")
            (store.folder / bucket / "a.csv").write_bytes(CONTENT)
            own = replace(settings, access=StoreAccess.of(store.environment))
            with given_files(own, ["s3://deliveries/a.csv"], sha256=[SHA256]) as (found,):
                assert (found.path.read_bytes(), found.original) == (CONTENT, "s3://deliveries/a.csv")
            # The key of an object is written as it is, and not as in an address of the web.
            with pytest.raises(NoFile, match=r"there is no file s3://deliveries/%61\.csv"):
                given_files(own, ["s3://deliveries/%61.csv"]).__enter__()
    except NoStore as reason:
        pytest.skip(f"AN OBJECT STORE IS NOT TESTED: {reason}")


def test_a_file_of_the_server_that_the_source_declares_is_fetched_by_its_address(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_SFTP_PASSWORD", SFTP_PASSWORD)
    with running_sftp(tmp_path / "out") as server:
        (server.root / "new").mkdir()
        for name in ("a b.csv", "b.csv"):
            (server.root / "new" / name).write_bytes(CONTENT)
        drop = server.declared("/new")
        names = [f"{drop.address}/a b.csv", f"{drop.address}/b.csv"]
        with given_files(settings, names, sha256=[SHA256] * 2, drop=drop) as found:
            assert [(each.name, each.path.read_bytes()) for each in found] == [("a b.csv", CONTENT), ("b.csv", CONTENT)]
            assert [each.original for each in found] == names
            assert server.logins == 1
        for text, declared, said in (
            (f"{drop.address}/none.csv", drop, "there is no file sftp://127.0.0.1"),
            (drop.address, drop, "is not in the folder of a server that the source declares: it declares sftp://"),
            (f"{drop.address}/../b.csv", drop, "is not in the folder"),
            ("sftp://ana:secret@example.org/new/b.csv", drop, "is not in the folder"),
            (names[0], None, "it declares none"),
        ):
            refused = pytest.raises((FileRefused, NoFile), match=said)
            with refused as found_out, given_files(settings, [text], drop=declared):
                pass
            assert "secret" not in str(found_out.value)
    assert not list((settings.home / "landing_in_progress" / ".fetched").iterdir())


@pytest.mark.parametrize("scheme", ["gs", "az"])
def test_files_of_other_stores_are_fetched(
    web: Web, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    if scheme == "gs":
        account = {"gcs_base_url": web.at(""), "disable_oauth": True, "client_email": "", "private_key": ""}
        (tmp_path / "account.json").write_text(json.dumps({**account, "private_key_id": ""}))
        monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT", str(tmp_path / "account.json"))
        monkeypatch.setenv("GOOGLE_ALLOW_HTTP", "true")
    else:
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "account")
        monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", web.at(""))
        monkeypatch.setenv("AZURE_SKIP_SIGNATURE", "true")
        monkeypatch.setenv("AZURE_ALLOW_HTTP", "true")
    stamp = {"ETag": '"one"', "Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT"}
    web.gives("/deliveries/a.csv", whole(stamp))
    with given_files(settings, [f"{scheme}://deliveries/a.csv"]) as (found,):
        assert found.path.read_bytes() == CONTENT, web.asked


def delivery(folder: Path, manifest: object, *, name: str = "delivery.json") -> Path:
    path = folder / name
    path.write_text(manifest if isinstance(manifest, str) else json.dumps(manifest))
    return path


def test_a_manifest_is_json_or_csv_and_says_what_is_compared(tmp_path: Path) -> None:
    one = {"name": "a.csv", "records": 2, "size_bytes": len(CONTENT), "sha256": SHA256}
    forms = [
        delivery(tmp_path, {"files": [one]}),
        delivery(tmp_path, [one | {"name": "folder/a.csv", "records": "2"}], name="list.json"),
        delivery(
            tmp_path,
            {
                "entries": [
                    {"url": "s3://b/a.csv", "meta": {"rows": 2, "content_length": len(CONTENT), "sha256": SHA256}}
                ]
            },
            name="unload.json",
        ),
        delivery(tmp_path, f"\ufefffile,rows,size,sha256,md5\na.csv,2,{len(CONTENT)},{SHA256},\n", name="m.csv"),
    ]
    assert {replace(each, said_by="") for form in forms for each in read_manifest(form)} == {
        replace(read_manifest(forms[0])[0], said_by="")
    }


@pytest.mark.parametrize(
    ("manifest", "said"),
    [
        ("<html>", "is neither JSON nor CSV"),
        ([], "names no file"),
        ({"items": []}, "is neither JSON nor CSV"),
        ([{"name": "a.csv"}, {"name": "x/a.csv"}], "names a.csv twice"),
        ([{"records": 1}], "has an entry without the name of a file"),
        ([{"name": "a.csv", "crc32": "00"}], "says 'crc32' of a file, and is compared in name, records"),
        ([{"name": "a.csv", "records": "two"}], "says 'two' for records of a.csv, which is not a number"),
        ([{"name": "a.csv", "records": -1}], "says -1 for records"),
        ([{"name": "a.csv", "md5": "00"}], "which has 32 hex digits"),
        ([{"name": "a.csv", "path": "x/b.csv"}], "says two different things for name of one file: 'a.csv' and 'b.csv'"),
        ([{"name": "a.csv", "rows": 1, "meta": {"records": 2}}], "says two different things for records of one file"),
        ([{"name": "a.csv", "meta": "two"}], "says 'meta' of a file"),
        ('[{"name": "a.csv", "rows": 1, "rows": 2}]', "is neither JSON nor CSV"),
        ([{"name": "a\nb.csv", "records": "x"}], r"names 'a\\nb.csv', which has a character that cannot be shown"),
        (["http://[x/b.csv"], "names b.csv, which is missing, and does not name a.csv"),
        ([{"name": "b.csv"}], "names b.csv, which is missing, and does not name a.csv"),
        ([{"name": "a.csv"}, {"name": "b.csv"}, {"name": "c.csv"}], "names b.csv, c.csv, which are missing"),
        ([{"name": "a.csv", "size_bytes": 1}], f"a.csv has {len(CONTENT)} bytes, and delivery.json says 1"),
        ([{"name": "a.csv", "sha256": "0" * 64}], f"a.csv has the sha256 {SHA256}, and delivery.json says 000"),
        ([{"name": "a.csv", "md5": "0" * 32}], "a.csv has the md5 "),
    ],
)
def test_a_delivery_that_is_not_what_its_manifest_says_is_refused_before_anything_lands(
    settings: Settings, tmp_path: Path, manifest: object, said: str
) -> None:
    (tmp_path / "a.csv").write_bytes(CONTENT)
    path = delivery(tmp_path, manifest)
    with pytest.raises(FileRefused, match=said), given_files(settings, [str(tmp_path / "a.csv")], manifest=str(path)):
        pass


@pytest.mark.long
def test_a_file_with_another_number_of_records_than_its_manifest_says_does_not_count(
    spark: SparkSession, settings: Settings, tmp_path: Path
) -> None:
    for number, name in enumerate("abc"):
        (tmp_path / f"{name}.jsonl").write_bytes(json_lines(event(f"e{number}"), event(f"f{number}")))
    names = [str(tmp_path / f"{name}.jsonl") for name in "abc"]

    def files(**records: int) -> Path:
        return delivery(tmp_path, [{"name": f"{name}.jsonl", "records": many} for name, many in records.items()])

    def land(manifest: Path) -> list[int]:
        with given_files(settings, names, manifest=str(manifest)) as given:
            land_files(room.work(), offered(EVENTS, given), OnDuplicate.IGNORE, landed.append)
        return [each.record.counts.accepted for each in landed]

    landed: list[Landed] = []
    said = r"b\.jsonl has 2 records, and its manifest says 3"
    with landing_room(spark, settings, lambda: LANDED_AT) as room:
        extract = Extract(
            days=DayRange.inclusive(date(2024, 5, 1), date(2024, 5, 1)), where={}, reason="all", confirmed_by=None
        )
        wrong = files(a=2, b=3, c=2)
        with given_files(settings, names, manifest=str(wrong)) as given, pytest.raises(FileRefused, match=said):
            preview(room.work(), offered(EVENTS, given), extract, now=LANDED_AT)
        # Although small files land together, the one that is wrong stops what is behind it, and nothing else.
        with pytest.raises(FileRefused, match=said):
            land(wrong)
        assert [(each.state, each.note) for each in room.imports()] == [
            (ImportState.LANDED, ""),
            (ImportState.FAILED, "landing stopped: b.jsonl has 2 records, and its manifest says 3."),
            (ImportState.FAILED, "not tried, because b.jsonl before it was refused"),
        ]
        landed.clear()
        assert land(files(a=2, b=2, c=2)) == [2, 2, 2]
        # Nor is it passed over of a file that has landed.
        with pytest.raises(FileRefused, match=said):
            land(files(a=2, b=3, c=2))


@pytest.mark.parametrize("line", ["a.csv", "a.csv,2,3"])
def test_a_line_of_a_manifest_that_is_cut_or_too_long_is_refused(tmp_path: Path, line: str) -> None:
    with pytest.raises(FileRefused, match=r"m\.csv has a line with another number of values than its header\.$"):
        read_manifest(delivery(tmp_path, f"name,records\n{line}\n", name="m.csv"))


def test_what_is_behind_the_address_of_a_manifest_is_not_repeated(web: Web, settings: Settings) -> None:
    manifest = web.gives("/m.json", whole(body=b'["b.csv"]')) + "?sig=SECRET"
    with pytest.raises(FileRefused) as refused, given_files(settings, [web.at("/a.csv")], manifest=manifest):
        pass
    assert refused.value.message == "m.json names b.csv, which is missing, and does not name a.csv."


def test_digests_are_one_for_each_file(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(CONTENT)
    names = [str(tmp_path / "a.csv")]
    for digests, said in (
        ([SHA256, SHA256], "1 files are named, and 2 digests"),
        (["abc"], "'abc' is not a sha256"),
        (["0" * 64], f"a.csv has the sha256 {SHA256}, and the digest that was given says 0000"),
    ):
        with pytest.raises(FileRefused, match=said), given_files(settings, names, sha256=digests):
            pass
