"""Is every mistake in a reference document refused with a sentence that says where it is?"""

from __future__ import annotations

import copy
import hashlib
import random
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from datetime import date, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from backfill_assets.core.errors import InvalidReference
from backfill_assets.core.settings import EXAMPLE_REFERENCE
from backfill_assets.domain import Domain, Reference
from backfill_assets.examples.enforcement_sla import DOMAIN
from backfill_assets.examples.enforcement_sla.references import (
    DayKind,
    DeadlineRules,
    parse_jurisdiction_calendar,
    parse_sla_policy,
)
from backfill_assets.files.local import LocalFiles
from backfill_assets.planning.manifest_parts import PinnedReference
from backfill_assets.transforms import strict_yaml
from backfill_assets.transforms.references import MOST_BYTES, load_pinned, load_references
from backfill_assets_tests.support.searches import examples

CALENDAR: dict[str, Any] = {
    "version": "calendar-1",
    "jurisdictions": {
        "IT": {
            "timezone": "Europe/Rome",
            "weekend": ["saturday", "sunday"],
            "holidays": ["2024-12-25", date(2024, 12, 26)],
        }
    },
}
POLICY: dict[str, Any] = {
    "version": "policy-1",
    "clocks": [
        {
            "jurisdiction": "IT",
            "clock": "decision",
            "starts_on": ["OPENED"],
            "stops_on": ["DECIDED"],
            "pauses_on": ["ASKED"],
            "resumes_on": ["ANSWERED"],
            "limit_days": 3,
            "day_kind": "business",
            "tracked_days": 10,
        }
    ],
}

Spoil = Callable[[Any], object]


def test_a_calendar_is_read_with_dates_as_text_or_as_dates() -> None:
    calendar = parse_jurisdiction_calendar(CALENDAR)
    assert calendar.version == "calendar-1"
    italy = calendar.named("IT")
    assert italy is not None
    assert italy.holidays == {date(2024, 12, 25), date(2024, 12, 26)}
    assert italy.weekend == {5, 6}
    assert calendar.named("FR") is None


