"""The fake Lepton server against the real leptonai client: what the vendor's code makes of our answers."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.lepton import FakeLepton, Fault, StreamPlan, document, error, html

leptonai = pytest.importorskip("leptonai", reason="the real client checks the fake")


@pytest.fixture
def lepton() -> Iterator[FakeLepton]:
    with FakeLepton() as server:
        yield server


@pytest.fixture
def client(lepton: FakeLepton, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    for name in [name for name in os.environ if name.startswith("LEPTON_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("LEPTON_CACHE_DIR", str(tmp_path))
    return connect(lepton)


def connect(lepton: FakeLepton, **changes: str) -> Any:
    from leptonai.api.v2.client import APIClient

    made = APIClient(**{"workspace_id": "ws1", "auth_token": lepton.token, "url": lepton.url, **changes})
    made._session.trust_env = False
    return made


def job_of(name: str = "train", command: str = "true", **spec: Any) -> Any:
    from leptonai.api.v2.types.job import LeptonJob

    container = {"image": "img", "command": ["/bin/bash", "-c", command]}
    return LeptonJob(metadata={"name": name}, spec={"container": container, **spec})


def ended(lepton: FakeLepton, job_id: str) -> None:
    assert lepton.workspace.jobs[job_id].finished.wait(20)


def logged(client: Any, job_id: str, **query: Any) -> list[str]:
    answer = client.log.get_log(name_or_job=job_id, **query)
    return [line for stream in answer["data"]["result"] for _, line in stream["values"]]


def test_a_job_runs_its_command_and_ends_by_its_exit_code(lepton: FakeLepton, client: Any) -> None:
    good = client.job.create(job_of(command="echo rank $LEPTON_JOB_WORKER_INDEX", completions=2)).metadata.id_
    bad = client.job.create(job_of(command="exit 3")).metadata.id_
    ended(lepton, good)
    ended(lepton, bad)
    assert client.job.get(good).status.state.value == "Completed"
    assert client.job.get(good).status.succeeded == 2
    assert client.job.get(bad).status.state.value == "Failed"
    assert sorted(logged(client, good)) == ["rank 0", "rank 1"]


def test_ids_have_a_suffix_and_names_may_repeat(client: Any) -> None:
    first, second = (client.job.create(job_of("same")).metadata for _ in range(2))
    assert first.id_ != second.id_
    assert first.id_.startswith("same-") and len(first.id_) == len("same-") + 4


def test_an_unknown_id_or_a_bare_name_is_404(client: Any) -> None:
    from leptonai.api.v2.api_resource import ClientError

    client.job.create(job_of("named"))
    with pytest.raises(ClientError) as caught:
        client.job.get("named")
    assert caught.value.response.status_code == 404


def test_list_pages_filters_and_modes(lepton: FakeLepton, client: Any) -> None:
    for index in range(5):
        lepton.workspace.add_job(f"job{index}", labels={"team": "a" if index % 2 else "b"}, state="Running")
    gone = lepton.workspace.add_job("old", state="Archived")
    assert len(client.job.list_all()) == 5
    assert [job.metadata.id_ for job in client.job.list_all(job_query_mode="archive_only")] == [gone.id]
    assert len(client.job.list_all(query="team=a")) == 2
    assert len(client.job.list_all(query="team")) == 5
    assert len(client.job.list_all(q="job3", status=["Running", "Failed"])) == 1
    assert len(client.job.list_all(page=2, page_size=4)) == 1
    assert client.job.list_all(page=3, page_size=4) == []


def test_stop_start_and_delete(lepton: FakeLepton, client: Any) -> None:
    job_id = client.job.create(job_of(command="sleep 60")).metadata.id_
    while client.job.get(job_id).status.state.value != "Running":
        time.sleep(0.01)
    client.job.update(job_id, spec={"spec": {"stopped": True}})
    ended(lepton, job_id)
    assert client.job.get(job_id).status.state.value == "Stopped"
    assert client.job.get(job_id).spec.stopped is True
    client.job.update(job_id, spec={"spec": {"stopped": False}})
    assert client.job.get(job_id).status.state.value in ("Queueing", "Starting", "Running")
    assert client.job.delete(job_id)
    assert job_id not in [job.metadata.id_ for job in client.job.list_all()]


def test_secrets_reach_the_job_by_reference_and_are_never_listed(lepton: FakeLepton, client: Any) -> None:
    from leptonai.api.v2.types.secret import SecretItem

    client.secret.create([SecretItem(name="MY_HF", value="hush", visibility="private")])
    envs = [{"name": "HF", "value_from": {"secret_name_ref": "MY_HF"}}, {"name": "PLAIN", "value": "a b"}]
    job_id = client.job.create(job_of(command='echo "${#HF} $PLAIN"', envs=envs)).metadata.id_
    ended(lepton, job_id)
    assert logged(client, job_id) == ["4 a b"]
    assert [secret.name for secret in client.secret.list_all()] == ["MY_HF"]
    assert "hush" not in client._get("/usersecrets").text


def test_a_job_that_names_an_unknown_secret_is_refused_without_echo(client: Any) -> None:
    from leptonai.api.v2.api_resource import ClientError

    envs = [{"name": "A", "value": "hush"}, {"name": "B", "value_from": {"secret_name_ref": "NONE"}}]
    with pytest.raises(ClientError) as caught:
        client.job.create(job_of(envs=envs))
    assert caught.value.response.status_code == 400
    assert "hush" not in str(caught.value)


def test_pull_secrets_answer_201_empty_then_409(client: Any) -> None:
    body = {"metadata": {"name": "ngc"}, "spec": {"registry_server": "r", "username": "u", "password": "hush"}}
    made = client._post("/imagepullsecrets", json=body)
    assert (made.status_code, made.content) == (201, b"")
    assert client._post("/imagepullsecrets", json=body).status_code == 409
    assert "hush" not in client._get("/imagepullsecrets").text
    assert client._delete("/imagepullsecrets/ngc").status_code == 200


def test_discovery_documents_parse(client: Any) -> None:
    group = client.nodegroup.list_all()[0]
    assert group.spec.volumes[1].name == "lustre"
    shapes = client.shapes.list_shapes(group.metadata.id_, "job")
    assert {shape.spec.accelerator_num for shape in shapes} == {None, 1.0, 8.0}
    assert client.nodegroup.list_storage_permissions(group, "lustre")[0].subfolder_policy == "by_user"
    assert client.info().workspace_name == "ws1"


def test_log_ranges_are_half_open_limited_and_directed(lepton: FakeLepton, client: Any) -> None:
    job = lepton.workspace.add_job(state="Running")
    replica = job.add_replica(0)
    for at in range(1, 11):
        replica.log(f"line {at}", at_ns=at * 1000)
    assert logged(client, job.id, start=2000, end=4000, direction="forward") == ["line 2", "line 3"]
    assert logged(client, job.id, start=1, end=99999, limit=3) == ["line 10", "line 9", "line 8"]
    assert logged(client, job.id, start=1, end=99999, replica=replica.id, limit=1) == ["line 10"]
    assert logged(client, job.id, replica="other") == []


def test_the_live_stream_follows_to_the_end(lepton: FakeLepton, client: Any) -> None:
    job_id = client.job.create(job_of(command="echo one; sleep 0.2; echo zwölf")).metadata.id_
    while not client.job.get_replicas(job_id):
        time.sleep(0.01)
    replica = client.job.get_replicas(job_id)[0]
    assert "".join(client.job.get_log(job_id, replica)) == "one\nzwölf\n"


def test_stream_plans_split_characters_and_break_off(lepton: FakeLepton, client: Any) -> None:
    import requests

    job = lepton.workspace.add_job(state="Completed")
    replica = job.add_replica(0)
    replica.log("ä" * 10)
    lepton.faults.add_stream(StreamPlan(chunk=3))
    with pytest.raises(UnicodeDecodeError):
        list(client.job.get_log(job.id, replica.id))
    lepton.faults.add_stream(StreamPlan(abort_after=4))
    with pytest.raises(requests.exceptions.ChunkedEncodingError):
        list(client.job.get_log(job.id, replica.id))


def test_authentication_workspace_and_role(lepton: FakeLepton, client: Any) -> None:
    from leptonai.api.v2.api_resource import ClientError
    from leptonai.api.v2.utils import WorkspaceNotFoundError, WorkspaceUnauthorizedError

    with pytest.raises(WorkspaceUnauthorizedError):
        connect(lepton, auth_token="wrong").info()
    with pytest.raises(WorkspaceNotFoundError):
        connect(lepton, url=lepton.url.replace("ws1", "ws2")).info()
    lepton.faults.add(error(403, path="/jobs"))
    with pytest.raises(ClientError):
        client.job.list_all()


def test_faults_come_once_or_as_often_as_told(lepton: FakeLepton, client: Any) -> None:
    import requests
    from leptonai.api.v2.api_resource import ServerError

    lepton.faults.add(error(503, times=2))
    for _ in range(2):
        with pytest.raises(ServerError):
            client.job.list_all(page=1)
    assert client.job.list_all(page=1) == []
    lepton.faults.add(Fault(drop="before"))
    with pytest.raises(requests.exceptions.ConnectionError):
        client.job.list_all(page=1)
    lepton.faults.add(html())
    with pytest.raises(RuntimeError, match="programming error"):
        client.job.list_all(page=1)
    lepton.faults.add(document({"jobs": None}))
    with pytest.raises(TypeError):
        client.job.list_all(page=1)


def test_a_lost_reply_leaves_the_job_behind(lepton: FakeLepton, client: Any) -> None:
    import requests

    lepton.faults.add(Fault(method="POST", path="/jobs$", drop="after"))
    with pytest.raises(requests.exceptions.ConnectionError):
        client.job.create(job_of("lost"))
    assert [job.metadata["name"] for job in lepton.workspace.jobs.values()] == ["lost"]


def test_mounts_are_seen_by_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() != 0:
        pytest.skip("mount namespaces need root")
    monkeypatch.setenv("LEPTON_CACHE_DIR", str(tmp_path / "cache"))
    volume = tmp_path / "lustre"
    mount = {"path": "/proj/ann", "from": "node-nfs:lustre", "mount_path": "/mnt/lustre"}
    with FakeLepton(volumes={"lustre": volume}) as server:
        job_id = connect(server).job.create(job_of(command="echo hi > /mnt/lustre/a", mounts=[mount])).metadata.id_
        ended(server, job_id)
    assert (volume / "proj/ann/a").read_text() == "hi\n"


def test_it_runs_as_a_process() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "tests.fakes.lepton", "--token", "t" * 8], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        import requests

        session = requests.Session()
        session.trust_env = False
        answer = session.get(f"{url}/jobs", headers={"Authorization": "Bearer " + "t" * 8}, timeout=5)
        process.terminate()
    assert answer.json() == {"jobs": [], "total": 0}
    assert process.returncode == 0
