"""How do hundreds of processes that are killed soon come by a Spark of their own without waiting for it?

Most of a short life goes into reading Spark's classes. A process that goes the whole way once leaves them in an archive
that the others map into memory; they compile less, too.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from backfill_assets_tests.faults.homes import JAVA_OPTIONS, opened, stock

SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def with_archive(archive: Path) -> str:
    """Java's options for processes that live shortly; makes the archive, which takes some twenty seconds.

    A Java that cannot make or read archives goes without.
    """
    making = f"{SHORT_LIVED} -XX:ArchiveClassesAtExit={archive} -Xlog:cds=off -Xlog:cds+dynamic=off"
    command = [sys.executable, "-m", "backfill_assets_tests.faults.quick_java"]
    done = subprocess.run(
        command, env={**os.environ, JAVA_OPTIONS: making}, capture_output=True, text=True, check=False, timeout=300
    )
    if not archive.exists():
        sys.stderr.write(f"no archive of classes, so this takes longer: {(done.stderr or 'no reason')[-300:]}\n")
        return SHORT_LIVED
    return f"{SHORT_LIVED} -XX:SharedArchiveFile={archive} -Xlog:cds=off -Xlog:cds+dynamic=off"


def main() -> None:
    """Goes the whole way once, and waits until Java has ended."""
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
    main()
