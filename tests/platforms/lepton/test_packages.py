"""The packages of the extra: imported late, never at a status, and an exact command when one is missing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tao_run.errors import NotInstalled
from tao_run.platforms.lepton.account import Account
from tao_run.platforms.lepton.api import LeptonApi
from tests.platforms.lepton.conftest import Desk, HurriedClock

ROOT = Path(__file__).parents[3]


def test_without_leptonai_a_submission_names_the_command(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "leptonai"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "leptonai", None)
    with pytest.raises(NotInstalled) as caught:
        desk.native()
    assert 'pip install "tao-run[lepton]"' in caught.value.hint


def test_without_requests_a_look_names_the_command(clock: HurriedClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "requests", None)
    with pytest.raises(NotInstalled) as caught:
        LeptonApi(Account("ws1", "http://127.0.0.1:9/api/v2/workspaces/ws1"), "t" * 9, clock).get("/jobs")
    assert 'pip install "tao-run[lepton]"' in caught.value.hint


def test_looking_at_a_job_imports_neither_leptonai_nor_pydantic(desk: Desk) -> None:
    job = desk.submit()
    script = (
        "import sys; from pathlib import Path; from tao_run.credentials import Credentials;"
        "from tao_run.jobs.store import Store; from tao_run.platforms.lepton import LeptonSDK;"
        f"store = Store(Path({str(desk.store.directory)!r})); job = store.get({job.id!r});"
        f"LeptonSDK(Credentials({{'LEPTON_AUTH_TOKEN': {desk.lepton.token!r}}}), store).poll([job]);"
        "print(*sorted({'leptonai', 'pydantic'} & set(sys.modules)), 'done')"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "done"


def test_a_malformed_record_of_the_vendors_command_does_no_harm(desk: Desk, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / "workspace_info.yaml").write_text("- not\n- a mapping\n")
    script = (
        "from tao_run.credentials import Credentials; from tao_run.platforms.lepton import LeptonSDK; import os;"
        f"names = {{'LEPTON_AUTH_TOKEN': {desk.lepton.token!r}, 'LEPTON_WORKSPACE_ID': 'ws1',"
        f" 'LEPTON_WORKSPACE_URL': {desk.lepton.url!r}}};"
        "print(len(LeptonSDK(Credentials(names)).get_volumes()), os.environ['LEPTON_CACHE_DIR'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env={"LEPTON_CACHE_DIR": str(cache), "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["2", str(cache)]
    assert done.stderr == ""
