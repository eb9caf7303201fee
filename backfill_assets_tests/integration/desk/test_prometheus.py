"""A real Prometheus scrapes the desk, and finds in it what the ledger has."""

from __future__ import annotations

import json
import socket
import subprocess
import threading
import time
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import quote
from urllib.request import urlopen

import pytest
import uvicorn

from backfill_assets.application import look
from backfill_assets.core.settings import PROJECT_ROOT
from backfill_assets.desk.app import create_app
from backfill_assets_tests.support.desk_reader import PATIENCE_S
from backfill_assets_tests.support.prometheus import program
from backfill_assets_tests.support.shop import Shop

SCRAPED_WITHIN_S = 60
ALERTS = PROJECT_ROOT / "deploy" / "prometheus" / "alerts.yml"


def listening() -> socket.socket:
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    return listener


def asked(port: int, expression: str) -> list[Any]:
    """The answer of Prometheus to an expression, once it has one."""
    until = time.monotonic() + SCRAPED_WITHIN_S
    while time.monotonic() < until:
        try:
            with urlopen(f"http://127.0.0.1:{port}/api/v1/query?query={quote(expression)}", timeout=5) as answer:
                found: list[Any] = json.load(answer)["data"]["result"]
        except (URLError, OSError):
            found = []
        if found:
            return found
        time.sleep(0.5)
    raise TimeoutError(expression)


@pytest.mark.long
def test_prometheus_scrapes_the_desk_and_evaluates_the_alerts(published_shop: Shop, tmp_path: Path) -> None:
    prometheus = program("prometheus")
    desk, own = listening(), listening()
    desk_port, port = desk.getsockname()[1], own.getsockname()[1]
    own.close()
    app = create_app(published_shop.ws, patience_s=PATIENCE_S)
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    serving = threading.Thread(target=server.run, kwargs={"sockets": [desk]})
    serving.start()
    config = tmp_path / "prometheus.yml"
    config.write_text(
        f"global: {{scrape_interval: 1s, evaluation_interval: 1s}}\n"
        f"rule_files: [{ALERTS}]\n"
        f"scrape_configs:\n  - job_name: desk\n    static_configs: [{{targets: ['127.0.0.1:{desk_port}']}}]\n"
    )
    scraping = subprocess.Popen(
        [prometheus, f"--config.file={config}", f"--storage.tsdb.path={tmp_path / 'store'}"]
        + [f"--web.listen-address=127.0.0.1:{port}"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        (up,) = asked(port, "up == 1")
        assert up["metric"]["job"] == "desk"
        expected = {
            (sample.labels["table"], sample.value)
            for metric in look.metrics(published_shop.ws, None, None).metrics
            if metric.name == "backfill_output_records_total"
            for sample in metric.samples
        }
        found = asked(port, "backfill_output_records_total")
        assert {(each["metric"]["table"], float(each["value"][1])) for each in found} == expected
        assert len(expected) == 2
        # The publication of the shop has no dependent that is followed here: an alert that is pending or firing.
        waiting = asked(port, 'ALERTS{alertname="BackfillOutboxOld"} or backfill_outbox_age_seconds <= 3600')
        assert waiting
    finally:
        scraping.terminate()
        scraping.wait(timeout=30)
        server.should_exit = True
        serving.join(timeout=30)
