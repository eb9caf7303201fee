"""Words of the Spark server that stays: why a command does not use it."""

from __future__ import annotations

from collections.abc import Mapping

from backfill_assets.core.spark_server import Unfit

UNFIT: Mapping[Unfit, str] = {
    Unfit.ENDED: "its process has ended",
    Unfit.SILENT: "its process does not listen on its port",
    Unfit.OTHER_HOME: "it was started for another home",
    Unfit.OTHER_VERSIONS: "it was started by another version of this project, PySpark or Python",
    Unfit.OTHER_SETTINGS: "it was started with other settings of Spark",
    Unfit.UNREADABLE: "what the home says of it cannot be read",
}
