"""Words of releases, references and inputs that differ from those of the accepted rows."""

from __future__ import annotations

from backfill_assets.planning.impact import TablePartitions
from backfill_assets.report.releases import BroughtAlong, LaterRelease, LeftBehind


def brought_along_words(found: BroughtAlong) -> str:
    """Which newer release or other reference a run brings."""
    edited = " with other content" if found.was == found.now else ""
    return f"{found.table} also gets {found.what} {found.now}{edited} in place of {found.was}: {found.partitions}"


def goes_back_words(found: LaterRelease) -> str:
    """Behind which release a run goes back."""
    return (
        f"this run goes back: the accepted rows of {found.partitions} come from version {found.accepted_version}, "
        f"and the run is {found.transform_version}"
    )


def moved_on_words(found: TablePartitions) -> str:
    """Which input has changed since a run was planned."""
    partitions = str(found).removeprefix(f"{found.table} ")
    return (
        f"the input {found.table} has changed since this run was planned ({partitions}), and the run has not read "
        "that: plan it again to read it"
    )


def left_behind_words(found: LeftBehind) -> str:
    """Which partitions keep another release on the border of a run, and what reads both sides of it."""
    both = f", and what reads both sides of it mixes both releases: {'; '.join(map(str, found.mixed))}"
    return (
        f"{found.partitions} of {found.table} border on this run and stay as release {' and '.join(found.releases)} "
        f"computed them: across that border values can differ only because the rules do{both if found.mixed else ''}"
    )
