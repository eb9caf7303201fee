"""Descriptions and metadata of tables and runs for Dagster's pages."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from typing import Any
from urllib.parse import quote

import dagster as dg

from backfill_assets.calendar.windows import AnyWindow
from backfill_assets.core.next_steps import Command, do
from backfill_assets.core.settings import Settings
from backfill_assets.domain import DerivedTable, SourceTable, Table
from backfill_assets.ledger.findings import GateResult
from backfill_assets.ledger.records import CandidatePartition, PublicationRecord
from backfill_assets.planning.graph import TableNode
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.sets import is_set
from backfill_assets.report.command_line import words_of
from backfill_assets.report.markdown import markdown_page
from backfill_assets.report.measured import RowDiff, partition_moves
from backfill_assets.report.page import Block, page, table
from backfill_assets.report.words.plans import references_described
from backfill_assets.report.words.stages import window_words

LAYERS = frozenset({"bronze", "silver", "gold"})
NO_WORD = re.compile(r"\W", re.ASCII)
CODE_SECTION = re.compile(r"^(?:Args|Returns|Raises|Yields|Examples?):", re.MULTILINE)

Links = Mapping[str, dg.MetadataValue]
"""Where more is read, by label."""

MOVED = ("added", "removed", "changed")
MOST_WORST = 20
REPORT = "report"
AT_THE_DESK = "at the desk"


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """The metadata of a materialization: of the whole run, and of each partition."""

    of_run: Mapping[str, Any]
    by_partition: Mapping[date, Mapping[str, Any]]


# ---------------------------------------------------------------------------------------------------- definitions


def owners(table: Table) -> Sequence[str]:
    """The groups whose approval the table's policy asks for, as Dagster's teams."""
    return [f"team:{NO_WORD.sub('_', group.strip())}" for group in table.policy.approvers]


PART = "backfill/part"
PARTS = ("captured", "source", "candidate", "validation", "published")
"""The values of the tag by which an asset says which of its table's it is."""


def part_tags(table: Table, part: str) -> Mapping[str, str]:
    """The tags of a table's assets, for the search of pages: `tag:backfill/part=validation`."""
    assert part in PARTS
    return {PART: part, "backfill/table": table.name}


def kinds(table: Table, *more: str) -> set[str]:
    """The kinds of a table that readers know; pages draw layers that they know, such as silver."""
    layer = table.name.partition(".")[0]
    return {"delta", *more, *({layer} & LAYERS)}


def prose(text: str) -> str:
    """A docstring without its lists of arguments, results and errors, which are for the author's colleagues."""
    return CODE_SECTION.split(inspect.cleandoc(text), maxsplit=1)[0].strip()


def source(table: SourceTable) -> str:
    """The description of a bronze asset."""
    return (
        f"{prose(table.description)}\n\nBuilt from the files that have landed: the latest arrival of a key wins. "
        f"Materializing a day rebuilds it, measures its gates and publishes it."
    ).strip()


def captures(table: SourceTable) -> str:
    """The description of the asset of a source's captures."""
    return (
        f"Captures of `{table.name}`: read once, kept as files, landed from there. Each partition is a "
        f"capture, by `{words_of(do(Command.CAPTURE, table.short_name))}` or by the schedule `live`."
    )


def candidate(table: DerivedTable) -> str:
    """The description of a candidate asset."""
    return (
        f"Staged rows of `{table.name}`, not visible to readers. Its partition mapping is the window of days that "
        f"the transform reads, warm-up included.\n\nLaunch a range to stage an ad-hoc run; the tag "
        f"`backfill/by` names who asks and is required, `backfill/reason` states why, and `backfill/transform_version` "
        f"asks for another release.\n\n"
        f"{prose(table.description)}"
    )


def validation(table: DerivedTable) -> str:
    """The description of a validation asset."""
    return (
        f"The gate results of `{table.name}` for the staged rows, and their difference from the accepted ones. "
        f"Materialized whether the gates pass or fail; a blocking gate that fails keeps `{table.name}` as it is."
    )


