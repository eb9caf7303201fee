"""Settings that decide what rows mean are fixed: the environment cannot move them, and a session is held to them."""

from __future__ import annotations

import pytest

from backfill_assets.core.errors import Refused
from backfill_assets.core.session_settings import JAVA, MEANING, SOUND, session_digest, wrong_settings
from backfill_assets.core.settings import Settings
from backfill_assets_tests.support.advice import advised


@pytest.mark.parametrize(
    "name",
    [
        *MEANING,
        *(name for name in SOUND if name.startswith("spark.")),
        "spark.driver.defaultJavaOptions",
        "spark.sql.legacy.sizeOfNull",
        "spark.sql.parquet.mergeSchema",
        "spark.sql.files.ignoreInvalidPartitionPaths",
        "spark.sql.extensions",
        "spark.sql.whatever.comes.next",
    ],
)
def test_a_setting_that_decides_what_rows_mean_cannot_be_given_by_the_environment(name: str) -> None:
    with pytest.raises(Refused, match=rf"BACKFILL_SPARK_CONF holds {name}, which determines") as refusal:
        Settings.from_environment({"BACKFILL_SPARK_CONF": f"spark.ui.enabled=true;{name}={MEANING.get(name, 'x')}"})
    assert advised(refusal.value) == f"leave {name} out of BACKFILL_SPARK_CONF"


@pytest.mark.parametrize("process", ["driver", "executor"])
@pytest.mark.parametrize("option", ["-Duser.timezone", "-Duser.language"])
def test_the_zone_and_the_language_of_java_cannot_be_given_by_the_environment(process: str, option: str) -> None:
    with pytest.raises(Refused, match=f"holds spark.{process}.extraJavaOptions with {option}"):
        Settings.from_environment(
            {"BACKFILL_SPARK_CONF": f"spark.{process}.extraJavaOptions=-Xss4m {option}=Asia/Tokyo"}
        )


def test_settings_that_only_tune_stay_free() -> None:
    free = {
        "spark.sql.shuffle.partitions": "3",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.warehouse.dir": "/tmp/w",
        "spark.executor.memory": "9g",
        "spark.driver.extraJavaOptions": "-Xss4m",
    }
    given = ";".join(f"{name}={value}" for name, value in free.items())
    assert Settings.from_environment({"BACKFILL_SPARK_CONF": given}).spark_conf == free


def test_a_session_is_held_to_every_fixed_setting_and_to_the_defaults_of_the_others() -> None:
    fixed = {**MEANING, **SOUND}
    given = {**fixed, "spark.app.name": "x", "spark.sql.shuffle.partitions": "3"}
    assert list(wrong_settings(given, JAVA)) == []
    assert list(wrong_settings(given, {**JAVA, "user.timezone": "Etc/UTC"})) == []
    started = {name if name.startswith("spark.") else f"spark.hadoop.{name}": value for name, value in fixed.items()}
    assert list(wrong_settings(started, JAVA)) == []
    for name in fixed:
        (wrong,) = wrong_settings({**given, name: "other"}, JAVA)
        assert str(wrong) == f"{name} is 'other' where {fixed[name]!r} is expected"
    (missing,) = wrong_settings({k: v for k, v in given.items() if k != "spark.sql.ansi.enabled"}, JAVA)
    assert str(missing) == "spark.sql.ansi.enabled is not set where 'true' is expected"
    (legacy,) = wrong_settings({**given, "spark.sql.legacy.sizeOfNull": "true"}, JAVA)
    assert str(legacy) == "spark.sql.legacy.sizeOfNull is 'true' where Spark's own default is expected"
    (java,) = wrong_settings(given, {**JAVA, "user.language": "tr"})
    assert str(java) == "Java's user.language is 'tr' where 'en' is expected"


def test_the_digest_says_by_which_settings() -> None:
    assert len(session_digest()) == 64
