"""platforms, models and resolve-image as a user runs them: JSON kept in golden files, text, errors, no secrets."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.harness import CommandLine

ROOT = Path(__file__).parents[2]
GOLDEN = Path(__file__).parent / "golden"
AUGUST = str(ROOT / "tests/data/bank/7.2.0")
CANARY = "canary-9f3b-value"


def tao_run(*arguments: str, environ: dict[str, str] | None = None) -> tuple[int, str, str]:
    ended = CommandLine(Path(os.environ["TAO_RUN_STATE_DIR"]), dict(environ or {}))(*arguments)
    return ended.code, ended.out, ended.err


def answer(*arguments: str, environ: dict[str, str] | None = None) -> Any:
    code, out, _ = tao_run(*arguments, "--format", "json", environ=environ)
    assert code == 0
    return json.loads(out)


CASES = {
    "platforms": ["platforms"],
    "platform-lepton": ["platforms", "lepton"],
    "platform-slurm": ["platforms", "--platform", "cluster"],
    "platform-docker": ["platforms", "local-docker"],
    "models-gen_trt_engine": ["models", "--action", "gen_trt_engine"],
    "automl": ["models", "--scope", "automl"],
    "image-dino": ["resolve-image", "--model", "dino"],
    "image-dino-trt": ["resolve-image", "--network", "DINO", "--action", "gen_trt_engine"],
    "image-override": ["resolve-image", "--model", "dino", "--image", "ubuntu"],
    "image-august-backend": ["resolve-image", "--model", "cosmos-reason", "--skill-bank", AUGUST],
}


@pytest.mark.parametrize("name", CASES)
def test_json_is_as_it_was(name: str) -> None:
    found = answer(*CASES[name])
    if "catalog" in found:
        found["catalog"] = found["catalog"].replace(str(ROOT), "")
    assert found == json.loads((GOLDEN / f"{name}.json").read_text())


def test_the_fields_keys_are_there() -> None:
    assert answer("platforms").keys() >= {"platforms", "prompt_defaults", "schema_version"}
    assert answer("platforms", "brev").keys() >= {
        "platform",
        "display_name",
        "required_credentials",
        "credential_groups",
        "optional_credentials",
        "resource_defaults",
        "storage",
        "dataset_examples",
        "preflight_checks",
    }
    models = answer("models")
    assert len(models["models"]) == 31
    assert models["models"][0].keys() >= {
        "model",
        "network_arch",
        "actions",
        "failures",
        "automl_enabled",
        "automl_blocked_reason",
        "has_train_schema",
        "train_schema",
        "train_schema_status",
    }
    automl = answer("models", "--automl")
    assert (len(automl["supported"]), len(automl["unsupported"])) == (29, 2)
    assert answer("resolve-image", "-m", "dino").keys() >= {
        "action",
        "confirmation_required",
        "declared_image",
        "image",
        "metadata_path",
        "model",
        "network_arch",
        "override_key",
        "requested_model",
        "resolved_from",
        "schema_version",
        "source",
    }


def test_schema_versions_are_the_fields() -> None:
    found = [answer(*words)["schema_version"] for words in (["platforms"], ["models"], ["resolve-image", "-m", "dino"])]
    assert found == [3, 1, 2]


def test_text_of_the_platform_list() -> None:
    code, out, err = tao_run("platforms")
    lines = out.splitlines()
    assert (code, err) == (0, "")
    assert lines[0] == "Supported TAO execution platforms:"
    assert (
        "- lepton (Lepton / DGX Cloud): Managed GPU compute on DGX Cloud through Lepton jobs. aliases: dgx-cloud"
    ) in lines
    assert lines[-3:] == ["Prompt defaults:", "- long_running_enabled: true", "- status_interval_minutes: 5"]


def test_text_of_one_platform_shows_only_its_own_credentials() -> None:
    _, out, _ = tao_run("platforms", "slurm")
    assert "SLURM_USER" in out
    assert "LEPTON" not in out
    assert "(only when dataset or result URIs use s3://)" in out
    order = ["Platform:", "Required credentials:", "Optional credentials/settings:", "Storage:", "Preflight checks:"]
    assert sorted(order, key=out.index) == order


def test_ready_shows_presence_and_never_a_value() -> None:
    environ = {"LEPTON_WORKSPACE_ID": CANARY, "NGC_KEY": CANARY + "2"}
    for words in (["platforms", "lepton", "--ready"], ["platforms", "--ready"]):
        for form in ("text", "json"):
            code, out, err = tao_run(*words, "--format", form, environ=environ)
            assert code == 0
            assert "LEPTON_AUTH_TOKEN" in out
            assert CANARY not in out + err
    found = answer("platforms", "lepton", "--ready", environ=environ)["readiness"]
    assert found == {"present": ["LEPTON_WORKSPACE_ID", "NGC_KEY"], "missing": ["LEPTON_AUTH_TOKEN"]}


def test_text_of_a_resolution() -> None:
    _, out, _ = tao_run("resolve-image", "--model", "dino", "--action", "gen_trt_engine")
    assert "- default image: nvcr.io/nvidia/tao/tao-toolkit:7.0.0-deploy" in out.splitlines()
    assert "- declared image: tao_toolkit.deploy" in out.splitlines()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["resolve-image", "-m", "depth_net_stereo"], "tao-train-fast-foundation-stereo"),
        (["resolve-image", "-m", "dinoo"], "did you mean dino"),
        (["resolve-image", "-m", "dino", "-a", "fly"], "gen_trt_engine"),
        (["resolve-image", "-m", "dino", "--image", "tao_toolkit.no"], "tao_toolkit.pyt"),
        (["platforms", "slrum"], "kubernetes (k8s, local-k8s)"),
        (["models", "--action", "fly"], "gen_trt_engine"),
        (["models", "--skill-bank", "/nowhere"], "--skill-bank"),
    ],
)
def test_errors_are_usage_errors_that_list_the_choices(words: list[str], said: str) -> None:
    code, out, err = tao_run(*words)
    assert code == 2
    assert out == ""
    assert said in err
    code, out, _ = tao_run(*words, "--format", "json")
    assert json.loads(out)["error"]["exit_code"] == code == 2


def test_the_environments_skill_bank_is_used_and_said() -> None:
    code, out, err = tao_run("models", "--format", "json", environ={"TAO_SKILL_BANK_PATH": AUGUST})
    assert code == 0
    assert len(json.loads(out)["models"]) == 36
    assert "7.2.0" in err


def script(name: str, *arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "scripts" / name), *arguments]
    environ = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd, env=environ)


@pytest.mark.parametrize(
    ("name", "arguments", "line"),
    [
        ("list_tao_platforms.py", ["--format", "text"], "Supported TAO execution platforms:"),
        (
            "list_tao_platforms.py",
            ["--platform", "slurm", "--format", "text"],
            "Platform: slurm (SLURM); aliases: cluster",
        ),
        ("list_tao_models.py", ["--scope", "all"], "TAO models:"),
        ("resolve_tao_image.py", ["--model", "dino", "--action", "train", "--format", "text"], "- action: train"),
        ("resolve_versions_key.py", ["wheels.tao_sdk_lepton"], "nvidia-tao-sdk[lepton]==7.0.0"),
    ],
)
def test_the_fields_scripts_run_from_any_directory(name: str, arguments: list[str], line: str, tmp_path: Path) -> None:
    for extra in ([], ["--skill-bank", str(ROOT)], ["--skill-bank", str(ROOT / "tests/data/bank/7.0.0")]):
        result = script(name, *arguments, *extra, cwd=tmp_path)
        assert result.returncode == 0, result.stderr
        assert line in result.stdout.splitlines()


def test_resolve_versions_key_exit_codes() -> None:
    missing = script("resolve_versions_key.py", "wheels.nope")
    assert (missing.returncode, missing.stdout) == (1, "")
    assert "wheels.tao_sdk_lepton" in missing.stderr
    assert script("resolve_versions_key.py", "x", "--skill-bank", "/nowhere").returncode == 2
