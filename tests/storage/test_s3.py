"""S3 checks and listings against real servers: exact names, refusals that are no absence, writes that are proved."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tao_run.credentials import Credentials
from tao_run.errors import BackendUnreachable, CredentialMissing, UsageError
from tao_run.storage import S3Store, check_path, list_path, parse_location
from tests.storage.conftest import credentials


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("", "bucket"),
        ("foobar", "object"),
        ("foo", "absent"),
        ("dir", "prefix"),
        ("dir/", "prefix"),
        ("di", "absent"),
        ("dir/a.json", "object"),
        ("dir/a", "absent"),
        ("one/", "absent"),
        ("marker/", "prefix"),
        ("nothing", "absent"),
    ],
)
def test_exactly_what_was_asked_for(store: S3Store, path: str, kind: str) -> None:
    assert store.find(parse_location(f"s3://data-here/{path}")).kind == kind


def test_a_twin_is_named_and_proves_nothing(store: S3Store) -> None:
    found = store.find(parse_location("s3://data-here/foo"))
    assert not found.exists
    assert "s3://data-here/foobar" in found.detail


def test_a_missing_bucket_is_absent(store: S3Store) -> None:
    for text in ("s3://not-there", "s3://not-there/x", "s3://not-there/x/"):
        found = store.find(parse_location(text))
        assert not found.exists
        assert "not-there" in found.detail


@pytest.mark.parametrize("path", ["dir", "dir/"])
def test_listing_shows_one_level_with_folders_marked(endpoint: str, path: str) -> None:
    listed = list_path(f"s3://data-here/{path}", credentials(endpoint))
    assert listed == ["s3://data-here/dir/a.json", "s3://data-here/dir/sub/"]


def test_listing_a_single_object_and_nothing(endpoint: str) -> None:
    assert list_path("s3://data-here/one", credentials(endpoint)) == ["s3://data-here/one"]
    assert list_path("s3://data-here/nothing/", credentials(endpoint)) == []


def test_write_probe_leaves_nothing(store: S3Store) -> None:
    assert store.probe_write(parse_location("s3://data-here/results/")) == ""
    assert list(store.list(parse_location("s3://data-here/results/"))) == []


def test_read_sample_reads_the_object_or_the_first_below(store: S3Store) -> None:
    assert store.read_sample(parse_location("s3://data-here/one")) == "s3://data-here/one"
    assert store.read_sample(parse_location("s3://data-here/dir")) == "s3://data-here/dir/a.json"


def test_read_has_a_limit(store: S3Store) -> None:
    assert store.read(parse_location("s3://data-here/one"), limit=5) == b"hello"
    assert store.read(parse_location("s3://data-here/one"), limit=4) is None


def test_both_missing_keys_are_named_at_once() -> None:
    with pytest.raises(CredentialMissing) as raised:
        check_path("s3://data-here/x", Credentials({}))
    assert raised.value.names == ("ACCESS_KEY", "SECRET_KEY")


@pytest.mark.parametrize("address", ["http://127.0.0.1:9", "http://no-such-host.invalid:1"])
def test_no_answer_is_not_absence(address: str) -> None:
    with pytest.raises(BackendUnreachable):
        S3Store(credentials(address), timeout=2).find(parse_location("s3://data-here/x"))


def test_an_endpoint_that_is_no_url() -> None:
    with pytest.raises(UsageError, match="S3_ENDPOINT_URL"):
        check_path("s3://data-here/x", credentials("127.0.0.1:9"))


def test_importing_storage_imports_no_boto() -> None:
    code = "import sys, tao_run.storage; print('boto3' in sys.modules or 'botocore' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "False"
