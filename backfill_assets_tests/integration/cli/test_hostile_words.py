"""Whatever is typed, stored or read: one sentence, nothing changed, nothing that steers the reader's terminal."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner, Result

from backfill_assets.core.clock import system_clock
from backfill_assets.core.identity import sha256_text
from backfill_assets.core.settings import Settings
from backfill_assets.main import app
from backfill_assets_tests.support.ledger_examples import disarm, dumped, tamper
from backfill_assets_tests.support.ledgers import copy_home
from backfill_assets_tests.support.shop import RECENT, Shop, WorkIn, open_shop, sale, shop_environment

NOT_TYPED = (
    "two\nlines",
    "back\rto the start",
    "\x1b[2J\x1b[31mPUBLISHED",
    "nul\x00",
    "\u202edesrever",
    "\u2066isolated",
    "line\u2028separator",
    "\x9b31m",
    "half \udcff",
    "x" * 100_000,
)
ODD = (
    "../../etc/passwd",
    "/etc/passwd",
    "'; DROP TABLE runs;--",
    '" OR 1=1 --',
    "%s%n{0}{__class__}${HOME}$(id)",
    "[red]markup[/red] [/] [link=https://example.org]x[/link]",
    "<script>alert(1)</script>",
    "**bold** ![x](https://example.org/x.png)",
    "🚓 عربى שלום",
    "--help-me",
    "*",
    "",
    " ",
)
DAYS = ("--from", "2026-01-03", "--to", "2026-01-04")
STEERING = re.compile("(?!\n)[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, published_home: Path) -> Path:
    copy = tmp_path_factory.mktemp("words") / "home"
    copy_home(published_home, copy)
    return copy


@pytest.fixture
def person(home: Path, work_in: WorkIn, spark: SparkSession) -> Iterator[Path]:
    work_in(home)
    yield home


def types(*words: str) -> Result:
    return CliRunner().invoke(app, list(words), catch_exceptions=False)


def ledger_of(home: Path) -> Sequence[str]:
    return dumped(Settings.from_environment(shop_environment(home)).ledger_url)


def commands_with(word: str) -> Iterator[tuple[str, ...]]:
    """Every command with the word wherever a word can be; `--` because a word may begin with a dash."""
    yield from ((name, "--", word) for name in ("report", "status", "stale", "history", "reproduce"))
    for name in ("approve", "run", "publish"):
        yield (name, "--by", "ben", "--", word)
    yield ("rollback", "--by", "ben", "--reason", "why", "--", word)
    yield ("land", "--by", "ben", "--", word, "nothing.jsonl")
    yield ("land", "--by", "ben", "--", "sales", word)
    yield ("load", *DAYS, "--by", "ben", "--", word)
    yield ("plan", "table", *DAYS, "--by", "ana", "--reason", "why", "--", word)
    yield ("plan", "table", RECENT, *DAYS, "--by", "ana", "--reason", "why", f"--transform-version={word or 'none'}")
    yield ("plan", "table", RECENT, "--by", "ana", "--reason", "why", f"--from={word}", "--to", "2026-01-04")
    yield ("plan", "because", "--by", "ana", "--reason", "why", "--", word)
    yield ("plan", "stale", "--by", "ana", "--reason", "why", f"--because={word}:2026-01-03..2026-01-04")
    yield ("audit", "--quick", f"--head={word or 'none'}")
    yield ("history", RECENT, f"--partition={word}")


@pytest.mark.parametrize("word", [*NOT_TYPED, *ODD], ids=range(len(NOT_TYPED) + len(ODD)))
def test_no_word_of_any_command_changes_anything_or_shows_a_traceback(person: Path, word: str) -> None:
    before = ledger_of(person)
    every = list(commands_with(word))
    start = [*NOT_TYPED, *ODD].index(word)
    # Every word at some places and every place with some words; BACKFILL_FUZZ=all for each at all of them.
    chosen = every if os.environ.get("BACKFILL_FUZZ") == "all" else [every[(start + n) % len(every)] for n in (0, 8)]
    for words in chosen:
        result = types(*words)
        assert result.exit_code in (1, 2), (words[0], result.output[:500])
        assert "Traceback" not in result.output
        assert len(result.output) < 5_000, (words[0], result.output[:500])
        assert "stopped: unexpected" not in result.output, (words, result.output[:500])
        if result.exit_code == 1 and words[0] != "audit":
            shown = result.stderr.strip()
            assert shown.startswith(("refused: ", "stopped: ")), (words, shown)
            assert not STEERING.search(shown), (words, shown)
    assert ledger_of(person) == before


ORDINARY = ("sale-2026-01-05", "2026-01-04", "2026-01-04..2026-01-03", "..", "9999-12-31", "=", "amount=1e400", "a=b=c")


def statements_with(word: str, file: Path) -> Iterator[tuple[str, ...]]:
    """Every statement about landed records with the word wherever a word can be, so that nothing of it can land."""
    land, days = ("land", "sales", str(file), "--by", "ben"), "--replaces=2026-01-03..2026-01-04"
    yield ("withdraw", "sales", "--by", "ben", "--reason", "why", f"--key=sale_id=no {word}")
    yield ("withdraw", "sales", "--by", "ben", "--reason", "why", f"--key={word}")
    yield (*land, "--dry-run", days, f"--where={word}")
    yield ("restore", "--by", "ben", "--reason", "why", "--", word)
    yield (*land, days, f"--where=amount={word}")
    yield (*land, f"--replaces={word}..2025-12-30")
    yield (*land, f"--replaces={word and 'on '}{word}")
    yield ("restore", "imp-000001", "--by", "ben", "--reason", "why", f"--key=sale_id={word}")


@pytest.mark.parametrize("word", [*NOT_TYPED, *ODD, *ORDINARY], ids=range(len(NOT_TYPED) + len(ODD) + len(ORDINARY)))
def test_no_word_of_a_statement_withdraws_anything_or_shows_a_traceback(
    person: Path, tmp_path: Path, word: str
) -> None:
    before = ledger_of(person)
    file = tmp_path / "sales.jsonl"
    file.write_text(json.dumps(sale(date(2026, 1, 3))) + "\n", encoding="utf-8")
    every = list(statements_with(word, file))
    start = [*NOT_TYPED, *ODD, *ORDINARY].index(word)
    for words in (
        every if os.environ.get("BACKFILL_FUZZ") == "all" else [every[(start + n) % len(every)] for n in (0, 4)]
    ):
        result = types(*words)
        assert result.exit_code in (1, 2), (words, result.output[:500])
        assert "Traceback" not in result.output
        assert "stopped: unexpected" not in result.output, (words, result.output[:500])
        if result.exit_code == 1:
            shown = result.stderr.strip()
            assert shown.startswith("refused: "), (words, shown)
            assert not STEERING.search(shown), (words, shown)
            assert len(shown) < 2_000, (words, shown)
    assert ledger_of(person) == before


@pytest.mark.parametrize("word", NOT_TYPED, ids=range(len(NOT_TYPED)))
def test_reasons_and_names_are_one_line_of_text_however_they_arrive(person: Path, word: str) -> None:
    before = ledger_of(person)
    plan = ("plan", "table", RECENT, *DAYS)
    for words in (
        (*plan, "--by", "ana", "--reason", word),
        (*plan, "--reason", "why", "--by", word),
        ("plan", "stale", "--by", "ana", "--reason", "why", "--name", word),
        ("load", "sales", *DAYS, "--by", "ana", "--reason", word),
        ("recover", "--by", word),
        ("vacuum", "--by", word),
        ("follow", "--by", word),
    ):
        result = types(*words)
        assert result.exit_code == 1, result.output[:500]
        assert len(result.output) < 2_000
    assert ledger_of(person) == before


@pytest.mark.parametrize("word", NOT_TYPED, ids=range(len(NOT_TYPED)))
def test_the_ledger_itself_refuses_words_that_are_no_line_of_text(person: Path, spark: SparkSession, word: str) -> None:
    from backfill_assets.core.errors import Refused

    shop = open_shop(person, clock=system_clock, spark=spark)
    with pytest.raises(Refused, match=r"the reason (holds|is)"):
        shop.planned(reason=f"because {word}")
    shop.ws.close()


@pytest.mark.parametrize("word", [word for word in ODD if word.strip()])
def test_what_is_stored_is_shown_as_it_was_typed(person: Path, word: str) -> None:
    # A name in several scripts is refused, and a reason is not.
    name = "ana" if "שלום" in word else f"ana {word}"
    planned = types("plan", "table", RECENT, *DAYS, f"--reason={word}", f"--by={name}", "--json")
    assert planned.exit_code == 0, planned.output
    run_id = json.loads(planned.stdout)["run_id"]
    assert re.fullmatch(r"[a-z_]+-[0-9]{8}-[0-9a-f]{8}", run_id)
    shown = types("status", run_id)
    assert shown.exit_code == 0
    # A long value goes on in the next line, so blanks do not count.
    assert "".join(f": {word} (asked by {name})".split()) in "".join(shown.stdout.split())
    assert types("report", run_id).exit_code == 0
    assert json.loads(types("status", run_id, "--json").stdout)["reason"] == word


HOSTILE_NAMES = (
    "two\nlines.jsonl",
    "\x1b[31mred.jsonl",
    "'; DROP TABLE imports;--.jsonl",
    "with spaces.jsonl",
    "'quotes\".jsonl",
    "🚓.jsonl",
    "[red]x[bold].jsonl",
    "\u202elnosj.jsonl",
    "-rf.jsonl",
    "n" * 249 + ".jsonl",
)


@pytest.mark.long
@pytest.mark.parametrize("names", [HOSTILE_NAMES[:3], HOSTILE_NAMES[3:]], ids=["some", "others"])
def test_files_may_have_any_name_and_their_records_any_text(person: Path, tmp_path: Path, names: Sequence[str]) -> None:
    paths = [tmp_path / name for name in names]
    for path in paths:
        line = {"sale_id": path.name, "sold_at": "\x1b[2Jnever\nrefused: forged", "amount": 1}
        path.write_text(json.dumps(line) + "\n", encoding="utf-8")
    for times in range(2):
        landed = types("land", "--no-load", "--by", "ana", "--", "sales", *map(str, paths))
        assert landed.exit_code == 1, landed.output  # every record was rejected
        assert not STEERING.search(landed.output)
        assert not re.search("^ *(refused|lines.jsonl)", landed.output, re.MULTILINE)
        assert landed.stdout.count("was landed before") == (len(paths) if times else 0)
        assert landed.stdout.count("1 record of imp-") == len(paths)
        assert landed.stdout.count(
            "sold_at is not a timestamp like 2026-01-01T09:00:00Z: '\\x1b[2Jnever\\nrefused"
        ) == len(paths)
    assert types("status").exit_code == 0


def test_what_is_no_file_is_refused(person: Path, tmp_path: Path) -> None:
    before = ledger_of(person)
    folder, fifo, loop = tmp_path / "folder.jsonl", tmp_path / "fifo.jsonl", tmp_path / "loop.jsonl"
    folder.mkdir()
    os.mkfifo(fifo)
    loop.symlink_to(loop)
    dangling = tmp_path / "dangling.jsonl"
    dangling.symlink_to(tmp_path / "nothing.jsonl")
    inside = tmp_path / "file.txt"
    inside.write_text("x")
    not_utf8 = os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xfe.jsonl")
    Path(not_utf8).write_text("{}\n")
    for path in (folder, fifo, loop, dangling, inside / "x.jsonl", "n" * 300 + ".jsonl", not_utf8, "/dev/null", "/"):
        result = types("land", "--by", "ana", "--", "sales", str(path))
        assert result.exit_code == 1, (path, result.output)
        assert result.stderr.startswith("refused: "), (path, result.stderr)
    assert ledger_of(person) == before


@pytest.mark.long
def test_a_link_to_a_file_is_landed_as_the_file(person: Path, tmp_path: Path) -> None:
    target = tmp_path / "target.jsonl"
    target.write_text('{"sale_id": "linked", "sold_at": "2026-01-02T12:00:00Z", "amount": 1}\n')
    link = tmp_path / "link.jsonl"
    link.symlink_to(target)
    result = types("land", "--no-load", "--by", "ana", "--json", "--", "sales", str(link))
    assert json.loads(result.stdout)["imports"][0]["counts"]["accepted"] == 1


# ---------------------------------------------------------------------------------------------- manifests


@pytest.fixture
def planned(home: Path, tmp_path: Path, spark: SparkSession, work_in: WorkIn) -> Iterator[tuple[Shop, str]]:
    copy = tmp_path / "home"
    copy_home(home, copy)
    work_in(copy)
    shop = open_shop(copy, clock=system_clock, spark=spark)
    run_id = shop.planned()
    disarm(shop.ws.settings.ledger_url, "manifests")
    yield shop, run_id
    shop.ws.close()


def rewritten(shop: Shop, run_id: str, body: str, *, with_digest: bool) -> None:
    """Another text for a manifest, by a user who can write to the database and removed its triggers."""
    digest = ", digest = :digest" if with_digest else ""
    values = {"digest": sha256_text(body)} if with_digest else {}
    statement = f"UPDATE manifests SET body = :body{digest} WHERE run_id = :run_id"
    tamper(shop.ws.settings.ledger_url, statement, body=body, run_id=run_id, **values)


@pytest.mark.parametrize(
    ("edit", "sentence"),
    [
        (lambda m: {**m, "format": 99}, "a manifest of format 99; this code reads format 1"),
        (lambda m: {**m, "format": None}, "a manifest of format None"),
        (lambda m: {k: v for k, v in m.items() if k != "target"}, "it lacks 'target'"),
        (lambda m: {**m, "target": None}, "cannot be read"),
        (lambda m: {**m, "kind": "WHIM"}, "'WHIM' is not a valid Kind"),
        (lambda m: {**m, "limits": {"surprise": 1}}, "cannot be read"),
        (lambda m: {**m, "requested_at": "yesterday\x1b[2J"}, "cannot be read"),
        (lambda m: {**m, "inputs": [[]]}, "cannot be read"),
        (lambda m: [m], "cannot be read"),
        (lambda m: None, "cannot be read"),
    ],
)
def test_a_manifest_that_cannot_be_read_is_one_sentence(planned: tuple[Shop, str], edit: object, sentence: str) -> None:
    shop, run_id = planned
    with shop.ws.ledger.read() as reader:
        document = reader.runs.get(run_id).manifest.document
    assert callable(edit)
    rewritten(shop, run_id, json.dumps(edit(document)), with_digest=True)
    for words in (("status", run_id), ("run", run_id), ("approve", run_id, "--by", "ben"), ("status",), ("recover",)):
        result = types(*words)
        assert "Traceback" not in result.output
        assert "stopped: unexpected" not in result.output
        if words != ("recover",):
            assert result.exit_code == 1, (words, result.output)
            # Everything at a glance goes on past what it cannot read, and says so among the rest.
            told = result.stdout if words == ("status",) else result.stderr
            assert sentence in " ".join(told.split()), (words, told)
    assert types("audit", "--quick").exit_code == 1


def test_a_manifest_that_is_no_json_or_lost_its_digest_is_one_sentence(planned: tuple[Shop, str]) -> None:
    shop, run_id = planned
    for body, with_digest, sentence in (
        ('{"format": ', True, "cannot be read"),
        ("[" * 100_000, True, "cannot be read"),
        ("{}", False, "was edited after it was agreed"),
    ):
        rewritten(shop, run_id, body, with_digest=with_digest)
        result = types("run", run_id)
        assert result.exit_code == 1
        assert sentence in " ".join(result.stderr.split())


def test_no_value_is_passed_to_dagster_as_markdown() -> None:
    from backfill_assets import orchestration

    assert orchestration.__file__ is not None
    for module in Path(orchestration.__file__).parent.glob("*.py"):
        # The report's own Markdown escapes every value (unit/report/test_report_pages.py), of any page.
        text = module.read_text(encoding="utf-8").replace("MetadataValue.md(report)", "")
        text = text.replace("MetadataValue.md(markdown_page(", "")
        assert "MetadataValue.md" not in text, module
