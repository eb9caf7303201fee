"""Where does a server of Kinesis for the tests come from?

From `tools/setup.sh kinesis`, which fetches kinesalite through npm into a cache of this user. It keeps its streams in
memory, accepts any credentials, and takes a moment to divide shards. Asked for records from a time on behind which
there are none, it never answers (3.3.3); the service gives an iterator that waits for them, and so does `_MENDED`. It
also gives a new stream the tags that it is created with, of which kinesalite knows nothing yet, and goes on where a
client is killed before it was answered, of which kinesalite ends.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError

from backfill_assets.core.spark_server import free_port
from backfill_assets.examples.kafka_broker import cache

VERSION = "3.3.3"
CREDENTIALS = {"aws_access_key_id": "a-key", "aws_secret_access_key": "a-secret-that-nothing-may-show"}
STARTS_WITHIN_S = 60


_MENDED = """
process.on('uncaughtException', (error) => {
  if (error.code === 'ECONNRESET') return
  console.error(error)
  process.exit(1)
})
const path = process.argv[1].replace(/cli[.]js$/, 'actions/getShardIterator.js')
const asked = require(path)
require.cache[require.resolve(path)].exports = function(store, data, cb) {
  let isAnswered = false
  const once = (error, found) => { if (!isAnswered) { isAnswered = true; cb(error, found) } }
  asked(store, data, once)
  if (data.ShardIteratorType === 'AT_TIMESTAMP') {
    const latest = Object.assign({}, data, {ShardIteratorType: 'LATEST', Timestamp: undefined})
    setTimeout(() => { if (!isAnswered) asked(store, latest, once) }, 250)
  }
}
const below = (name) => process.argv[1].replace(/cli[.]js$/, name)
require(below('validations/createStream.js')).types.Tags = {type: 'Map', children: {type: 'String'}}
const creation = below('actions/createStream.js'), created = require(creation)
const tag = require(below('actions/addTagsToStream.js'))
require.cache[require.resolve(creation)].exports = function(store, data, cb) {
  created(store, data, (error) => {
    if (error || !data.Tags) return cb(error)
    // It writes the stream once more when that becomes active.
    setTimeout(() => tag(store, {StreamName: data.StreamName, Tags: data.Tags}, cb), 60)
  })
}
"""


class NoKinesis(Exception):
    """There is no server on this machine, or it cannot be started; the message says which."""


@dataclass(kw_only=True)
class KinesisServer:
    """A running server."""

    port: int  #: Where it answers.
    process: subprocess.Popen[bytes]  #: What was started.

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @cached_property
    def client(self) -> Any:
        return boto3.client("kinesis", region_name="eu-central-1", endpoint_url=self.endpoint, **CREDENTIALS)

    def create(self, stream: str, *, shards: int = 1) -> None:
        self.client.create_stream(StreamName=stream, ShardCount=shards)
        self.await_active(stream)

    def await_active(self, stream: str) -> None:
        until = time.monotonic() + 30
        while self._status(stream) != "ACTIVE":
            assert time.monotonic() < until, f"{stream} did not become active within 30 s"
            time.sleep(0.05)

    def _status(self, stream: str) -> str:
        return str(self.client.describe_stream_summary(StreamName=stream)["StreamDescriptionSummary"]["StreamStatus"])

    def write(self, stream: str, records: Sequence[tuple[str, bytes]]) -> None:
        """Writes records: their partition key, and their data; in order, as far as shards have one."""
        many = min(500, 4 * 2**20 // max(len(value) for _, value in records))
        for start in range(0, len(records), many):
            batch = [{"PartitionKey": key, "Data": value} for key, value in records[start : start + many]]
            assert self.client.put_records(StreamName=stream, Records=batch)["FailedRecordCount"] == 0

    def shards(self, stream: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.client.list_shards(StreamName=stream)["Shards"]
        return found

    def split(self, stream: str, shard: str) -> None:
        (found,) = (each["HashKeyRange"] for each in self.shards(stream) if each["ShardId"] == shard)
        middle = (int(found["StartingHashKey"]) + int(found["EndingHashKey"])) // 2
        self.client.split_shard(StreamName=stream, ShardToSplit=shard, NewStartingHashKey=str(middle))
        self.await_active(stream)

    def merge(self, stream: str, shard: str, other: str) -> None:
        self.client.merge_shards(StreamName=stream, ShardToMerge=shard, AdjacentShardToMerge=other)
        self.await_active(stream)

    def records(self, stream: str) -> dict[str, list[dict[str, Any]]]:
        """Everything that is in a stream, by shard, in order."""
        found: dict[str, list[dict[str, Any]]] = {}
        for each in self.shards(stream):
            asked = {"StreamName": stream, "ShardId": each["ShardId"], "ShardIteratorType": "TRIM_HORIZON"}
            iterator = self.client.get_shard_iterator(**asked)["ShardIterator"]
            found[each["ShardId"]] = []
            while iterator:
                answered = self.client.get_records(ShardIterator=iterator, Limit=10_000)
                found[each["ShardId"]] += answered["Records"]
                iterator = answered.get("NextShardIterator") if answered["Records"] else None
        return found

    @property
    def streams(self) -> list[str]:
        names: list[str] = self.client.list_streams()["StreamNames"]
        return names

    def delete(self, stream: str) -> None:
        self.client.delete_stream(StreamName=stream)
        until = time.monotonic() + 30
        while stream in self.client.list_streams()["StreamNames"]:
            assert time.monotonic() < until
            time.sleep(0.05)

    def created_at(self, stream: str) -> datetime:
        found = self.client.describe_stream_summary(StreamName=stream)["StreamDescriptionSummary"]
        at: datetime = found["StreamCreationTimestamp"]
        return at

    def stop(self) -> None:
        """Kills it."""
        self.process.kill()
        self.process.wait()


@contextmanager
def running_kinesis() -> Iterator[KinesisServer]:
    """A server without streams while the block lasts.

    Raises:
        NoKinesis: It is not there, or does not start.
    """
    program = cache() / f"kinesalite-{VERSION}" / "node_modules" / "kinesalite" / "cli.js"
    node = shutil.which("node")
    if node is None or not program.exists():
        raise NoKinesis(f"there is no kinesalite in {program.parent}: run tools/setup.sh kinesis")
    port = free_port()
    quick = ("--createStreamMs", "20", "--updateStreamMs", "20", "--deleteStreamMs", "20", "--shardLimit", "1000")
    with tempfile.TemporaryDirectory(prefix="kinesis-") as folder:
        mended = Path(folder, "mended.js")
        mended.write_text(_MENDED, encoding="utf-8")
        process = subprocess.Popen(
            [node, "--require", str(mended), str(program), "--port", str(port), *quick],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ},
        )
        server = KinesisServer(port=port, process=process)
        try:
            until = time.monotonic() + STARTS_WITHIN_S
            while True:
                if process.poll() is not None or time.monotonic() > until:
                    raise NoKinesis("kinesalite ended, or did not answer")
                try:
                    server.client.list_streams()
                    break
                except BotoCoreError:
                    time.sleep(0.1)
            yield server
        finally:
            server.stop()
