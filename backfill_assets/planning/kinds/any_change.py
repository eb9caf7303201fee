"""Every kind of change, and the one that a document holds. Whoever adds a kind adds it here."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any

from backfill_assets.planning.kinds.append import Append
from backfill_assets.planning.kinds.change import Scope
from backfill_assets.planning.kinds.expire import Expire, RetentionRule
from backfill_assets.planning.kinds.load import Load
from backfill_assets.planning.kinds.merge import Merge, Older
from backfill_assets.planning.kinds.pilot import Pilot
from backfill_assets.planning.kinds.replace import REPLACE, Replace, VersionOf

DeclaredChange = Replace | Append | Merge
"""What an author can declare of a derived table."""

AnyChange = DeclaredChange | Pilot | Expire | Load


def parse_change(document: Mapping[str, Any]) -> AnyChange:
    """The change that a document holds; `parse_change(change.document) == change.pinned`.

    Raises:
        ValueError: It holds no change of a known kind.
    """
    match document:
        case {"kind": Replace.kind, **more}:
            of = more.get("version_of")
            return Replace(version_of=VersionOf(table=of)) if of else REPLACE
        case {"kind": Append.kind}:
            return Append()
        case {"kind": Merge.kind, **terms}:
            return Merge(**{**terms, "on": tuple(terms["on"]), "older": Older(terms["older"])})
        case {"kind": Pilot.kind, "where": where, "is_rest": is_rest}:
            named = tuple((column, value) for column, _, value in (each.partition("=") for each in where))
            return Pilot(rows=Scope(where=named, is_rest=is_rest))
        case {"kind": Expire.kind, "keep": keep}:
            return Expire(keep=RetentionRule(**keep))
        case {"kind": Load.kind, "imports": imports, "declared_empty": declared_empty}:
            return Load(imports=tuple(imports), declared_empty=tuple(map(date.fromisoformat, declared_empty)))
    raise ValueError(f"a document of no known kind of change: {document.get('kind')}")
