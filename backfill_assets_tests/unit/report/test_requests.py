"""What to do next is a value; the command line and Dagster's pages say it in words."""

from __future__ import annotations

from datetime import date

from backfill_assets.core.errors import Refused
from backfill_assets.core.next_steps import ANOTHER_PERSON, NAME, Command, Option, do, step, to_undo
from backfill_assets.ledger.errors import TableBusy
from backfill_assets.report.command_line import explained, words_of
from backfill_assets.report.documents import as_json


def test_an_act_is_the_command_with_its_options() -> None:
    asked = do(Command.LOAD, "sales", first=date(2026, 1, 3), last=date(2026, 1, 4), empty=True, by=NAME)
    assert words_of(asked) == "backfill load sales --from 2026-01-03 --to 2026-01-04 --empty --by NAME"


def test_options_without_a_value_are_left_out() -> None:
    assert words_of(do(Command.PLAN_WITH_DEPENDENTS, "sales", partial=False, first=None)) == (
        "backfill plan with-dependents sales"
    )


def test_an_option_is_worded_like_those_of_a_command() -> None:
    said = step("add ", Option("on_duplicate", "ignore"), " or ", Option("changed_code"), ": ", Option("first", "a b"))
    assert words_of(said) == "add --on-duplicate ignore or --changed-code: --from 'a b'"
    assert str(said) == "add on_duplicate=ignore or changed_code: first=a b"


def test_a_file_whose_name_has_spaces_is_one_word_of_the_command() -> None:
    assert words_of(do(Command.LAND, "sales", "/in/of may.csv")) == "backfill land sales '/in/of may.csv'"


def test_steps_are_put_together_from_steps() -> None:
    approve = do(Command.APPROVE, "bf-1", by=ANOTHER_PERSON)
    assert step(step("first: ", approve), "; then ", to_undo("bf-1")).parts == (
        *("first: ", approve, "; then "),
        do(Command.ROLLBACK, "bf-1", by=NAME, reason="WHY"),
    )


def test_an_error_is_explained_with_its_advice_if_there_is_any() -> None:
    busy = TableBusy(table="silver.sales", publication_id="pub-1", action="publish", run_id="bf-1")
    assert explained(busy).endswith("at a time. Next: wait for it; if its process is gone: backfill recover")
    assert explained(Refused("it is so.")) == "it is so."


def test_json_holds_a_next_step_in_the_words_of_the_edge() -> None:
    document = {"next_step": step("see ", do(Command.STATUS)), "undo": do(Command.STATUS, "bf-1")}
    assert as_json(document) == {
        "next_step": "see backfill status",
        "undo": "backfill status bf-1",
    }
