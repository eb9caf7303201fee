"""The command `backfill`: parse, call, print.

Exit codes: 0 done; 1 refused or stopped, with one sentence about the reason and the next step, or done with something
that a person has to look at (a blocked gate, a difference, a problem), or wrong usage; 130 Ctrl-C.
Every command takes `--json`; the fields are documented in docs/cli.md.
"""

from __future__ import annotations

# isort: off
# In the order in which `backfill --help` lists the commands: from landing to looking.
from backfill_assets.cli import landing as landing
from backfill_assets.cli import plan as plan
from backfill_assets.cli import commands_write as commands_write
from backfill_assets.cli import commands_read as commands_read
from backfill_assets.cli import setting_up as setting_up
from backfill_assets.cli import demo as demo
from backfill_assets.cli.answers import app

# isort: on

__all__ = ["app"]
