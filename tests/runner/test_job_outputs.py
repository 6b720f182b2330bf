"""Outputs to a real store, through whole jobs: also when the command fails, is stopped, or still runs."""

from __future__ import annotations

import json
import signal
import sys
import threading
from pathlib import Path

import pytest
import yaml

from tests.runner.conftest import Container
from tests.services.s3 import S3Service


@pytest.fixture(params=["obstore", "boto3"])
def any_client(request: pytest.FixtureRequest, cloud: Container) -> Container:
    cloud.env["TAO_RUN_OBJECT_CLIENT"] = request.param
    return cloud


@pytest.fixture
def bucket(cloud: Container, s3: S3Service) -> str:
    """The bucket of the results."""
    name = s3.bucket("results")
    cloud.env["S3_BUCKET_NAME"] = name
    return name


def delivered(s3: S3Service, bucket: str) -> dict[str, bytes]:
    """What is in the bucket, without the job's own files."""
    own = ("results/job1/tao-run.json", "results/job1/spec.yaml")
    return {key.removeprefix("results/job1/"): s3.get(bucket, key) for key in s3.keys(bucket) if key not in own}


def record(s3: S3Service, bucket: str, name: str = "tao-run.json") -> dict[str, object]:
    data: dict[str, object] = json.loads(s3.get(bucket, f"results/job1/{name}"))
    return data


def test_results_go_to_disk_and_then_to_the_bucket(any_client: Container, s3: S3Service, bucket: str) -> None:
    ran = any_client.run(
        command="mkdir -p {results_dir}/train && echo w > {results_dir}/train/model.pth", spec={"a": 1}
    )
    assert ran.code == 0, ran.log
    assert (any_client.results / "train" / "model.pth").read_text() == "w\n"
    assert delivered(s3, bucket) == {"train/model.pth": b"w\n"}
    assert yaml.safe_load(s3.get(bucket, "results/job1/spec.yaml")) == {"a": 1}
    found = record(s3, bucket)
    assert (found["state"], found["exit_code"]) == ("complete", 0)


def test_without_a_disk_that_persists_the_bucket_is_enough(cloud: Container, s3: S3Service, bucket: str) -> None:
    ran = cloud.run({"TAO_RESULTS_ROOT": "", "TAO_JOB_ID": "job1"}, command="echo x > {results_dir}/out")
    assert ran.code == 0, ran.log
    assert delivered(s3, bucket) == {"out": b"x\n"}
    assert "LOST" not in ran.log


def test_a_command_that_fails_leaves_its_results_in_the_bucket(
    any_client: Container, s3: S3Service, bucket: str
) -> None:
    ran = any_client.run(command="echo partial > {results_dir}/ckpt; exit 9", outputs={"/never/made": None})
    assert ran.code == 9
    assert delivered(s3, bucket) == {"ckpt": b"partial\n"}
    assert record(s3, bucket)["exit_code"] == 9


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_job_that_is_stopped_leaves_its_results_in_the_bucket(
    any_client: Container, s3: S3Service, bucket: str, number: signal.Signals
) -> None:
    process = any_client.start(command="echo partial > {results_dir}/ckpt; sleep 100; echo no")
    any_client.wait_for((any_client.results / "ckpt").exists)
    process.send_signal(number)
    ran = any_client.finish(process)
    assert ran.code == 128 + number
    assert delivered(s3, bucket) == {"ckpt": b"partial\n"}
    assert record(s3, bucket)["exit_code"] == 128 + number


def test_results_are_uploaded_while_the_command_runs(cloud: Container, s3: S3Service, bucket: str) -> None:
    go = cloud.root / "go"
    process = cloud.start(
        {"GO": str(go)},
        command="cd {results_dir}; echo 1 > a; echo 1 > b; while [ ! -e $GO ]; do sleep .05; done; echo 22 > a",
        upload_interval=0.2,
    )
    cloud.wait_for(lambda: {"results/job1/a", "results/job1/b"} <= set(s3.keys(bucket)))
    assert record(s3, bucket)["state"] == "running"
    go.touch()
    ran = cloud.finish(process)
    assert ran.code == 0
    assert delivered(s3, bucket) == {"a": b"22\n", "b": b"1\n"}
    # what has not changed does not go twice: a twice, b once, and the record
    assert ran.record["delivered"]["files"] <= 6


def test_excludes(cloud: Container, s3: S3Service, bucket: str) -> None:
    files = "a.tmp tmp/a/x keep/tmp/x keep/y.log keep/y.pth inputs/i cache/c.bin"
    make = f"mkdir -p tmp/a keep/tmp inputs cache && touch {files}"
    ran = cloud.run(
        command=f"cd {{results_dir}}; {make}", upload_excludes=["inputs/", "tmp/", "*.log", "cache/*.bin", "*.tmp"]
    )
    assert ran.code == 0
    assert sorted(delivered(s3, bucket)) == ["keep/y.pth"]


