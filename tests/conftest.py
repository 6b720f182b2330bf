"""What every test starts from: no credentials, no state and no skill bank of the person who runs the tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

# Tests that share one real server run one after the other, in one process; the groups run side by side.
_ONE_SERVER = {"kubernetes_api": "kubernetes"}


def _group(item: pytest.Item) -> str:
    parts = Path(item.nodeid.split("::")[0]).parts[1:]
    if parts[0] == "conformance":
        rig = str(item.callspec.params["rig"])  # type: ignore[attr-defined]
        return _ONE_SERVER.get(rig, "slurm" if rig == "slurm" else f"conformance-{rig}")
    if parts[0] == "platforms":
        return "kubernetes-fake" if parts[1] == "kubernetes" and "test_real_" not in item.nodeid else parts[1]
    return parts[0] if parts[0] in ("runner", "storage", "preflight") else "/".join(parts)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Give every test its group, for `pytest -n N --dist loadgroup`."""
    group = _group(item)
    item.add_marker(pytest.mark.xdist_group(group))
    if group == "kubernetes":  # on a new machine the first of them waits for the build of its API server
        item.add_marker(pytest.mark.timeout(1200))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Two processes on one server would fail in odd ways: rather say that groups are not kept together."""
    if getattr(session.config.option, "loadgroup", False) and any("@" not in item.nodeid for item in session.items):
        raise pytest.UsageError("this pytest-xdist does not keep groups together with this pytest")


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