def published_table(table: DerivedTable) -> str:
    """The description of the asset that readers know."""
    return (
        f"{prose(table.description)}\n\nMaterializing a range publishes the staged run over exactly that range, in one "
        f"commit. It is refused unless every blocking gate has passed and the run is approved. Its checks are the "
        f"gates of the rows that readers see."
    ).strip()


def table_metadata(table: Table, url: str) -> Mapping[str, Any]:
    """The metadata on what a published table promises its readers, and where it is: nothing that is recorded has an
    address, so that a home that was copied or moved has no old one."""
    return {"dagster/table_name": table.name, "dagster/uri": url, **row_metadata(table), **gate_metadata(table)}


def row_metadata(table: Table) -> Mapping[str, Any]:
    """The metadata on the rows of a table, staged or published."""
    return {
        "dagster/column_schema": dg.TableSchema(
            columns=[
                dg.TableColumn(
                    column.name,
                    column.dataType.simpleString(),
                    description=column.metadata.get("comment"),
                    constraints=dg.TableColumnConstraints(nullable=column.nullable),
                )
                for column in table.schema.fields
            ]
        ),
        "key": ", ".join(table.key),
        "partitioned by": f"{table.partition.column}, {table.partition.grain}",
    }


def gate_metadata(of: Table) -> Mapping[str, Any]:
    """The gates of a table and what they demand."""
    rows = [(gate.name, gate.demands, gate.blocking) for gate in of.gates]
    return {"gates": shown(table(["gate", "demands", "blocks"], rows))}


def transform_metadata(table: DerivedTable, node: TableNode) -> Mapping[str, Any]:
    """The metadata on how a derived table is computed."""
    return {
        "transform": table.transform,
        **code_metadata(table),
        "transform versions": ", ".join(release.version for release in table.releases),
        **{f"window of {edge.argument}": _window(edge.window) for edge in node.inputs},
        **({"references": ", ".join(table.references)} if table.references else {}),
    }


def code_metadata(table: DerivedTable) -> Mapping[str, Any]:
    """Where the present release is written."""
    function = inspect.unwrap(table.releases[0].function)
    file = inspect.getsourcefile(function)
    if file is None:
        return {}
    line = inspect.getsourcelines(function)[1]
    place = dg.LocalFileCodeReference(file_path=file, line_number=line, label=table.transform)
    return {"dagster/code_references": dg.CodeReferencesMetadataValue(code_references=[place])}


def _window(window: AnyWindow) -> str:
    return window_words(window) if any(window.counts) else "the same days"


# ----------------------------------------------------------------------------------------------------------- runs


def staged(
    found: Mapping[date, CandidatePartition], manifest: Manifest, *, validation: dg.AssetKey, links: Links
) -> Numbers:
    """The staged output, with links to where it is judged and read about."""
    return Numbers(
        of_run={
            **_run_id(found.values()),
            **_references(manifest),
            "validation": dg.MetadataValue.asset(validation),
            **links,
        },
        by_partition={
            day: {**_counted(partition), "files": len(partition.files.files)} for day, partition in found.items()
        },
    )


def measured(
    found: Mapping[date, CandidatePartition],
    results: Sequence[GateResult],
    *,
    report: str,
    candidate: dg.AssetKey,
    published: dg.AssetKey,
    links: Links,
) -> Numbers:
    """The measures of the gates: numbers of each partition, which pages plot, and a summary of the run."""
    differences = {part.partition: _differences(part.moves) for part in partition_moves(results, found)}
    broken = Counter[date]()
    for result in results:
        broken[result.partition] += violations(result)
    by_partition = {
        day: {**_counted(partition), **differences.get(day, {}), "violations": broken[day]}
        for day, partition in found.items()
    }
    # Texts about the whole run are with its last partition, which the page of the asset shows: with each of ten years
    # of days they would be most of Dagster's record.
    whole: dict[date, Mapping[str, Any]] = {}
    if by_partition:
        whole[max(by_partition)] = {"in short": dg.MetadataValue.md(report), "worst partitions": _worst(by_partition)}
    return Numbers(
        of_run={
            **_run_id(found.values()),
            **links,
            "candidate": dg.MetadataValue.asset(candidate),
            "published": dg.MetadataValue.asset(published),
        },
        by_partition={day: {**whole.get(day, {}), **numbers} for day, numbers in by_partition.items()},
    )


