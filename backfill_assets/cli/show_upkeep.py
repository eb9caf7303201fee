"""How do a reproduction and a clean-up look to a person at a terminal?"""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from backfill_assets.cli.show import Document, facts, listing, problems_view, sample_view
from backfill_assets.planning.partitions import count_of

_MOST_DIFFERENCES = 40


def reproduction_view(reproduction: Document) -> RenderableType:
    """Whether a published run follows from its manifest, and where not."""
    checked = f"{reproduction['partitions_described']} of {reproduction['of_partitions']:,} in the run"
    head = facts(
        [
            ("run", reproduction["run_id"]),
            ("table", f"{reproduction['table']} by {reproduction['transform']} {reproduction['transform_version']}"),
            ("rebuilt", f"{checked}; {count_of(reproduction['rows'], 'row')}"),
            ("other versions", _other_versions(reproduction["versions"])),
        ]
    )
    differences = reproduction["differences"]
    if not differences:
        return Group(head, Text("identical: every content checksum is the recorded one", style="green"))
    columns = ["expected_rows", "rows", "added", "removed", "changed", "unchanged"]
    rows = [[d["partition"], *(d[name] for name in columns), _columns(d)] for d in differences[:_MOST_DIFFERENCES]]
    title = f"{count_of(len(differences), 'partition')} differ: what was rebuilt against what was published"
    heads = ["partition", "published", "rebuilt", "added", "removed", "changed", "unchanged"]
    parts: list[RenderableType] = [head, "", listing(title, [*heads, "columns"], rows, numbers=heads[1:])]
    if reproduction["sample"]:
        parts += ["", sample_view(reproduction["sample"])]
    return Group(*parts)


def _other_versions(versions: Document) -> str:
    """What is not as it was recorded when the run was staged."""
    recorded, present = versions["recorded"], versions["present"]
    if recorded is None:
        return "those that it was staged with were not recorded"
    names = sorted(name for name in recorded.keys() | present.keys() if recorded.get(name) != present.get(name))
    return ", ".join(f"{name} {recorded.get(name)}, now {present.get(name)}" for name in names)


def _columns(difference: Document) -> str:
    if difference["changed_columns"] is None:
        return "the published files are gone; only checksums were compared"
    return ", ".join(f"{name} {count:,}" for name, count in difference["changed_columns"].items())


def vacuum_view(vacuum: Document) -> RenderableType:
    """What went or would go, what stays, and why."""
    verb = "would go" if vacuum["dry_run"] else "removed"
    head = facts(
        [
            (verb, _amount(vacuum["removed"])),
            ("kept", _amount(vacuum["kept"])),
            (
                "horizons",
                f"rollback {count_of(vacuum['rollback_days'], 'day')}, "
                f"reproduction {count_of(vacuum['reproduction_days'], 'day')}",
            ),
            ("versions without files from now on", f"{vacuum['versions_removed']:,}"),
            ("Dagster's history", _pruned(vacuum["dagster"], verb)),
        ]
    )
    parts: list[RenderableType] = [head]
    for table in vacuum["tables"]:
        if table["skipped"]:
            parts += ["", Text(f"{table['table']}: left alone, {table['skipped']}", style="yellow")]
        if table["runs"]:
            rows = [
                [r["run_id"], "kept" if r["kept"] else verb, r["files"], f"{r['size_bytes'] / 2**20:.1f}", r["reason"]]
                for r in table["runs"]
            ]
            heads = ["run", "", "files", "MiB", "why"]
            parts += ["", listing(table["table"], heads, rows, numbers=["files", "MiB"])]
    return Group(*parts, *problems_view(vacuum["problems"]))


def _pruned(dagster: Document, verb: str) -> str:
    runs, size = count_of(dagster["runs"], "run"), f"{dagster['size_bytes'] / 2**20:.1f} MiB"
    said = (
        f"{verb}: {runs} older than {count_of(dagster['days'], 'day')}, {size}; {dagster['kept_runs']:,} on pages kept"
    )
    return f"{said}. {dagster['note']}" if dagster["note"] else said


def _amount(counted: Document) -> str:
    return f"{count_of(counted['files'], 'file')}, {counted['size_bytes'] / 2**20:.1f} MiB"
