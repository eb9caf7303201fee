"""What a stream has of a record: an envelope from which all of it is read back, a key, and a place in a second."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.capture.kinesis.client import Record
from backfill_assets.capture.kinesis.replay import Allowance, Entry, enveloped, partition_key
from backfill_assets.capture.kinesis.stream import lines_of
from backfill_assets.core.clock import system_clock
from backfill_assets.deliver.sinks import Outgoing, as_captured

members = st.dictionaries(st.text(max_size=5), st.none() | st.integers() | st.text(max_size=5), max_size=3)
objects = st.builds(
    lambda found, indent: json.dumps(found, indent=indent).encode(), members, st.sampled_from([None, 1])
)
SPACE = b" \t\r\n"
values = st.one_of(
    st.none(),
    st.binary(max_size=12),
    objects,
    st.sampled_from(
        [b'{"a": 1.50, "a": 2}', b"[1]", b"null", b'{"a": NaN}', b' {"a": 1}\n', b"{", b'{"kinesis_shard": 1}']
    ),
)
headers = st.lists(st.tuples(st.text(max_size=4), st.none() | st.text(max_size=4) | st.binary(max_size=4)), max_size=3)


def read(said: Any) -> bytes | None:
    """What docs/replay.md says of a text, or of bytes that are none."""
    if isinstance(said, dict):
        return base64.b64decode(said["base64"])
    return None if said is None else str(said).encode()


@given(values, st.none() | st.binary(max_size=8), headers, st.integers(-(10**12), 10**14))
def test_a_record_is_read_from_its_envelope_as_it_was(
    value: bytes | None, key: bytes | None, named: list[tuple[str, str | bytes | None]], at: int
) -> None:
    found = json.loads(enveloped(Outgoing(key=key, value=value, headers=named, at=at), 7), parse_constant=pytest.fail)
    assert (found["sequence"], read(found["key"])) == (7, key)
    *theirs, ours = found["headers"]
    assert ours == ["x-delivery", "at-least-once"]
    assert [(name, read(each)) for name, each in theirs] == [
        (name, each.encode() if isinstance(each, str) else each) for name, each in named
    ]
    if "value_base64" in found:
        assert base64.b64decode(found["value_base64"]) == value
    elif value is None:
        assert found["value"] is None
    else:
        assert isinstance(found["value"], dict)
        assert found["value"] == json.loads(value)


def test_digits_of_a_value_stay_as_they_were_written_and_times_before_1970_are_kept() -> None:
    said = enveloped(Outgoing(key=b"k", value=b'{"a": 1.50, "b": 1e3}', headers=[], at=-1), 1)
    assert b'"value": {"a": 1.50, "b": 1e3}}' in said
    assert b'"at": "1969-12-31T23:59:59.999Z"' in said


@pytest.mark.parametrize(
    ("key", "found"),
    [
        (b"s1", "s1"),
        ("ä".encode() * 256, "ä" * 256),
        (None, "7"),
        (b"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
        (b"\xff", "a8100ae6aa1940d0b663bb31cd466142ebbdbd5187131b92d93818987832eb89"),
    ],
)
def test_a_partition_key_is_the_key_or_a_digest_of_what_is_none(key: bytes | None, found: str) -> None:
    assert partition_key(Outgoing(key=key, value=None, headers=[], at=0), 7) == found


def test_a_key_that_is_too_long_has_a_digest() -> None:
    assert len(partition_key(Outgoing(key=b"k" * 257, value=None, headers=[], at=0), 7)) == 64


@given(st.lists(st.integers(1, 400_000), min_size=1, max_size=60), st.floats(0.001, 0.2))
def test_no_second_has_more_than_a_shard_takes(sizes: list[int], slept: float) -> None:
    clock = [0.0]
    allowance = Allowance(now=lambda: clock[0])
    sent: list[tuple[float, int]] = []
    for size in sizes:
        entry = Entry(key="k", held=b"x" * (size - 1))
        while allowance.wait(size) > 0:
            clock[0] += slept
        allowance.took(entry)
        sent.append((clock[0], size))
    for begun, _ in sent:
        within = [size for at, size in sent if begun <= at < begun + 1]
        assert len(within) <= 1_000
        # One record may be larger than what is left of a second, and is then the last of it.
        assert sum(within[:-1]) <= 2**20


def test_a_thousand_small_records_take_more_than_a_second() -> None:
    clock = [0.0]
    allowance = Allowance(now=lambda: clock[0])
    sent = []
    for _ in range(3_000):
        while (wait := allowance.wait(1)) > 0:
            clock[0] += wait
        allowance.took(Entry(key="k", held=b""))
        sent.append(clock[0])
    assert all(later - begun >= 1 for begun, later in zip(sent, sent[1_000:], strict=False))
    assert sent[-1] < 4


@given(st.one_of(st.binary(max_size=12), objects, st.just(b'{"kinesis_shard": 1}')), st.text(min_size=1, max_size=5))
def test_a_captured_record_is_read_as_it_was_in_the_stream(value: bytes, key: str) -> None:
    (line,) = lines_of("shardId-0", Record(sequence=12, at=system_clock(), key=key, value=value))
    said, found = as_captured(line.decode().rstrip("\n"), "kinesis_")
    assert (said["kinesis_partition_key"], said["kinesis_sequence"], said["kinesis_shard"]) == (key, "12", "shardId-0")
    assert found is not None
    # Of what looks like an object, the space around its members is not kept.
    assert found == value or found.translate(None, SPACE) == value.translate(None, SPACE)
