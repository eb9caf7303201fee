"""The shop with a version of its recent sales beside them: another release, over the same sales."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date

from deltalake import DeltaTable

from backfill_assets.application import shadow
from backfill_assets.application.live import live
from backfill_assets.application.recorder import Acting, Unrecorded
from backfill_assets.calendar.partitions import DayRange
from backfill_assets.domain import DerivedTable, Domain, Policy
from backfill_assets.report.versions import ResolvedTable
from backfill_assets.requests import table_acts
from backfill_assets.requests.authority import approve
from backfill_assets.workspace import Workspace
from backfill_assets_tests.support import operations
from backfill_assets_tests.support.shop import RECENT, Shop

V2 = "silver.recent_sales_v2"
ASKS_NOBODY = Policy(live="auto", backfill="auto", follow="auto")


def with_version(
    domain: Domain,
    *,
    differs: tuple[str, ...] = (),
    explained: str = "",
    clean_days: int = 0,
    policy: Policy | None = None,
) -> Domain:
    """The domain of the shop, whose recent sales are those of the release that doubles amounts, with a version of them
    by the other release.

    Args:
        domain: The domain.
        differs: As for `versioned`.
        explained: As for `versioned`.
        clean_days: As for `versioned`.
        policy: Of the recent sales; as declared for None.
    """
    derived: dict[str, DerivedTable] = {}
    for table in domain.derived:
        inputs = {argument: derived.get(read.name, read) for argument, read in table.inputs.items()}
        derived[table.name] = replace(table, inputs=inputs)
        if table.name == RECENT:
            releases = sorted(table.releases, key=lambda release: release.version)
            derived[RECENT] = recent = replace(table, policy=policy or table.policy, releases=tuple(releases))
            derived[V2] = recent.beside(
                V2, version="1.0.0", differs=differs, explained=explained, clean_days=clean_days
            )
    return replace(domain, derived=tuple(derived.values()))


@dataclass(frozen=True, kw_only=True)
class VersionShop(Shop):
    """The shop whose recent sales have a version."""

    def computed(self, table: str, days: DayRange, *, publish: bool = True) -> str:
        """A run over a table, which readers of that table see with `publish`."""
        run_id = self.planned(days, table=table)
        # Approved before it is measured, it waits for its publication even where it would change nothing.
        if operations.run_named(self.ws, run_id).manifest.policy.backfill == "approve":
            operations.approve(self.ws, run_id, by="ben")
        self.staged(run_id)
        if publish:
            operations.publish(self.ws, run_id, by="ben")
        return run_id

    def asked(self, table: str = V2) -> str:
        """A cut-over that ana asks for."""
        return shadow.cut_over(self.ws, table, by="ana", reason="it is better").act.act_id

    def cut_over(self, table: str = V2) -> str:
        """A cut-over that ben agrees to, and that is done."""
        act_id = self.asked(table)
        approve(self.ws, act_id, by="ben", note="agreed")
        table_acts.carry_out(self.ws, act_id, by="ben")
        return act_id

    def lives(self) -> list[str]:
        """What the LIVE path says that it did."""
        return [
            each.sentence for each in live(self.ws.with_present_references(), Acting(by="x", recorder=Unrecorded()))
        ]

    def read(self, as_of: str = "") -> Mapping[date, int]:
        """What readers of the recent sales find: the amount of each day."""
        return rows_at(shadow.resolve(self.ws, RECENT, as_of))


def rows_at(found: ResolvedTable) -> Mapping[date, int]:
    """The amount of each day in exactly this version of a table."""
    rows = DeltaTable(found.path, version=found.version).to_pyarrow_table(columns=["day", "amount"]).to_pylist()
    assert len({row["day"] for row in rows}) == len(rows)
    return {row["day"]: row["amount"] for row in rows}


def with_versions(shop: Shop, domain: Domain, ws: Workspace | None = None) -> VersionShop:
    """The shop over another domain."""
    again = replace((ws or shop.ws), domain=domain)
    again.__dict__["ledger"] = shop.ws.ledger
    return VersionShop(ws=again, folder=shop.folder)
