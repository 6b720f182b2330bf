"""The commands on Brev, as a user types them: submit and watch, status, instances, dry-run."""

from __future__ import annotations

import json

import pytest

from tests.cli.harness import CommandLine
from tests.platforms.brev.conftest import Desk

RENT = ("--platform", "brev", "--gpu-type", "L40S", "--gpus", "1", "--image", "mini:1", "--yes")


@pytest.fixture
def tao(desk: Desk) -> CommandLine:
    return CommandLine(desk.store.directory, {**desk.values, **{k: desk.cloud.environ[k] for k in ("PATH", "HOME")}})


def test_submit_and_watch_rents_shows_and_gives_back(desk: Desk, tao: CommandLine) -> None:
    ended = tao("submit", *RENT, "--interval", "0.01", "--", "sh", "-c", "echo hi; exit 3")
    assert ended.code == 1, ended.err
    assert "renting massedcompute_L40S" in ended.err and "was deleted" in ended.err
    assert desk.cloud.names() == []
    assert tao("logs", "@last").out == "hi\n"


def test_detached_then_status_names_it_then_watch_gives_it_back(desk: Desk, tao: CommandLine) -> None:
    job_id = tao("submit", *RENT, "--detach", "--", "true").out.strip()
    job = desk.wait(desk.store.get(job_id))
    seen = tao("status", job_id)
    assert seen.code == 0 and "Complete" in seen.out
    assert f"instance {job.name}" in seen.err and f"tao-run instances delete {job.name}" in seen.err
    assert desk.cloud.names() == [job.name]
    assert tao("status", job_id, "--cached").err == ""
    watched = tao("watch", job_id)
    assert watched.code == 0 and f"instance {job.name} was deleted" in watched.err
    assert desk.cloud.names() == []


def test_instances_list_and_delete(desk: Desk, tao: CommandLine) -> None:
    assert tao("instances", "list").err == "there are no instances\n"
    job_id = tao("submit", *RENT, "--detach", "--keep-instance", "--", "echo", "kept").out.strip()
    job = desk.wait(desk.store.get(job_id))
    listed = tao("instances", "list")
    assert job.name in listed.out and "massedcompute_L40S" in listed.out and "costs money" in listed.err
    data = tao("instances", "list", "--format", "json").json
    assert data["instances"][0]["job"] == job_id and data["instances"][0]["age_seconds"] >= 0
    assert tao("instances", "delete", job.name).out == f"deleted {job.name}\n"
    assert desk.cloud.names() == []
    assert tao("logs", job_id).out == "kept\n"
    missing = tao("instances", "delete", job.name)
    assert missing.code == 2 and f"there is no instance {job.name}" in missing.err


def test_an_instance_with_a_live_job_is_not_deleted_by_the_way(desk: Desk, tao: CommandLine) -> None:
    job = desk.running(desk.submit("sleep 30"))
    refused = tao("instances", "delete", job.name)
    assert refused.code == 2 and job.id in refused.err
    assert tao("instances", "delete", job.name, "--yes").code == 0
    assert desk.cloud.names() == []


def test_dry_run_prints_what_would_be_sent(desk: Desk, tao: CommandLine) -> None:
    shown = tao("submit", *RENT, "--dry-run", "--secret", "HF_TOKEN", "--", "echo", "it's $5")
    assert shown.code == 0, shown.err
    assert json.loads(shown.out)["deleted_at_end"] is True
    assert "canary" not in shown.out + shown.err
    assert desk.cloud.names() == []


def test_a_wrong_option_lists_the_right_ones(tao: CommandLine) -> None:
    wrong = tao("submit", *RENT, "-o", "gpu_typ=A100", "--", "true")
    assert wrong.code == 2 and "did you mean gpu_type?" in wrong.err


def test_a_lost_login_is_exit_code_3(desk: Desk, tao: CommandLine) -> None:
    desk.cloud.expire_login()
    lost = tao("instances", "list")
    assert lost.code == 3 and "brev login" in lost.err
