"""The node of a table as a manifest pins it: the windows that a run uses even if the declaration has changed since."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from backfill_assets.planning.graph import TableInput, TableNode
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.publish_mode import PUBLISH
from backfill_assets.planning.windows import parse_window


def configuration_of(node: TableNode) -> Mapping[str, Any]:
    """The configuration of a derived table besides code and references: its windows, and its sources' contracts."""
    windows = {edge.argument: dict(edge.window.document) for edge in node.inputs}
    contracts = {edge.table: edge.contract for edge in node.inputs if edge.contract}
    # What returns changes gives other rows when they are merged otherwise.
    merged = {PUBLISH: node.publish.document} if node.publish.reads_accepted else {}
    return {"windows": windows, **({"contracts": contracts} if contracts else {}), **merged}


def inputs_of(manifest: Manifest) -> tuple[TableInput, ...]:
    """The inputs of a run."""
    windows = manifest.configuration["windows"]
    return tuple(
        TableInput(argument=pinned.argument, table=pinned.table, window=parse_window(windows[pinned.argument]))
        for pinned in manifest.inputs
    )


def has_gaps(manifest: Manifest) -> bool:
    """Whether a run leaves out partitions between its own."""
    return len(node_of(manifest).in_a_row(manifest.partitions)) > 1


def node_of(manifest: Manifest) -> TableNode:
    """The table of a run."""
    inputs = inputs_of(manifest) if manifest.inputs else ()
    return TableNode(name=manifest.table, grain=manifest.grain, inputs=inputs, publish=manifest.publish)
