"""Jobs on an instance that exists: images, GPUs, secrets, states of the instance, logs, login."""

from __future__ import annotations

import base64
import json
import os
import socket
import time
from pathlib import Path

import pytest

from tao_run.errors import (
    BackendFault,
    BackendRejected,
    BackendUnreachable,
    CredentialRefused,
    NotInstalled,
    PermissionRefused,
    ProtocolError,
)
from tao_run.jobs.model import JobState, LogQuery
from tao_run.jobs.request import parse_request
from tao_run.platforms.brev.parcels import parcel
from tao_run.platforms.lifecycle import launcher_identity
from tests.platforms.brev.conftest import CANARY, Desk

ON_BOX = {"gpu_type": None, "instance": "box"}


@pytest.fixture
def box(desk: Desk) -> Desk:
    desk.cloud.add("box", "g6e.12xlarge")
    return desk


def everything_seen(desk: Desk) -> str:
    """Every argv of every process, local and remote, every environment of the CLI, and the files that stay."""
    calls = desk.cloud.calls()
    argv = [word for call in calls for word in call["argv"]]
    env = [value for call in calls for value in call["env"].values()]
    docker = [word for call in desk.cloud.docker_calls() for word in call]
    homes = [path for top in desk.cloud.everywhere() for path in (top / "home").rglob("*") if path.is_file()]
    return "\n".join([*argv, *env, *docker, *(path.read_text(errors="replace") for path in homes)])


def test_no_secret_on_any_command_line(box: Desk) -> None:
    secrets = {"HF_TOKEN": "HF_TOKEN"}
    job = box.submit(
        'printf %s "$HF_TOKEN" | base64 -w0; echo', options=ON_BOX, secrets=secrets, image="nvcr.io/private:1"
    )
    assert box.wait(job).status.state is JobState.COMPLETE
    assert box.texts(job) == [base64.b64encode(CANARY.encode()).decode()]
    seen = everything_seen(box)
    assert "canary" not in seen
    assert ["login", "nvcr.io", "-u", "$oauthtoken", "--password-stdin"] in box.cloud.docker_calls()
    left = sorted(path.name for path in (box.cloud.instance("box") / "home" / ".tao-run" / job.name).iterdir())
    assert left == ["launched", "pid", "rc", "start.log", "start.sh"], "the files with secrets are gone"
    assert not (box.cloud.instance("box") / "home" / ".docker").exists(), "no registry login stays behind"


def test_files_on_the_way_are_for_the_user_only(box: Desk, tmp_path: Path) -> None:
    (box.cloud.instance("box") / "docker" / "slow_pull").touch()
    job = box.submit(options=ON_BOX, secrets={"HF_TOKEN": "HF_TOKEN"})
    directory = box.cloud.instance("box") / "home" / ".tao-run"
    modes = {path.name: path.stat().st_mode & 0o777 for path in (directory, directory / job.name / "env")}
    assert modes == {".tao-run": 0o700, "env": 0o600}
    seen = box.look(job).status
    assert (seen.state, seen.reason, seen.message) == (JobState.PENDING, "Starting", "pulling mini:1")
    (box.cloud.instance("box") / "docker" / "slow_pull").unlink()
    assert box.wait(job).status.state is JobState.COMPLETE


def test_files_that_a_killed_sender_left_on_this_machine_go_with_the_next_parcel(tmp_path: Path) -> None:
    mine = launcher_identity().replace(":", ",")
    dead = f"{socket.gethostname()},1,no-such-start"
    for name in (f"{dead},a1b2", f"{mine},c3d4", "other-host,1,2,e5f6", "not ours"):
        (tmp_path / name / "job").mkdir(parents=True)
        (tmp_path / name / "job" / "env").write_text(CANARY)
    with parcel(tmp_path, "tao-job", {"env": CANARY.encode()}) as made:
        assert (made / "env").read_text() == CANARY
        assert {made.stat().st_mode & 0o777, (made / "env").stat().st_mode & 0o777} == {0o700, 0o600}
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {f"{mine},c3d4", "other-host,1,2,e5f6", "not ours"}


