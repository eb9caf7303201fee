"""Errors of upkeep: what cannot be audited or reproduced, and which part of an installation is not sound."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto

from backfill_assets.core.about import Because, OfRun, OfTable
from backfill_assets.core.errors import ContractBroken, Refused, sentence


@sentence
class SparkStopped(OfRun, OfTable, Because, ContractBroken):
    """Spark stopped while it rebuilt {table}: {why}

    Next: fix the cause; nothing was changed
    """


class Fault(Enum):
    """Why a part of an installation is not sound."""

    NO_JAVA = auto()
    LITTLE_SPACE = auto()
    NOT_WRITABLE = auto()
    NOT_LISTED = auto()
    NOT_REMOVED = auto()
    DOES_NOT_COUNT = auto()
    CLOCKS_APART = auto()
    NO_JARS = auto()
    FILES_NOT_SHARED = auto()
    OTHER_TIMES = auto()


_TO_DO: Mapping[Fault, str] = {
    Fault.NO_JAVA: "install Java 17 or newer, and let JAVA_HOME name it",
    Fault.LITTLE_SPACE: "free some space, or move it: every run stages whole partitions beside the published ones",
    Fault.NOT_WRITABLE: "let this user write there",
    Fault.NOT_LISTED: "use a store whose listings show what was written at once",
    Fault.NOT_REMOVED: "allow deletes below this place",
    Fault.CLOCKS_APART: "set both by the same time server: leases are judged by the clock of who looks",
    Fault.NO_JARS: "fetch them: mvn -f deploy/s3/pom.xml dependency:copy-dependencies -DoutputDirectory=DIR; "
    "then name them in BACKFILL_SPARK_CONF: spark.jars=DIR/one.jar,DIR/two.jar",
    Fault.FILES_NOT_SHARED: "let Spark's executors and this process see the same files there",
    Fault.OTHER_TIMES: "[recover] says which is older, and what to do about it",
}


@sentence
class NotSound(Refused):
    """{found}"""

    fault: Fault
    found: str

    @property
    def advice(self) -> str | None:
        return _TO_DO.get(self.fault)


@sentence
class ReproducedOtherwise(OfRun, Because, ContractBroken):
    """{why}

    Next: check out the code with that digest, then again: [reproduce {run_id} from_raw={from_raw}]
    """

    from_raw: bool = False
