"""`tao-run preflight` and `tao-run paths` as a user runs them, and the field's script over preflight."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.harness import CommandLine
from tests.services.s3 import S3Service

ROOT = Path(__file__).parents[2]
CANARY = "canary-command-secret"


def tao_run(*arguments: str, environ: dict[str, str] | None = None) -> tuple[int, str, str]:
    ended = CommandLine(Path(os.environ["TAO_RUN_STATE_DIR"]), dict(environ or {}))(*arguments)
    return ended.code, ended.out, ended.err


def report(*arguments: str, environ: dict[str, str] | None = None) -> tuple[int, dict[str, Any]]:
    code, out, _ = tao_run("preflight", *arguments, "--format", "json", environ=environ)
    return code, json.loads(out)


def states(found: dict[str, Any]) -> dict[str, str]:
    return {check["id"]: check["status"] for check in found["checks"]}


def test_json_has_stable_keys_and_the_exit_code_tells_the_outcome(tmp_path: Path) -> None:
    code, found = report("--platform", "local", "--path", f"train={tmp_path}")
    assert code == 0
    assert found.keys() == {"schema_version", "platform", "passed", "checks"}
    assert (found["platform"], found["passed"]) == ("local", True)
    assert all(check.keys() == {"id", "status", "detail", "fix"} for check in found["checks"])
    assert states(found)["path.train"] == "ok"


def test_all_checks_run_and_a_failure_is_exit_4(tmp_path: Path) -> None:
    words = ["--platform", "local", "--path", "a=/gone", "--path", f"b={tmp_path}", "--gpu-min-count", "64"]
    code, found = report(*words)
    assert (code, found["passed"]) == (4, False)
    seen = states(found)
    assert (seen["path.a"], seen["path.b"], seen["gpu.count"]) == ("failed", "ok", "failed")


def test_text_ends_with_the_fields_last_line() -> None:
    code, out, _ = tao_run("preflight", "--platform", "local", "--path", "a=lepton://bucket/x")
    lines = out.splitlines()
    assert code == 4
    assert lines[-1] == "TAO launch preflight failed"
    assert any(line.startswith("failed  path.a: ") for line in lines)
    assert "        do: write s3://bucket/x" in lines
    assert tao_run("preflight", "--platform", "local")[1].endswith("TAO launch preflight passed\n")


def test_a_model_brings_its_image_and_credentials() -> None:
    code, found = report("--platform", "local", "--model", "cosmos-embed")
    seen = states(found)
    assert code == 4
    assert (seen["image"], seen["credentials.model"]) == ("ok", "failed")
    assert "inputs" not in seen


def test_a_job_file_is_checked_with_its_inputs(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("platform: local\nmodel: dino\naction: train\n")
    code, found = report(str(file), "--gpu-min-count", "1", "--target-gpu-count", "1")
    assert code == 4
    assert states(found)["inputs"] == "failed"


def test_annotations_and_limits_from_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text(json.dumps([{"id": 1}] * 8))
    words = ["--platform", "local", "--path", f"train={file}", "--json-required-field", "train=id,video"]
    _, found = report(*words, "--effective-batch-limit", "train=4,2")
    seen = states(found)
    assert (seen["json.train"], seen["batch.train"]) == ("failed", "ok")


def test_gpu_flags_of_the_field() -> None:
    words = ["--platform", "local", "--gpu-arch-allowlist", "cosmos_rl=sm_80,sm_90", "--gpu-arch", "9.0"]
    words += ["--gpu-min-memory-gb", "80", "--target-gpu-memory-gb", "80", "--target-gpu-count", "8"]
    code, found = report(*words, "--gpu-min-count", "8", "--low-vram-threshold-gb", "50")
    assert code == 0
    assert {states(found)[name] for name in ("gpu.architecture.cosmos_rl", "gpu.memory", "gpu.count")} == {"ok"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "--platform"),
        (["--platform", "moon"], "lepton"),
        (["--platform", "local", "--path", "=x"], "LABEL=PATH"),
        (["--platform", "local", "--json-required-field", "x"], "LABEL=FIELD"),
        (["--platform", "local", "--effective-batch-limit", "x=0,1"], "LABEL=BATCH,SHARDS"),
        (["--platform", "local", "--model", "dinoo"], "dino"),
        (["--platform", "local", "-o", "nope=1"], "nope"),
    ],
)
def test_wrong_use_is_exit_2_and_says_what_to_write(words: list[str], said: str) -> None:
    code, out, err = tao_run("preflight", *words)
    assert (code, out) == (2, "")
    assert said in err


def test_missing_credentials_are_a_failed_check_of_every_platform_that_needs_them() -> None:
    for platform, name in (("lepton", "LEPTON_AUTH_TOKEN"), ("slurm", "SLURM_HOSTNAME")):
        code, found = report("--platform", platform, "--skip-platform-access")
        check = next(check for check in found["checks"] if check["id"] == "credentials.platform")
        assert (code, check["status"]) == (4, "failed")
        assert name in check["detail"]


def test_no_value_of_a_credential_is_ever_shown() -> None:
    names = ("LEPTON_AUTH_TOKEN", "ACCESS_KEY", "SECRET_KEY", "NGC_KEY", "HF_TOKEN", "BREV_API_TOKEN")
    environ = {name: f"{CANARY}-{name.lower()}" for name in names}
    environ |= {"LEPTON_WORKSPACE_ID": "ws", "S3_ENDPOINT_URL": "http://127.0.0.1:9"}
    for platform in ("local", "docker", "lepton", "brev", "slurm", "kubernetes"):
        for form in ("text", "json"):
            words = ["--platform", platform, "--skip-platform-access", "--path", "x=s3://bucket/x", "--format", form]
            _, out, err = tao_run("preflight", *words, "--model", "cosmos-embed", environ=environ)
            assert CANARY not in out + err
            assert "path.x" in out


def test_the_fields_script_runs_from_any_directory(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "scripts/check_tao_launch_preflight.py"), "--skill-bank", str(ROOT)]
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    done = subprocess.run(
        [*command, "--platform", "local", "--path", f"train={tmp_path}"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=environ,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == "TAO launch preflight passed"


class TestPaths:
    """paths check and ls."""

    def test_this_machine(self, tmp_path: Path) -> None:
        (tmp_path / "a").write_text("x")
        assert tao_run("paths", "check", str(tmp_path)) == (0, f"exists   {tmp_path}\n", "")
        code, out, _ = tao_run("paths", "check", str(tmp_path), f"{tmp_path}/b")
        assert (code, out.splitlines()[1]) == (1, f"missing  {tmp_path}/b")
        assert tao_run("paths", "ls", str(tmp_path)) == (0, f"{tmp_path}/a\n", "")

    @pytest.mark.service
    def test_object_store(self, s3: S3Service, bucket: str) -> None:
        environ = s3.host_env()
        code, out, _ = tao_run(
            "paths", "check", f"s3://{bucket}/foo", f"s3://{bucket}/foobar", "--format", "json", environ=environ
        )
        assert code == 1
        assert [state["exists"] for state in json.loads(out)["paths"]] == [False, True]
        _, out, _ = tao_run("paths", "ls", f"s3://{bucket}/data/", environ=environ)
        assert out.splitlines() == [f"s3://{bucket}/data/a.json", f"s3://{bucket}/data/b.jsonl"]

    def test_refused_and_unreachable_are_no_answer(self) -> None:
        code, out, err = tao_run("paths", "check", "s3://bucket/x")
        assert (code, out) == (3, "")
        assert "ACCESS_KEY, SECRET_KEY" in err
        keys = {"ACCESS_KEY": CANARY, "SECRET_KEY": CANARY, "S3_ENDPOINT_URL": "http://127.0.0.1:9"}
        code, _, err = tao_run("paths", "check", "s3://bucket/x", environ=keys)
        assert code == 6
        assert CANARY not in err

    def test_a_path_of_another_machine_is_not_looked_up_here(self, tmp_path: Path) -> None:
        for words in (["check"], ["ls"]):
            code, _, err = tao_run("paths", *words, "--platform", "kubernetes", str(tmp_path))
            assert code == 2
            assert "s3://" in err