def test_files_of_a_killed_submission_go_from_the_instance(box: Desk) -> None:
    """When the job is settled; and if nobody settles it, with a later submission."""
    settled, forgotten, fresh = (box.build(options=ON_BOX) for _ in range(3))
    top = box.cloud.instance("box") / "home" / ".tao-run"
    for job in (settled, forgotten, fresh):
        (top / job.name).mkdir(parents=True)
        (top / job.name / "env").write_text(CANARY)
    assert box.sdk.settle(settled) == []
    assert not (top / settled.name).exists()
    long_ago = time.time() - 7200
    os.utime(top / forgotten.name / "env", (long_ago, long_ago))
    box.wait(box.submit(options=ON_BOX))
    assert not (top / forgotten.name / "env").exists()
    assert (top / fresh.name / "env").exists(), "it may be on its way to be launched"


def test_a_command_of_any_length_arrives(box: Desk) -> None:
    job = box.submit("# " + "x" * 200_000 + "\necho end", options=ON_BOX)
    assert box.wait(job).status.state is JobState.COMPLETE
    assert box.texts(job) == ["end"]


def test_an_image_that_does_not_exist_is_the_reason(box: Desk) -> None:
    job = box.submit(options=ON_BOX, image="missing:1")
    seen = box.wait(job).status
    assert (seen.state, seen.reason) == (JobState.ERROR, "ImagePullFailed")
    assert "manifest unknown" in seen.message
    notes = [line.text for line in box.sdk.logs(box.store.get(job.id), LogQuery()) if line.kind == "note"]
    assert any("manifest unknown" in note for note in notes)
    (event,) = box.sdk.evidence(box.store.get(job.id)).events
    assert event.name == "ImagePullFailed"


def test_a_registry_that_refuses_the_key_is_the_reason(box: Desk) -> None:
    (box.cloud.instance("box") / "docker" / "registry_password").write_text("another")
    seen = box.wait(box.submit(options=ON_BOX, image="nvcr.io/private:1")).status
    assert (seen.reason, seen.exit_code) == ("RegistryLoginFailed", None)
    assert "unauthorized" in seen.message and "canary" not in seen.message


def test_out_of_memory_is_the_reason(box: Desk) -> None:
    job = box.submit("touch oom; kill -KILL $$", options=ON_BOX)
    seen = box.wait(job)
    assert (seen.status.reason, seen.status.exit_code) == ("OOMKilled", 137)
    assert [event.name for event in box.sdk.evidence(seen).events] == ["OOM"]


def test_a_command_that_does_not_exist_in_the_image(box: Desk) -> None:
    job = box.submit(["no-such-program"], options=ON_BOX)
    assert box.wait(job).status.exit_code == 127


def test_no_gpu_is_given_to_two_jobs(box: Desk) -> None:
    first = box.submit("sleep 30", options=ON_BOX, gpus=2)
    box.running(first)
    second = box.submit("sleep 30", options=ON_BOX, gpus=1)
    box.running(second)
    third = box.wait(box.submit(options=ON_BOX, gpus=2)).status
    assert (third.state, third.reason) == (JobState.ERROR, "NoFreeGpus")
    assert "2 GPUs are asked for, 1 of 4 are free" in third.message
    runs = [call for call in box.cloud.docker_calls() if call[0] == "run"]
    assert [call[call.index("--gpus") + 1] for call in runs] == ['"device=0,1"', '"device=2"']


def test_no_gpu_when_none_is_asked_for(box: Desk) -> None:
    box.wait(box.submit(options=ON_BOX, gpus=0))
    (run,) = [call for call in box.cloud.docker_calls() if call[0] == "run"]
    assert "--gpus" not in run and run[run.index("--shm-size") + 1] == "16g"


def test_a_stopped_instance_is_not_started_behind_the_users_back(box: Desk) -> None:
    job = box.submit("sleep 30", options=ON_BOX)
    box.running(job)
    box.cloud.change("box", status="STOPPED")
    seen = box.look(job).status
    assert (seen.state, seen.reason) == (JobState.UNKNOWN, "InstanceStopped") and "brev start box" in seen.message
    with pytest.raises(BackendRejected, match="box is STOPPED"):
        box.submit(options=ON_BOX)
    with pytest.raises(BackendUnreachable, match="cannot be stopped"):
        box.sdk.cancel(box.store.get(job.id))
    assert box.sdk.evidence(box.store.get(job.id)).facts["instance_status"] == "STOPPED"
    assert box.cloud.cloud.read()["workspaces"][0]["status"] == "STOPPED"


