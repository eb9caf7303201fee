"""Whether a page can be read: nothing is cut off or scrolls sideways, and text stands out from what is behind it."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest
from playwright.sync_api import Page

from backfill_assets.core.settings import PROJECT_ROOT

WIDE, NARROW = 1280, 390
PAPER = 718
"""What A4 has between its margins, in pixels of CSS."""

_CUT_OFF = """() => [...document.querySelectorAll("html, html *")]
  .filter((each) => !["SVG", "TITLE"].includes(each.tagName.toUpperCase()) && !each.closest("svg"))
  .filter((each) => getComputedStyle(each).display !== "inline" && each.scrollWidth > each.clientWidth + 1)
  .filter((each) => each.clientWidth > 0 && !["INPUT", "SELECT"].includes(each.tagName))
  .map((each) => `${each.tagName.toLowerCase()}.${each.className} ${each.scrollWidth} > ${each.clientWidth}: `
    + each.textContent.trim().slice(0, 60))"""

_CUT_LABELS = """() => [...document.querySelectorAll("td[data-column]")].flatMap((cell) => {
  const label = getComputedStyle(cell, "::before"), own = getComputedStyle(cell);
  const box = cell.getBoundingClientRect();
  if (label.content === "none" || !box.width) return [];
  const left = parseFloat(own.borderLeftWidth) + parseFloat(own.paddingLeft) + parseFloat(label.marginLeft);
  return left < -1 || left + parseFloat(label.width) > box.width + 1
    ? [`label ${cell.dataset.column}: ${left} + ${label.width} in ${box.width}`] : [];
})"""
"""A label is no element: where it stands follows from the cell around it. Left of the cell nobody sees it."""

_CUT_TEXTS = """() => [...document.querySelectorAll("svg:not(.plot) text")].flatMap((text) => {
  const size = parseFloat(getComputedStyle(text).fontSize), line = parseFloat(text.getAttribute("y"));
  const height = text.ownerSVGElement.viewBox.baseVal.height;
  return line - 0.74 * size < 0 || line + 0.22 * size > height
    ? [`text ${text.textContent}: ${size} high at ${line} of ${height}`] : [];
})"""
"""The box of a text has room for accents: what is measured is how high a capital letter is, and how deep a `g`."""

_PLOTS = """() => [...document.querySelectorAll("svg.plot")].flatMap((plot) => {
  const around = plot.getBoundingClientRect();
  const texts = [...plot.querySelectorAll("text")]
    .map((text) => ({ text: text.textContent, box: text.getBoundingClientRect() }));
  const outside = texts.filter(({ box }) => box.left < around.left - 1 || box.right > around.right + 1
    || box.top < around.top - 1 || box.bottom > around.bottom + 1);
  const over = (a, b) => a.left < b.right && b.left < a.right && a.top + 4 < b.bottom && b.top + 4 < a.bottom;
  const each = texts.flatMap((one, place) => texts.slice(place + 1).map((other) => [one, other]));
  return [...outside.map(({ text }) => `text ${text}: outside of its plot`),
    ...each.filter(([one, other]) => over(one.box, other.box)).map(([one, other]) => `${one.text} over ${other.text}`)];
})"""
"""Texts of charts that are outside of their drawing, or over each other."""

_BROKEN_WORDS = """() => [...document.querySelectorAll("table:not(.tight) :is(td, th)")].flatMap((cell) => {
  const walker = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT), found = [];
  for (let text = walker.nextNode(); text; text = walker.nextNode()) {
    if (text.parentElement.closest("code")) continue;
    for (const word of text.data.matchAll(/[^\\s-]{2,24}/g)) {
      const range = document.createRange();
      range.setStart(text, word.index);
      range.setEnd(text, word.index + word[0].length);
      const lines = new Set([...range.getClientRects()].map((box) => Math.round(box.top)));
      if (lines.size > 1) found.push(`broken: ${word[0]}`);
    }
  }
  return found;
})"""
"""Words of tables that stand on two lines, in a table that could be wider."""

_BROKEN_DATES = """() => {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), found = [];
  for (let text = walker.nextNode(); text; text = walker.nextNode()) {
    if (text.parentElement.closest("svg, script, code")) continue;
    for (const date of text.data.matchAll(/\\b\\d{4}-\\d\\d(-\\d\\d)?\\b/g)) {
      const range = document.createRange();
      range.setStart(text, date.index);
      range.setEnd(text, date.index + date[0].length);
      const lines = new Set([...range.getClientRects()].map((box) => Math.round(box.top)));
      if (lines.size > 1) found.push(`broken: ${date[0]} in ${text.parentElement.outerHTML.slice(0, 90)}`);
    }
  }
  return found;
}"""
"""Dates that stand on two lines, anywhere on a page."""

LOWEST_LETTERS = 11

_LOW_LETTERS = """(lowest) => [...document.querySelectorAll("svg text")].flatMap((text) => {
  const svg = text.ownerSVGElement, scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
  const height = parseFloat(getComputedStyle(text).fontSize) * scale;
  return scale && height < lowest ? [`text ${text.textContent}: ${height.toFixed(1)} px`] : [];
})"""

_CONTRAST = """async () => {
  const found = await axe.run(document, { runOnly: ["color-contrast", "link-name", "document-title", "label"] });
  return found.violations.flatMap((each) => each.nodes.map((one) => `${each.id}: ${one.html} ${one.failureSummary}`));
}"""


@cache
def axe() -> str:
    """The source of axe-core, which `tools/setup.sh chromium` fetches."""
    setup = (PROJECT_ROOT / "tools" / "setup.sh").read_text(encoding="utf-8")
    (version,) = re.findall(r"^readonly AXE=(\S+)$", setup, flags=re.MULTILINE)
    cache_folder = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    file = Path(cache_folder) / "backfill_assets" / f"axe-{version}.min.js"
    if not file.exists():
        pytest.fail(f"{file} was not found: run tools/setup.sh chromium.")
    return file.read_text(encoding="utf-8")


def cut_off(page: Page, width: int) -> Sequence[str]:
    """What is wider than its place on the page that is shown, or beside it, in a window of some width."""
    page.set_viewport_size({"width": width, "height": 800})
    page.evaluate("() => document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    # The page answers a change of its width before the next frame is drawn.
    page.evaluate("() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(() => drawn(1))))")
    found = (_CUT_OFF, _CUT_LABELS, _CUT_TEXTS, _PLOTS, _BROKEN_DATES, *([_BROKEN_WORDS] if width >= WIDE else []))
    return [each for checked in found for each in page.evaluate(checked)]


def cut_off_on_paper(page: Page) -> Sequence[str]:
    """The same of the printed page."""
    page.emulate_media(media="print")
    try:
        return cut_off(page, PAPER)
    finally:
        page.emulate_media(media="screen")


def low_letters(page: Page) -> Sequence[str]:
    """Texts of drawings on the page that is shown whose letters are too small to be read."""
    return list(page.evaluate(_LOW_LETTERS, LOWEST_LETTERS))


def unreadable(page: Page) -> Sequence[str]:
    """What axe-core finds: contrast under 4.5 to 1, links and fields without a name."""
    page.evaluate(axe())
    return list(page.evaluate(_CONTRAST))
