"""Places and the access to stores: what is taken, what is refused, and that no secret is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from backfill_assets.core.errors import Refused
from backfill_assets.core.places import PATIENCE, StoreAccess, StoreUrl, for_spark, place_of
from backfill_assets.core.settings import Settings
from backfill_assets.core.spark import spark_conf
from backfill_assets.lake.tables import in_one_line

SECRET = "a-secret/that+is=never-shown"
GIVEN = {
    "BACKFILL_LAKE": "s3://bucket/some/lake",
    "AWS_ENDPOINT_URL": "https://store.example:9000/",
    "AWS_ACCESS_KEY_ID": "key-id-that-is-not-shown",
    "AWS_SECRET_ACCESS_KEY": SECRET,
    "AWS_SESSION_TOKEN": f"token-{SECRET}",
}


def test_a_url_of_a_bucket_is_a_place_and_its_parts_are_below_it() -> None:
    place = place_of("s3://bucket/some/lake/", variable="BACKFILL_LAKE")
    assert place == StoreUrl("bucket", "some/lake")
    assert str(place / "silver" / "sales") == "s3://bucket/some/lake/silver/sales"
    assert for_spark(place, "_runs/r-1") == "s3a://bucket/some/lake/_runs/r-1"
    assert place_of("s3a://bucket", variable="BACKFILL_LAKE") == StoreUrl("bucket")
    assert str(StoreUrl("bucket")) == "s3://bucket"


def test_a_path_is_a_folder_as_before(tmp_path: Path) -> None:
    assert place_of(str(tmp_path / "lake"), variable="BACKFILL_LAKE") == tmp_path / "lake"
    assert for_spark(tmp_path, "a/b") == str(tmp_path / "a" / "b")


@pytest.mark.parametrize(
    "text",
    [
        "gs://bucket/lake",
        "s3://me:password@bucket/lake",
        "s3://bucket/../other",
        "s3://bucket/a//b",
        "s3://bucket/a b",
        "s3://bucket/{a,b}",
        "s3://",
        "hdfs://host/lake",
    ],
)
def test_a_url_that_programs_read_differently_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(Refused, match=r"BACKFILL_LAKE is a URL of \w+, and neither a folder nor") as refusal:
        Settings.from_environment({"BACKFILL_LAKE": text})
    assert "password" not in str(refusal.value)


def test_landed_files_and_references_can_be_in_a_store() -> None:
    given = {"BACKFILL_LANDING": "s3://files/landed", "BACKFILL_REFERENCE": "s3://bucket/references"}
    settings = Settings.from_environment(given)
    assert settings.landing == StoreUrl("files", "landed")
    assert settings.stores == {StoreUrl("files", "landed")}
    assert settings.reference_archive == StoreUrl("bucket", "references/reference_archive")
    elsewhere = Settings.from_environment({**given, "BACKFILL_REFERENCE_ARCHIVE": "s3://bucket/kept"})
    assert elsewhere.reference_archive == StoreUrl("bucket", "kept")


def test_the_archive_of_references_in_a_folder_is_in_the_home(tmp_path: Path) -> None:
    settings = Settings.from_environment({"BACKFILL_HOME": str(tmp_path), "BACKFILL_REFERENCE": "elsewhere"})
    assert settings.reference_archive == tmp_path / "reference_archive"


def test_a_drop_prefix_of_a_store_is_its_own() -> None:
    lake = {"BACKFILL_LAKE": "s3://bucket/lake"}
    assert Settings.from_environment({**lake, "BACKFILL_DROP": "s3://bucket/lakes"}).drop == StoreUrl("bucket", "lakes")
    for drop in ("s3://bucket/lake", "s3://bucket/lake/drop", "s3://bucket"):
        with pytest.raises(Refused, match=rf"BACKFILL_DROP is {drop}, and BACKFILL_LAKE is .*one lies in the other"):
            Settings.from_environment({**lake, "BACKFILL_DROP": drop})


def test_one_block_reaches_delta_and_spark() -> None:
    settings = Settings.from_environment(GIVEN)
    assert isinstance(settings.lake, StoreUrl)
    delta, spark = settings.access.for_delta(), settings.access.for_spark(settings.lake)
    assert delta["AWS_ENDPOINT_URL"] == spark["fs.s3a.bucket.bucket.endpoint"] == "https://store.example:9000"
    assert delta["AWS_SECRET_ACCESS_KEY"] == spark["fs.s3a.bucket.bucket.secret.key"] == SECRET
    assert spark["fs.s3a.bucket.bucket.aws.credentials.provider"].endswith("TemporaryAWSCredentialsProvider")


def test_options_override_the_variables_and_go_to_delta_when_nobody_else_knows_them() -> None:
    given = {**GIVEN, "BACKFILL_STORAGE_OPTIONS": "aws_endpoint_url=https://other.example; timeout=30s"}
    access = Settings.from_environment(given).access
    assert access.endpoint == "https://other.example"
    assert access.for_delta()["timeout"] == "30s"


def test_without_keys_the_libraries_use_the_role_of_the_machine() -> None:
    access = Settings.from_environment({"BACKFILL_LAKE": "s3://bucket/lake", "AWS_REGION": "eu-west-1"}).access
    assert access.for_delta() == {"AWS_REGION": "eu-west-1"}
    assert access.for_spark(StoreUrl("bucket")) == {"fs.s3a.bucket.bucket.endpoint.region": "eu-west-1"}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"AWS_ACCESS_KEY_ID": "a"}, "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not both set"),
        ({"AWS_ENDPOINT_URL": "store.example"}, "AWS_ENDPOINT_URL is not a URL"),
        ({"AWS_ENDPOINT_URL": "http://store.example"}, "no encryption"),
        ({"AWS_ENDPOINT_URL": f"https://me:{SECRET}@store.example"}, "AWS_ENDPOINT_URL holds a user's name"),
    ],
)
def test_an_access_that_cannot_work_is_refused_without_its_values(options: dict[str, str], sentence: str) -> None:
    with pytest.raises(Refused, match=sentence) as refusal:
        StoreAccess.of(options)
    assert SECRET not in str(refusal.value)


def test_no_secret_is_printed_or_given_to_a_jvm_that_starts() -> None:
    settings = Settings.from_environment(GIVEN)
    for shown in (
        repr(settings),
        str(settings.access),
        repr(settings.access.for_delta),
        repr(dict(spark_conf(settings))),
    ):
        for secret in (SECRET, GIVEN["AWS_ACCESS_KEY_ID"]):
            assert secret not in shown


def test_delta_is_as_patient_as_our_own_calls_unless_an_option_says_otherwise() -> None:
    usual = StoreAccess.of({"AWS_REGION": "eu-west-1"}).for_delta_with_patience()
    assert usual["retry_timeout"] == f"{PATIENCE.total_seconds():.0f}s" and int(usual["max_retries"]) > 100
    chosen = StoreAccess.of({"AWS_REGION": "eu-west-1", "retry_timeout": "5s"}).for_delta_with_patience()
    assert chosen == {**usual, "retry_timeout": "5s"}


def test_what_delta_says_of_a_store_is_one_line_without_colours() -> None:
    then = "\n    \x1b[31m\u21b3\x1b[0m "
    tree = f"Generic S3 error{then}Error performing PUT{then}503\n  <?xml version='1.0'?><Error>"
    assert in_one_line(OSError(tree)) == "Generic S3 error, Error performing PUT, 503"
    assert in_one_line(OSError()) == "OSError"
