"""Kept: where decoded files are while Spark reads them, `<landing>/<source>/decoded/<owner>/`, and when they go.

The owner is the attempt of a landing, which removes them when it ends, or a reading without one, such as a
reproduction. What a killed process left is removed by the next landing of the source: that of an attempt that lands
nothing any more, and of a reading after a day.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from backfill_assets.capture.landed_files import FileKind, LandingPlace
from backfill_assets.domain import SourceTable
from backfill_assets.landing.decoding.step import decode, is_decoded

LONGEST_READING = timedelta(days=1)
_BEGUN = "read-%Y%m%dT%H%M%SZ"
_FOLDER = "decoded"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToRead:
    """The bytes of a file as the readers take them.

    Attributes:
        copy: On this machine, for the probe.
        kind: What they are.
        stored_path: The decoded file, relative to the landing place; empty where the landed one is read itself.
    """

    copy: Path
    kind: FileKind
    stored_path: str = ""


@contextmanager
def to_read(
    place: LandingPlace,
    owner: str,
    copy: Path,
    kind: FileKind,
    source: SourceTable,
    *,
    name: str,
    is_offered: bool = True,
) -> Iterator[ToRead]:
    """A landed file as the readers take it; a decoded one is kept for Spark once nothing was wrong with it.

    Args:
        place: Where it is kept.
        owner: Who reads it.
        copy: The bytes as they landed, on this machine.
        name: What messages call the file.
        is_offered: As for `is_decoded`.
    """
    if not is_decoded(copy, kind, source, is_offered=is_offered):
        yield ToRead(copy=copy, kind=kind)
        return
    with place.scratch() as decoded:
        found = decode(copy, kind, source, name=name, into=decoded)
        assert found is not None
        # Records that are read from several files at once tell these apart by the last part of their names.
        path = place.stored_path(f"{_FOLDER}/{owner}/{secrets.token_hex(8)}{found.suffix}")
        yield ToRead(copy=decoded, kind=found, stored_path=path)
        place.files.put(path, decoded)


@contextmanager
def reading(place: LandingPlace, *, begun_at: datetime) -> Iterator[str]:
    """An owner that is no landing; its decoded files are removed afterwards, also after an error."""
    owner = f"{begun_at.astimezone(UTC):{_BEGUN}}-{secrets.token_hex(4)}"
    try:
        yield owner
    finally:
        remove_decoded(place, owner)


def remove_decoded(place: LandingPlace, owner: str) -> None:
    """Removes the decoded files of an owner."""
    place.files.remove_folder(place.stored_path(f"{_FOLDER}/{owner}"))


def remove_left(place: LandingPlace, *, attempts: Collection[str], now: datetime) -> None:
    """Removes decoded files that killed processes left.

    Args:
        attempts: Landings that may be in progress.
    """
    folder = place.stored_path(_FOLDER)
    owners = {each.path.removeprefix(f"{folder}/").partition("/")[0] for each in place.files.listed(folder)}
    for owner in owners.difference(attempts):
        begun = _begun_at(owner)
        if begun is None or begun < now - LONGEST_READING:
            remove_decoded(place, owner)


def _begun_at(owner: str) -> datetime | None:
    """When a reading was begun, by its name; None for an attempt."""
    try:
        return datetime.strptime(owner.rpartition("-")[0], _BEGUN).replace(tzinfo=UTC)
    except ValueError:
        return None
