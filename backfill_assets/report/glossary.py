"""Glossary of a page: what the words of this field mean, and only those that the page uses. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

MEANINGS = {
    "accepted": "rows that readers of the published table see now",
    "candidate": "rows that a run has computed and written aside, where no reader sees them",
    "chunk": "days that are computed in one go; a long run has several",
    "dependent": "a table that is computed from this one, directly or through others",
    "gate": "a check of what a run has computed; if a blocking one fails, the run cannot be published",
    "manifest": "the contract of a run, fixed when it is planned: what is computed, from what, and why",
    "mode": "what a run is for: LIVE and BACKFILL are published; DRY_RUN, REPLAY and RECONCILIATION only measure",
    "partition": "the rows of one day, or of one month: the smallest part that is published or undone",
    "reference": "facts beside the events that the rules use, such as calendars and deadlines, each with a version",
    "release": "a version of the code that computes the rows",
    "restated": "days that had rows before, which this run replaces",
    "restatement": "a run that replaces rows that were believed to be right",
    "rolled back": "undone: the rows from before are what readers see again",
    "staged": "computed and written aside, not visible to readers",
    "superseded": "replaced by a later publication",
    "swap": "one commit that exchanges files of the table for others: readers see all of it or nothing",
    "verified": "computed again, found equal to what readers see, and left as it is",
    "warm-up": "earlier days that are read because rows depend on them, and that are not written",
    "window": "the days of input that one day of output needs",
    "withdrawn": "taken back: an approval that no longer counts, or a record that its source no longer has",
}


def glossary(text: str) -> Mapping[str, str]:
    """The words that a text uses, also in the plural, in alphabetical order, each with its meaning."""
    plain = re.sub(r"<[^>]*>", " ", text).replace("warm_up", "warm-up").casefold()
    return {word: means for word, means in MEANINGS.items() if re.search(rf"\b{re.escape(word)}(?:s|ped)?\b", plain)}
