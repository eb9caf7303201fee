"""Who may approve an act, a capture or a replay?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from backfill_assets.core.clock import Clock
from backfill_assets.core.settings import Settings
from backfill_assets.domain import Policy
from backfill_assets.ledger.errors import Ended, NeedsAnother
from backfill_assets.ledger.records import TableAct
from backfill_assets.planning.safeguards import Demand
from backfill_assets.requests.authority import approve, demand_to_ask, require_may_approve
from backfill_assets.requests.errors import NotAmongApprovers
from backfill_assets.workspace import Workspace
from backfill_assets_tests.conftest import NOON
from backfill_assets_tests.domains.example import DOMAIN, recent_sales, sales
from backfill_assets_tests.support.advice import advised
from backfill_assets_tests.support.lakes import folder_at
from backfill_assets_tests.support.ledger_examples import a_replay, a_resolution
from backfill_assets_tests.support.shop import RECENT

FINANCE = Policy(approvers=("finance",))
SALES = "bronze.sales"


@pytest.fixture
def ws(settings: Settings, clock: Clock) -> Iterator[Workspace]:
    opened = Workspace(settings=settings, domain=DOMAIN, clock=clock)
    yield opened
    opened.ledger.close()


def of_finance(ws: Workspace, *names: str) -> None:
    """Says who is in the group."""
    path = folder_at(ws.settings.reference) / "approvers.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'version: "1"\ngroups:\n  finance: [{", ".join(names)}]\n', encoding="utf-8")


def asked_for(ws: Workspace, kind: str, policy: Policy) -> str:
    """What ana asks for, by its id."""
    with ws.ledger.write() as tx:
        match kind:
            case "act":
                act = tx.acts.ask(
                    TableAct.CUT_OVER,
                    name=RECENT,
                    table="silver.better",
                    policy=policy,
                    waits=True,
                    by="ana",
                    reason="better",
                )
                return act.act_id
            case "capture":
                capture = tx.captures.begin(
                    SALES,
                    a_resolution(),
                    period_from=NOON,
                    period_to=NOON,
                    is_live=False,
                    by="ana",
                    reason="the topic forgets",
                    policy=policy,
                    waits=True,
                )
                return capture.capture_id
            case _:
                return tx.replays.begin(replace(a_replay(), table=SALES, by="ana", policy=policy)).replay_id


def declaring(ws: Workspace, policy: Policy) -> Workspace:
    """The same home, whose tables are declared with this policy."""
    source = replace(sales, policy=policy)
    table = replace(recent_sales, inputs={"sales": source}, policy=policy)
    again = replace(ws, domain=replace(DOMAIN, sources=(source,), derived=(table,)))
    again.__dict__["ledger"] = ws.ledger
    return again


@pytest.mark.parametrize(("pinned", "declared"), [(FINANCE, Policy()), (Policy(), FINANCE)], ids=["pinned", "present"])
@pytest.mark.parametrize("kind", ["act", "capture", "replay"])
def test_another_person_of_the_pinned_and_the_present_group_approves_once(
    ws: Workspace, kind: str, pinned: Policy, declared: Policy
) -> None:
    of_finance(ws, "ana", "cara")
    now, name = declaring(ws, declared), asked_for(ws, kind, pinned)
    with pytest.raises(NeedsAnother, match=f"{kind} {name} was requested by ana"):
        approve(now, name, by="Ana", note="")
    with pytest.raises(
        NotAmongApprovers, match=f"{kind} {name} of .* by a member of finance .*, and ben is not a member"
    ):
        approve(now, name, by="ben", note="")
    approve(now, name, by="cara", note="")
    with pytest.raises(Ended) as refusal:
        approve(now, name, by="cara", note="")
    assert (refusal.value.ids, advised(refusal.value)) == ({f"{kind}_id": name}, "backfill status")
    with ws.ledger.read() as tx:
        record = tx.requests.asked(name)
        (event,) = (each for each in tx.events.entries(entity_id=name) if each.action == "approved")
    assert (record.approved_by, event.actor) == ("cara", "cara")


@pytest.mark.parametrize("now", [Policy(), Policy(backfill="auto"), Policy(approvers=("ops",))])
@pytest.mark.parametrize("kind", ["act", "capture", "replay"])
def test_what_was_agreed_to_by_an_act_a_capture_or_a_replay_is_loosened_by_a_person_of_that_group(
    ws: Workspace, kind: str, now: Policy
) -> None:
    of_finance(ws, "cara")
    name = asked_for(ws, kind, FINANCE)
    table = RECENT if kind == "act" else SALES
    before, after = declaring(ws, FINANCE), declaring(ws, now)

    def asked_now(home: Workspace) -> Demand:
        with home.ledger.read() as tx:
            return demand_to_ask(home, tx, table)

    assert FINANCE.approvers not in asked_now(after).groups
    approve(before, name, by="cara", note="")
    if kind == "act":
        with ws.ledger.write() as tx:
            tx.acts.carry_out(name, by="ana")
    assert asked_now(before) == Demand(groups=(FINANCE.approvers,))
    assert FINANCE.approvers in asked_now(after).groups
    assert (asked_now(after).policy, asked_now(after).loosened) == (None, ("policy",))
    if kind == "capture":
        again = asked_for(after, kind, now)
        with pytest.raises(NotAmongApprovers, match="and ben is not a member"):
            approve(after, again, by="ben", note="")


@pytest.mark.parametrize("kind", ["act", "capture", "replay"])
def test_an_approver_who_has_left_the_group_does_not_count(ws: Workspace, kind: str) -> None:
    name = asked_for(ws, kind, FINANCE)
    of_finance(ws, "cara")
    approve(ws, name, by="cara", note="")
    of_finance(ws, "dora")
    with ws.ledger.read() as tx:
        record = tx.requests.asked(name)
        with pytest.raises(NotAmongApprovers, match="and cara is not a member"):
            require_may_approve(ws, tx, record, "cara")
