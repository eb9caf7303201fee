"""This domain with events from a topic of Kafka: `backfill demo --source kafka`."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import timedelta

from backfill_assets.domain import KafkaReplay, KafkaTopic

from . import DOMAIN as FROM_FILES
from .generator import SERVERS, TOPIC
from .open_cases import open_cases
from .sla_breaches import sla_breach_monthly
from .sla_clocks import case_sla_daily
from .sources import case_events

_CLUSTER = os.environ.get(SERVERS, "127.0.0.1:9092")

captured_events = replace(
    case_events,
    capture=KafkaTopic(topic=TOPIC, servers=_CLUSTER, lateness=timedelta(hours=1), chunk=5_000),
    replay=KafkaReplay(servers=_CLUSTER),
)
case_sla_from_topic = replace(case_sla_daily, inputs={"events": captured_events})

DOMAIN = replace(
    FROM_FILES,
    sources=(captured_events,),
    derived=(
        case_sla_from_topic,
        replace(sla_breach_monthly, inputs={"case_sla": case_sla_from_topic}),
        replace(open_cases, inputs={"events": captured_events}),
    ),
)
