"""Which servers are outside of the homes: an API, a broker of Kafka and a server of Kinesis, which no kill stops.

They are started when an operation first asks for them, in the process that prepares it, and end with the block.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property

from backfill_assets.core.errors import BackfillError
from backfill_assets_tests.support.api_server import Api, running_api
from backfill_assets_tests.support.kafka_broker import Broker, running_broker
from backfill_assets_tests.support.kinesis_server import KinesisServer, NoKinesis, running_kinesis


class NoServer(Exception):
    """This machine has no such server; the message says why."""


@dataclass
class Servers:
    """Servers on loopback."""

    stack: ExitStack  #: What ends them.

    @cached_property
    def api(self) -> Api:
        return self.stack.enter_context(running_api())

    @cached_property
    def broker(self) -> Broker:
        try:
            return self.stack.enter_context(running_broker())
        except BackfillError as reason:
            raise NoServer(str(reason)) from reason

    @cached_property
    def kinesis(self) -> KinesisServer:
        try:
            return self.stack.enter_context(running_kinesis())
        except NoKinesis as reason:
            raise NoServer(str(reason)) from reason


_open: list[Servers] = []


@contextmanager
def outside() -> Iterator[None]:
    """Servers may be asked for while the block lasts."""
    with ExitStack() as stack:
        _open.append(Servers(stack))
        try:
            yield
        finally:
            _open.pop()


def servers() -> Servers:
    """Those of the innermost block."""
    return _open[-1]