def test_parsed_values_cannot_be_changed_and_can_be_compared_and_hashed() -> None:
    policy = parse_sla_policy(POLICY)
    with pytest.raises(FrozenInstanceError):
        policy.clocks[0].limit_days = 4  # type: ignore[misc]
    assert {policy} == {parse_sla_policy(copy.deepcopy(POLICY))}
    assert hash(parse_jurisdiction_calendar(CALENDAR))


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (lambda d: d.pop("version"), r"^the document lacks the key 'version'$"),
        (lambda d: d.update(version=3), r"^version has to be text, but is 3; put it in quotes$"),
        (lambda d: d.update(version=" "), r"^version is empty$"),
        (lambda d: d.pop("jurisdictions"), r"lacks the key 'jurisdictions'$"),
        (lambda d: d.update(jurisdictions={}), r"^jurisdictions is empty"),
        (lambda d: d.update(jurisdictions=["IT"]), r"^jurisdictions has to be a mapping"),
        (lambda d: d["jurisdictions"].update({False: {}}), r"^a name in jurisdictions has to be text, but is False"),
        (lambda d: d["jurisdictions"].update(FR=None), r"^jurisdictions.FR has to be a mapping.* is missing$"),
        (lambda d: d["jurisdictions"]["IT"].pop("holidays"), r"^jurisdictions.IT lacks the key 'holidays'$"),
        (
            lambda d: d["jurisdictions"]["IT"].update(timezone="Europe/Roma"),
            r"IT.timezone is 'Europe/Roma', which is not",
        ),
        (lambda d: d["jurisdictions"]["IT"].update(timezone="Europe"), r"IT.timezone is 'Europe', which is not"),
        (lambda d: d["jurisdictions"]["IT"].update(timezone="+02:00"), r"not an IANA time zone"),
        (lambda d: d["jurisdictions"]["IT"].update(weekend=["domenica"]), r"IT.weekend\[0\] is 'domenica'"),
        (lambda d: d["jurisdictions"]["IT"].update(weekend="sunday"), r"IT.weekend has to be a list"),
        (
            lambda d: d["jurisdictions"]["IT"].update(
                weekend=["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
            ),
            r"IT.weekend names all seven days",
        ),
        (lambda d: d["jurisdictions"]["IT"]["holidays"].append("2025-02-30"), r"IT.holidays\[2\] is '2025-02-30'"),
        (lambda d: d["jurisdictions"]["IT"]["holidays"].append(20250101), r"IT.holidays\[2\] is 20250101"),
        (lambda d: d["jurisdictions"]["IT"]["holidays"].append("2025-W01-1"), r"not a date like 2024-12-25"),
        (lambda d: d["jurisdictions"]["IT"]["holidays"].append(datetime(2025, 1, 1)), r"IT.holidays\[2\]"),  # noqa: DTZ001
    ],
)
def test_a_mistake_in_the_calendar_is_refused_and_placed(spoil: Spoil, sentence: str) -> None:
    document = copy.deepcopy(CALENDAR)
    spoil(document)
    with pytest.raises(ValueError, match=sentence):
        parse_jurisdiction_calendar(document)


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (lambda d: d.pop("clocks"), r"lacks the key 'clocks'$"),
        (lambda d: d.update(clocks=[]), r"^clocks is empty"),
        (lambda d: d.update(clocks={}), r"^clocks has to be a list"),
        (lambda d: d["clocks"].append("decision"), r"^clocks\[1\] has to be a mapping"),
        (
            lambda d: d["clocks"].append(d["clocks"][0]),
            r"clocks\[1\] declares the clock 'decision' of IT again; clocks\[0\]",
        ),
        (lambda d: d["clocks"][0].pop("pauses_on"), r"^clocks\[0\] \(IT decision\) lacks the key 'pauses_on'$"),
        (lambda d: d["clocks"][0].update(jurisdiction=False), r"clocks\[0\].jurisdiction has to be text, but is False"),
        (lambda d: d["clocks"][0].update(starts_on=[]), r"starts_on is empty"),
        (lambda d: d["clocks"][0].update(starts_on="OPENED"), r"starts_on has to be a list, but is 'OPENED'"),
        (lambda d: d["clocks"][0].update(stops_on=[1]), r"stops_on\[0\] has to be text"),
        (lambda d: d["clocks"][0].update(resumes_on=["ASKED"]), r"names 'ASKED' in both pauses_on and resumes_on"),
        (lambda d: d["clocks"][0].update(limit_days=-1), r"limit_days is -1; it has to lie between 0 and"),
        (lambda d: d["clocks"][0].update(limit_days="3"), r"limit_days has to be a whole number of days, but is '3'"),
        (lambda d: d["clocks"][0].update(limit_days=True), r"limit_days has to be a whole number"),
        (lambda d: d["clocks"][0].update(limit_days=2.5), r"limit_days has to be a whole number"),
        (lambda d: d["clocks"][0].update(tracked_days=0), r"tracked_days is 0; it has to lie between 1 and"),
        (lambda d: d["clocks"][0].update(tracked_days=10**9), r"tracked_days is 1000000000; it has to lie"),
        (
            lambda d: d["clocks"][0].update(day_kind="working"),
            r"day_kind is 'working'; it has to be calendar or business",
        ),
    ],
)
def test_a_mistake_in_the_policy_is_refused_and_placed(spoil: Spoil, sentence: str) -> None:
    document = copy.deepcopy(POLICY)
    spoil(document)
    with pytest.raises(ValueError, match=sentence):
        parse_sla_policy(document)


@pytest.mark.parametrize("parse", [parse_jurisdiction_calendar, parse_sla_policy])
@pytest.mark.parametrize("document", [None, [], "version: 1", 7])
def test_a_document_that_is_no_mapping_is_refused(parse: Callable[[Any], object], document: Any) -> None:
    with pytest.raises(ValueError, match=r"^the document has to be a mapping"):
        parse(document)


