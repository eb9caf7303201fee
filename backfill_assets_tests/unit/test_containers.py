"""The files from which containers are made are well formed, and name what exists."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from backfill_assets.core.settings import PROJECT_ROOT, Settings
from backfill_assets_tests.support.containers import COMPOSE, DOCKERFILE, image_environment, services

SETUP = (PROJECT_ROOT / "tools" / "setup.sh").read_text(encoding="utf-8")


def test_the_compose_file_follows_the_schema_of_compose_files() -> None:
    check = [str(Path(sys.executable).parent / "check-jsonschema"), "--builtin-schema", "vendor.compose-spec"]
    ended = subprocess.run([*check, str(COMPOSE)], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_what_is_copied_into_the_image_is_in_the_project_and_left_in_by_dockerignore() -> None:
    lines = (PROJECT_ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    kept = [line.removeprefix("!") for line in lines if line.startswith("!")]
    copies = re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE.read_text(encoding="utf-8"), re.MULTILINE)
    copied = [Path(name) for line in copies for name in line.split()]
    assert len(copied) > 8
    for path in copied:
        assert (PROJECT_ROOT / path).exists()
        assert any(path.is_relative_to(each) or Path(each).is_relative_to(path) or path.match(each) for each in kept)


def test_the_store_is_the_version_that_is_tested() -> None:
    (tested,) = re.findall(r"^readonly VERSITYGW=(\S+)$", SETUP, re.MULTILINE)
    assert f"versitygw@{tested}\n" in DOCKERFILE.read_text(encoding="utf-8")


def test_settings_of_the_services_are_settings() -> None:
    names = {name for service in services().values() for name in service["environment"]} | set(image_environment())
    known = Path(Settings.from_environment.__code__.co_filename).read_text(encoding="utf-8")
    assert {name for name in names if name.startswith("BACKFILL_") and f'"{name}"' not in known} == set()


def test_no_password_is_written_down_and_only_the_pages_are_published_and_only_here() -> None:
    text = COMPOSE.read_text(encoding="utf-8")
    assert len(re.findall(r"(PASSWORD|SECRET\w*): \$\{\w+:\?", text)) == 3
    assert [port for service in services().values() for port in service.get("ports", ())] == ["127.0.0.1:3000:3000"]