def test_staged_inputs_never_go_back(cloud: Container, s3: S3Service, bucket: str) -> None:
    s3.put(bucket, {"data/x": b"x"})
    ran = cloud.run(command="ls {d}", inputs={"d": f"s3://{bucket}/data"})
    assert ran.out == "x\n"
    assert sorted(delivered(s3, bucket)) == ["data/x"]


def test_links_are_followed_once_and_special_files_left_out(cloud: Container, s3: S3Service, bucket: str) -> None:
    other = cloud.root / "elsewhere"
    other.mkdir()
    (other / "f").write_text("f")
    make = f"ln -s {other} linked; ln -s . loop; ln -s nowhere broken; mkfifo pipe; ln -s {other}/f file"
    assert cloud.run(command=f"cd {{results_dir}}; {make}").code == 0
    assert delivered(s3, bucket) == {"linked/f": b"f", "file": b"f"}


def test_links_to_inputs_do_not_go_back(cloud: Container, s3: S3Service, bucket: str) -> None:
    s3.put(bucket, {"data/x": b"x", "one": b"1"})
    for mount in (None, str(cloud.root / "mount")):
        ran = cloud.run(
            {"TAO_RESULTS_ROOT": "" if mount else str(cloud.root / "results")},
            command="cd {results_dir}; ln -sfn {d} linked; ln -sf {o} one; echo own > own",
            inputs={"d": f"s3://{bucket}/data", "o": f"s3://{bucket}/one"},
            mount=mount,
        )
        assert ran.code == 0, ran.log
        assert sorted(delivered(s3, bucket)) == ["data/x", "one", "own"]
        s3.client().delete_object(Bucket=bucket, Key="results/job1/own")


def test_a_failed_upload_is_said_and_does_not_hide_the_commands_own_failure(cloud: Container, bucket: str) -> None:
    remove = "import boto3; b = boto3.resource('s3').Bucket('" + bucket + "'); b.objects.delete(); b.delete()"
    ran = cloud.run(command=f'{sys.executable} -c "{remove}"; echo x > {{results_dir}}/x; exit 5')
    assert ran.code == 5, ran.log
    assert f"results could not be uploaded to s3://{bucket}/results/job1: there is no bucket {bucket}" in ran.log


def test_spec_outputs_are_filled_in(cloud: Container, s3: S3Service, bucket: str) -> None:
    ran = cloud.run(
        command="cat {config_path}; echo m > {export.onnx_file}; mkdir -p {rel} {other}; echo e > {other}/x",
        spec={"rel": "rel", "export": {"onnx_file": None}, "other": f"s3://{bucket}/elsewhere/deep"},
        outputs={
            "results_dir": {"type": "folder"},
            "export.onnx_file": {"type": "file"},
            "rel": {"type": "folder"},
            "other": {},
        },
    )
    assert ran.code == 0, ran.log
    spec = yaml.safe_load(ran.out)
    assert spec["results_dir"] == str(cloud.results)
    assert spec["rel"] == str(cloud.results / "rel")
    assert spec["export"]["onnx_file"] == str(cloud.results / "export_onnx_file.onnx")
    assert s3.get(bucket, "elsewhere/deep/x") == b"e\n"
    assert sorted(delivered(s3, bucket)) == ["elsewhere/deep/x", "export_onnx_file.onnx"]


def test_the_customary_results_directory_means_the_jobs_own(cloud: Container, bucket: str) -> None:
    spec = {
        "results_dir": "/results",
        "train": {"results_dir": "${results_dir}/train"},
        "evaluate": {"results_dir": ""},
    }
    declared = ["results_dir", "train.results_dir", "evaluate.results_dir"]
    ran = cloud.run(command="cat {config_path}", spec=spec, outputs=declared)
    assert yaml.safe_load(ran.out) == {
        "results_dir": str(cloud.results),
        "train": {"results_dir": "${results_dir}/train"},
        "evaluate": {"results_dir": str(cloud.results)},
    }


def test_an_absolute_output_outside_the_results_is_delivered_too(cloud: Container, s3: S3Service, bucket: str) -> None:
    out = cloud.root / "work" / "out"
    ran = cloud.run(
        command=f"mkdir -p {out}; echo x > {out}/x", spec={"results_dir": str(out)}, outputs={"results_dir": {}}
    )
    assert ran.code == 0, ran.log
    assert delivered(s3, bucket) == {"out/x": b"x\n"}