def test_an_unhealthy_instance_is_looked_into_and_said(box: Desk) -> None:
    job = box.submit("sleep 30", options=ON_BOX)
    box.running(job)
    box.cloud.change("box", health="UNHEALTHY")
    seen = box.look(job)
    assert seen.status.state is JobState.RUNNING and "UNHEALTHY" in seen.status.message
    assert any(event.name == "InstanceHealth" for event in box.sdk.evidence(seen).events)


def test_docker_that_does_not_answer_is_no_state(box: Desk) -> None:
    job = box.submit("sleep 30", options=ON_BOX)
    box.running(job)
    (box.cloud.instance("box") / "docker" / "down").touch()
    with pytest.raises(BackendFault, match="docker does not answer"):
        box.look(job)
    assert box.store.get(job.id).status.state is JobState.RUNNING


def test_one_silent_instance_does_not_hide_the_others(box: Desk) -> None:
    box.cloud.add("other", "g5.xlarge")
    jobs = [box.submit("sleep 30", options={**ON_BOX, "instance": name}) for name in ("box", "other")]
    for job in jobs:
        box.running(job)
    box.cloud.change("other", ssh_failures=100)
    seen = box.sdk.poll([box.store.get(job.id) for job in jobs])
    assert [seen[job.id].reachable for job in jobs] == [True, False]
    assert [seen[job.id].state for job in jobs] == [JobState.RUNNING, JobState.RUNNING]


def test_jobs_of_another_organization_are_found(box: Desk) -> None:
    job = box.submit("sleep 30", options=ON_BOX)
    box.running(job)
    box.cloud.set(orgs=[{"name": "acme-hq", "id": "org-1"}, {"name": "side", "id": "org-2"}], active_org="side")
    assert box.look(job).status.state is JobState.RUNNING


def test_a_login_that_does_not_see_the_organization_says_nothing_of_the_job(box: Desk) -> None:
    (box.cloud.home / ".brev" / "active_org.json").write_text(json.dumps({"id": "org-1", "name": "acme-hq"}))
    job = box.submit("sleep 30", options=ON_BOX)
    assert job.account == "acme-hq"
    box.cloud.set(orgs=[{"name": "side", "id": "org-2"}], active_org="side")
    with pytest.raises(PermissionRefused, match="does not see the organization acme-hq"):
        box.look(job)


def test_many_jobs_on_one_instance_cost_two_calls(box: Desk) -> None:
    jobs = [box.store.get(box.submit("sleep 30", options=ON_BOX, gpus=0).id) for _ in range(4)]
    before = len(box.cloud.calls())
    assert len(box.sdk.poll(jobs)) == 4
    assert [call["argv"][0] for call in box.cloud.calls()[before:]] == ["ls", "exec", "ssh"]


# -- logs --------------------------------------------------------------------------------------------------


def test_a_log_cut_again_and_again_is_whole(box: Desk) -> None:
    job = box.wait(box.submit("for i in $(seq 1 200); do echo line $i; done", options=ON_BOX))
    for lines in (20, 40, 90):
        box.cloud.fail("ssh", "cut", times=2, lines=lines)
    assert box.texts(job) == [f"line {number}" for number in range(1, 201)]
    assert all(fault["times"] == 0 for fault in box.cloud.cloud.read()["faults"]), "every planned cut happened"


def test_an_instance_that_stays_silent_ends_a_log_with_an_error(box: Desk) -> None:
    job = box.wait(box.submit(options=ON_BOX))
    box.cloud.change("box", ssh_failures=10**6)
    with pytest.raises(BackendUnreachable, match="box is silent"):
        box.texts(job)


def test_a_line_longer_than_dockers_pieces_is_whole(box: Desk) -> None:
    job = box.wait(box.submit("head -c 100000 /dev/zero | tr '\\0' x; echo; echo after", options=ON_BOX))
    assert [len(text) for text in box.texts(job)] == [100000, 5]


