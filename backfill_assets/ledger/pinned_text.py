"""Pinned text: whether a manifest pins exactly what is accepted now, compared as text without parsing the pins.

Ten years of days over 30 tables with windows of 90 days are a million pins in a hundred runs per table, and hardly any
differs from what is accepted. The text of a manifest is canonical, so equal pins are equal texts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from itertools import accumulate, islice
from typing import Any

_INPUTS = '"inputs":[{"argument":'
_PINS, _END = '"partitions":[[', ']],"table":'
"""What stands before and behind the pins of an input. In a text of JSON both have a backslash before their quotes."""


class Stretch(Mapping[date, str]):
    """The partitions of a mapping from one place to another, computed on first use, which is rare."""

    def __init__(self, whole: Mapping[date, str], start: int, end: int) -> None:
        self._whole, self._start, self._end = whole, start, end

    @cached_property
    def _part(self) -> Mapping[date, str]:
        return dict(islice(self._whole.items(), self._start, self._end))

    def __getitem__(self, partition: date) -> str:
        return self._part[partition]

    def __iter__(self) -> Iterator[date]:
        return iter(self._part)

    def __len__(self) -> int:
        return self._end - self._start


@dataclass(slots=True)
class Accepted:
    """What is accepted of a table, and how a manifest that is planned now would write it down.

    Attributes:
        digests: By partition, in order.
        made_by: The runs that made the versions, by partition.
    """

    digests: dict[date, str] = field(default_factory=dict)
    made_by: dict[date, str] = field(default_factory=dict)
    _pins: list[str] = field(default_factory=list)
    _text: str = ""
    _places: dict[str, int] = field(default_factory=dict)
    _starts: list[int] = field(default_factory=list)

    def add(self, partition: date, version: int, digest: str, run_id: str) -> None:
        """The next accepted version, in the order of partitions."""
        self.digests[partition] = digest
        self.made_by[partition] = run_id
        self._pins.append(f'["{partition.isoformat()}",{version},"{digest}"]')

    def same(self, pins: str) -> Mapping[date, str] | None:
        """What pins say, if the very same would be pinned now; None when anything differs, or days are left out.

        Args:
            pins: The text between the brackets of an input's partitions.
        """
        if not self._text:
            self._set_out()
        first, last = (self._places.get(pins[at + 2 : at + 12]) for at in (0, pins.rfind('["')))
        if first is None or last is None or not self._text.startswith(pins, self._starts[first]):
            return None
        return Stretch(self.digests, first, last + 1)

    def _set_out(self) -> None:
        self._text = ",".join(self._pins)
        self._places = {pin[2:12]: place for place, pin in enumerate(self._pins)}
        self._starts = [0, *accumulate(len(pin) + 1 for pin in self._pins)]


def without_pins(body: str) -> tuple[Mapping[str, Any], list[str]]:
    """A manifest's document in which numbers stand for the pins of its inputs, and the texts that they stand for."""
    parts: list[str] = []
    pins: list[str] = []
    done, start = 0, body.find(_INPUTS)
    while start >= 0 and (start := body.find(_PINS, start)) >= 0:
        begin = start + len(_PINS) - 1
        start = body.index(_END, begin) + 1
        parts.append(f"{body[done : begin - 1]}{len(pins)}")
        pins.append(body[begin:start])
        done = start + 1
    return json.loads("".join([*parts, body[done:]])), pins