def test_a_clock_without_a_calendar_is_refused_when_the_two_are_brought_together() -> None:
    document = copy.deepcopy(POLICY)
    document["clocks"][0]["jurisdiction"] = "FR"
    references = {
        "jurisdiction_calendar": parse_jurisdiction_calendar(CALENDAR),
        "sla_policy": parse_sla_policy(document),
    }
    with pytest.raises(InvalidReference, match="policy-1 has clocks for FR, which jurisdiction_calendar calendar-1"):
        DeadlineRules.from_references(references)


def test_countable_days_are_numbered_past_the_last_day_as_far_as_a_deadline_can_reach() -> None:
    rules = DeadlineRules(calendar=parse_jurisdiction_calendar(CALENDAR), policy=parse_sla_policy(POLICY))
    days = list(rules.countable_days(date(2024, 12, 23), date(2024, 12, 24)))
    assert {day.day_kind for day in days} == {DayKind.BUSINESS}
    # Christmas is followed by a Friday, a weekend, and the rest of the limit and one day more.
    assert [(day.day.day, day.days_counted) for day in days] == [
        *((23, 1), (24, 2), (25, 2), (26, 2), (27, 3), (28, 3), (29, 3), (30, 4), (31, 5), (1, 6)),
    ]


def test_the_committed_reference_files_are_accepted_and_agree() -> None:
    folder = EXAMPLE_REFERENCE
    calendar = parse_jurisdiction_calendar(yaml.safe_load((folder / "jurisdiction_calendar.yaml").read_text()))
    policy = parse_sla_policy(yaml.safe_load((folder / "sla_policy.yaml").read_text()))
    DeadlineRules.from_references({"jurisdiction_calendar": calendar, "sla_policy": policy})
    assert policy.tracked_days == 60
    for jurisdiction in calendar.jurisdictions:
        clocks = [clock for clock in policy.clocks if clock.jurisdiction == jurisdiction.name]
        assert {clock.day_kind for clock in clocks} == set(DayKind)


# ------------------------------------------------------------------------------------------- hostile documents

_BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 40))


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "has to be a mapping"),
        (b"\x00", "special characters are not allowed"),
        (b"\xff\xfe\x00", "yaml"),
        (b"version: '\xff'", "invalid start byte"),
        (b"[" * 20_000, "is nested too deeply"),
        (b"{a: " * 5_000, "is nested too deeply"),
        (b"&a [*a]", "aliases (*name) are not read"),
        (_BOMB.encode(), "aliases (*name) are not read"),
        (b"version: a\nversion: b\njurisdictions: {}", "the key 'version' is given twice"),
        (b"version: a\njurisdictions: {IT: {timezone: UTC, timezone: UTC}}", "the key 'timezone' is given twice"),
        (b"!!python/object/apply:os.system ['true']", "could not determine a constructor"),
        (b"{[a]: b}", "found unhashable key"),
        (b"version: " + b"9" * 10_000, "Exceeds the limit"),
        (b"version: 2024-13-45", "month must be in 1..12"),
        (b"version: .nan\njurisdictions: {}", "version has to be text, but is nan"),
        (b"version: 1.0e+400\njurisdictions: {}", "has to be text, but is inf"),
        (b"- " * 3, "has to be a mapping"),
        (b"version: " + b"x" * 100_000, "lacks the key 'jurisdictions'"),
        (b"version: a\njurisdictions: [" + b"x, " * 10_000 + b"]", "has to be a mapping of keys to values, but is"),
        (b"- 2006-01-01\n" * 200_000, "is 2.5 MiB large, and a reference can have 1 MiB at most"),
        (b"version: a\njurisdictions: {\x1b[31m: 1}", "special characters are not allowed"),
    ],
    ids=range(21),
)
def test_a_hostile_reference_document_is_refused_with_one_short_sentence(
    tmp_path: Path, content: bytes, sentence: str
) -> None:
    _write(tmp_path, "jurisdiction_calendar", content)
    with pytest.raises(InvalidReference) as refused:
        load_references(DOMAIN, LocalFiles(tmp_path))
    said = refused.value.message
    assert sentence in said
    assert said.startswith(str(tmp_path / "jurisdiction_calendar.yaml"))
    assert "\n" not in said
    assert len(said) < 600


