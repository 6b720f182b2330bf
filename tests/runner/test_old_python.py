"""The oldest Python that images have (3.8): no obstore there, so boto3 carries the objects."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.runner.conftest import Container
from tests.services.s3 import S3Service


def find_python38() -> str | None:
    """One that runs: a `python3.8` of pyenv may be a shim for versions that are not chosen."""
    shim = shutil.which("python3.8")
    versions = Path(shim).parents[1] / "versions" if shim else Path()
    candidates = [shim, *map(str, versions.glob("3.8.*/bin/python3.8"))]
    for candidate in filter(None, candidates):
        code = "import sys; sys.exit(sys.version_info[:2] != (3, 8))"
        check = subprocess.run([candidate, "-c", code], capture_output=True)
        if check.returncode == 0:
            return candidate
    return None


@pytest.fixture(scope="module")
def boto3_for_38(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A Python 3.8, and a directory with boto3 for it."""
    python = find_python38()
    if python is None:
        pytest.skip("needs python3.8")
    folder = str(tmp_path_factory.mktemp("boto3"))
    done = subprocess.run([python, "-m", "pip", "install", "-q", "--target", folder, "boto3"], capture_output=True)
    if done.returncode != 0:
        pytest.skip("boto3 for Python 3.8 cannot be installed here")
    return python, folder


@pytest.fixture
def old(cloud: Container, boto3_for_38: tuple[str, str]) -> Container:
    cloud.python, packages = boto3_for_38
    cloud.env.update(PYTHONPATH=packages, PIP_NO_INDEX="1")
    return cloud


def test_inputs_spec_and_outputs(old: Container, s3: S3Service) -> None:
    bucket = s3.bucket()
    s3.put(bucket, {f"d/{i:02}": bytes(i) for i in range(50)})
    s3.client().put_object(Bucket=bucket, Key="big", Body=b"x" * (40 << 20))
    ran = old.run(
        {"S3_BUCKET_NAME": bucket},
        command="ls {d} | wc -l; wc -c < {big}; cat {config_path} > {results_dir}/copy; head -c 20000000 {big} > {out}",
        spec={"d": f"s3://{bucket}/d", "train": [{"lr": 1e-5}], "out": None},
        inputs={"d": {"type": "folder"}, "big": f"s3://{bucket}/big"},
        outputs={"out": {"type": "file"}},
    )
    assert ran.code == 0, ran.log
    assert ran.out.split() == ["50", str(40 << 20)]
    assert "through boto3" in ran.log
    assert yaml.safe_load(s3.get(bucket, "results/job1/copy"))["train"] == [{"lr": 1e-05}]
    assert s3.get(bucket, "results/job1/out") == b"x" * 20_000_000
    assert ran.record["python"].startswith("3.8.")


def test_a_job_that_is_stopped_leaves_its_results(old: Container, s3: S3Service) -> None:
    bucket = s3.bucket()
    process = old.start({"S3_BUCKET_NAME": bucket}, command="echo partial > {results_dir}/ckpt; sleep 100")
    old.wait_for((old.results / "ckpt").exists)
    process.terminate()
    assert old.finish(process).code == 143
    assert s3.get(bucket, "results/job1/ckpt") == b"partial\n"


@pytest.mark.parametrize("size", [48_000, 2_000_000])
def test_specs_of_all_sizes(old: Container, size: int) -> None:
    ran = old.run_staged(command="wc -c < {config_path}", spec={"blob": "x" * size})
    assert (ran.code, int(ran.out)) == (0, size + 11), ran.log


def test_every_module_compiles_on_the_oldest_python(boto3_for_38: tuple[str, str], tmp_path: Path) -> None:
    source = Path(__file__).parents[2] / "tao_run" / "runner"
    copy = tmp_path / "tao_runner"
    shutil.copytree(source, copy)
    modules = [
        ".".join(path.relative_to(tmp_path).with_suffix("").parts)
        for path in copy.rglob("*.py")
        if path.name != "__init__.py"
    ]
    code = f"import importlib\nfor name in {modules!r}: importlib.import_module(name)\nprint(len({modules!r}))"
    done = subprocess.run([boto3_for_38[0], "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == len(modules) > 25
