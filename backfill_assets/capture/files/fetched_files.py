"""Fetched files: a file that a person names by its address is fetched whole before anything of it lands.

Addresses are those of the web (https) and of object stores (s3, gs, az). What is recorded of an address never has what
is behind its `?`, where credentials may be.
"""

from __future__ import annotations

import fcntl
import ipaddress
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from http.cookiejar import DefaultCookiePolicy
from pathlib import Path
from urllib.parse import SplitResult, unquote, urljoin, urlsplit

import requests
from urllib3.exceptions import HTTPError

from backfill_assets.capture.errors import Fault, FileRefused, NoFile
from backfill_assets.core.places import StoreAccess, StoreUrl
from backfill_assets.core.progress import waiting
from backfill_assets.core.wording import visible

ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
STORES = ("s3", "s3a", "gs", "az")
MOST_BYTES = 50 << 30
"""A larger file is not fetched: whoever has that is asked for parts, or lands it from a folder."""

_FOLDER, _LOCK = ".fetched", ".lock"
_MOST_REDIRECTS = 5
_ATTEMPTS = 3
_SECONDS = (30, 120)
"""How long a connection may take, and how long nothing may come."""
_CHUNK_BYTES = 1 << 20
_REDIRECTS = (301, 302, 303, 307, 308)


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a file that can be fetched."""

    text: str  #: The address as a person gave it, which may have credentials behind its `?`.

    @staticmethod
    def of(text: str) -> Address:
        """An address that a person gave.

        Raises:
            Refused: It is none that can be fetched, or has a name and a password in it.
        """
        _require_plain(text)
        found = urlsplit(text)
        if "@" in found.netloc:
            # The text has a password, so it is not repeated.
            why = f"the address of {found.hostname or 'a file'} has the name of a user in it, which would be recorded"
            raise FileRefused(fault=Fault.ADDRESS, why=why)
        address = Address(text)
        if found.scheme in STORES:
            if not found.netloc or found.query or found.fragment or not found.path.strip("/"):
                raise _refused(address.recorded, "is not the address of a file in a bucket")
        else:
            _require_safe(found, address.recorded)
        if not address.name:
            raise _refused(address.recorded, "has no name of a file at its end")
        return address

    @property
    def recorded(self) -> str:
        """The address without what is behind `?` and `#`."""
        return visible(re.split("[?#]", self.text)[0])

    @property
    def name(self) -> str:
        """The name of the file."""
        name = urlsplit(self.text).path.rpartition("/")[2]
        name = name if urlsplit(self.text).scheme in STORES else unquote(name)
        return "" if name in (".", "..") or re.search(r"[/\0]", name) or visible(name) != name else name

    def fetch(self, copy: Path, access: StoreAccess) -> None:
        """Writes the whole file.

        Args:
            copy: A new file.
            access: How stores that speak the protocol of S3 are reached.

        Raises:
            MissingInput: There is no such file.
            Refused: It is too large, not allowed, led somewhere else, or did not come whole.
            Retryable: The store does not answer.
        """
        with waiting(lambda: f"fetching {self.recorded}"):
            if urlsplit(self.text).scheme in STORES:
                self._from_store(copy, access)
            else:
                self._from_web(copy)

    def _from_store(self, copy: Path, access: StoreAccess) -> None:
        from backfill_assets.files.store import FileTooLarge, StoreFiles  # its library takes 15 MB

        found = urlsplit(self.text)
        scheme = "s3" if found.scheme == "s3a" else found.scheme
        files = StoreFiles.of_others(StoreUrl(found.netloc, scheme=scheme), access)
        try:
            with copy.open("wb") as written:
                files.download(found.path.strip("/"), written.write, most_bytes=MOST_BYTES)
        except FileNotFoundError as error:
            raise NoFile(path=self.recorded, why=f"there is no file {self.recorded}") from error
        except FileTooLarge as error:
            raise _refused(self.recorded, f"has more than {MOST_BYTES >> 30} GiB") from error

    def _from_web(self, copy: Path) -> None:
        trouble = ""
        for attempt in range(_ATTEMPTS):
            try:
                with requests.Session() as session:
                    session.auth = _as_it_is  # no password of ~/.netrc
                    session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
                    self._answered(session, copy)
                return
            except _Broken as error:
                trouble = str(error)
            except requests.exceptions.SSLError:
                trouble = "no connection that is secure could be made"
            except requests.exceptions.Timeout:
                trouble = "it did not answer in time"
            except (requests.exceptions.RequestException, HTTPError):
                trouble = "the connection was refused or broke off"
            if attempt + 1 < _ATTEMPTS:
                time.sleep(0.5 * 2.0**attempt)
        why = f"{self.recorded} could not be fetched: {trouble}, tried {_ATTEMPTS} times"
        raise FileRefused(fault=Fault.NO_ANSWER, path=self.recorded, why=why)

    def _answered(self, session: requests.Session, copy: Path) -> None:
        at = self.text
        for _ in range(_MOST_REDIRECTS + 1):
            with session.get(
                at, headers={"Accept-Encoding": "identity"}, timeout=_SECONDS, allow_redirects=False, stream=True
            ) as answer:
                if answer.status_code not in _REDIRECTS:
                    self._keep(answer, copy)
                    return
                at = urljoin(at, answer.headers.get("location", ""))
            self._require_allowed(urlsplit(at))
        raise _refused(self.recorded, f"leads to another address more than {_MOST_REDIRECTS} times")

    def _require_allowed(self, target: SplitResult) -> None:
        """Refuses to be led from the web to this machine, or to where anybody can listen in."""
        first, server = urlsplit(self.text), visible(target.netloc.rpartition("@")[2])[:80]
        if target.scheme != "https" and not (target.scheme == "http" and _is_loopback(first) and _is_loopback(target)):
            raise _refused(self.recorded, f"leads to {target.scheme[:10]}://{server}, which is not https")
        if _is_loopback(target) and not _is_loopback(first):
            raise _refused(self.recorded, f"leads to {server}, which is this machine")

    def _keep(self, answer: requests.Response, copy: Path) -> None:
        status = answer.status_code
        if status in (HTTPStatus.NOT_FOUND, HTTPStatus.GONE):
            raise NoFile(path=self.recorded, why=f"there is no file {self.recorded}: it answers {status}")
        if status == HTTPStatus.TOO_MANY_REQUESTS or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise _Broken(f"it answered {status}")
        if status != HTTPStatus.OK:
            raise _refused(self.recorded, f"answers {status}", Fault.NO_ANSWER)
        length = answer.headers.get("content-length", "")
        packed = answer.headers.get("content-encoding", "identity")
        if packed.lower() != "identity" and not self.name.lower().endswith((".gz", ".tgz")):
            raise _refused(self.recorded, f"is sent packed as {visible(packed)[:20]}, which was not asked for")
        if not length.isdigit() and "chunked" not in answer.headers.get("transfer-encoding", "").lower():
            raise _refused(self.recorded, "is sent without its length, so that it is not known whether it came whole")
        if length.isdigit() and int(length) > MOST_BYTES:
            raise _refused(self.recorded, f"has more than {MOST_BYTES >> 30} GiB")
        size = 0
        with copy.open("wb") as written:
            for chunk in answer.raw.stream(_CHUNK_BYTES, decode_content=False):
                size += written.write(chunk)
                if size > MOST_BYTES:
                    raise _refused(self.recorded, f"has more than {MOST_BYTES >> 30} GiB")
        if length.isdigit() and size != int(length):
            raise _Broken(f"{size:,} of {int(length):,} bytes came")


@contextmanager
def fetching(home: Path) -> Iterator[Callable[[], Path]]:
    """Gives new folders of this machine for what is fetched, which are removed afterwards."""
    parent: Path | None = None

    def new_folder() -> Path:
        nonlocal parent
        parent = parent or _new_folder(home / "landing_in_progress" / _FOLDER)
        return Path(tempfile.mkdtemp(dir=parent))

    try:
        yield new_folder
    finally:
        if parent is not None:
            shutil.rmtree(parent, ignore_errors=True)


def _new_folder(parent: Path) -> Path:
    """A folder that is locked while this process lives, with those of processes that are gone removed."""
    parent.mkdir(parents=True, exist_ok=True)
    # One process at a time: a folder that is new and not locked yet looks like one of a process that is gone.
    turn = os.open(parent.with_name(f"{parent.name}{_LOCK}"), os.O_CREAT | os.O_RDWR)
    try:
        with waiting(lambda: "waiting for another process that makes a folder for fetched files"):
            fcntl.flock(turn, fcntl.LOCK_EX)
        for left in parent.iterdir():
            if _is_free(left / _LOCK):
                shutil.rmtree(left, ignore_errors=True)
        folder = Path(tempfile.mkdtemp(dir=parent))
        # Never closed: the lock ends with the process.
        fcntl.flock(os.open(folder / _LOCK, os.O_CREAT | os.O_RDWR), fcntl.LOCK_EX)
    finally:
        os.close(turn)
    return folder


def _is_free(lock: Path) -> bool:
    try:
        held = os.open(lock, os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(held)
    return True


class _Broken(Exception):
    """A request that may succeed when it is made again."""


def _require_plain(text: str) -> None:
    if visible(text) != text or not text.isascii() or " " in text:
        why = f"the address {visible(text)[:100]!r} has characters that an address writes as %20 and the like"
        raise FileRefused(fault=Fault.ADDRESS, why=why)


def _require_safe(found: SplitResult, recorded: str) -> None:
    if found.scheme == "http" and not _is_loopback(found):
        raise _refused(recorded, "has no encryption (http), so that anybody on the way could change the file")
    if found.scheme not in ("https", "http") or not found.hostname:
        raise _refused(recorded, "is not an address of https, s3, gs or az")


def _is_loopback(found: SplitResult) -> bool:
    host = found.hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _refused(recorded: str, why: str, fault: Fault = Fault.ADDRESS) -> FileRefused:
    return FileRefused(fault=fault, path=recorded, why=f"{recorded} {why}")


def _as_it_is(request: requests.PreparedRequest) -> requests.PreparedRequest:
    return request
