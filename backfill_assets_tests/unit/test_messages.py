"""Messages use plain standard English: no sign of the dialect that was found by reading every line aloud."""

from __future__ import annotations

import ast
import re

import pytest

from backfill_assets_tests.support.messages import messages, messages_in

SIGNS = {
    "a person or a value 'is none'": r"(?<!there )\b(is|are|was|were) none\b(?! of (these|those|them|its|their)\b)",
    "'is no X' in place of 'is not an X'": r"(?<![Tt]here )\b(is|are|was|were) no (?!(longer|more|earlier|later)\b)",
    "'of it', which is 'its'": r"\bof it\b",
    "'that of', which has no noun": r"\b(of|from|than) that(?= (of|in|is|was)\b|[.,;:]|$)",
    "'that there is'": r"\bthat there (is|are)\b",
    "'is told', which is 'is notified' or 'is known'": r"\b(is|are|be|was|been) told\b",
    "'on your word'": r"\b(on your|by the|the) word\b",
    "'as a whole'": r"\bas a whole\b",
    "'whatever'": r"(?i)\bwhatever\b",
    "'any more', which is 'no longer'": r"\bany more\b(?! (of|than)\b)",
    "'goes on', which is 'continues'": r"\b(goes|go|went) on\b(?! (the|one)\b)",
    "'takes back', which is 'withdraws'": r"(?i)\b(take|takes|taken|took|brought|bring|brings) (\S+ ){0,5}back\b",
    "'so that it is not known'": r"\bit is not known (which|what|where|how|who)\b",
    "'stays known', 'ever came from'": r"\b(stays known|ever came)\b",
    "'what X lacks'": r"\bwhat (they|it|these|that|those) lacks?\b",
    "a title or a sentence that begins with 'What' and asks nothing": r"^What\b(?!.*\?)",
}
"""By what is wrong, how it shows."""


@pytest.mark.parametrize("sign", SIGNS)
def test_no_message_and_no_help_has_a_sign_of_the_dialect(sign: str) -> None:
    found = [f"{each.place}: {each.text}" for each in messages() if re.search(SIGNS[sign], each.text)]
    assert not found, "\n".join([sign, *found])


@pytest.mark.parametrize(
    "sentence",
    [
        "approved by a member of finance, and {...} is none: {...}",
        "{...} is no regular file: a pipe has no content",
        "nothing of it can be published",
        "{...} s from that of the driver",
        "Choose the first day that there is.",
        "what it has dropped cannot be told",
        "Build bronze days; with --empty, days without events on your word.",
        "in so many phases; 1 for as a whole",
        "land anew, whatever landed before",
        "it is not valid any more",
        "it goes on where it stopped",
        "Take one key of a source back, and build the days.",
        "so that it is not known where to begin",
        "Every publication; with --partition, where its rows ever came from.",
        "The rows are deleted; that they were there stays known.",
        "Read all days once more; what they lack is withdrawn.",
        "What every table holds, and the newest runs.",
    ],
)
def test_the_sentences_that_new_readers_stumbled_over_are_found(sentence: str) -> None:
    assert any(re.search(sign, sentence) for sign in SIGNS.values())


@pytest.mark.parametrize(
    "sentence",
    [
        "there is no run {...}",
        "the run is no longer approved",
        "What changes?",
        "the release of that run",
        "none of its code is archived",
    ],
)
def test_plain_sentences_are_allowed(sentence: str) -> None:
    assert not [name for name, sign in SIGNS.items() if re.search(sign, sentence)]


def test_texts_of_errors_commands_and_pages_are_messages_and_docstrings_are_not() -> None:
    source = '''
"""A module."""
@sentence
class Gone(Refused):
    """{table} is gone."""
@app.command()
def run(by: str = Option(help="Who acts.")):
    """Stage a run."""
    raise Usage(f"give {by} a name")
def other():
    """No message."""
'''
    found = {each.text for each in messages_in(ast.parse(source), "cli/commands_write.py")}
    assert found == {"{table} is gone.", "Who acts.", "Stage a run.", "give {...} a name"}
    assert len(messages()) > 3_000
