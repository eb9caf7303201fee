"""Dagster's pages as a person uses them. Waits for what a page shows, never for a time."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from playwright.sync_api import Locator, Page, expect

from backfill_assets_tests.browser.conftest import SIZE

PAGE_MS = 120_000
"""How long a page may take to appear, on a machine that has other things to do."""

TIMES_TYPED = 3

RUN_MS = 480_000
"""How long a run may take, its queue and the start of Spark included."""


@dataclass(frozen=True, kw_only=True)
class DagsterPages:
    """Dagster in a window of the browser."""

    page: Page  #: The window.
    address: str  #: Of the web server.

    def launch(
        self, job: str, chosen: str, *, ready: Callable[[Page], None] = lambda _page: None, **typed: str
    ) -> bool:
        """Types an entry of a job into its launchpad, launches it, and waits for its end.

        Args:
            job: Its name.
            chosen: Which entry.
            ready: Called before it is launched.
            typed: What is typed there.

        Returns:
            Whether it succeeded. The window shows its run.
        """
        self.page.goto(f"{self.address}/locations/backfill_assets/jobs/backfill_{job}/playground")
        return self._launched(
            "\n".join([f"{chosen}:", *(f'  {name}: "{value}"' for name, value in typed.items())]), ready
        )

    def follow_next(self, expected: str) -> str:
        """Follows the link of the run that the window shows to what is next: what the launchpad shows then."""
        link = self.page.locator("a[href*='/playground/setup?config=']").first
        link.wait_for(timeout=PAGE_MS)
        self.page.goto(f"{self.address}{link.get_attribute('href')}")
        editor = self.page.locator(".CodeMirror").first
        expect(editor).to_contain_text(expected, timeout=PAGE_MS)
        # A name is left open: nothing starts before a person has typed one.
        expect(self.page.get_by_text("Errors", exact=True).first).to_be_visible(timeout=PAGE_MS)
        expect(self._button()).to_be_disabled(timeout=PAGE_MS)
        shown: str = editor.evaluate("editor => editor.CodeMirror.getValue()")
        return shown

    def complete(self, shown: str, **names: str) -> bool:
        """Fills in what a link has left open, launches it, and waits for its end: whether it succeeded."""
        for name, value in names.items():
            shown = re.sub(rf"^(  {name}:)$", rf'\1 "{value}"', shown, flags=re.MULTILINE)
        return self._launched(shown, lambda _page: None)

    def refuses(self, typed: str, said: str) -> None:
        """A text in the open launchpad is refused before anything can be launched."""
        self._type(typed)
        expect(self.page.get_by_text(said).first).to_be_visible(timeout=PAGE_MS)
        expect(self._button()).to_be_disabled(timeout=PAGE_MS)

    def _type(self, text: str) -> None:
        editor = self.page.locator(".CodeMirror").first
        # Beside Dagster's navigation a narrow window has a few pixels of it, which a click misses.
        editor.evaluate("editor => editor.CodeMirror.focus()", timeout=PAGE_MS)
        self.page.keyboard.press("ControlOrMeta+a")
        self.page.keyboard.insert_text(text)

    def _button(self) -> Locator:
        return self.page.get_by_role("button", name="Launch Run")

    def _launched(self, text: str, ready: Callable[[Page], None]) -> bool:
        self._typed(text)
        ready(self.page)
        self._button().click()
        self.page.wait_for_url(re.compile(r"/runs/[0-9a-f-]{36}"), timeout=PAGE_MS)
        return self._ended()

    def _typed(self, text: str) -> None:
        """Types a text that can be launched; again where the page still loaded what was typed there before."""
        for left in reversed(range(TIMES_TYPED)):
            self._type(text)
            try:
                expect(self._button()).to_be_enabled(timeout=PAGE_MS / TIMES_TYPED)
                return
            except AssertionError as error:
                if not left:
                    shown = self.page.locator(".CodeMirror").first.evaluate("editor => editor.CodeMirror.getValue()")
                    raise AssertionError(f"the launchpad shows {shown!r} for {text!r}") from error
            self.page.reload()

    def _ended(self) -> bool:
        succeeded = self.page.get_by_text("Success", exact=True)
        succeeded.or_(self.page.get_by_text("Failure", exact=True)).first.wait_for(timeout=RUN_MS)
        return succeeded.count() > 0

    def says(self, text: str) -> None:
        """The log of the run that the window shows has a text; its last lines are what it shows."""
        self.shows(self.page.get_by_text(text))

    def link_to_the_report(self) -> str:
        """Where the run that the window shows says that its report is read."""
        link = self.page.locator("a[href*='/reports/']").first
        link.wait_for(timeout=PAGE_MS)
        return link.get_attribute("href") or ""

    def switch(self, sensor: str, *, on: bool) -> None:
        """Turns a sensor on or off."""
        self.page.goto(f"{self.address}/locations/backfill_assets/sensors/backfill_{sensor}")
        switch = self.page.locator("label[class*='formatSwitch']").first
        switch.wait_for(timeout=PAGE_MS)
        inside = switch.locator("input")
        if inside.is_checked() != on:
            switch.click()
        expect(inside).to_be_checked(checked=on, timeout=PAGE_MS)

    def wait_for_runs(self, job: str, *, succeeded: int) -> None:
        """Waits until so many runs of a job have succeeded, on the page of its runs, which renews itself."""
        self.page.goto(f"{self.address}/locations/backfill_assets/jobs/{job}/runs")
        expect(self._statuses("Success")).to_have_count(succeeded, timeout=RUN_MS)
        self.shows(self._statuses("Success"))
        expect(self._statuses("Failure")).to_have_count(0)

    @contextmanager
    def as_wide_as(self, width: int) -> Iterator[None]:
        """The window has a width, and then that of a desk again."""
        self.page.set_viewport_size({"width": width, "height": SIZE["height"]})
        try:
            yield
        finally:
            self.page.set_viewport_size(SIZE)

    def shows(self, found: Locator) -> None:
        """A person can see the first of these in the window: nothing is over it, and it is not outside of the page."""
        expect(found.first).to_be_visible(timeout=PAGE_MS)
        found.first.scroll_into_view_if_needed(timeout=PAGE_MS)
        expect(found.first).to_be_in_viewport(timeout=PAGE_MS)

    def _statuses(self, status: str) -> Locator:
        return self.page.locator("[class*='Tag']").get_by_text(status, exact=True)

    def open_asset(self, name: str, shown: str) -> None:
        """Opens the page of an asset, and waits for a text on it."""
        self.page.goto(f"{self.address}/assets/{name}?view=overview")
        expect(self.page.get_by_text(shown, exact=True).first).to_be_visible(timeout=PAGE_MS)
