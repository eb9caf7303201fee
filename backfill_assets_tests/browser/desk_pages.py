"""The desk's pages as an auditor uses them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from playwright.sync_api import Page, expect


@dataclass(frozen=True, kw_only=True)
class DeskPages:
    """The desk in a window of the browser."""

    page: Page  #: The window.
    address: str  #: Where it is served.

    def find_number(self, table: str, partition: str, key: Mapping[str, str]) -> None:
        """Asks where a number came from, by the form: a table, a partition, and then a key."""
        page = self.page
        page.goto(self.address)
        page.get_by_role("link", name="Where did this number come from?").click()
        page.get_by_label("Table").select_option(table)
        page.get_by_label("Partition, such as").fill(partition)
        page.get_by_role("button", name="Show its keys").click()
        for name, value in key.items():
            page.get_by_label(name, exact=True).fill(value)
        page.get_by_role("button", name="Show this row in every version").click()
        expect(page.get_by_role("heading", level=1)).to_contain_text(f"{table} {partition}")

    def row(self, name: str) -> list[str]:
        """What the history of a number shows of something, the newest version first."""
        cells = self.page.locator(f"xpath=//tr[th[normalize-space(.)='{name}']]/td")
        return [text.strip() for text in cells.all_inner_texts()]
