"""Files: the one port to files, over local folders and object stores."""

from functools import lru_cache
from pathlib import Path
from typing import assert_never

from backfill_assets.core.places import Place, StoreAccess, StoreUrl
from backfill_assets.files.local import LocalFiles
from backfill_assets.files.port import Files


@lru_cache(maxsize=256)
def files_at(place: Place, access: StoreAccess) -> Files:
    """The files of a place, with connections that are kept for the process."""
    return open_files(place, access)


def open_files(place: Place, access: StoreAccess) -> Files:
    """The files of a place, with connections of their own.

    Args:
        access: Endpoint and credentials, for a store.
    """
    match place:
        case Path():
            return LocalFiles(place)
        case StoreUrl():
            from backfill_assets.files.store import StoreFiles  # its library takes 15 MB, and folders need none of it

            return StoreFiles.at(place, access)
        case _:
            assert_never(place)
