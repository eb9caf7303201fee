"""A document of JSON gives the texts of its records as they were written, or is refused with the place of its fault."""

from __future__ import annotations

import io
import json
import random
import re
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest

from backfill_assets.capture.errors import BadFile
from backfill_assets.domain import Json
from backfill_assets.landing.decoding import json_documents
from backfill_assets.landing.decoding.json_documents import json_records
from backfill_assets.landing.first_bytes import list_at
from backfill_assets.landing.probe import MOST_RECORD_BYTES

ARRAY, LIST, PLAIN = Json(array=True), Json(records="features"), Json()
ODD = r'{"n": 0.10, "e": 1E5, "z": -0, "big": 123456789012345678901234567890, "u": "\u00e9\ud83d\ude00/\/", "n": 2}'


def read(text: str | bytes, reads: Json = ARRAY) -> list[str]:
    content = text.encode() if isinstance(text, str) else text
    return [each.decode() for each in json_records(io.BytesIO(content), reads, name="a.json")]


@pytest.mark.parametrize(
    ("text", "reads", "records"),
    [
        ("[]", ARRAY, []),
        (" [ ] \n", ARRAY, []),
        (f"[{ODD},{ODD}]", ARRAY, [ODD, ODD]),
        ('[\n  {\r\n    "a": [1,\n 2]\n  },\n  {}\n]\n', ARRAY, ['{      "a": [1,  2]   }', "{}"]),
        ('\ufeff[{"a":1}]', ARRAY, ['{"a":1}']),
        ('[{"a":1}][{"a":2}]\n[]', ARRAY, ['{"a":1}', '{"a":2}']),
        ('[1, "x", null, [2], {"a":1}]', ARRAY, ["1", '"x"', "null", "[2]", '{"a":1}']),
        ('{"type":"FeatureCollection","features":[{"a":1},{"a":2}],"bbox":[1,2]}', LIST, ['{"a":1}', '{"a":2}']),
        ('{"feat\\u0075res":[{"a":1}]}', LIST, ['{"a":1}']),
        ('{"features":[{"a":1}]}\n{"features":[]}{"features":[{"a":2}]}', LIST, ['{"a":1}', '{"a":2}']),
        ('{"x":{"items":[0]},"r":{"y":1,"items":[{"a":1}]}}', Json(records="r.items"), ['{"a":1}']),
        ('{"a":1}{"a":2}{"a":3}', PLAIN, ['{"a":1}', '{"a":2}', '{"a":3}']),
        ('{"a":1},\n{"a":2}', PLAIN, ['{"a":1}', '{"a":2}']),
        ('{\n"a":1\n}\n{\n"a":2\n}\n', PLAIN, ['{ "a":1 }', '{ "a":2 }']),
        ('\x1e{"a":1}\n\x1e{"a":2}\n', PLAIN, ['{"a":1}', '{"a":2}']),
        ("", PLAIN, []),
        ('[{"a":1},{"a":01},{"a":NaN},{"a":1 "b":2},{"a":2}]', ARRAY, None),
    ],
)
def test_each_record_has_the_text_that_was_written(text: str, reads: Json, records: list[str] | None) -> None:
    broken = ['{"a":1}', '{"a":01}', '{"a":NaN}', '{"a":1 "b":2}', '{"a":2}']
    assert read(text, reads) == (broken if records is None else records)


