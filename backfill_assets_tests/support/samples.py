"""Samples of types, made from their annotations: documents and errors that no person has written out.

A field of text holds its own name in capitals (`RUN_ID`), so that a reader of a page sees where a word comes from. The
first sample of a type is the fullest one: every optional value is there, and a tuple has an element of each kind.
"""

from __future__ import annotations

import dataclasses
import itertools
import sys
import typing
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any

from backfill_assets.calendar.partitions import DayRange, Grain, Partitions, Ranges
from backfill_assets.calendar.windows import AnyWindow, Window
from backfill_assets.core.errors import BackfillError
from backfill_assets.core.next_steps import Command, Invocation, NextStep, do, step
from backfill_assets.domain.operations import UnknownKeys
from backfill_assets.ledger.findings import FAR, FAR_GROUPS
from backfill_assets.ledger.states import RunState
from backfill_assets.planning.kinds.change import Change, Scope
from backfill_assets.planning.kinds.expire import Expire, RetentionRule
from backfill_assets.planning.kinds.load import Load
from backfill_assets.planning.kinds.pilot import Pilot
from backfill_assets.planning.kinds.replace import REPLACE
from backfill_assets.planning.manifest_parts import PinnedReference, ReferenceSemantics
from backfill_assets.report.errors import RunInterrupted
from backfill_assets.upkeep.damage import Amiss, Damage, Lost

DAY = date(2026, 1, 31)
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
CAUSE = RunInterrupted(run_id="CAUSE", state=RunState.STAGED, following=step("THE NEXT STEP OF THE CAUSE"))

_MOST_TRIED = 4_000
"""How many samples of one class are made, at most, before only one or two fields are varied."""

_SAMPLES: Mapping[Any, tuple[object, ...]] = {
    bool: (True, False),
    date: (DAY,),
    datetime: (NOON,),
    timedelta: (timedelta(hours=1),),
    NoneType: (None,),
    Any: ("ANY",),
    object: ("ANY",),
    Mapping[str, object]: ({"run_id": "RUN_ID"}, {"set_id": "SET_ID"}, {}),
    Partitions: (Partitions.of(Grain.DAILY, (DAY,)),),
    DayRange: (DayRange.inclusive(DAY, DAY),),
    Ranges: (Ranges((DayRange.inclusive(DAY, DAY), DayRange.inclusive(date(2026, 2, 3), date(2026, 2, 4)))),),
    AnyWindow: (Window(days_back=2, days_ahead=1),),
    NextStep: (step("NEXT: ", do(Command.STATUS, "RUN_ID")),),
    Invocation: (do(Command.STATUS, "RUN_ID"),),
    RetentionRule: (RetentionRule(days=90, then="month"),),
}
_CAN_BE_EMPTY = frozenset({"without", "wanted", "near", "set_id", "of_set", "place", "writer", "declare", "log"})
_NAMED: Mapping[str, tuple[object, ...]] = {
    "table": ("silver.TABLE", "bronze.TABLE"),
    "input": ("silver.INPUT", "bronze.INPUT"),
    "source": ("bronze.SOURCE",),
    "kind": ("run", "set", "publication", "table", "source", "transform version", "reference"),
    "request_id": ("set.REQUEST_ID", "RUN_ID"),
    "act": (Command.ROLLBACK, Command.CANCEL, Command.APPROVE, Command.PUBLISH),
    "family": ("file", "statement", "kafka", "postgresql", "http", "lake", "kinesis"),
    "policy": tuple(UnknownKeys),
}
"""Samples of texts whose fields say more than their type."""

_OBSERVED: Mapping[str, object] = {
    **dict.fromkeys(("rows", "at_least", "at_most", "rows_without_a_required_value", "violating_rows"), 1_200),
    **dict.fromkeys(("added", "removed", "changed", "unchanged", "accepted_rows", "surplus", "failing_rows"), 30),
    **dict.fromkeys(("max_removed_percent", "max_changed_percent", "percent"), 5),
    **dict.fromkeys(("changes", "deletes", "undecided", "twice", "older", "taken_back", "elsewhere_partitions"), 4),
    **dict.fromkeys(("groups", "moved_groups", "incomparable_groups", "little_groups", FAR_GROUPS), 3),
    **dict.fromkeys(("compared", "fewest", "missing_partitions", "other_partitions"), 7),
    **dict.fromkeys(("is_new", "are_kept", "others_differ"), True),
    **{
        name: name.upper() for name in ("file", "differing", "reader", "why", "column", "condition", "scope", "demands")
    },
    **{name: name.upper() for name in ("partition", "earlier", "snapshot", "first", "last", "shown_by", "measure")},
    **{name: name.upper() for name in ("reference", "table", "missing", "month", "read_by")},
    **{"usual": "10.5", "low": "8", "high": "1300", "value": "2000", FAR: "high"},
    **{"elsewhere": ["2026-01-30"], "others": ["2026-01-29"], "more": {"ARGUMENT": {"days_back": 2, "days_ahead": 1}}},
}


_SCOPE = Scope(where=(("WHERE", "WHERE"),), is_rest=True)
_CORRECTED = PinnedReference(name="NAME", version="VERSION", sha256="SHA256", semantics=ReferenceSemantics.CORRECTED)


def _problems() -> Iterator[Amiss]:
    """One problem of an audit for each loss, of a derived table and of a source."""
    for kind in Lost:
        for table in ("silver.TABLE", "bronze.TABLE"):
            of = Damage(
                kind=kind,
                table=table,
                grain=Grain.DAILY,
                partition=DAY,
                run_id="RUN_ID",
                place="PLACE/FILE",
                named="NAMED",
                sha256="SHA256",
            )
            yield Amiss.of(f"{kind} of {table}", of)


