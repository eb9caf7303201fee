"""Admitted stores: a lake is written to a store only after that has shown that of several writers of a key one wins.

What was shown is remembered beside the tables, for the endpoint by which the store was reached.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from backfill_assets.core.places import Place
from backfill_assets.core.store_access import StoreAccess
from backfill_assets.files.admission import FOLDER, ROUNDS, WRITERS, require_one_winner
from backfill_assets.files.choose import files_at, open_files

_admitted: set[tuple[Place, str]] = set()
"""What this process knows to be admitted."""


def require_admitted(root: Place, access: StoreAccess) -> None:
    """Races for keys of a store that is used for the first time; a local folder needs no admission.

    Args:
        root: Where the tables are.
        access: How the store is reached.

    Raises:
        StoreRefused: The store let several writers win, or does not accept the credentials; the lake is as it was.
        StoreAway: It does not answer.
    """
    if isinstance(root, Path) or (root, access.endpoint) in _admitted:
        return
    files, mark = files_at(root, access), mark_of(access)
    if files.stat(mark) is None:
        require_one_winner(lambda: open_files(root, access))
        shown = {"endpoint": access.endpoint, "keys": ROUNDS, "writers": WRITERS}
        files.put_if_absent(mark, json.dumps(shown).encode())
    _admitted.add((root, access.endpoint))


def mark_of(access: StoreAccess) -> str:
    """The file that remembers that a store passed, relative to the lake."""
    return f"{FOLDER}/passed-{hashlib.sha256(access.endpoint.encode()).hexdigest()[:16]}.json"
