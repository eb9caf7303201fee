"""The first records of a topic are proposed as its source, and nothing at the broker notices that they were read."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType

import pytest

from backfill_assets.application.sniff import sniffed
from backfill_assets.capture.errors import NoStream, StreamDenied
from backfill_assets.core.errors import BackfillError
from backfill_assets.domain import KafkaTopic, SourceTable
from backfill_assets.report.sniffed import document_of
from backfill_assets.sniff.addresses import Reached
from backfill_assets.sniff.proposal import DoubtKind, Proposal
from backfill_assets_tests.support.kafka_broker import PASSWORD, USER, Broker

_AT = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1000)


def looked_at(address: str, reached: Reached | None = None) -> Proposal:
    return sniffed([address], clock=lambda: datetime(2026, 2, 1, tzinfo=UTC), reached=reached)


def declared(found: Proposal) -> SourceTable:
    module = ModuleType("proposed")
    sys.modules["proposed"] = module
    exec(document_of(found).module, module.__dict__)
    (source,) = module.DOMAIN.sources
    assert isinstance(source, SourceTable)
    return source


def value(number: int) -> str:
    at = datetime(2026, 1, 1 + number % 28, tzinfo=UTC).isoformat()
    return json.dumps({"case_id": number, "at": at, "who": {"name": "x"}}, indent=2 if number % 2 else None)


@pytest.mark.long
def test_the_first_records_of_all_partitions_propose_a_capture(broker: Broker) -> None:
    broker.create("cases", partitions=3)
    for partition in range(3):
        broker.write("cases", [("k", value(3 * each + partition), _AT) for each in range(100)], partition)
    broker.write("cases", [("k", None, _AT), ("k", "no object", _AT)], 0)
    before = broker.groups()
    found = looked_at(f"kafka://{broker.servers}/cases")
    source = declared(found)
    assert (found.records, found.is_whole, broker.groups()) == (300, True, before)
    assert (source.name, source.key, source.event_time) == ("bronze.cases", ("case_id",), "at")
    assert source.columns == {"who.name": "who_name"}
    assert source.capture == KafkaTopic(servers=broker.servers, topic="cases")
    (other,) = (each for each in found.doubts if each.kind is DoubtKind.NOT_A_VALUE)
    assert (other.records, other.rejects) == (1, True)


def test_a_topic_behind_a_password_is_read_with_the_secret_of_a_variable(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.create("secured")
    broker.write("secured", [("k", value(each), _AT) for each in range(30)])
    settings = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": USER}
    reached = Reached(settings=settings, secrets={"sasl.password": "CASES_PASSWORD"}, home=tmp_path)
    address = f"kafka://{broker.secured_servers}/secured"
    monkeypatch.setenv("CASES_PASSWORD", PASSWORD)
    found = looked_at(address, reached)
    assert PASSWORD not in document_of(found).module
    capture = declared(found).capture
    assert isinstance(capture, KafkaTopic)
    assert (capture.settings, capture.secrets) == (settings, {"sasl.password": "CASES_PASSWORD"})
    monkeypatch.setenv("CASES_PASSWORD", "another one")
    with pytest.raises(StreamDenied):
        looked_at(address, reached)


def test_a_topic_whose_records_cannot_be_proposed_says_why(broker: Broker) -> None:
    for topic, written in (("empty", None), ("with-schemas", b"\0\0\0\0\x07binary"), ("texts", b"plain text")):
        broker.create(topic)
        if written:
            broker.write(topic, [("k", written, _AT)])
    for topic, said in (
        ("empty", "has no records with a value"),
        ("with-schemas", "has values that name a schema, such as 7: declare values=SchemaRegistry(url=...)"),
        ("texts", "has values that are not JSON objects"),
    ):
        with pytest.raises(BackfillError) as refused:
            looked_at(f"kafka://{broker.servers}/{topic}")
        assert said in str(refused.value)
    with pytest.raises(NoStream):
        looked_at(f"kafka://{broker.servers}/none")


@pytest.fixture(autouse=True)
def _no_module_stays() -> Iterator[None]:
    yield
    sys.modules.pop("proposed", None)