@pytest.mark.parametrize("value", [{"version": "1"}, SimpleNamespace(days=[]), SimpleNamespace(version=1)])
def test_what_a_parser_gives_without_a_text_as_its_version_is_refused_where_it_is_read(
    tmp_path: Path, value: object
) -> None:
    parsed = Reference(name="days", parse=lambda _document: value)  # type: ignore[arg-type,return-value]
    domain = Domain(name="d", package="d", sources=(), derived=(), references=(parsed,))
    (tmp_path / "days.yaml").write_bytes(b"[]")
    with pytest.raises(InvalidReference, match=f"its parse gives a {type(value).__name__}, which has no text as its"):
        load_references(domain, LocalFiles(tmp_path))


def test_a_reference_that_is_too_large_is_refused_before_it_is_parsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strict_yaml, "parse_yaml", lambda content: pytest.fail(f"parsed {len(content):,} bytes"))
    _write(tmp_path, "jurisdiction_calendar", b"- 2006-01-01\n" * (2 << 20))
    with pytest.raises(InvalidReference, match=r"is 26\.0 MiB large, .* small facts that every plan parses") as refused:
        load_references(DOMAIN, LocalFiles(tmp_path))
    assert "land large tables as a source" in refused.value.message


def test_a_larger_version_that_was_used_before_there_was_the_limit_stays_readable(tmp_path: Path) -> None:
    parsed = Reference(name="days", parse=lambda document: SimpleNamespace(version="1", days=document))
    domain = Domain(name="d", package="d", sources=(), derived=(), references=(parsed,))
    content = b"# " + b"x" * MOST_BYTES + b"\n[]\n"
    pinned = PinnedReference(name="days", version="1", sha256=hashlib.sha256(content).hexdigest())
    LocalFiles(tmp_path).put_if_absent(f"days/{pinned.sha256}.yaml", content)
    assert load_pinned(domain, (pinned,), LocalFiles(tmp_path))["days"].content == content


@pytest.mark.parametrize("name", ["jurisdiction_calendar", "sla_policy"])
def test_a_reference_document_with_any_edit_is_read_or_refused_with_one_sentence(tmp_path: Path, name: str) -> None:
    chance = random.Random(20)
    whole = (EXAMPLE_REFERENCE / f"{name}.yaml").read_bytes()
    odd = [
        b"~",
        b".nan",
        b"[]",
        b"{}",
        b"-1",
        b"1e400",
        b"'",
        b'"',
        b"\t",
        b"*x",
        b"&x",
        b"!!binary x",
        b"9" * 50,
        b": ",
        b"\xe2",
        b"no",
    ]
    refused = 0
    tried = examples(300)
    for _ in range(tried):
        start = chance.randrange(len(whole))
        end = chance.choice([start, start + 1, start + chance.randrange(40), len(whole)])
        _write(tmp_path, name, whole[:start] + chance.choice(odd) + whole[end:])
        try:
            load_references(DOMAIN, LocalFiles(tmp_path))
        except InvalidReference as error:
            refused += 1
            assert "\n" not in error.message
            assert len(error.message) < 600
    assert refused > tried // 3


def _write(folder: Path, name: str, content: bytes) -> None:
    for reference in DOMAIN.references:
        shipped = EXAMPLE_REFERENCE / f"{reference.name}.yaml"
        (folder / shipped.name).write_bytes(content if reference.name == name else shipped.read_bytes())
