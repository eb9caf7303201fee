"""Pages of the documentation site that are kept elsewhere in the checkout, and the links between all of them.

`mkdocs build` calls `on_config`, `on_files` and `on_page_markdown`, its hooks. A page is read where it is: nothing is
copied into docs/. What a link leads to is a page of the site, or the link is only its text.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]

ELSEWHERE = {
    "README.md": "start.md",
    "backfill_assets/examples/enforcement_sla/demo.md": "story.md",
    "backfill_assets/examples/enforcement_sla/demo_kafka.md": "story-of-a-topic.md",
    "benchmarks/RESULTS.md": "costs.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}
"""Files outside of docs/, and the page of the site that each of them is."""

DECISIONS = "decisions.md"
_ADR = "docs/adr"
_LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?P<path>[^)\s#]*)(?P<anchor>#[^)\s]*)?\)")
_CODE = re.compile(r"(^```.*?^```$)", flags=re.DOTALL | re.MULTILINE)


def on_config(config: Any) -> Any:
    """Anchors of headings are made as in the checkout, where a test follows every link."""
    from pymdownx.slugs import slugify

    config["mdx_configs"]["toc"] = {"slugify": slugify(case="lower"), "permalink": True}
    return config


def on_files(files: Any, config: Any) -> Any:
    """The pages that are kept elsewhere, and the list of decisions."""
    from mkdocs.structure.files import File

    for source, page in ELSEWHERE.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text(encoding="utf-8")))
    files.append(File.generated(config, DECISIONS, content=decisions()))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """The text of a page with its links as those of the site."""
    return linked(markdown, page.file.src_uri)


def decisions() -> str:
    """The choices that are hard to undo, by the titles of their pages."""
    titles = (
        (path.name, path.read_text(encoding="utf-8").splitlines()[0]) for path in sorted((ROOT / _ADR).glob("*.md"))
    )
    listed = (f"{title.lstrip('# ').replace('. ', '. [', 1)}](adr/{name})" for name, title in titles)
    return "\n".join(["# Decisions", "", "Choices that are hard to undo, a page each.", "", *listed, ""])


def linked(markdown: str, page: str) -> str:
    """A text with its links as those of the site.

    Args:
        page: The page of the site.
    """
    source = next((name for name, of_site in ELSEWHERE.items() if of_site == page), f"docs/{page}")

    def link(found: re.Match[str]) -> str:
        if not found["path"] or re.match(r"https?:|mailto:", found["path"]) or page == DECISIONS:
            return found[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), found["path"]))
        target = page_of(path)
        if target is None:
            # What is not there at all is left to mkdocs, which ends with an error.
            return found["text"] if (ROOT / path).exists() else found[0]
        where = posixpath.relpath(target, posixpath.dirname(page) or ".")
        return f"{found['image']}[{found['text']}]({where}{found['anchor'] or ''})"

    parts = _CODE.split(markdown)
    return "".join(part if part.startswith("```") else _LINK.sub(link, part) for part in parts)


def page_of(path: str) -> str | None:
    """The page or picture of the site that a file of the checkout is; None for files that are none."""
    if path == _ADR:
        return DECISIONS
    if path.startswith("docs/") and (ROOT / path).is_file():
        return path.removeprefix("docs/")
    return ELSEWHERE.get(path)