# -- login and the tool --------------------------------------------------------------------------------------


def test_an_expired_login_is_renewed_once_and_the_token_is_on_no_command_line(box: Desk) -> None:
    box.values["BREV_API_TOKEN"] = "fresh.jwt." + "t" * 20
    box.cloud.expire_login(good=box.values["BREV_API_TOKEN"])
    assert box.wait(box.submit(options=ON_BOX)).status.state is JobState.COMPLETE
    assert box.values["BREV_API_TOKEN"] not in everything_seen(box)
    assert (box.cloud.home / ".brev" / "credentials.json").stat().st_mode & 0o777 == 0o600
    box.cloud.expire_login()
    before = len(box.cloud.calls("ls"))
    with pytest.raises(CredentialRefused, match="expired"):
        box.sdk.list_instances()
    assert len(box.cloud.calls("ls")) == before + 2


def test_without_a_token_an_expired_login_is_an_error_with_the_remedy(box: Desk) -> None:
    box.cloud.expire_login()
    with pytest.raises(CredentialRefused) as caught:
        box.sdk.list_instances()
    assert "brev login" in caught.value.hint and "BREV_API_TOKEN" in caught.value.hint


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("network", BackendUnreachable),
        ("server", BackendFault),
        ("unauthorized", CredentialRefused),
        ("garbage", ProtocolError),
    ],
)
def test_faults_of_the_tool_by_what_they_are(box: Desk, kind: str, error: type[Exception]) -> None:
    box.cloud.fail("ls", kind)
    with pytest.raises(error):
        box.sdk.list_instances()


def test_the_tool_is_missing(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    with pytest.raises(NotInstalled) as caught:
        desk.sdk.list_instances()
    assert "brew install" in caught.value.hint
    checks = {check.id: check for check in desk.sdk.check_access()}
    assert checks["brev.tool"].status == "failed" and checks["brev.login"].status == "skipped"


# -- preflight -----------------------------------------------------------------------------------------------


def checks_of(desk: Desk, **more: object) -> dict[str, tuple[str, str]]:
    data = {"platform": "brev", "image": "mini:1", "command": "true", "gpus": 1, **more}
    return {check.id: (check.status, check.detail) for check in desk.sdk.check_access(parse_request(data))}


def test_checks_say_what_would_be_rented(box: Desk) -> None:
    checks = checks_of(box, options={"brev": {"gpu_type": "A100"}})
    assert {status for status, _ in checks.values()} == {"ok"}
    assert "0.6.99" in checks["brev.tool"][1] and "acme-hq" in checks["brev.login"][1]
    assert "hyperstack_A100_80G" in checks["brev.place"][1]


def test_checks_find_every_fault_at_once(box: Desk) -> None:
    box.cloud.change("box", status="STOPPED")
    checks = checks_of(box, options={"brev": {"instance": "box"}}, inputs={"/data": "/home/me/data"})
    assert checks["brev.place"] == ("failed", "instance box is STOPPED")
    assert checks["brev.data"][0] == "failed" and "/home/me/data" in checks["brev.data"][1]


# -- inventory -------------------------------------------------------------------------------------------------


def test_instances_are_deleted_by_name_or_id_and_seen_to_go(box: Desk) -> None:
    box.cloud.set(delete_polls=1)
    (row,) = box.sdk.list_instances()
    assert row["age"] is None and row["rented"] is False
    assert box.sdk.delete_instance(row["id"]) is True
    assert box.sdk.delete_instance("box") is False
    assert box.cloud.names() == []


def test_an_instance_that_does_not_go_is_an_error(box: Desk) -> None:
    box.cloud.add("stuck", "g5.xlarge", delete_polls=10**6, status="RUNNING")
    assert box.sdk.delete_instance("stuck") is True, "DELETING is on its way out"
    box.cloud.fail("delete", "server")
    with pytest.raises(BackendFault):
        box.sdk.delete_instance("box")


def test_resources_list_types_and_instances(box: Desk) -> None:
    types, instances = box.sdk.resources()
    assert types.rows[0][:2] == ("L40S", "1") and types.rows[0][5] == "0.88"
    assert instances.rows[0][:2] == ("box", "RUNNING")
