"""What errors of runs are about beside their ids: what the run was planned to do."""

from __future__ import annotations

from backfill_assets.core.errors import BackfillError, sentence
from backfill_assets.core.next_steps import NextStep
from backfill_assets.planning.manifest import Manifest
from backfill_assets.planning.next_steps import plan_again


@sentence
class OfManifest(BackfillError):
    """{manifest}"""

    manifest: Manifest

    @property
    def planned_again(self) -> NextStep:
        """What builds its partitions anew."""
        return plan_again(self.manifest)
