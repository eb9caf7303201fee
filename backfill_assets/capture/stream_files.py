"""Stream files: pieces of a stream as files of the landing place, and the landing of them.

A file has the name of its positions and is put there whole. One of this name that is there has to have the same bytes:
what a capture left that was stopped between the file and its row in the ledger, the next one removes.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from backfill_assets.capture.errors import NotAsCaptured
from backfill_assets.capture.landed_files import GIVEN_FILE, Checked, FileKind, LandedFile, LandingPlace
from backfill_assets.capture.streams import Pace, Resolution, Span, Stream, Written
from backfill_assets.core.crash_points import Point, Reached
from backfill_assets.core.errors import Refused
from backfill_assets.files.local import sha256_of_file

_GZIPPED = 8
ANSWER = ".answer.gz"
"""In what the name of the file ends that holds what a source said, beside the file of its records."""


def capture_piece(
    stream: Stream, resolution: Resolution, piece: Span, place: LandingPlace, pace: Pace, reached: Reached
) -> tuple[tuple[LandedFile, ...], Written]:
    """Writes a piece, or as much of it as the stream gives at once, as a landed file.

    Args:
        reached: Called behind every file that is kept.

    Returns:
        The file of its records and, where that is kept, the one of the answer; none where there was nothing to read.

    Raises:
        Refused: Its file is there with other bytes.
        Retryable: The stream went away.
    """
    with place.scratch() as copy, place.scratch() as beside:
        written = stream.write(piece, copy, pace)
        if written.range_to == piece.range_from and not written.records:
            return (), written
        beside.write_bytes(written.answer)
        piece = replace(piece, range_to=written.range_to or piece.range_to)
        suffix = stream.kind.suffix
        name = stream.file_name(resolution, piece).removesuffix(suffix) + (f"-{written.mark}" if written.mark else "")
        answers: tuple[LandedFile, ...] = ()
        if written.answer:
            answers = (_kept(place, resolution, piece, beside, f"{name}{ANSWER}"),)
            reached(Point.CAPTURE_KEPT)
        records = _kept(place, resolution, piece, copy, f"{name}{suffix}", kind=stream.kind)
        reached(Point.CAPTURE_KEPT)
    return (records, *answers), written


def _kept(
    place: LandingPlace, resolution: Resolution, piece: Span, copy: Path, name: str, kind: FileKind | None = None
) -> LandedFile:
    """A file of the landing place with the content of a copy."""
    sha256, size_bytes = sha256_of_file(copy), copy.stat().st_size
    stored_path = place.keep(copy, name)
    if place.files.digest(stored_path) != sha256:
        raise Refused.coded(
            "other_bytes",
            "{path} is there already with other bytes than {name} gives for the same positions now.",
            then="look whether the stream was compacted or replaced meanwhile; the file that is there stays",
            path=stored_path,
            name=resolution.name,
        )
    return LandedFile(
        source=place.source,
        family=resolution.family,
        range_from=piece.range_from,
        range_to=piece.range_to,
        sha256=sha256,
        original_path=f"{resolution.name}-{piece.partition}-{piece.range_from}-{piece.range_to}",
        stored_path=stored_path,
        size_bytes=size_bytes,
        format="answer" if kind is None else kind.format,
        compression="gzip" if kind is None else kind.compression,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamCapture:
    """A file of the landing place: it lands without the stream, or the person, that it came from."""

    file: LandedFile
    record_count: int | None

    @property
    def name(self) -> str:
        return self.file.original_path

    @property
    def is_offered(self) -> bool:
        return self.file.family == GIVEN_FILE

    @property
    def size_bytes(self) -> int:
        return self.file.size_bytes * (_GZIPPED if self.file.compression else 1)

    def read(
        self, place: LandingPlace, check: Callable[[Path, FileKind], Checked]
    ) -> Iterator[tuple[LandedFile, Checked]]:
        """Checks the file; it stays where it is.

        Raises:
            Refused: It is not what was captured.
            UnreadableFile: It cannot be read as records of its source.
        """
        with copied(place, self.file.stored_path, self.file.sha256) as copy:
            checked = check(copy, self.file.kind)
        yield self.file, checked


@contextmanager
def copied(place: LandingPlace, stored_path: str, sha256: str) -> Iterator[Path]:
    """A copy of a landed file on this machine while the block lasts.

    Raises:
        Refused: It is not what was captured.
    """
    with place.scratch() as copy:
        with place.files.open(stored_path) as stored, copy.open("wb") as written:
            shutil.copyfileobj(stored, written, 1 << 20)
        if sha256_of_file(copy) != sha256:
            raise NotAsCaptured(path=stored_path)
        yield copy