def violations(result: GateResult) -> int:
    """The number of rows of a partition that break a gate; 0 for a gate that does not count rows."""
    counts = ("violating_rows", "rows_without_a_required_value", "failing_rows")
    return int(next((result.observed[name] for name in counts if name in result.observed), 0) or 0)


def names_rows(result: GateResult) -> bool:
    """True if a failed gate is about single rows, whose keys a report shows: rows that break it, or that moved."""
    return any((violations(result), *(result.observed.get(name) for name in MOVED)))


def _worst(by_partition: Mapping[date, Mapping[str, Any]]) -> dg.MarkdownMetadataValue:
    """The partitions with the most violations, then the most differences."""
    heads = ("violations", *MOVED, "rows")
    counts = {day: [int(numbers.get(name, 0)) for name in heads] for day, numbers in by_partition.items()}
    ranked = sorted(counts, key=lambda day: (-counts[day][0], -sum(counts[day][1:-1]), day))[:MOST_WORST]
    return shown(table(["partition", *heads], ((day, *counts[day]) for day in ranked), numbers=heads))


def shown(*blocks: Block) -> dg.MarkdownMetadataValue:
    """Blocks of a page, in metadata."""
    return dg.MetadataValue.md(markdown_page(page("", *blocks)))


def _differences(moves: RowDiff) -> Mapping[str, int]:
    return {name: getattr(moves, name) for name in (*MOVED, "unchanged")}


def published(
    record: PublicationRecord,
    staged_partitions: Mapping[date, CandidatePartition],
    manifest: Manifest,
    *,
    rows: int,
    links: Links,
    validation: dg.AssetKey | None = None,
) -> Numbers:
    """The changes of a publication; a partition it left alone already held the same rows.

    Args:
        validation: Where its gates were measured; None for a source table.
    """
    changed = {change.partition: change for change in record.changes}
    return Numbers(
        of_run={
            "run_id": record.run_id,
            "publication_id": record.publication_id,
            "table version": record.delta_version,
            "dagster/row_count": rows,
            **_references(manifest),
            **links,
            **({"validation": dg.MetadataValue.asset(validation)} if validation else {}),
        },
        by_partition={
            day: {**_counted(partition), "swapped": day in changed} for day, partition in staged_partitions.items()
        },
    )


def _references(manifest: Manifest) -> Mapping[str, str]:
    """With which versions of its references a run was computed, and which truth these give."""
    described = references_described(manifest.references)
    return {"references": described} if described else {}


def _counted(partition: CandidatePartition) -> Mapping[str, Any]:
    """The rows of a partition, which pages plot, and the checksum of their content."""
    checksum = {"checksum": partition.checksum} if partition.checksum else {}
    return {"rows": partition.rows, "dagster/partition_row_count": partition.rows, **checksum}


def _run_id(partitions: Iterable[CandidatePartition]) -> Mapping[str, Any]:
    return {"run_id": ", ".join(sorted({partition.run_id for partition in partitions}))}


# ---------------------------------------------------------------------------------------------------------- links


def report_link(settings: Settings, name: str) -> Mapping[str, dg.MetadataValue]:
    """Where the report of a run or a set is read."""
    if not settings.desk_url:
        return {REPORT: dg.MetadataValue.text(_command(name))}
    named = quote(name, safe="")
    return {
        REPORT: dg.MetadataValue.url(f"{settings.desk_url}/reports/{named}"),
        AT_THE_DESK: dg.MetadataValue.url(f"{settings.desk_url}/{'sets' if is_set(name) else 'runs'}/{named}"),
    }


@lru_cache(maxsize=64)
def _command(name: str) -> str:
    # A publication has a link for every partition.
    return words_of(do(Command.REPORT, name))
