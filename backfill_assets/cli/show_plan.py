"""How do plans and sets look to a person at a terminal?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from backfill_assets.cli.show import MODES, backwards, facts, listing, named, state_text
from backfill_assets.planning.partitions import count_of

Document = Mapping[str, Any]

_MOST_STAGES = 24


def plan_view(plan: Document) -> RenderableType:
    """The plan as an operator reads it before asking somebody to agree."""
    replaces = plan["replaces"]
    head = facts(
        [
            ("run", plan["run_id"]),
            ("table", f"{plan['table']} by {plan['transform']} {plan['transform_version']}"),
            ("kind", f"{plan['kind']}: {plan['reason']} (asked by {plan['requested_by']})"),
            ("mode", MODES.get(plan["mode"])),
            ("policy", plan["policy"] and plan["policy"]["sentence"]),
            ("output range", plan["output"]["described"]),
            ("replaces", f"{replaces['rows']:,} accepted rows in {count_of(replaces['partitions'], 'partition')}"),
            ("supersedes", named(plan["supersedes"])),
            ("expected", _expected(plan["estimate"])),
            ("references", _references(plan)),
            ("limits", _limits(plan["limits"])),
            ("code", ", ".join(plan["code_modules"])),
            ("manifest", f"sha256 {plan['manifest_digest'][:16]}... (DRAFT)"),
        ]
    )
    reads = listing(
        "reads",
        ["table", "input range", "of these warm-up and look-ahead", "rows", "files", "MiB"],
        [
            [i["table"], i["described"], i["warm_up"], i["rows"], i["files"], f"{i['size_bytes'] / 2**20:.1f}"]
            for i in plan["inputs"]
        ],
        numbers=["rows", "files", "MiB"],
    )
    parts: list[RenderableType] = [head, "", *backwards(plan), reads, ""]
    gates = ", ".join(g["name"] + ("" if g["blocking"] else " (informs)") for g in plan["gates"])
    parts.append(
        facts(
            [
                ("gates", gates),
                ("proof of the window", plan["proof"]),
                ("dependents", _dependents(plan)),
                ("open runs here", ", ".join(plan["conflicts"])),
            ]
        )
    )
    if "stages" in plan:
        parts += ["", stages_view(plan["stages"])]
    return Group(*parts)


def _references(plan: Document) -> str:
    return ", ".join(f"{name} {version}" for name, version in plan["references"].items())


def _expected(expected: Document) -> str:
    size = f", {expected['size_bytes'] / 2**20:,.1f} MiB" if expected["size_bytes"] is not None else ""
    time = f", {_duration(expected['seconds'])} to stage" if expected["seconds"] is not None else ""
    return f"about {expected['rows']:,} rows{size}{time} (from {expected['based_on']})"


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _limits(limits: Document) -> str:
    said = [f"{count_of(limits['chunk_partitions'], 'partition')} at once"]
    if limits.get("chunk_rows"):
        said.append(f"{limits['chunk_rows']:,} expected rows per chunk")
    if limits.get("max_rows") is not None:
        said.append(f"stops above {limits['max_rows']:,} rows")
    if limits.get("rows_per_minute"):
        said.append(f"{limits['rows_per_minute']:,} rows per minute")
    if limits.get("pause_s"):
        said.append(f"{limits['pause_s']} s between chunks")
    return ", ".join(said)


def stages_view(stages: Sequence[Document]) -> RenderableType:
    """What will be done, in order; many chunks are shortened to the first and the last of them."""
    numbered = [f"{number:>3}. {stage['sentence']}" for number, stage in enumerate(stages, start=1)]
    if len(numbered) > _MOST_STAGES:
        left_out = len(numbered) - _MOST_STAGES
        half = _MOST_STAGES // 2
        numbered = [*numbered[:half], f"     ... {left_out:,} more; --json has all", *numbered[-half:]]
    return Group(Text("stages", style="bold"), *(Text(line) for line in numbered))


def set_plan_view(plan: Document) -> RenderableType:
    """What a change asks for, table by table, and what will be done."""
    head = facts(
        [
            ("set", plan["set_id"] + (f" ({plan['name']})" if plan["name"] != plan["set_id"] else "")),
            ("because", plan["because"]),
            ("reason", f"{plan['reason']} (asked by {plan['requested_by']})"),
            ("references", "; ".join(dict.fromkeys(_references(run) for run in plan["runs"] if run["references"]))),
            ("policies", "; ".join(dict.fromkeys(_policy(run) for run in plan["runs"] if run["policy"]))),
            ("limits of each run", "; ".join(dict.fromkeys(_limits(run["limits"]) for run in plan["runs"]))),
            ("manifest", f"sha256 {plan['manifest_digest'][:16]}... (DRAFT)"),
        ]
    )
    rebuilds = listing(
        "rebuilds",
        ["table", "partitions", "because of", "only reads"],
        [
            [
                r["table"],
                r["described"],
                _some(r["because"]) or "it is stale",
                _some(r["only_read"]),
            ]
            for r in plan["rebuilds"]
        ],
    )
    runs = listing(
        "runs",
        ["run", "partitions", "by", "kind", "replaces rows", "chunks", "expected"],
        [
            [
                r["run_id"],
                r["output"]["described"],
                f"{r['transform']} {r['transform_version']}",
                r["kind"] if r["mode"] == "BACKFILL" else f"{r['kind']}, {r['mode']}",
                r["replaces"]["rows"],
                r["chunks"],
                _expected(r["estimate"]),
            ]
            for r in plan["runs"]
        ],
        numbers=["replaces rows", "chunks"],
    )
    conflicts = sorted({conflict for r in plan["runs"] for conflict in r["conflicts"]})
    parts: list[RenderableType] = [head, "", rebuilds, "", runs, "", stages_view(plan["stages"])]
    if conflicts:
        parts += ["", facts([("open runs here", ", ".join(conflicts))])]
    return Group(*parts, *_left_out(plan))


def nothing_planned_view(plan: Document) -> RenderableType:
    """That nothing has to be rebuilt, and what could be."""
    nothing = "nothing that was built has to be rebuilt" if plan["left_out"] else "nothing has to be rebuilt"
    return Group(Text(nothing), *_left_out(plan))


def _left_out(plan: Document) -> Sequence[RenderableType]:
    if not plan["left_out"]:
        return []
    rows = [[each["table"], each["described"], each["why"], each["include"]] for each in plan["left_out"]]
    return ["", listing("left out", ["table", "partitions", "because", "to include them"], rows)]


def _some(some: Sequence[Document]) -> str:
    return "; ".join(f"{each['table']} {each['described']}" for each in some)


def set_view(found: Document) -> RenderableType:
    """How far a set is, run by run, and the versions at which it can be read."""
    outdated = [f"{r['table']} {r['outdated_described']}" for r in found["runs"] if r["outdated_described"]]
    head = facts(
        [
            ("set", found["set_id"] + (f" ({found['name']})" if found["name"] != found["set_id"] else "")),
            ("state", Text.assemble(state_text(found["state"]), f": {found['meaning']}")),
            ("note", found["note"]),
            ("because", found["because"]),
            ("reason", f"{found['reason']} (asked by {found['requested_by']})"),
            ("approval", f"APPROVED by {found['approved_by']}" if found["approved_by"] else "DRAFT"),
            ("done", found["progress"]),
            ("outdated", f"{'; '.join(outdated)}: what it was computed from was staged again" if outdated else None),
            ("read it at", ", ".join(f"{table} version {v}" for table, v in found["versions"].items())),
            ("next", found["next_step"]),
        ]
    )
    runs = listing(
        "runs, in the order of publication",
        ["run", "table", "partitions", "state", "changed", "verified"],
        [
            [
                r["run_id"],
                r["table"],
                r["partitions_described"],
                state_text(r["state"]),
                r["changed_partitions"],
                r["verified_partitions"],
            ]
            for r in found["runs"]
        ],
        numbers=["changed", "verified"],
    )
    return Group(head, "", runs)


def _policy(run: Document) -> str:
    return f"{run['table']}: {run['policy']['sentence']}"


def _dependents(plan: Document) -> str:
    return "; ".join(f"{d['table']} {d['described']}" for d in plan["dependents"]) or "none"
