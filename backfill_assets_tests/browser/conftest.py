"""The browser of the tests: Debian's Chromium, driven by Playwright, and where pictures for the documentation go."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import BrowserContext, ViewportSize, sync_playwright

from backfill_assets.core.settings import PROJECT_ROOT
from backfill_assets_tests.browser.pictures import Pictures

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "/Applications/Chromium.app/Contents/MacOS/Chromium")
SIZE: ViewportSize = {"width": 1280, "height": 800}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write-images", action="store_true", help="write the pictures of docs/images anew")


def chromium() -> str:
    """The program of the browser; a test of pages that found none would prove nothing, so it fails."""
    for name in PROGRAMS:
        if found := shutil.which(name):
            return found
    pytest.fail("Chromium was not found: run tools/setup.sh chromium (Debian: apt-get install chromium).")


@pytest.fixture(scope="module")
def browsing() -> Iterator[BrowserContext]:
    """A browser without a past, which remembers nothing either."""
    # Its sandbox needs a user of its own, which root has not.
    arguments = ["--no-sandbox"] if hasattr(os, "getuid") and os.getuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=arguments)
        try:
            yield browser.new_context(viewport=SIZE, reduced_motion="reduce", timezone_id="UTC")
        finally:
            browser.close()


@pytest.fixture(scope="module")
def pictures(request: pytest.FixtureRequest) -> Pictures:
    """Pictures are taken when they are asked for."""
    asked = request.config.getoption("--write-images", default=False)
    return Pictures(folder=PROJECT_ROOT / "docs" / "images" if asked else None)
