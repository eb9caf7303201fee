"""The shop of `domains/feed` whose sales are captured from a topic; where its broker is, the environment says."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import timedelta

from pyspark.sql.types import LongType, StringType, StructField, StructType

from backfill_assets.domain import Domain, KafkaReplay, KafkaTopic, Operations
from backfill_assets_tests.domains import example as example_domain

_IS_SECURED = bool(os.environ.get("TEST_KAFKA_SECURED"))
_SETTINGS = (
    {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "capture"}
    if _IS_SECURED
    else {}
)
_SECRETS = {"sasl.password": "TEST_KAFKA_PASSWORD"} if _IS_SECURED else {}

sales = replace(
    example_domain.sales,
    description="What became of every sale.",
    order=("kafka_offset",),
    operation=Operations(column="op", update="u", delete="d"),
    gates=(),
    schema=StructType(
        [
            *example_domain.sales.schema.fields,
            StructField("op", StringType(), nullable=False),
            StructField("kafka_offset", LongType(), nullable=False),
        ]
    ),
    capture=KafkaTopic(
        topic=os.environ.get("TEST_KAFKA_TOPIC", "sales"),
        servers=os.environ.get("TEST_KAFKA_SERVERS", "127.0.0.1:9"),
        chunk=int(os.environ.get("TEST_KAFKA_CHUNK", "1000")),
        lateness=timedelta(hours=int(os.environ.get("TEST_KAFKA_LATENESS_HOURS", "0"))),
        answers_within=timedelta(seconds=10),
        topic_id=os.environ.get("TEST_KAFKA_TOPIC_ID", ""),
        settings=_SETTINGS,
        secrets=_SECRETS,
    ),
    replay=KafkaReplay(
        servers=os.environ.get("TEST_KAFKA_SERVERS", "127.0.0.1:9"),
        key_format="text",
        live_topics=tuple(os.environ.get("TEST_KAFKA_LIVE", "").split()),
        answers_within=timedelta(seconds=10),
        settings=_SETTINGS,
        secrets=_SECRETS,
    ),
)

DOMAIN = Domain(name="captured", package="backfill_assets_tests.domains.captured", sources=(sales,), derived=())