def test_paths_of_equal_name_do_not_collide(cloud: Container, s3: S3Service, bucket: str) -> None:
    a, b, c = cloud.root / "a/out", cloud.root / "b/out", cloud.root / "c/file"
    ran = cloud.run(
        command=f"mkdir -p {a} {b}; echo a > {a}/x; echo b > {b}/x; echo c > {c}", outputs=[f"{a}/", str(b), str(c)]
    )
    assert ran.code == 0, ran.log
    assert delivered(s3, bucket) == {"a/out/x": b"a\n", "b/out/x": b"b\n", "file": b"c\n"}


def test_outputs_with_their_own_uri(cloud: Container, s3: S3Service, bucket: str) -> None:
    out = cloud.root / "o"
    ran = cloud.run(
        command=f"mkdir -p {out}; echo a > {out}/x; echo f > {cloud.root}/f",
        outputs={str(out): f"s3://{bucket}/mine/", f"{cloud.root}/f": f"s3://{bucket}/files/renamed"},
    )
    assert ran.code == 0, ran.log
    assert delivered(s3, bucket) == {"mine/x": b"a\n", "files/renamed": b"f\n"}


def test_without_a_bucket_outputs_are_copied_to_the_disk_that_persists(container: Container) -> None:
    out = container.root / "o"
    ran = container.run(command=f"mkdir -p {out}/d; echo a > {out}/d/x", outputs=[str(out)])
    assert ran.code == 0, ran.log
    on_a_mount = out.stat().st_dev != Path("/").stat().st_dev
    assert (container.results / "o" / "d" / "x").exists() is not on_a_mount


def test_a_declared_output_that_is_missing_is_an_error(cloud: Container, bucket: str) -> None:
    ran = cloud.run(command="true", spec={}, outputs={"model.onnx_file": {"type": "file"}, "results_dir": {}})
    assert ran.code == 73
    assert "declared outputs are missing: model.onnx_file" in ran.log
    assert ran.record["state"] == "failed"


@pytest.mark.parametrize(
    ("env", "says"),
    [
        ({"AWS_SECRET_ACCESS_KEY": "wrong"}, "does not accept the S3 keys"),
        ({"AWS_ACCESS_KEY_ID": "readkey", "AWS_SECRET_ACCESS_KEY": "readsecret"}, "refuses to write to"),
        ({"S3_BUCKET_NAME": "no-such-bucket"}, "there is no bucket no-such-bucket"),
    ],
)
def test_results_that_cannot_be_stored_stop_the_job_before_it_begins(
    any_client: Container, bucket: str, env: dict[str, str], says: str
) -> None:
    ran = any_client.run(env, command="echo began")
    assert (ran.code, ran.out) == (73, "")
    assert says in ran.log
    assert "Traceback" not in ran.log


def test_cloud_metadata_names_every_bucket_and_only_the_command_sees_it(
    cloud: Container, s3: S3Service, bucket: str
) -> None:
    show = [sys.executable, "-c", "import os; print(os.environ['CLOUD_METADATA'])"]
    ran = cloud.run(command=show, args={"undeclared": "s3://other-bucket/x", "list": ["s3://third-bucket/y"]})
    found = json.loads(ran.out)
    assert set(found["aws"]) == {bucket, "other-bucket", "third-bucket"}
    assert found["aws"][bucket] == {
        "cloud_region": "us-east-1",
        "access_key": s3.access_key,
        "secret_key": s3.secret_key,
        "endpoint_url": s3.endpoint,
    }
    assert s3.secret_key not in ran.log + json.dumps(ran.record)


def test_ranks_with_a_shared_directory(cloud: Container, s3: S3Service, bucket: str) -> None:
    ranks = {}

    def run(rank: int) -> None:
        env = {"NODE_RANK": str(rank), "NNODES": "2"}
        ranks[rank] = cloud.run(env, command=f"echo {rank} > {{results_dir}}/from-{rank}; sleep .5")

    threads = [threading.Thread(target=run, args=(rank,)) for rank in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [ranks[0].code, ranks[1].code] == [0, 0], ranks[1].log
    found = delivered(s3, bucket)
    assert {"from-0", "from-1"} <= set(found)
    assert not [key for key in found if key.startswith("rank-")]


def test_ranks_with_directories_of_their_own(cloud: Container, s3: S3Service, bucket: str) -> None:
    for rank in ("1", "0"):
        env = {"NODE_RANK": rank, "NNODES": "2", "TAO_RESULTS_ROOT": f"{cloud.root}/node{rank}"}
        ran = cloud.run(env, command=f"echo {rank} > {{results_dir}}/log", spec={}, outputs={"results_dir": {}})
        assert ran.code == 0, ran.log
    found = delivered(s3, bucket)
    assert (found["log"], found["rank-1/log"]) == (b"0\n", b"1\n")
    assert record(s3, bucket)["rank"] == 0
    assert record(s3, bucket, "rank-1/tao-run.rank-1.json")["rank"] == 1
