"""The object-store interface over both clients, against a real server."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest

from tao_run.runner.errors import AccessDenied, BucketAbsent, KeysRefused, StoreError, Transient, Unreachable
from tao_run.runner.objects.base import MIB, WRITE_PART, ObjectStore, Settings, part_size, settings_from
from tests.services.s3 import REGION, S3Service

HOSTILE = [
    "plain",
    "a b [1] %20 #x?&+=.txt",
    "ünï/日本",
    "a%2Fb",
    "q\"uo'te<x>",
    "tilde~*|{}^`",
    "dir.d/.hidden",
    "..a/b.",
]


def open_client(name: str, settings: Settings) -> ObjectStore:
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed")
    if name == "obstore":
        from tao_run.runner.objects.obstore_client import ObstoreClient

        return ObstoreClient(settings)
    from tao_run.runner.objects.boto_client import BotoClient

    return BotoClient(settings)


@pytest.fixture(params=["obstore", "boto3"])
def client_name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def store(client_name: str, s3: S3Service) -> ObjectStore:
    return open_client(client_name, settings_from(s3.container_env()))


def test_hostile_names_there_and_back(store: ObjectStore, s3: S3Service) -> None:
    bucket = s3.bucket()
    s3.put(bucket, {f"in/{name}": name.encode() for name in HOSTILE})
    listed = {info.key: info.size for info in store.list(bucket, "in")}
    assert listed == {f"in/{name}": len(name.encode()) for name in HOSTILE}
    for name in HOSTILE:
        data, _ = store.read(bucket, f"in/{name}", len(name.encode()))
        assert bytes(data) == name.encode()
        store.write(bucket, f"out/{name}", name.encode())
        assert s3.get(bucket, f"out/{name}") == name.encode()


def test_a_prefix_counts_only_up_to_a_slash(store: ObjectStore, s3: S3Service) -> None:
    bucket = s3.bucket()
    s3.put(bucket, {"foobar": b"1", "foo/x": b"2", "foo/": b""})
    assert [info.key for info in store.list(bucket, "foo")] == ["foo/x"]
    assert store.head(bucket, "fo") is None


def test_head_tells_size_and_etag(store: ObjectStore, s3: S3Service) -> None:
    bucket = s3.bucket()
    s3.put(bucket, {"a": b"12345"})
    info = store.head(bucket, "a")
    assert info is not None
    assert (info.key, info.size, info.etag) == ("a", 5, "827ccb0eea8a706c4c34a16891f84e7b")
    assert store.head(bucket, "b") is None


def test_ranges_and_changed_objects(store: ObjectStore, s3: S3Service) -> None:
    bucket = s3.bucket()
    s3.put(bucket, {"a": b"0123456789"})
    data, etag = store.read(bucket, "a", 4)
    assert bytes(data) == b"0123"
    assert b"".join(map(bytes, store.stream(bucket, "a", 3, 4, etag))) == b"3456"
    s3.put(bucket, {"a": b"9876543210"})
    with pytest.raises(Transient):
        list(store.stream(bucket, "a", 4, 2, etag))


def test_streams_come_in_chunks(store: ObjectStore, s3: S3Service) -> None:
    bucket, body = s3.bucket(), os.urandom(MIB) * 9
    s3.put(bucket, {"a": body})
    info = store.head(bucket, "a")
    assert info is not None
    chunks = [bytes(chunk) for chunk in store.stream(bucket, "a", 5, 8 * MIB, info.etag)]
    assert b"".join(chunks) == body[5 : 5 + 8 * MIB]
    assert len(chunks) > 3


@pytest.mark.parametrize("size", [0, 1, WRITE_PART - 1, WRITE_PART, 2 * WRITE_PART + 12345])
def test_files_of_all_sizes_arrive_whole(store: ObjectStore, s3: S3Service, tmp_path: Path, size: int) -> None:
    bucket, path = s3.bucket(), tmp_path / "file"
    block = os.urandom(MIB)
    path.write_bytes((block * (size // MIB + 1))[:size])
    store.write_file(bucket, "up/file", str(path), size)
    assert s3.get(bucket, "up/file") == path.read_bytes()


def test_a_file_that_has_gone_is_told_from_a_bucket_that_is_not_there(
    store: ObjectStore, s3: S3Service, tmp_path: Path
) -> None:
    with pytest.raises(FileNotFoundError):
        store.write_file(s3.bucket(), "x", str(tmp_path / "gone"), 1)
    (tmp_path / "there").write_bytes(b"1")
    for write in (
        lambda: store.write_file("no-such-bucket", "x", str(tmp_path / "there"), 1),
        lambda: store.write("no-such-bucket", "x", b"1"),
    ):
        with pytest.raises(BucketAbsent, match="no bucket no-such-bucket"):
            write()


def test_an_absent_bucket_is_said_to_be_absent(store: ObjectStore) -> None:
    with pytest.raises(BucketAbsent, match="there is no bucket no-such-bucket at http"):
        list(store.list("no-such-bucket", ""))


@pytest.mark.parametrize("wrong", [{"AWS_SECRET_ACCESS_KEY": "wrong"}, {"AWS_ACCESS_KEY_ID": "wrong"}])
def test_wrong_keys_are_refused_not_absent(client_name: str, s3: S3Service, wrong: dict[str, str]) -> None:
    bucket = s3.bucket()
    store = open_client(client_name, settings_from({**s3.container_env(), **wrong}))
    for ask in (
        lambda: list(store.list(bucket, "")),
        lambda: store.head(bucket, "x"),
        lambda: store.read(bucket, "x", 1),
        lambda: store.write(bucket, "x", b""),
    ):
        with pytest.raises(KeysRefused, match="does not accept the S3 keys"):
            ask()


def test_keys_that_may_only_read(client_name: str, s3: S3Service, tmp_path: Path) -> None:
    bucket = s3.bucket()
    s3.put(bucket, {"a": b"1"})
    store = open_client(client_name, Settings(s3.endpoint, REGION, s3.read_key, s3.read_secret, ""))
    assert store.head(bucket, "a") is not None
    (tmp_path / "big").write_bytes(bytes(WRITE_PART + 1))
    for write in (
        lambda: store.write(bucket, "b", b"1"),
        lambda: store.write_file(bucket, "b", str(tmp_path / "big"), WRITE_PART + 1),
    ):
        with pytest.raises(AccessDenied, match="refuses to write to"):
            write()


def test_a_store_that_does_not_answer(client_name: str) -> None:
    store = open_client(client_name, Settings("http://127.0.0.1:1", REGION, "k", "s", ""))
    with pytest.raises(Unreachable, match=r"http://127\.0\.0\.1:1 does not answer"):
        list(store.list("bucket", ""))


def test_without_keys_the_refusal_says_so(client_name: str, s3: S3Service) -> None:
    store = open_client(client_name, Settings(s3.endpoint, REGION, "", "", ""))
    with pytest.raises(AccessDenied) as caught:
        list(store.list(s3.bucket(), ""))
    assert "no S3 keys are set" in caught.value.hint


def test_settings_come_from_the_names_of_either_world() -> None:
    env = {"ACCESS_KEY": " a\r\n", "SECRET_KEY": "s", "S3_ENDPOINT_URL": "http://h:1/", "CLOUD_REGION": "eu"}
    assert settings_from(env) == Settings("http://h:1", "eu", "a", "s", "")
    assert settings_from({"AWS_ACCESS_KEY_ID": "x", **env}).access_key == "x"
    assert settings_from({}) == Settings("", "us-east-1", "", "", "")


def test_an_endpoint_that_is_no_store(client_name: str) -> None:
    with pytest.raises(StoreError, match="'not a url' is not a URL"):
        open_client(client_name, Settings("not a url", REGION, "k", "s", ""))


def test_no_file_has_more_parts_than_s3_allows() -> None:
    for size in (1, WRITE_PART, 160 * 1000 * MIB, 5 * MIB * MIB):
        assert -(-size // part_size(size)) <= 10_000
    assert part_size(WRITE_PART * 5) == WRITE_PART
