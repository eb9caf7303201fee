"""Where do the homes of tests keep their lakes and their landed files?

In folders of the home; or, when a store is named in the environment, each in a bucket of its own. The tests' store
keeps objects as plain files, so that tests can look at them, and damage them, in either case.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from backfill_assets.core.places import Place, StoreUrl
from backfill_assets.lake.tables import Lake
from backfill_assets_tests.support.s3_server import Store, running_store, spark_jars

SWITCH = "BACKFILL_TEST_LAKE"
"""`s3`: the homes of tests keep their lakes and landed files in an object store (`make test-s3`)."""

BUCKETS = "BACKFILL_TEST_BUCKETS"
"""The folder of the buckets of the running store; set by the fixture that starts it, and inherited by processes."""

ACCESS = ("AWS_ENDPOINT_URL", "AWS_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ALLOW_HTTP")


def use_store(patch: pytest.MonkeyPatch, store: Store) -> None:
    """Lets every home that is opened from now on keep its lake in a store."""
    for name, value in {BUCKETS: str(store.folder), **store.environment}.items():
        patch.setenv(name, value)


@contextmanager
def lakes_where_asked() -> Iterator[None]:
    """In folders, unless the switch says otherwise: then in a store of their own, also in processes started meanwhile.

    Raises:
        NoStore: A store is asked for, and there is none.
    """
    wanted = os.environ.get(SWITCH, "folder")
    if wanted not in ("folder", "s3"):
        raise SystemExit(f"{SWITCH} is {wanted!r}; it can be folder or s3")
    if wanted == "folder":
        yield
        return
    spark_jars()
    with running_store(folder=memory()) as store, pytest.MonkeyPatch.context() as patch:
        use_store(patch, store)
        yield


def memory() -> str:
    """A folder in memory, where there is one: what is killed is a process, not the machine."""
    place = "/dev/shm"
    return place if os.access(place, os.W_OK) else tempfile.gettempdir()


def on_a_store() -> bool:
    """Whether homes keep their lakes in an object store."""
    return bool(os.environ.get(BUCKETS))


def lake_environment(home: Path) -> Mapping[str, str]:
    """What tells a process where lake and landed files of a home are; the bucket is made when it is not there."""
    if not on_a_store():
        return {}
    bucket = _bucket(home)
    bucket.mkdir(exist_ok=True)
    places = {"BACKFILL_LAKE": f"s3://{bucket.name}/lake", "BACKFILL_LANDING": f"s3://{bucket.name}/landing"}
    return {**places, **{name: os.environ[name] for name in ACCESS}}


def reference_environment(home: Path) -> Mapping[str, str]:
    """What tells a process that references are where the lake is; most tests keep theirs in the home."""
    return {"BACKFILL_REFERENCE": f"s3://{_bucket(home).name}/reference"} if on_a_store() else {}


def copy_lake(template: Path, home: Path) -> None:
    """Gives a home the lake of another one, unless it is in the home's folder."""
    if on_a_store():
        shutil.copytree(_bucket(template), _bucket(home))


def bring_back_lake(template: Path, home: Path) -> None:
    """Makes the lake of a home what that of another one is, unless it is in the home's folder."""
    if on_a_store():
        shutil.rmtree(_bucket(home))
        copy_lake(template, home)


def forget_lake(home: Path) -> None:
    """Removes the lake of a home that is not needed any more, unless it is in the home's folder."""
    if on_a_store():
        shutil.rmtree(_bucket(home))


def folder_of(lake: Lake, table: str) -> Path:
    """The folder that holds the files of a table."""
    return folder_at(lake.place(table))


def path_of(place: str) -> Path:
    """The file or folder of a place as messages name it."""
    return Path(os.environ[BUCKETS], place.removeprefix("s3://")) if place.startswith("s3://") else Path(place)


def folder_at(place: Place) -> Path:
    """The folder that holds the files of a place."""
    if isinstance(place, StoreUrl):
        return Path(os.environ[BUCKETS], place.bucket, place.prefix)
    return place


def files_below(folder: Path) -> Sequence[Path]:
    """The files below a folder; a store keeps a mark of each folder that Spark made, and such marks are left out."""
    return sorted(path for path in folder.rglob("*") if path.is_file())


def overwrite(lake: Lake, table: str, path: str, content: bytes) -> None:
    """Gives a file of a table other bytes, as a person does who may write there."""
    files = lake.files(table)
    files.remove([path])
    files.put_if_absent(path, content)


def only_in_folders(why: str) -> None:
    """Skips a test that is about the files of a lake in a folder."""
    if on_a_store():
        pytest.skip(f"only with the lake in a folder: {why}")


def _bucket(home: Path) -> Path:
    name = "home-" + hashlib.sha256(str(home.resolve()).encode()).hexdigest()[:20]
    return Path(os.environ[BUCKETS], name)
