"""Record of the last audit: its verdict, kept in the home for pages and metrics that do not audit themselves.

It is no evidence: anyone who can write into the home can write it. What it says of the event chain can be compared with
the ledger, because it names the head that the audit has seen.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from pathlib import Path

from backfill_assets.core.regular_files import open_regular
from backfill_assets.upkeep.audit import HEAD, AuditReport, Verdict
from backfill_assets.workspace import Workspace

FILE = "last_audit.json"
MOST_PROBLEMS = 200
"""How many problems are kept; the audit itself prints all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedAudit(Verdict):
    """The verdict of the last audit, with the first of its problems."""

    at: datetime  #: When it ended.
    is_quick: bool  #: Whether it did not read the bytes of files.
    problem_count: int  #: How many problems it found.


def record_audit(home: Path, report: AuditReport, *, at: datetime, is_quick: bool) -> Path | None:
    """Keeps the verdict of an audit in place of the one before it.

    Returns:
        The file; None when the folder cannot be written, as an audit of a home that is mounted read-only.
    """
    shared = {each.name: getattr(report, each.name) for each in fields(Verdict)}
    found = RecordedAudit(
        **{**shared, "problems": report.problems[:MOST_PROBLEMS]},
        at=at,
        is_quick=is_quick,
        problem_count=len(report.problems),
    )
    path = home / FILE
    part = path.with_suffix(f".{os.getpid()}.part")
    try:
        part.write_text(json.dumps(asdict(found), indent=1, default=datetime.isoformat), encoding="utf-8")
        part.replace(path)
    except OSError:
        with suppress(OSError):
            part.unlink()
        return None
    return path


def last_audit(home: Path) -> RecordedAudit | None:
    """The verdict of the last audit of a home; None when none was kept, or the file is not one of ours."""
    try:
        with open_regular(home / FILE) as file:
            document = json.loads(file.read())
        chosen = {each.name: document[each.name] for each in fields(RecordedAudit)}
        at = datetime.fromisoformat(document["at"])
        # It is empty where the head of the chain was removed.
        if chosen["head"] != "" and not HEAD.fullmatch(chosen["head"]):
            return None
        return RecordedAudit(**{**chosen, "at": at, "problems": tuple(map(str, document["problems"]))})
    except (OSError, ValueError, TypeError, KeyError):
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class LastAudit:
    """The last audit, and what the ledger knows of the time after it."""

    found: RecordedAudit  #: What it found.
    is_contained: bool  #: Whether the event chain still has the event that was its last one then.
    later_publications: int  #: How many publications and rollbacks began after that event: it has not seen them.


def last_audit_now(ws: Workspace) -> LastAudit | None:
    """The last audit of a home as the ledger sees it now; None when none was kept."""
    found = last_audit(ws.settings.home)
    if found is None:
        return None
    sequence = int(found.head.partition(":")[0] or 0)
    with ws.ledger.read() as tx:
        return LastAudit(
            found=found,
            is_contained=tx.events.still_contains(found.head),
            later_publications=tx.publications.count(after=sequence),
        )
