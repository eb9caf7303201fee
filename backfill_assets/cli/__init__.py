"""The command `backfill`: parse, call, print.

Exit codes: 0 done; 1 refused, with one sentence about the reason and the next step, and nothing changed; 2 wrong usage.
Every command takes `--json`; the fields are documented in docs/cli.md.
"""

from __future__ import annotations

# isort: off
# In the order in which `backfill --help` lists the commands: the data's way.
from backfill_assets.cli import landing as landing
from backfill_assets.cli import plan as plan
from backfill_assets.cli import acting as acting
from backfill_assets.cli import looking as looking
from backfill_assets.cli import demonstration as demonstration
from backfill_assets.cli.answers import app

# isort: on

__all__ = ["app"]