_OF_FIELD: Mapping[tuple[str, str], tuple[object, ...]] = {
    ("AuditReport", "problems"): (tuple(_problems()), ("PROBLEM",)),
    ("BreakdownDocument", "dimensions"): (("shop",),),
    ("BreakdownDocument", "measures"): (("rows", "amount"),),
    ("MeasuredCell", "by"): ({"shop": "north"},),
    ("MeasuredCell", "before"): ({"rows": 10, "amount": 7.5},),
    ("MeasuredCell", "after"): ({"rows": 12, "amount": 9.25},),
    ("LandedImport", "rejected"): (({"row_number": "3", "reason": "REASON"},),),
    ("LocatedImport", "rejected"): (({"row_number": "3", "reason": "REASON"},),),
    ("GateResult", "observed"): (_OBSERVED,),
    ("CheckedGate", "observed"): (_OBSERVED,),
    ("Manifest", "change"): (
        Pilot(rows=_SCOPE),
        Expire(keep=RetentionRule(days=90)),
        REPLACE,
        Load(imports=("IMPORT",), declared_empty=(DAY,)),
    ),
    ("Manifest", "configuration"): ({"windows": {"ARGUMENT": dict(Window(days_back=2, days_ahead=1).document)}},),
    ("Manifest", "references"): ((_CORRECTED,), ()),
    ("ReplayRecord", "family"): ("kafka", "kinesis"),
}
"""Samples of fields that have to agree with others."""
_FEW = frozenset({("SetReport", "reports")})
"""Fields of large documents, of which two are enough."""


def samples_of(kind: Any, name: str = "") -> tuple[Any, ...]:
    """Different values of a type, the fullest first.

    Args:
        name: The field that holds it.
    """
    return _samples(kind, name, _open=())


def full(kind: Any, name: str = "") -> Any:
    """The fullest value of a type."""
    return samples_of(kind, name)[0]


def every(kind: Any) -> Iterator[Mapping[str, object]]:
    """The fields of different samples of a dataclass: all combinations of what its fields can be, or where that are too
    many, those that differ from the first one in one or two fields."""
    named = {name: samples_of(hint, name) for name, hint in hints_of(kind).items()}
    count = 1
    for values in named.values():
        count *= len(values)
    if count <= _MOST_TRIED:
        for values in itertools.product(*named.values()):
            yield dict(zip(named, values, strict=True))
        return
    base = {name: values[0] for name, values in named.items()}
    varied = [(name, value) for name, values in named.items() for value in values[1:]]
    yield base
    yield from ({**base, name: value} for name, value in varied)
    yield from ({**base, **dict(pair)} for pair in itertools.combinations(varied, 2) if pair[0][0] != pair[1][0])


@cache
def hints_of(kind: Any) -> Mapping[str, Any]:
    """The types of what a dataclass is made with, by the names of its fields."""
    hints = typing.get_type_hints(kind, localns=vars(sys.modules[kind.__module__]))
    return {each.name: hints[each.name] for each in dataclasses.fields(kind) if each.init}


@cache
def _samples(hint: Any, name: str, _open: tuple[Any, ...]) -> tuple[Any, ...]:
    if hint is str and name in _NAMED:
        return _NAMED[name]
    if hint in _SAMPLES:
        return _SAMPLES[hint]
    if hint is str:
        return (name.upper(), "") if name in _CAN_BE_EMPTY else (name.upper(),)
    if hint in (int, float, Decimal):
        return (hint(2 + sum(map(ord, name)) % 40), hint(1), hint(0))
    origin, inside = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return inside
    if origin in (typing.Union, UnionType):
        return tuple(itertools.chain.from_iterable(_samples(each, name, _open) for each in inside))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        key, value = (_samples(each, name, _open)[0] for each in inside)
        return ({key: value}, {})
    if origin is tuple and Ellipsis not in inside:
        return tuple(itertools.islice(itertools.product(*(_samples(each, name, _open) for each in inside)), 3))
    if origin is not None:
        found = _each(inside[0], name, _open)
        alone = [(each,) for each in found] if len(found) > 1 and dataclasses.is_dataclass(found[0]) else []
        return (found, *alone, ())
    return _of_class(hint, name, _open)


def _each(hint: Any, name: str, _open: tuple[Any, ...]) -> tuple[Any, ...]:
    """An element of each kind: of every class of a union, and with every value of an enumeration."""
    found = [sample for sample in _samples(hint, name, _open) if sample not in (None, "")]
    is_plain = hint in (int, float, Decimal, str, bool) or typing.get_origin(hint) not in (
        None,
        typing.Union,
        UnionType,
    )
    return tuple(found[:1] if is_plain else found)


def _of_class(kind: type[Any], name: str, _open: tuple[Any, ...]) -> tuple[Any, ...]:
    if issubclass(kind, Enum):
        return tuple(kind)
    if issubclass(kind, BackfillError):
        return (CAUSE,)
    if not dataclasses.is_dataclass(kind):
        raise TypeError(f"no sample of {kind!r}, which {name} holds")
    if kind in _open:
        return ()
    of = {
        each: _OF_FIELD.get((kind.__name__, each)) or _samples(hint, each, (*_open, kind))
        for each, hint in hints_of(kind).items()
    }
    of |= {
        each: tuple(few[:2] for few in typing.cast("tuple[tuple[Any, ...], ...]", of[each]))
        for name, each in _FEW
        if name == kind.__name__
    }
    base = {each: values[0] for each, values in of.items() if values}
    varied = [
        (each, value)
        for each, values in of.items()
        for value in values[1:]
        if value is None or isinstance(value, Enum | bool | Change) or value in _NAMED.get(each, ())
    ]
    return (kind(**base), *(kind(**{**base, each: value}) for each, value in varied))
