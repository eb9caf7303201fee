"""Pictures of pages for the documentation."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Error as NotInTime
from playwright.sync_api import Page

LARGEST_BYTES = 200_000
AT_REST_MS = 10_000


@dataclass(frozen=True, kw_only=True)
class Pictures:
    """Takes pictures of pages."""

    folder: Path | None  #: Where they go; None to take none.

    def take(self, page: Page, name: str) -> None:
        """What the window shows, as a small file."""
        if self.folder is None:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{name}.png"
        with suppress(NotInTime):  # a page that asks again and again is never at rest
            page.wait_for_load_state("networkidle", timeout=AT_REST_MS)
        page.screenshot(path=path, animations="disabled")
        assert path.stat().st_size < LARGEST_BYTES, f"{path.name} is too large for a page of documentation"
