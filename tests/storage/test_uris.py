"""Locations as users write them, and the mistakes with their right form."""

from __future__ import annotations

import pytest

from tao_run.errors import UsageError
from tao_run.storage.uris import join, parse_location, single_slashes


@pytest.mark.parametrize(
    ("text", "bucket", "key"),
    [
        ("s3://my-bucket", "my-bucket", ""),
        ("s3://my-bucket/", "my-bucket", ""),
        ("S3://my-bucket/a/b.json", "my-bucket", "a/b.json"),
        ("s3://my.bucket/a/", "my.bucket", "a/"),
        ("s3://my-bucket/a//b", "my-bucket", "a//b"),
        ("s3://my-bucket/ä b?c#d=e%20", "my-bucket", "ä b?c#d=e%20"),
    ],
)
def test_s3(text: str, bucket: str, key: str) -> None:
    found = parse_location(text)
    assert (found.scheme, found.bucket, found.key, found.text) == ("s3", bucket, key, text)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("/data/x", "/data/x"),
        ("file:///data/x", "/data/x"),
        ("lustre:///lustre/fsw/x", "/lustre/fsw/x"),
        ("lustre:////lustre/x", "/lustre/x"),
    ],
)
def test_paths(text: str, path: str) -> None:
    found = parse_location(text)
    assert found.is_file
    assert found.path == path


@pytest.mark.parametrize(
    "text", ["hf_model://nvidia/model", "hf_dataset://nvidia/data", "ngc://nvidia/tao/m:1", "https://example.com/x"]
)
def test_what_the_job_fetches_by_itself(text: str) -> None:
    found = parse_location(text)
    assert not found.is_s3
    assert not found.is_file


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("lepton://my-bucket/path", "s3://my-bucket/path"),
        ("aws://my-bucket/path", "s3://my-bucket/path"),
        ("s3a://my-bucket/path", "s3://my-bucket/path"),
        ("s3:/my-bucket/path", "s3://my-bucket/path"),
        ("https://my-bucket.s3.eu-west-1.amazonaws.com/a/b", "s3://my-bucket/a/b"),
        ("https://s3.amazonaws.com/my-bucket/a", "s3://my-bucket/a"),
        ("gs://my-bucket/x", "S3_ENDPOINT_URL"),
        ("azure://container/x", "S3_ENDPOINT_URL"),
        ("data/x", "s3://bucket/data/x"),
        ("s3://", "s3://bucket-name/path"),
        ("s3:///path", "s3://bucket-name/path"),
        ("s3://My_Bucket/x", "s3://bucket-name/path"),
        ("ftp://host/x", "s3://bucket/path"),
        ("", "s3://bucket/"),
    ],
)
def test_mistakes_come_with_the_right_form(text: str, right: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_location(text)
    assert right in raised.value.hint


@pytest.mark.parametrize(
    ("base", "parts", "joined"),
    [
        ("s3://b/a/", ("/x.csv",), "s3://b/a/x.csv"),
        ("s3://b", ("", "x/", "y"), "s3://b/x/y"),
        ("/data//", ("x",), "/data/x"),
    ],
)
def test_join_leaves_single_slashes(base: str, parts: tuple[str, ...], joined: str) -> None:
    assert join(base, *parts) == joined


def test_single_slashes_keep_the_scheme() -> None:
    assert single_slashes("s3://b//a///c/") == "s3://b/a/c/"
    assert single_slashes("//data//x") == "/data/x"
