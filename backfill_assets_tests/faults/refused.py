"""Which files have to be refused as a whole, and which hold nothing?

Beside `corpus`, whose files are taken in record by record. Nothing here asks the product anything.
"""

from __future__ import annotations

import gzip
import io
import random
from collections.abc import Iterator

import pyarrow as pa

from backfill_assets_tests.faults.corpus_json import GZIP_REFUSED, gzip_file, json_file
from backfill_assets_tests.faults.corpus_tables import AT, csv_file, parquet, parquet_file
from backfill_assets_tests.faults.corpus_values import Author, Hostile


def refused_files(seed: int) -> Iterator[Hostile]:
    """Files of which nothing may be taken in."""
    author = Author(random.Random(f"{seed}/refused"), prefix="r")
    for kind in GZIP_REFUSED:
        yield gzip_file(kind, author, 200)
    lines, table = json_file("plain", author, 20).content, parquet_file("strings", author, 50).content
    rows = csv_file("plain", author, 20).content.decode("utf-8")
    good = parquet({"event_id": pa.array(["a"]), "event_time": pa.array([AT], pa.timestamp("us", tz="UTC"))})
    instants, keys = pa.array([AT], pa.timestamp("us", tz="UTC")), pa.array(["a"])

    def refused(kind: str, name: str, content: bytes) -> Hostile:
        return Hostile(kind=f"refused: {kind}", name=name, content=content, records=None)

    yield refused("UTF-16", "events.jsonl", lines.decode("utf-8", "replace").encode("utf-16"))
    yield refused("gzip without its name", "events.jsonl", gzip.compress(lines))
    yield refused("Parquet named JSON lines", "events.jsonl", table)
    yield refused("Parquet named CSV", "events.csv", table)
    yield refused("JSON lines named Parquet", "events.parquet", lines)
    yield refused("JSON lines named CSV", "events.csv", b"{}\n" + lines)  # one of them may look like a header
    yield refused("random bytes", "events.jsonl", author.random.randbytes(10_000))
    yield refused("zeros", "events.csv", b"\x00" * 100_000)
    yield refused("unknown suffix", "events.xml", b"<events/>")
    yield refused("no suffix", "events", lines)
    yield refused("CSV without the key", "events.csv", rows.replace("event_id", "id", 1).encode())
    yield refused("CSV with the key twice", "events.csv", rows.replace("place", "event_id", 1).encode())
    yield refused("CSV with a header of 30,000 columns", "events.csv", b",".join([b"c%d" % n for n in range(30_000)]))
    yield refused("a line of 50 MB", "events.jsonl", lines + b'{"event_id": "' + b"x" * 50_000_000 + b'"}\n')
    yield refused("gzip, 200 MiB of blanks in a line", "events.jsonl.gz", _bomb(lines, b" "))
    yield refused("gzip, 200 MiB of zeros in a CSV", "events.csv.gz", _bomb(rows.encode(), b"\x00"))
    yield refused(
        "CSV, a quote that is never closed", "events.csv", rows.encode() + b'e1,"' + b"2024-05-01,x\n" * 1_500_000
    )
    yield refused("CSV, text behind a quote", "events.csv", rows.encode() + b'e1,2024-05-01,"x" \n')
    yield refused("CSV, rows that end in different ways", "events.csv", rows.encode() + b"e1,2024-05-01,x\r\n")
    yield refused("CSV, a row of 30,000 values", "events.csv", rows.encode() + b"," * 30_000 + b"\n")
    yield refused("empty Parquet", "events.parquet", b"")
    yield refused("Parquet cut in the footer", "events.parquet", table[:-7])
    yield refused("Parquet cut in the middle", "events.parquet", table[: len(table) // 2])
    yield refused("Parquet with a damaged footer", "events.parquet", table[:-40] + b"\xff" * 32 + table[-8:])
    yield refused("Parquet with a damaged page", "events.parquet", table[:20] + b"\xff" * 60 + table[80:])
    odd_name = parquet_file("extra columns", author, 5).content.replace(b"how long", b"how \xff\xfeng")
    yield refused("Parquet with a name that is not UTF-8", "events.parquet", odd_name)
    yield refused("Parquet without columns", "events.parquet", parquet({}))
    yield refused("Parquet without the key", "events.parquet", parquet({"event_time": instants}))
    yield refused(
        "Parquet, event_time as date",
        "events.parquet",
        parquet({"event_id": keys, "event_time": pa.array([AT.date()])}),
    )
    yield refused(
        "Parquet, event_time without a zone",
        "events.parquet",
        parquet({"event_id": keys, "event_time": pa.array([AT.replace(tzinfo=None)], pa.timestamp("us"))}),
    )
    yield refused(
        "Parquet, event_time as decimal",
        "events.parquet",
        parquet({"event_id": keys, "event_time": pa.array([1], pa.decimal128(20, 0))}),
    )
    yield refused(
        "Parquet, place as a list",
        "events.parquet",
        parquet({"event_id": keys, "event_time": instants, "place": pa.array([["x"]])}),
    )
    yield refused(
        "Parquet, schema_version as bool",
        "events.parquet",
        parquet({"event_id": keys, "event_time": instants, "schema_version": pa.array([True])}),
    )
    yield refused("Parquet named .gz", "events.parquet.gz", gzip.compress(good))
    yield refused("gzip, cut to nothing", "events.jsonl.gz", b"")
    line = b'{"event_id": "one", "event_time": "2024-05-01T10:00:00+00:00"}'
    for kind, content in (("one after the other", line + line), ("with a comma", line + b"," + line)):
        yield refused(f"JSON records on a line, {kind}", "events.jsonl", line + b"\n" + content + b"\n")


def _bomb(start: bytes, byte: bytes) -> bytes:
    out = io.BytesIO()
    with gzip.open(out, "wb") as file:
        file.write(start)
        for _ in range(200):
            file.write(byte * (1 << 20))
    return out.getvalue()


def files_without_records() -> Iterator[Hostile]:
    """Files that are taken in, and hold nothing."""
    for name, content in (
        ("empty.jsonl", b""),
        ("empty.csv", b""),
        ("blank.jsonl", b"\n \n\t\r\n\r\r" * 100),
        ("bom.jsonl", b"\xef\xbb\xbf"),
        ("bom.csv", b"\xef\xbb\xbf\n"),
        ("header.csv", b"event_id,event_time\r\n"),
        ("header.parquet", parquet({"event_id": pa.array([], pa.string()), "event_time": pa.array([], pa.string())})),
        ("empty.jsonl.gz", gzip.compress(b"")),
    ):
        yield Hostile(kind="without records", name=name, content=content, records=())
