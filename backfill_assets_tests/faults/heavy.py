"""Does landing the largest records stay within its heap, and do bombs cost nothing?

`python -m backfill_assets_tests.faults.heavy` lands each file with the command of a user, in a process of its own whose
Spark has a heap of 1 GB, and watches how much memory the process and its JVM take at most.
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from backfill_assets_tests.support.shop import shop_environment

MOST_MIB = 3_072
"""Of resident memory: the heap of 1 GB, buffers outside of it, which Java bounds by as much again, what the JVM needs
around them, and Python."""

MOST_SECONDS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Heavy:
    """A file that is made to fill memory."""

    name: str
    content: bytes
    landed: int | None  #: How many records it holds; None when it has to be refused.


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighed:
    """What landing it took."""

    name: str
    mib: int
    seconds: float
    violations: tuple[str, ...]


def heavy_files() -> Iterator[Heavy]:
    """Records as large as they can be, and files that swell."""
    header = b"sale_id,sold_at,amount\n"
    large = b"".join(_line(number, "x" * 8_000_000) for number in range(8))
    yield Heavy(name="eight-of-8-MB.jsonl", content=large, landed=8)
    yield Heavy(name="one-of-50-MB.jsonl", content=_line(1, "x" * 50_000_000), landed=None)
    yield Heavy(name="bomb.jsonl.gz", content=_swelling(_line(1, ""), b"x"), landed=None)
    yield Heavy(name="blank-bomb.jsonl.gz", content=_swelling(_line(1, ""), b" "), landed=None)
    yield Heavy(name="bomb.csv.gz", content=_swelling(header, b"\x00"), landed=None)
    yield Heavy(name="unclosed.csv", content=header + b'1,"' + b"x,\n" * 20_000_000, landed=None)
    yield Heavy(name="blank-lines.jsonl.gz", content=_swelling(_line(1, "") + b"\n", b"\n"), landed=1)


def _line(number: int, text: str) -> bytes:
    return json.dumps({"sale_id": f"{number}{text}", "sold_at": "2026-01-02T12:00:00Z", "amount": 1}).encode() + b"\n"


def _swelling(start: bytes, byte: bytes) -> bytes:
    """200 MB of one byte behind a start, in 200 kB."""
    return gzip.compress(start) + gzip.compress(byte * 1_000_000) * 200


def weigh(file: Heavy, folder: Path) -> Weighed:
    """Lands a file with the command, and watches."""
    path = folder / file.name
    path.write_bytes(file.content)
    environment = {**os.environ, **shop_environment(folder / f"home-{file.name}"), "BACKFILL_SPARK_MEMORY": "1g"}
    command = [sys.executable, "-c", "from backfill_assets.main import main; main()", "land", "sales", str(path)]
    began = time.monotonic()
    with (folder / f"{file.name}.out").open("w+b") as out:
        process = subprocess.Popen(
            [*command, "--by", "ana", "--no-load", "--json"],
            env=environment,
            stdout=out,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        peak: dict[int, int] = {}
        while process.poll() is None and time.monotonic() - began < MOST_SECONDS:
            peak |= _resident_mib(process.pid)
            time.sleep(0.2)
        seconds = time.monotonic() - began
        if process.poll() is None:
            process.kill()
        process.wait()
        out.seek(0)
        said = out.read().decode()
    mib = sum(peak.values())
    return Weighed(name=file.name, mib=mib, seconds=seconds, violations=tuple(_violations(file, said, mib, seconds)))


def _violations(file: Heavy, said: str, mib: int, seconds: float) -> Iterator[str]:
    if mib > MOST_MIB:
        yield f"{file.name} took {mib:,} MiB"
    if seconds >= MOST_SECONDS:
        yield f"{file.name} took longer than {MOST_SECONDS} s"
        return
    document = json.loads(said)
    if file.landed is None and document.get("error", {}).get("type") != "UnreadableFile":
        yield f"{file.name} was not refused: {said[:300]}"
    if file.landed is not None and [each["counts"]["landed"] for each in document.get("imports", ())] != [file.landed]:
        yield f"{file.name} did not land {file.landed} records: {said[:300]}"


def _resident_mib(session: int) -> dict[int, int]:
    """The most resident memory so far of each process of a session."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if os.getsid(int(folder.name)) != session:
                continue
            status = (folder / "status").read_text()
        except OSError:
            continue
        peak = next((line for line in status.splitlines() if line.startswith("VmHWM:")), None)
        if peak:
            found[int(folder.name)] = int(peak.split()[1]) // 1024
    return found


def main() -> int:
    """Weighs every file; 1 when one is too heavy."""
    broken = 0
    if not Path("/proc/self/status").exists():
        sys.stdout.write("MEMORY IS NOT MEASURED: that needs Linux; only what becomes of the files is.\n")
    with tempfile.TemporaryDirectory(prefix="heavy-") as name:
        for file in heavy_files():
            weighed = weigh(file, Path(name))
            broken += len(weighed.violations)
            sys.stdout.write(f"{weighed.name:24}{weighed.mib:>8,} MiB{weighed.seconds:>8.0f} s\n")
            sys.stdout.write("".join(f"  {violation}\n" for violation in weighed.violations))
            sys.stdout.flush()
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(main())
