"""Actions: refuses Spark jobs inside a transform, which may only describe rows; its caller computes them.

The methods of DataFrames that start a job are wrapped. The wrapper refuses only in a thread that is calling a
transform, so that the rest of the process is not affected. It uses no internals of Spark, and works the same for a
session in this process and for Spark Connect.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from pyspark.sql import DataFrame

from backfill_assets.core.errors import ContractBroken
from backfill_assets.domain.errors import CodeBroken

METHODS = (
    *("collect", "count", "show", "take", "head", "first", "tail", "isEmpty", "toLocalIterator", "toPandas", "toArrow"),
    *("foreach", "foreachPartition", "checkpoint", "localCheckpoint", "writeTo", "toJSON"),
    *("approxQuantile", "corr", "cov", "crosstab", "freqItems", "transpose", "mergeInto"),
    # These start no job, but leave something in the session that outlives the transform.
    *("cache", "persist", "unpersist"),
)
PROPERTIES = ("write", "writeStream", "rdd")

_found: ContextVar[list[str] | None] = ContextVar("actions_of_the_transform", default=None)
_watched: set[type] = set()


class _Stopped(ContractBroken):
    """The error of an action inside a transform; the displayed message names the transform."""


@contextmanager
def without_actions(named: str, frame_type: type[DataFrame]) -> Iterator[None]:
    """Refuses actions on DataFrames while a transform is called, even if the transform catches every error.

    Args:
        named: The transform, for the message.
        frame_type: The class of the DataFrames that are passed to it.

    Raises:
        ContractBroken: It ran an action, which the message names.
    """
    _watch(frame_type)
    actions: list[str] = []
    token = _found.set(actions)
    try:
        yield
    except Exception:  # of any kind: a transform may have made its own error of the refused action
        if not actions:
            raise
    finally:
        _found.reset(token)
    if actions:
        problem = f"runs the action {actions[0]} on a DataFrame: a transform only describes rows, without actions"
        raise CodeBroken(code=named, problem=problem)


def _watch(frame_type: type[DataFrame]) -> None:
    if frame_type in _watched:
        return
    _watched.add(frame_type)
    for name in METHODS:
        if (method := getattr(frame_type, name, None)) is not None:
            setattr(frame_type, name, _asking(name, method))
    for name in PROPERTIES:
        found = getattr(frame_type, name, None)
        if isinstance(found, property) and found.fget is not None:
            setattr(frame_type, name, property(_asking(name, found.fget), doc=found.__doc__))


def _asking(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def asking(*args: Any, **kwargs: Any) -> Any:
        actions = _found.get()
        if actions is not None:
            actions.append(name)
            raise _Stopped(f"a transform has no actions, and this one runs {name}.")
        return method(*args, **kwargs)

    return asking
