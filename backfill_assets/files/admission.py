"""Admission: whether a store keeps the one promise that publication rests on.

Of several writers who put the same new key with the condition that there is none, exactly one may be told that it won.
A store that ignores the condition, or checks it before it writes, loses commits that it reported as done. A race for
some keys finds such a store, which is refused before anything is written to the lake. That a store passed is remembered
beside the tables, for the endpoint by which it was reached.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

from backfill_assets.core.places import Place, StoreAccess
from backfill_assets.files import files_at, open_files
from backfill_assets.files.port import Files, SeveralWinners

WRITERS = 8
ROUNDS = 200
FOLDER = "_admission"
"""Where the keys of the race are put, and removed from."""


def require_one_winner(open_files: Callable[[], Files], *, writers: int = WRITERS, rounds: int = ROUNDS) -> None:
    """Races writers for one new key after another.

    Args:
        open_files: Opens the place for one writer, with connections of its own.
    """
    everyone = [open_files() for _ in range(writers)]
    files, name = everyone[0], f"{FOLDER}/{secrets.token_hex(8)}"
    start = Barrier(writers)

    def put(writer: int, key: str) -> bool:
        start.wait()
        return everyone[writer].put_if_absent(key, _content(writer))

    keys = [f"{name}/{number:04}" for number in range(rounds)]
    winners: dict[str, list[int]] = {}
    try:
        with ThreadPoolExecutor(max_workers=writers) as pool:
            for key in keys:
                won = pool.map(put, range(writers), [key] * writers)
                winners[key] = [writer for writer, has_won in enumerate(won) if has_won]
        _judge(files, winners)
    finally:
        files.remove(keys[: len(winners) + 1])


def _judge(files: Files, winners: Mapping[str, Sequence[int]]) -> None:
    # A key without a winner is no fault: the answer to the winner was lost, and it put the key again.
    several = [len(won) for won in winners.values() if len(won) > 1]
    if several:
        keys = f"of {len(winners)} keys that several writers put at once if absent"
        raise SeveralWinners(
            place=str(files.place), why=f"{keys}, {len(several)} were won by up to {max(several)} of them"
        )
    for key, won in winners.items():
        with files.open(key) as file:
            content = file.read()
        if won and content != _content(won[0]):
            why = "a key holds the content of a writer that was answered that it lost"
            raise SeveralWinners(place=str(files.place), why=why)


def _content(writer: int) -> bytes:
    return f"writer {writer}\n".encode()


_admitted: set[tuple[Place, str]] = set()
"""What this process knows to be admitted."""


def require_admitted(root: Place, access: StoreAccess) -> None:
    """Races for keys of a store that is used for the first time; a local folder needs no admission."""
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
