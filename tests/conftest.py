"""What every test starts from: no credentials, no state and no skill bank of the person who runs the tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

_PREFIXES = ("TAO_", "LEPTON_", "AWS_", "SLURM_", "NGC_", "HF_", "BREV_", "DOCKER_", "S3_")
_NAMES = ("ACCESS_KEY", "SECRET_KEY", "CLOUD_REGION", "KUBECONFIG", "HTTP_PROXY", "HTTPS_PROXY", "http_proxy")


@pytest.fixture(autouse=True, scope="session")
def _clean_environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Tests see an empty home and none of the variables that steer tao-run or its SDKs."""
    before = dict(os.environ)
    for name in list(os.environ):
        if name.startswith(_PREFIXES) or name in _NAMES:
            del os.environ[name]
    home: Path = tmp_path_factory.mktemp("home")
    os.environ.update(HOME=str(home), TAO_RUN_STATE_DIR=str(home / "state"), NO_PROXY="127.0.0.1,localhost")
    yield
    os.environ.clear()
    os.environ.update(before)