@pytest.mark.parametrize(
    ("text", "reads", "said"),
    [
        ("", ARRAY, "is empty, and a JSON document without records is not"),
        ("\n", LIST, "is empty, and a JSON document without records is not"),
        ('[{"a":1}', ARRAY, "ends within a JSON document, in line 1 (byte 9)"),
        ('[\n{"a":1},\n{"a"', ARRAY, "ends within a JSON document, in line 3 (byte 16)"),
        ('{"features":[{"a":1}]', LIST, "ends within a JSON document, in line 1 (byte 22)"),
        ('[{"a":1}]\nnull', ARRAY, "has 'null' behind a document, in line 2 (byte 11)"),
        ('{"a":1}\n<html>', PLAIN, "has '<html>' behind a document, in line 2 (byte 9)"),
        ('{"a":1},', PLAIN, "has a comma behind its last object, in line 1 (byte 9)"),
        ('[{"a":1},]', ARRAY, "has ']' where a value is expected, in line 1 (byte 10)"),
        ('[{"a":1} {"a":2}]', ARRAY, "has an object where ',' or ']' is expected, in line 1 (byte 10)"),
        ('[{"a":1}}]', ARRAY, "has '}' where ',' or ']' is expected, in line 1 (byte 9)"),
        ('[{"a":[1}]', ARRAY, "has '}' where ']' is expected, in line 1 (byte 9)"),
        ("[{'a':1}]", ARRAY, "has \"'a':1\" where a token of JSON is expected, in line 1 (byte 3)"),
        ('{"features":[]', ARRAY, "is a JSON object, and an array is declared"),
        ('[{"a":1}]', PLAIN, "is a JSON array, and an object is declared"),
        ('[{"a":1}]', LIST, "is a JSON array, and an object is declared"),
        ("id,at\n", ARRAY, "is not a JSON document: it begins with 'id'"),
        ('{"type":1,"Features":[]}', LIST, "has no list at 'features': the members are type, Features"),
        ('{"r":{}}', Json(records="r.items"), "has no list at 'r.items': the members of 'r' are none"),
        ('{"features":null}', LIST, "has 'null' at 'features', and a list is declared there, in line 1 (byte 13)"),
        ('{"features":{}}', LIST, "has an object at 'features', and a list is declared there"),
        ('{"r":[]}', Json(records="r.items"), "has a list at 'r', and an object is declared there"),
        ('{"features":[],\n"features":[]}', LIST, "names 'features' twice, in line 2 (byte 28)"),
        ('{"x":01,"features":[]}', LIST, "has '01' where a value of JSON is expected, in line 1 (byte 6)"),
        ('{"x":"\\q","features":[]}', LIST, "has a string that is not valid JSON"),
        (b'{"x":"\xff","features":[]}', LIST, "has a text that is not UTF-8, in line 1 (byte 6)"),
        ("[" * 100_000, ARRAY, "nests deeper than 500 levels, in line 1 (byte 2)"),
        ('{"x":' + "[" * 100_000, LIST, "nests deeper than 500 levels"),
        ("[" + '{"a":' * 2_000 + "1" + "}" * 2_000 + "]", ARRAY, "nests deeper than 500 levels, in line 1 (byte 2)"),
        (
            '[{"a":"' + "x" * (MOST_RECORD_BYTES + 1) + '"}]',
            ARRAY,
            "has a record of more than 8 MiB, in line 1 (byte 2)",
        ),
    ],
    ids=lambda value: value[:20] if isinstance(value, str) else None,
)
def test_a_document_that_is_not_whole_or_not_as_declared_is_refused_with_the_place(
    text: str | bytes, reads: Json, said: str
) -> None:
    with pytest.raises(BadFile, match=re.escape(f"a.json {said}")):
        read(text, reads)


def test_what_is_declared_instead_is_named() -> None:
    with pytest.raises(BadFile, match=r'declare reads=Json\(records="result\.items"\)'):
        read('{"meta":{"n":[1]},"result":{"items":[{"id":1}]}}')
    with pytest.raises(BadFile, match=r"declare reads=Json\(array=True\)"):
        read("[]", LIST)
    assert list_at('{"id":1,"items":[{}]}', ["id"]) == ""
    assert list_at('{"meta":[[{}]],"a.b":[{}]}') == ""


WRONG = """
[1 true] | [a] | ["": 1] | [""], | [,1] | [1,,2] | ["x",,] | ["x"]] | ["",] | ["x" | [x | [3[4]] | [1:2] | [,] | [-]
[   , ""] | ["a"\v"b"] | ["a",4,1, | [1,] | [*] | ["" | [1,1, | [{} | [fals] | [nul] | [tru] | [++1234] | [+1] | [+Inf]
[-01] | [-1.0.] | [-2.] | [-NaN] | [.-1] | [.2e-3] | [0.1.2] | [0.3e+] | [0.3e] | [0.e1] | [0E+] | [0E] | [0e] | [1.0e+]
[1.0e-] | [1.0e] | [1 000.0] | [1eE2] | [2.e+3] | [2.e3] | [9.e+] | [Inf] | [NaN] | [\uff11] | [1+2] | [0x1] | [0x42]
[Infinity] | [0e+-1] | [-123.123foo] | [-Infinity] | [-foo] | [- 1] | [-012] | [-.123] | [-1x] | [1ea] | [.123] | [012]
["x", truth] | {[: "x"} | {"x", null} | {"x"::"b"} | {🇨🇭} | {"a":"a" 123} | {key: 'value'} | {"id":0,} | {"a"} | {"a" b}
{:"b"} | {"a":/*x*/"b"} | {"x":} | {1:1} | {9999E9999:1} | {null:null,null:null} | {'a':0}
{"id":0,,,,,} | {"a":"b",,"c":"d"} | {"a":"b"}/**/ | {"a":"b"}# | {"a":"b",/*
{ "foo" : "bar", "a" } | {"a":true} "x" | {"a":1}}
["\\u"] | ["\\u00A"] | ["\\q"]
["\\x00"] | ["\\\\\\"] | ["\\uD800\\u1x"] | ["\\a"] | [\\u000A""] | " | ['single quote'] | abc | ["\\
["\x1f"] | ["\t"]
["new⏎line"] | <null> | <.> | 1] | ["x | [][ | {}[ | [1]x | ["asd]] | aå | [True] | {"asd":"asd" | å | # | [{ | 2@ | {}}
{"":  | {"a":/ | [1,⏎1⏎,1 | ] | * | {"a":"b"}#{} | [\\u000A""] | ["asd | ["asd\\""
"""
"""Texts that are no JSON, of the kinds that parsers are known to take. ⏎ is a line break."""

