"""Archived code: rebuilds a run with the code that it was planned with, after the author's modules were edited.

In a process of its own, whose import path begins with a copy of the author's modules in which those that the run
reached have their archived text. That the code is the same is verified there as for any run, by its digest. A server
of Spark that was started with other modules is not used.
"""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from backfill_assets.core.errors import BackfillError
from backfill_assets.core.settings import Settings
from backfill_assets.core.spark import compute_apart
from backfill_assets.planning.manifest import Manifest
from backfill_assets.transforms.code import archived, text_of_module
from backfill_assets.upkeep.errors import ReproducedOtherwise
from backfill_assets.workspace import Workspace

_START = f"from {__name__} import main; main()"
_MOST_SHOWN = 300
"""So many characters of what the process said last are shown where it fails."""


class Computed(Protocol):
    """Something that is computed for a run, in any process: pickled with what it is given, and its answer too."""

    def __call__(self, ws: Workspace, run_id: str) -> object: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """The task that the process is given."""

    settings: Settings
    run_id: str
    result: Path  #: The file for its answer, or for a sentence that says why there is none.
    computed: Computed  #: What is asked for.


def by_archived_code(ws: Workspace, manifest: Manifest, computed: Computed, *, because: str) -> object:
    """The result of computing with the archived code of a run; see `Computed`.

    Args:
        manifest: That of the run.
        because: Why the present code cannot compute it.

    Raises:
        ContractBroken: Its code is not archived, or does not load beside the modules that are there now.
    """
    run_id = manifest.run_id
    with tempfile.TemporaryDirectory(prefix="backfill_code_") as folder:
        _write_modules(ws, manifest, Path(folder) / "modules", because)
        result = Path(folder) / "result"
        task = Task(settings=ws.settings, run_id=run_id, result=result, computed=computed)
        path = [
            str(Path(folder) / "modules"),
            *(each for each in map(os.path.abspath, sys.path) if Path(each).exists()),
        ]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(dict.fromkeys(path)),
            # The folder in which it starts is not searched before the archived modules.
            "PYTHONSAFEPATH": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        ended = subprocess.run(  # noqa: S603
            [sys.executable, "-c", _START],
            input=pickle.dumps(task),
            env=environment,
            capture_output=True,
            check=False,
        )
        if not result.exists():
            said = ended.stderr.decode(errors="replace").strip()[-_MOST_SHOWN:]
            why = f"{because} With its archived code it stopped: {said or f'exit code {ended.returncode}'}"
            raise ReproducedOtherwise(run_id=run_id, why=why)
        answer = pickle.loads(result.read_bytes())  # noqa: S301 - of the process that was started here
    if isinstance(answer, str):
        why = f"{because} With its archived code, beside the modules and libraries that are there now: {answer}"
        raise ReproducedOtherwise(run_id=run_id, why=why)
    return answer


def _write_modules(ws: Workspace, manifest: Manifest, folder: Path, because: str) -> None:
    """A copy of the author's modules, with the archived text of those that the run reached."""
    files, run_id = ws.reference_archive, manifest.run_id
    code = archived(manifest.code_digest, files)
    if code is not None and code.sha256 != manifest.code_archive:
        why = f"{because} The list of its archived code in {files.place} is not the one that its manifest names."
        raise ReproducedOtherwise(run_id=run_id, why=why)
    texts = {each.path: text_of_module(each.source, files) for each in code.modules} if code else {}
    if not texts or None in texts.values():
        raise ReproducedOtherwise(run_id=run_id, why=f"{because} Its code is not archived in {files.place}.")
    holder = ws.code.sources.holder
    folder.mkdir()
    for top in sorted({path.partition("/")[0] for path in (*texts, f"{ws.domain.package.replace('.', '/')}/")}):
        if (holder / top).is_dir():
            shutil.copytree(
                holder / top, folder / top, copy_function=_copied, ignore=shutil.ignore_patterns("__pycache__", ".*")
            )
        elif (holder / f"{top}.py").is_file():
            shutil.copy2(holder / f"{top}.py", folder)
    for path, text in texts.items():
        file = folder.joinpath(*path.split("/")).resolve()
        if not file.is_relative_to(folder.resolve()):
            raise ReproducedOtherwise(run_id=run_id, why=f"{because} Its archived code names a file outside: {path}.")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.unlink(missing_ok=True)
        file.write_bytes((text or "").encode())


def _copied(source: str, target: str) -> None:
    """Modules are copied; what else lies beside them may be large, and is only read."""
    if source.endswith(".py"):
        shutil.copy2(source, target)
    else:
        Path(target).symlink_to(Path(source).absolute())


def main() -> None:
    """Answers one task, which standard input holds."""
    task: Task = pickle.loads(sys.stdin.buffer.read())  # noqa: S301 - of the process that has started this one
    compute_apart()
    answer: object
    try:
        answer = task.computed(Workspace.open(task.settings, conditions=False), task.run_id)
    except BackfillError as error:
        answer = error.message
    task.result.with_suffix(".part").write_bytes(pickle.dumps(answer))
    task.result.with_suffix(".part").replace(task.result)
