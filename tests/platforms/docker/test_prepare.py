"""The container of a request, built without a daemon: exactly what `--dry-run` prints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tao_run.credentials import Credentials
from tao_run.errors import UsageError
from tao_run.jobs.request import parse_request
from tao_run.jobs.store import Store
from tao_run.platforms.base import Launch
from tao_run.platforms.docker import DockerSDK
from tao_run.platforms.docker.options import Options, parse_size
from tao_run.platforms.lifecycle import dry_run

HOST = "tcp://nowhere.invalid:2375"  # a request to it would fail: prepare makes none


def prepared(settings: dict[str, str] | None = None, options: dict[str, Any] | None = None, **more: Any) -> Launch:
    data = {"platform": "docker", "image": "nvcr.io/nvidia/tao:6", "command": "echo hi", **more}
    data["options"] = {"docker": {"host": HOST, **(options or {})}}
    return dry_run(DockerSDK(Credentials(settings or {})), parse_request(data))


def test_the_whole_object() -> None:
    launch = prepared(gpus=2, env={"A": "b c"}, secrets={"HF_TOKEN": "HF_TOKEN"}, labels={"team": "x"}, max_time="1h")
    job, body = launch.job, launch.native["container"]
    assert launch.native["endpoint"] == HOST
    assert launch.native["name"] == job.name
    assert launch.native["secrets"]["HF_TOKEN"] == "credential HF_TOKEN"
    assert body["Image"] == "nvcr.io/nvidia/tao:6"
    assert body["Entrypoint"] == ["/bin/bash", "-c"]
    assert body["Cmd"][0].endswith('exec timeout -k 30 3600 /bin/bash -c "$0"')
    assert "echo hi" in body["Cmd"][1]
    assert {"A=b c", "NUM_GPU_PER_NODE=2", f"TAO_JOB_ID={job.id}"} <= set(body["Env"])
    assert body["Labels"] == {"team": "x", "tao-run.job-id": job.id, "tao-run.job-name": job.name}
    host = body["HostConfig"]
    assert host["DeviceRequests"] == [{"Driver": "", "Capabilities": [["gpu"]], "Count": 2}]
    assert host["ShmSize"] == 16 * 2**30
    assert [limit["Name"] for limit in host["Ulimits"]] == ["memlock", "stack"]
    assert launch.notes == ("2 free GPUs will be chosen when the container is created",)


def test_it_is_plain_data_and_comes_out_the_same_each_time() -> None:
    first, second = (prepared(gpus=1, options={"mounts": ["/a:/b", "/a:/c:ro"]}) for _ in range(2))
    text = json.dumps(first.native).replace(first.job.id, "ID")
    assert text == json.dumps(second.native).replace(second.job.id, "ID")


def test_a_small_job_has_a_small_container() -> None:
    host = prepared(gpus=0).native["container"]["HostConfig"]
    assert host == {"ShmSize": 16 * 2**30, "Init": True}


def test_jetson_uses_the_runtime_and_no_device_request() -> None:
    body = prepared(options={"runtime": "nvidia", "gpus": "all"}).native["container"]
    assert "DeviceRequests" not in body["HostConfig"]
    assert body["HostConfig"]["Runtime"] == "nvidia"
    assert "NVIDIA_VISIBLE_DEVICES=all" in body["Env"]


def test_results_in_a_directory_are_mounted_and_in_a_bucket_are_not() -> None:
    launch = prepared(results="/data/results")
    assert launch.job.results_dir == f"/data/results/{launch.job.id}"
    assert launch.native["container"]["HostConfig"]["Binds"] == ["/data/results:/results:rw"]
    bucket = prepared({"S3_BUCKET_NAME": "b"})
    assert bucket.job.results_dir == f"s3://b/results/{bucket.job.id}"
    assert "Binds" not in bucket.native["container"]["HostConfig"]
    assert prepared().job.results_dir == ""


def test_a_shared_mount_is_at_its_own_path() -> None:
    mounts = prepared(mount="/lustre").native["container"]["HostConfig"]["Mounts"]
    assert [(one["Source"], one["Target"]) for one in mounts] == [("/lustre", "/lustre")]


def test_settings_of_the_environment_are_remembered() -> None:
    launch = prepared({"DOCKER_NETWORK": "lab", "DOCKER_PULL_POLICY": "always"})
    assert launch.native["container"]["HostConfig"]["NetworkMode"] == "lab"
    assert launch.job.options["pull_policy"] == "always"
    assert prepared({"DOCKER_NETWORK": "lab"}, {"network": "none"}).job.options["network"] == "none"


@pytest.mark.parametrize(
    ("options", "more", "text"),
    [
        ({}, {"nodes": 2}, "one host"),
        ({}, {"image": None}, "needs an image"),
        ({}, {"image": "Bad Image"}, "image"),
        ({"gpus": "0,1"}, {"gpus": 1}, "2 devices"),
        ({"mounts": "/a:/x,/b:/x"}, {}, "target /x"),
        ({"mounts": "/a:/results"}, {"results": "/r"}, "/results"),
        ({"mounts": "data:x"}, {}, "absolute path"),
        ({"shm_size": "much"}, {}, "no size"),
        ({"ulimits": "nofile=x"}, {}, "no limit"),
        ({"pull_policy": "sometimes"}, {}, "pull_policy"),
        ({"host": "gpu1"}, {}, "no Docker host"),
        ({"no_such": "x"}, {}, "no_such"),
        ({}, {"results": "relative"}, "another host"),
    ],
)
def test_a_bad_request_is_refused_in_one_line(options: dict[str, Any], more: dict[str, Any], text: str) -> None:
    with pytest.raises(UsageError, match=text) as refused:
        prepared(options=options, **more)
    assert "\n" not in refused.value.message


@pytest.mark.parametrize(
    ("text", "size"),
    [("16g", 16 * 2**30), ("512MiB", 512 * 2**20), ("1.5k", 1536), ("7", 7), (7, 7), ("2 GB", 2 * 2**30)],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


def test_options_come_as_text_from_the_command_line() -> None:
    options = Options.model_validate(
        {
            "gpus": "0, 2",
            "mounts": "/a:/b:ro,z,/c:/d",
            "ulimits": "memlock=-1,nofile=1024:2048",
            "init": "false",
            "cpus": "1.5",
            "user": 1000,
        }
    )
    assert options.gpus == ["0", "2"]
    assert options.mounts == ["/a:/b:ro,z", "/c:/d"]
    assert options.ulimits == {"memlock": (-1, -1), "nofile": (1024, 2048)}
    assert (options.init, options.cpus, options.user) == (False, 1.5, "1000")
    assert Options.model_validate({"gpu_ids": [0, 1]}).gpus == ["0", "1"]


def test_every_option_says_what_it_is() -> None:
    assert [name for name, field in Options.model_fields.items() if not field.description] == []


def test_nothing_is_contacted_and_nothing_is_recorded(tmp_path: Path) -> None:
    store = Store(tmp_path)
    request = {"platform": "docker", "image": "a", "command": "b", "options": {"docker": {"host": HOST}}}
    dry_run(DockerSDK(Credentials({}), store), parse_request(request))
    assert store.recent() == []
