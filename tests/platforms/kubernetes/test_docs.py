"""The commands of docs/kubernetes.md, as dry-runs."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.cli.harness import CommandLine
from tests.fakes.kubernetes import FakeKubernetes

PAGE = (Path(__file__).parents[3] / "docs" / "kubernetes.md").read_text(encoding="utf-8")
SUBMITS = re.findall(r"^tao-run (submit .*)$", PAGE, re.MULTILINE)


@pytest.mark.parametrize("line", SUBMITS)
def test_every_submit_is_a_good_dry_run(line: str, cluster: FakeKubernetes, tmp_path: Path) -> None:
    tao = CommandLine(tmp_path / "state", {"KUBECONFIG": str(cluster.kubeconfig(tmp_path / "config"))})
    words = shlex.split(line)
    if not any(word.startswith("--dry-run") for word in words):
        words.insert(1, "--dry-run")
    ended = tao(*words)
    assert ended.code == 0, ended.err
    assert '"kind": "Job"' in ended.out
    assert cluster.objects.select("jobs", "default") == []
