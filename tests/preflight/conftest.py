"""A real S3 server, and a launch on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tao_run.credentials import Credentials
from tao_run.jobs.model import Check
from tao_run.jobs.request import parse_request
from tao_run.platforms.registry import make
from tao_run.preflight import Wanted, run
from tests.services.s3 import S3Service, s3

__all__ = ["s3"]

Preflight = Callable[..., dict[str, Check]]


@pytest.fixture(scope="session")
def bucket(s3: S3Service) -> str:
    name = s3.bucket("preflight")
    rows = b'[{"id": 1, "video": "a"}, {"id": 2, "video": "b"}]'
    s3.put(name, {"foobar": b"x", "data/a.json": rows, "data/b.jsonl": b'{"id": 1}\n', "a//b": b"x"})
    return name


@pytest.fixture
def preflight() -> Preflight:
    """Runs the checks of a request given as plain data; checks by id."""

    def check(
        data: dict[str, Any], environ: dict[str, str] | None = None, wanted: Wanted | None = None
    ) -> dict[str, Check]:
        credentials = Credentials(environ or {})
        platform = make(data["platform"], credentials=credentials)
        report = run(parse_request(data, "test"), platform, credentials, wanted)
        assert report.passed is not any(check.status == "failed" for check in report.checks)
        return {check.id: check for check in report.checks}

    return check
