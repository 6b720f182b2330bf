"""Refused is not absent, and a read-only key cannot hold results: shown on a server that checks signatures."""

from __future__ import annotations

import pytest

from tao_run.errors import CredentialRefused, PermissionRefused
from tao_run.storage import S3Store, parse_location
from tests.services.s3 import S3Service
from tests.storage.conftest import credentials

pytestmark = pytest.mark.service


@pytest.fixture(scope="module")
def bucket(s3: S3Service) -> str:
    name = s3.bucket("refusals")
    s3.put(name, {"foobar": b"hello", "dir/a": b"x"})
    return name


@pytest.mark.parametrize("path", ["foobar", "missing", "dir/", ""])
@pytest.mark.parametrize(("key", "secret"), [("testkey", "wrong-secret"), ("nobody", "testsecret")])
def test_a_wrong_key_is_refused_whatever_is_there(s3: S3Service, bucket: str, path: str, key: str, secret: str) -> None:
    store = S3Store(credentials(s3.endpoint, key, secret), timeout=10)
    with pytest.raises(CredentialRefused) as raised:
        store.find(parse_location(f"s3://{bucket}/{path}"))
    assert secret not in raised.value.message + raised.value.hint


def test_a_reader_reads_and_may_not_write(s3: S3Service, bucket: str) -> None:
    store = S3Store(credentials(s3.endpoint, s3.read_key, s3.read_secret), timeout=10)
    assert store.find(parse_location(f"s3://{bucket}/foobar")).kind == "object"
    assert store.read_sample(parse_location(f"s3://{bucket}/dir/")) == f"s3://{bucket}/dir/a"
    with pytest.raises(PermissionRefused, match="PutObject"):
        store.probe_write(parse_location(f"s3://{bucket}/results/"))
    assert s3.keys(bucket) == ["dir/a", "foobar"]


def test_a_write_probe_on_a_strict_server_leaves_nothing(s3: S3Service, bucket: str) -> None:
    store = S3Store(credentials(s3.endpoint), timeout=10)
    assert store.probe_write(parse_location(f"s3://{bucket}/results")) == ""
    assert s3.keys(bucket, "results") == []
