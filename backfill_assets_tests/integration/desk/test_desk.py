"""The desk over a home in which something happened: what it says is what the ledger and the files say."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request, urlopen

import pytest
from starlette.applications import Starlette

from backfill_assets.application import look
from backfill_assets.core.progress import no_listener
from backfill_assets.desk.app import create_app
from backfill_assets.ledger.states import VersionState
from backfill_assets.report.history import partition_history
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.desk_reader import PATIENCE_S, get
from backfill_assets_tests.support.lakes import folder_of
from backfill_assets_tests.support.ledgers import copy_home
from backfill_assets_tests.support.shop import OUTPUT, RECENT, SALES, Shop, sale, shop_environment

DAY = OUTPUT.start
ROW = f"/rows?table={RECENT}&partition={DAY}&key.shop=only"
HOSTILE = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "{{ 7 * 7 }}{% raw %}",
    "javascript:alert(1)",
    "&lt;b&gt;",
)


def desk_of(shop: Shop) -> Starlette:
    return create_app(shop.ws, patience_s=PATIENCE_S)


def cells(text: str, name: str) -> list[str]:
    """The cells of a line of the table, the newest version first."""
    line = re.search(rf'<tr><th scope="row">{name}</th>(.*?)</tr>', text, re.S)
    assert line is not None, name
    return [
        " ".join(re.sub(r"<[^>]*>", " ", cell).split()).replace(" ,", ",")
        for cell in re.findall(r"<td[^>]*>(.*?)</td>", line[1], re.S)
    ]


@pytest.mark.long
def test_a_row_is_shown_in_every_version_with_what_is_behind_each(published_shop: Shop) -> None:
    shop = published_shop
    later = shop.published(version="1.0.0", reason="sales were doubled")
    page = get(desk_of(shop), ROW)
    assert page.status == 200
    assert cells(page.text, "amount") == ["≠ 40", "80"]
    assert cells(page.text, "shop") == ["only", "only"]
    assert cells(page.text, "run")[0] == later
    assert cells(page.text, "reason") == ["sales were doubled", "why not"]
    assert cells(page.text, "approved by") == ["ben", "ben"]
    assert [text.rpartition(" ")[2] for text in cells(page.text, "release")] == ["1.0.0", "0.9.0"]
    assert cells(page.text, "landed files") == ["january.jsonl", "january.jsonl"]


@pytest.mark.long
def test_a_rollback_is_in_the_history_of_the_row(published_shop: Shop) -> None:
    shop = published_shop
    run_id = shop.published(version="1.0.0")
    operations.rollback(shop.ws, run_id, by="cem", reason="second thoughts")
    page = get(desk_of(shop), ROW)
    assert "undone by cem" in cells(page.text, "readers saw it")[0]
    before = cells(page.text, "readers saw it")[1]
    assert (before.count("from "), before.endswith("until now")) == (2, True), "it was there twice"
    assert page.words.index("ROLLED_BACK") < page.words.index("ACCEPTED")


@pytest.mark.long
def test_a_number_leads_to_its_request_and_to_landed_records_and_can_be_asked_for_as_it_was(
    published_shop: Shop,
) -> None:
    shop = published_shop
    first = shop.ws.clock()
    shop.published(version="1.0.0", reason="sales were doubled")
    desk = desk_of(shop)
    row = get(desk, ROW)
    assert cells(row.text, "readers saw it")[0].endswith("until now")
    (_, until) = cells(row.text, "readers saw it")[1].split(" until ")
    assert until != "now", "the version before has an end"
    (link,) = (link for link in row.links if link.startswith("/trace?"))
    now = get(desk, link)
    assert now.status == 200
    assert "sales were doubled" in now.words and "january.jsonl" in now.words
    assert f"{SALES}, from which {RECENT} was computed" in now.words
    then = get(desk, f"{link}&at={quote(first.isoformat())}")
    assert then.status == 200
    assert "why not" in then.words and "sales were doubled" not in then.words
    assert get(desk, f"{link}&at=yesterday").status == 400
    asked = f"/rows?table={RECENT}&partition={DAY}&at={quote(first.isoformat())}"
    (listed,) = (each for each in get(desk, asked).links if "key.shop" in each and "at=" in each)
    assert get(desk, listed).words == then.words
    assert "As readers saw it at" in get(desk, "/rows").words and "As readers saw it at" in then.words
    for address in (f"/rows?table={RECENT}&partition={DAY}", ROW):
        assert get(desk, f"{address}&at=yesterday").status == 400
        assert "is in the future" in get(desk, f"{address}&at=2999-01-01").words
    assert get(desk, link.replace("key.shop", "key.shpo")).status == 409
    assert "write shop=VALUE" in get(desk, link.replace("key.shop", "key.shpo")).words


@pytest.mark.long
def test_lists_name_who_had_approved_what_was_rolled_back_who_rolled_it_back_and_why(published_shop: Shop) -> None:
    shop = published_shop
    run_id = shop.published(version="1.0.0", reason="sales were doubled")
    operations.rollback(shop.ws, run_id, by="cleo", reason="second thoughts")
    for address in ("/runs", "/search?q=doubled"):
        assert "ben, rolled back by cleo: second thoughts" in get(desk_of(shop), address).words


@pytest.mark.long
def test_a_search_finds_runs_publications_and_tables_by_what_people_remember(published_shop: Shop) -> None:
    shop = published_shop
    run_id = shop.published(version="1.0.0", reason="sales were DOUBLED, by 100 %")
    desk = desk_of(shop)
    for text in ("were doubled", "100 %25", "ANA"):
        found = get(desk, f"/search?q={text.replace(' ', '+')}")
        assert found.status == 200 and run_id in found.words, text
    assert "Nothing has this text" in get(desk, "/search?q=100_%25").words, "a sign of the database is a letter"
    assert f"/runs?table={RECENT}" in get(desk, "/search?q=recent").links
    with shop.ws.ledger.read() as reader:
        published = next(each.publication_id for each in reader.publications.headers(run_id=run_id))
    for address in ("/publications", ROW.replace("/rows", "/trace")):
        page = get(desk, address)
        assert published in page.words and f"/search?q={published}" in page.links, address
    assert run_id in get(desk, f"/search?q={published}").words
    exact = get(desk, f"/search?q={run_id}")
    assert (exact.status, exact.headers["location"]) == (303, f"/runs/{run_id}")
    assert "Type an id" in get(desk, "/search?q=").words
    for word in HOSTILE:
        page = get(desk, f"/search?q={quote(word)}")
        assert page.status == 200 and word in page.words


def test_a_row_of_a_source_names_its_file_and_record(shop: Shop) -> None:
    keys = get(desk_of(shop), f"/rows?table={SALES}&partition={DAY}")
    (link,) = (link for link in keys.links if "key.sale_id" in link)
    page = get(desk_of(shop), link)
    assert cells(page.text, "amount") == ["10"]
    assert "_import_id: imp-" in cells(page.text, "lineage of the row")[0]
    assert "_row: " in cells(page.text, "lineage of the row")[0]
    assert cells(page.text, "landed files") == ["january.jsonl"]


@pytest.mark.long
def test_only_the_landed_files_within_the_window_are_behind_a_row(published_shop: Shop) -> None:
    shop = published_shop
    shop.land("late.jsonl", [sale(OUTPUT.last, amount=5, sale_id="late")])
    shop.published(version="1.0.0")
    first = get(desk_of(shop), ROW)
    last = get(desk_of(shop), ROW.replace(str(DAY), str(OUTPUT.last)))
    assert cells(first.text, "landed files") == ["january.jsonl", "january.jsonl"]
    assert cells(last.text, "landed files") == ["late.jsonl, january.jsonl", "january.jsonl"], "what is new first"


@pytest.mark.long
def test_files_that_are_gone_are_said_and_the_other_versions_shown(published_shop: Shop) -> None:
    shop = published_shop
    shop.published(version="1.0.0")
    with shop.ws.ledger.read() as tx:
        (old,) = (v for v in tx.versions.history(RECENT, DAY) if v.state is VersionState.SUPERSEDED)
    for path in old.files.paths:
        (folder_of(shop.ws.lake, RECENT) / path).unlink()
    page = get(desk_of(shop), ROW)
    assert page.status == 200
    assert cells(page.text, "amount") == ["40", "not known"]
    assert "is gone" in cells(page.text, "row")[1]


def test_no_key_of_a_reader_is_an_error_page(published_shop: Shop) -> None:
    desk = desk_of(published_shop)
    page = get(desk, ROW.replace("only", "none"))
    assert page.status == 200 and cells(page.text, "row") == ["no row has this key in this version"]
    for word in HOSTILE:
        page = get(desk, ROW.replace("only", quote(word)))
        assert page.status == 200 and word in page.words
        assert "alert(1)</script>" not in page.text and "<img" not in page.text and "<svg" not in page.text


@pytest.mark.parametrize("word", HOSTILE)
def test_hostile_words_stay_words(published_shop: Shop, word: str) -> None:
    shop = published_shop
    run_id = shop.planned(reason=word)
    operations.cancel(shop.ws, run_id, by="ben", reason=word)
    desk = desk_of(shop)
    for address in ("/", "/runs", f"/runs/{run_id}", "/publications", "/calendar", ROW):
        page = get(desk, address)
        assert page.status == 200
        assert "alert(1)</script>" not in page.text and "<img" not in page.text and "<svg onload" not in page.text
    assert word in get(desk, f"/runs/{run_id}").words


@pytest.mark.long
def test_a_late_file_shows_in_the_calendar_at_once(published_shop: Shop) -> None:
    shop = published_shop
    shop.published(version="1.0.0")
    desk = desk_of(shop)
    assert get(desk, "/calendar").text.count('class="slash"') == 0
    shop.land("late.jsonl", [sale(DAY, amount=5, sale_id="late")])
    page = get(desk, "/calendar")
    # The day itself, the one before and the two after read it; those that can be computed begin with the day.
    assert page.text.count('class="slash"') == 3
    assert f"{SALES} changed: {DAY}" in page.words


@pytest.mark.long
def test_the_verdict_of_the_last_audit_is_kept_and_held_against_the_chain(published_shop: Shop) -> None:
    shop = published_shop
    desk = desk_of(shop)
    assert "No audit of this home was recorded." in get(desk, "/audit").words
    report = look.audit(shop.ws, no_listener, head=None, is_quick=True)
    assert report.agrees and report.recorded_in == str(shop.ws.settings.home / "last_audit.json")
    page = get(desk, "/audit").words
    assert "Everything agreed" in page and "the bytes of files were not read" in page and report.head in page
    assert "later publication" not in page
    shop.published(version="1.0.0")
    page = get(desk, "/").words
    assert "Everything agreed" in page and "It has not seen 1 later publication." in page
    (path,) = (
        folder_of(shop.ws.lake, RECENT) / p
        for p in partition_history(shop.ws, RECENT, DAY).versions[0].claim.files.paths
    )
    path.unlink()
    report = look.audit(shop.ws, no_listener, head=None, is_quick=True)
    assert "1 problem was found by the last audit" in get(desk, "/").words
    assert "is gone" in get(desk, "/audit").words
    kept = shop.ws.settings.home / "last_audit.json"
    kept.write_text(kept.read_text().replace(report.head, f"1:{'0' * 64}"))
    assert "no longer contains the event that was its last one" in get(desk, "/audit").words
    kept.write_text("[1, 2")
    assert "No audit of this home was recorded." in get(desk, "/audit").words


@pytest.mark.long
def test_the_command_serves_on_loopback_until_ctrl_c(tmp_path: Path, published_home: Path) -> None:
    home = copy_home(published_home, tmp_path / "home")
    environment = {**os.environ, **shop_environment(home), "PYTHONUNBUFFERED": "1"}
    script = (
        # A process that is started in the background of a shell ignores Ctrl-C; this one has a terminal's answer to it.
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler);"
        "from backfill_assets.main import main; main()"
    )
    desk = subprocess.Popen(
        [sys.executable, "-c", script, "desk"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=tmp_path,
    )
    try:
        assert desk.stdout is not None
        line = desk.stdout.readline()
        url = line.split()[0]
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", url), line
        assert "Calendar" in urlopen(url, timeout=30).read().decode()
        with pytest.raises(HTTPError, match="405"):
            urlopen(Request(f"{url}runs", data=b"x"), timeout=30)
    finally:
        desk.send_signal(signal.SIGINT)
        rest, _ = desk.communicate(timeout=30)
    assert (desk.returncode, rest) == (0, "")
