"""Two S3 servers: moto, which knows no wrong key, and SeaweedFS, which checks every signature."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer

from tao_run.credentials import Credentials
from tao_run.storage import S3Store
from tests.services.s3 import S3Service, s3

__all__ = ["s3"]

OBJECTS = ("foobar", "one", "dir/a.json", "dir/sub/b", "many/x", "marker/")
BUCKET = "data-here"


@pytest.fixture(scope="session")
def moto_endpoint() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture(scope="session")
def seaweed_endpoint(s3: S3Service) -> str:
    return s3.endpoint


@pytest.fixture(scope="session", params=["moto", pytest.param("seaweed", marks=pytest.mark.service)])
def endpoint(request: pytest.FixtureRequest) -> str:
    address: str = request.getfixturevalue(f"{request.param}_endpoint")
    client: Any = boto3.client(
        "s3",
        endpoint_url=address,
        aws_access_key_id="testkey",
        aws_secret_access_key="testsecret",
        region_name="us-east-1",
    )
    client.create_bucket(Bucket=BUCKET)
    for name in OBJECTS:
        client.put_object(Bucket=BUCKET, Key=name, Body=b"" if name.endswith("/") else b"hello")
    return address


def credentials(endpoint: str, key: str = "testkey", secret: str = "testsecret") -> Credentials:
    return Credentials({"ACCESS_KEY": key, "SECRET_KEY": secret, "S3_ENDPOINT_URL": endpoint})


@pytest.fixture
def store(endpoint: str) -> S3Store:
    return S3Store(credentials(endpoint), timeout=10)
