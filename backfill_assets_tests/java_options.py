"""What is Java asked for by tests? Their processes are short: most of a life is reading and compiling Spark's classes.

An archive of these classes is mapped into memory instead. `faults/quick_java.py` makes it, once for a set-up; a Java
that cannot read it goes without.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from pathlib import Path

import pyspark

MAKING = "BACKFILL_TEST_CLASSES"
"""The environment variable with the archive that a process is to leave behind."""

SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_SILENT = "-Xlog:cds=off -Xlog:cds+dynamic=off"


def archive_of_classes() -> Path:
    """Where the archive is, whether or not it is there: beside the interpreter's packages, for this Java and Spark."""
    home = os.environ.get("JAVA_HOME")
    java = Path(home, "bin", "java") if home else Path(shutil.which("java") or "java")
    changed = java.stat().st_mtime_ns if java.exists() else 0
    digest = hashlib.sha256(f"{java.resolve()} {changed} {pyspark.__version__}".encode()).hexdigest()[:12]
    return Path(sys.prefix) / f"spark-{digest}.jsa"


def java_options() -> str:
    """The options of a process that tests start, and of the tests' own Spark."""
    if making := os.environ.get(MAKING):
        return f"{SHORT_LIVED} -XX:ArchiveClassesAtExit={making} {_SILENT}"
    archive = archive_of_classes()
    if not archive.exists() or " " in str(archive):
        return SHORT_LIVED
    return f"{SHORT_LIVED} -XX:SharedArchiveFile={archive} {_SILENT}"
