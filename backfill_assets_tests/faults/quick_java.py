"""How do processes that live shortly come by a Spark of their own without waiting for it?

Most of a short life goes into reading Spark's classes. A process that goes the whole way once leaves them in an archive
that the others map into memory (`java_options.py`).
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from backfill_assets_tests.faults.homes import opened, stock
from backfill_assets_tests.java_options import MAKING, archive_of_classes


def make_archive() -> None:
    """Makes the archive where there is none, which takes some twenty seconds; without it everything takes longer."""
    archive = archive_of_classes()
    if archive.exists():
        return
    sys.stderr.write("Reading Spark's classes once for all.\n")
    with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
        made = Path(folder) / archive.name
        done = subprocess.run(
            [sys.executable, "-m", "backfill_assets_tests.faults.quick_java"],
            env={**os.environ, MAKING: str(made)},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        if made.exists():
            made.replace(archive)
        else:
            reason = (done.stderr or "no reason")[-300:]
            sys.stderr.write(f"no archive of classes, so this takes longer: {reason}\n")


def go_the_whole_way() -> None:
    """Once, and waits until Java has ended."""
    with tempfile.TemporaryDirectory() as folder:
        shop = opened(Path(folder) / "any")
        spark = shop.ws.spark()
        stock("published", Path(folder) / "shop", spark)
        gateway = spark.sparkContext._gateway
        assert gateway is not None
        spark.stop()
        gateway.shutdown()
        gateway.proc.stdin.close()  # Java waits for it, then ends and writes the archive
        gateway.proc.wait(timeout=120)
        shop.ws.close()


if __name__ == "__main__":
    if os.environ.get(MAKING):
        go_the_whole_way()
    else:
        make_archive()
