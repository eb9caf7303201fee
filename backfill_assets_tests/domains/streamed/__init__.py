"""The shop of `domains/captured` whose sales are captured from a stream; where its server is, the environment says."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import timedelta

from pyspark.sql.types import StringType, StructField, StructType

from backfill_assets.domain import Domain, KinesisReplay, KinesisStream
from backfill_assets_tests.domains import captured

NAMES = {"aws_access_key_id": "TEST_KINESIS_KEY", "aws_secret_access_key": "TEST_KINESIS_SECRET"}
REGION = "eu-central-1"
_kept = [each for each in captured.sales.schema.fields if each.name != "kafka_offset"]

sales = replace(
    captured.sales,
    capture=KinesisStream(
        stream=os.environ.get("TEST_KINESIS_STREAM", "sales"),
        region=REGION,
        endpoint=os.environ.get("TEST_KINESIS_ENDPOINT", "http://127.0.0.1:9"),
        secrets=NAMES,
        answers_within=timedelta(seconds=5),
    ),
    order=("kinesis_sequence",),
    gates=(),
    schema=StructType([*_kept, StructField("kinesis_sequence", StringType(), nullable=False)]),
    replay=KinesisReplay(
        region=REGION,
        endpoint=os.environ.get("TEST_KINESIS_REPLAYS", "http://127.0.0.1:9"),
        secrets=NAMES,
        shards=int(os.environ.get("TEST_KINESIS_SHARDS", "2")),
        key_format="text",
        answers_within=timedelta(seconds=5),
    ),
)

DOMAIN = Domain(name="streamed", package="backfill_assets_tests.domains.streamed", sources=(sales,), derived=())
