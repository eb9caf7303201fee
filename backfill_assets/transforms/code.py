"""Which code would compute the rows? The digest of every module of the domain's package."""

from __future__ import annotations

import hashlib
import importlib.util
from pathlib import Path

from backfill_assets.domain import Domain
from backfill_assets.errors import InvalidDeclaration


def code_digest(domain: Domain) -> str:
    """The sha256 over the paths and bytes of every `.py` file of the domain's package, sorted by path.

    Raises:
        InvalidDeclaration: The domain names a package that has no source files.
    """
    spec = importlib.util.find_spec(domain.package)
    if spec is None or spec.origin is None:
        raise InvalidDeclaration(f"domain {domain.name} names the package {domain.package!r}, which has no source.")
    origin = Path(spec.origin)
    files = sorted(origin.parent.rglob("*.py")) if spec.submodule_search_locations else [origin]
    digest = hashlib.sha256()
    for path in files:
        content = path.read_bytes()
        name = path.relative_to(origin.parent).as_posix()
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()
