"""An S3 server that knows the caller's keys, with two buckets in it."""

from __future__ import annotations

from collections.abc import Iterator

import boto3
import pytest
from moto.server import ThreadedMotoServer

from tao_run.credentials import Credentials
from tao_run.storage import S3Store

OBJECTS = ("foobar", "one", "dir/a.json", "dir/sub/b", "many/x", "marker/")


@pytest.fixture(scope="session")
def moto_endpoint() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture(scope="session", params=["moto"])
def endpoint(request: pytest.FixtureRequest) -> str:
    address: str = request.getfixturevalue(f"{request.param}_endpoint")
    client = boto3.client(
        "s3",
        endpoint_url=address,
        aws_access_key_id="testkey",
        aws_secret_access_key="testsecret",
        region_name="us-east-1",
    )
    client.create_bucket(Bucket="data-here")
    for name in OBJECTS:
        client.put_object(Bucket="data-here", Key=name, Body=b"" if name.endswith("/") else b"hello")
    return address


def credentials(endpoint: str, key: str = "testkey", secret: str = "testsecret") -> Credentials:
    return Credentials({"ACCESS_KEY": key, "SECRET_KEY": secret, "S3_ENDPOINT_URL": endpoint})


@pytest.fixture
def store(endpoint: str) -> S3Store:
    return S3Store(credentials(endpoint), timeout=10)
