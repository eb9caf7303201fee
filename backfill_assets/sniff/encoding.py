"""Encoding: what the characters of a text are written in."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass

from backfill_assets.sniff.proposal import Doubt, DoubtKind

_MOST_LETTERS = 12
_MOSTLY = 0.9
_RARELY = 0.1
_SIGNS = frozenset("€£¥§°²³µ±·…«»®©™½¼¿¡ªº\u00a0\u2013\u2014\u2018\u2019\u201c\u201d\u201e")


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoding:
    """An encoding by a name that Python knows, and what is not sure about it."""

    name: str
    doubt: Doubt | None = None


def encoding_of(sample: bytes) -> Encoding:
    """The encoding of the first bytes of a text."""
    for mark, name in ((codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32")):
        if sample.startswith(mark):
            return Encoding(name=name)
    if sample.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return Encoding(name="utf-16")
    if wide := _without_mark(sample):
        return Encoding(name=wide)
    if is_utf8(sample):
        return Encoding(name="utf-8")
    return _of_bytes(sample)


def is_utf8(sample: bytes) -> bool:
    """True if bytes are UTF-8, except for a character that is cut at their end."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(sample)
    except UnicodeDecodeError:
        return False
    return True


def _without_mark(sample: bytes) -> str:
    even, odd = sample[0:400:2], sample[1:400:2]
    if len(sample) > 7 and odd.count(0) > len(odd) * 0.8 and not even.count(0):
        return "utf-16-le"
    return "utf-16-be" if len(sample) > 7 and even.count(0) > len(even) * 0.8 and not odd.count(0) else ""


def _of_bytes(sample: bytes) -> Encoding:
    """The encoding by which bytes are the most likely text; Latin-1 where it gives the same text."""
    from charset_normalizer import from_bytes

    matches = from_bytes(sample)
    best = matches.best()
    western = _decoded(sample, "cp1252")
    latin = "cp1252" if any(0x80 <= byte < 0xA0 for byte in sample) else "latin-1"
    likely = [match.encoding for match in matches if best is not None and match.chaos <= best.chaos]
    agreed = western is not None and (not likely or any(_decoded(sample, each) == western for each in likely))
    if western is not None and (agreed or _is_western(western)):
        chosen, text = latin, western
    else:
        chosen = likely[0] if likely else "latin-1"
        text = _decoded(sample, chosen) or ""
    chosen = _of_the_far_east(sample, chosen)
    text = _decoded(sample, chosen) or text
    others = [each for each in likely if _decoded(sample, each) not in (None, text)]
    letters = "".join(dict.fromkeys(character for character in text if ord(character) > 127))[:_MOST_LETTERS]
    return Encoding(name=chosen, doubt=Doubt(kind=DoubtKind.ENCODING, values=(chosen, letters, *others[:3])))


def _of_the_far_east(sample: bytes, chosen: str) -> str:
    """GB 18030 where a text could be Korean as well, and would have the rare syllables and signs of that.

    In both encodings a character is two bytes from A1 on. Of Korean, syllables begin with B0 to C8; of Chinese, the
    characters that are used most begin with B0 to D7.
    """
    if chosen not in ("cp949", "euc_kr", "johab"):
        return chosen
    pairs = re.findall(rb"[\x81-\xfe][\x41-\xfe]", sample)
    rare = sum(not (0xB0 <= pair[0] <= 0xC8 and pair[1] >= 0xA1) for pair in pairs)
    is_chinese = rare > len(pairs) * _RARELY and _decoded(sample, "gb18030") is not None
    return "gb18030" if is_chinese else chosen


def _is_western(text: str) -> bool:
    """True if letters beyond ASCII stand beside ASCII ones, as in words of western languages, or are usual signs.

    Words of other scripts have several of them in a row.
    """
    found = [place for place, character in enumerate(text) if ord(character) > 127]
    likely = sum(
        text[place] in _SIGNS
        or (text[place].isalpha() and any(map(_is_ascii_letter, text[max(0, place - 1) : place + 2])))
        for place in found
    )
    return likely > len(found) * _MOSTLY


def _is_ascii_letter(character: str) -> bool:
    return character.isascii() and character.isalpha()


def _decoded(sample: bytes, encoding: str) -> str | None:
    try:
        return sample.decode(encoding)
    except (UnicodeDecodeError, LookupError):
        return None