TEXTS = [each.replace("⏎", "\n") for each in WRONG.strip("\n").replace("\n", " | ").split(" | ")]


AROUND = [
    *((ARRAY, "", ""), (LIST, "", ""), (PLAIN, "", "")),
    *((ARRAY, '[{"a":1},', "]"), (LIST, '{"features":[{"a":1},', "]}"), (PLAIN, '{"a":1}', "")),
]


def _is_object(text: str) -> bool:
    def refuse(said: str) -> None:
        raise ValueError(said)

    try:
        return isinstance(json.loads(text, parse_constant=refuse), dict)
    except ValueError:
        return False


@pytest.mark.parametrize("text", TEXTS)
def test_what_is_no_json_is_refused_or_each_of_its_faults_is_a_record_of_its_own(text: str) -> None:
    """Every record that is given is not taken for an object by a strict parser, so that landing rejects it; in an
    array the record beside it is the one that was written."""
    for reads, before, behind in AROUND:
        try:
            found = read(before + text + behind, reads)
        except BadFile:
            continue
        assert not before or found.pop(0) == '{"a":1}'
        assert not any(map(_is_object, found)), found


def _value(chance: random.Random, depth: int = 0) -> str:
    blank = chance.choice(["", " ", "\n  ", "\r\n\t"])
    kind = chance.random()
    if depth > 4 or kind < 0.5:
        return chance.choice(
            ["1", "-0", "1e5", "0.10", "true", "null", '"é\\u00e9\\ud83d\\ude00"', '"a\\"b]}"', '"\\\\"']
        )
    if kind < 0.75:
        members = (f'"{chance.choice("abc")}"{blank}:{_value(chance, depth + 1)}' for _ in range(chance.randrange(4)))
        return "{" + blank + f",{blank}".join(members) + "}"
    return "[" + f"{blank},".join(_value(chance, depth + 1) for _ in range(chance.randrange(4))) + blank + "]"


def _pairs(text: str) -> Any:
    return json.loads(text, parse_float=str, parse_int=str, object_pairs_hook=lambda members: ("object", members))


def test_documents_cut_into_pieces_anywhere_give_the_records_that_python_finds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chance = random.Random(20261130)
    for _ in range(1_500):
        monkeypatch.setattr(json_documents, "_CHUNK_BYTES", chance.choice([1, 2, 3, 7, 64, 1 << 20]))
        records = [_value(chance) for _ in range(chance.randrange(5))]
        others = [f'"{chance.choice("xyz")}":{_value(chance)}' for _ in range(chance.randrange(4))]
        listed = ",".join([*others[:2], '"features":[' + " ,\n".join(records) + "]", *others[2:]])
        for text, reads in ((f"[{', '.join(records)}]", ARRAY), (f"{{{listed}}}", LIST)):
            found = read(text, reads)
            assert [_pairs(each) for each in found] == [_pairs(each) for each in records]
            assert found == [each.replace("\n", " ").replace("\r", " ") for each in records]


def test_a_document_that_is_changed_anywhere_is_refused_or_gives_what_python_finds_in_it() -> None:
    chance = random.Random(59)
    for _ in range(3_000):
        records = [_value(chance) for _ in range(chance.randrange(4))]
        changed = bytearray(f"[{', '.join(records)}]".encode())
        place = chance.randrange(len(changed))
        changed[place : place + chance.randrange(3)] = chance.choice([b"", b"]", b"{", b'"', b",", b"\\", b"0", b"\n"])
        try:
            found = read(bytes(changed))
        except (BadFile, UnicodeDecodeError):
            found = None
        try:
            expected = _pairs(changed.decode())
        except ValueError:
            assert found is None or b"][" in changed.replace(b"\n", b"") or not all(map(_is_json, found))
        else:
            is_array = isinstance(expected, list)
            assert (found is not None) is is_array and (not is_array or list(map(_pairs, found or ())) == expected)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


class _Endless(io.RawIOBase):
    """An array of so many records in one line, of which no more than a piece is held."""

    def __init__(self, count: int) -> None:
        self._pieces = self._written(count)
        self._rest = b""

    @staticmethod
    def _written(count: int) -> Iterator[bytes]:
        yield b"["
        for place in range(count):
            yield (b"," if place else b"") + b'{"id":%d,"x":"%s"}' % (place, b"y" * 200)
        yield b"]"

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # every buffer that is written to
        while len(self._rest) < len(buffer) and (piece := next(self._pieces, b"")):
            self._rest += piece
        count = min(len(buffer), len(self._rest))
        buffer[:count], self._rest = self._rest[:count], self._rest[count:]
        return count


@pytest.mark.long
def test_an_array_in_one_line_takes_memory_for_a_piece_of_it() -> None:
    tracemalloc.start()
    try:
        count = sum(1 for _ in json_records(io.BufferedReader(_Endless(100_000)), ARRAY, name="a.json"))
        assert count == 100_000
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()
