"""Jobs without a store: modes, names, exact arguments, exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
import yaml

from tao_run.entrypoint.bundle import inline_script
from tao_run.entrypoint.plans import make_plan
from tao_run.runner.formats import write_spec
from tests.runner.conftest import Container

SHOW = [sys.executable, "-c", "import json, sys; print(json.dumps(sys.argv[1:]))"]
HOSTILE = ["", "a b", "it's", '"', "$HOME `id` $(id)", "{brace}", "new\nline", "ünï 日本", "\\", "*", "--x=y", "-"]


def test_a_command_gives_its_own_exit_code(container: Container) -> None:
    assert container.run(command="exit 3").code == 3


def test_a_command_that_a_signal_ends_gives_128_plus_its_number(container: Container) -> None:
    assert container.run(command="kill -KILL $$").code == 137


def test_exact_arguments_arrive_exactly(container: Container) -> None:
    ran = container.run(command=[*SHOW, *HOSTILE])
    assert json.loads(ran.out) == HOSTILE


def test_bash_text_is_bash_text(container: Container) -> None:
    ran = container.run(command="for i in 1 2; do echo \"n$i ${i} {i}\"; done | tail -n 1; echo {a,b} '{config_path}'")
    assert ran.out == "n2 2 {i}\na b {config_path}\n"


def test_known_names_are_filled_in_whatever_quotes_they_stand_in(container: Container) -> None:
    container.job_id = 'it\'s a "job" $HOME'
    ran = container.run(command=f"""{SHOW[0]} -c '{SHOW[2]}' {{job_id}} '{{job_id}}' "{{job_id}}" a{{job_id}}b""")
    assert json.loads(ran.out) == [container.job_id] * 3 + [f"a{container.job_id}b"]


@pytest.mark.parametrize("config_format", ["yaml", "json", "toml"])
def test_a_spec_arrives_as_a_file(container: Container, config_format: str) -> None:
    spec = {"train": {"lr": 1e-05, "names": ["a: b", "#c", "yes", "é\u2028"], "on": True, "n": 3}, "results_dir": "x"}
    ran = container.run(command="cat {config_path}; echo {config_path} >&2", spec=spec, config_format=config_format)
    assert ran.code == 0
    if config_format == "yaml":
        assert yaml.safe_load(ran.out) == spec
    elif config_format == "json":
        assert json.loads(ran.out) == spec
    else:
        assert '"é\\u2028"' in ran.out
        assert "lr = 1.0e-05" in ran.out
    assert (container.results / f"spec.{config_format}").read_text() == ran.out


def test_a_spec_keeps_keys_that_are_no_text(container: Container) -> None:
    spec = {"classes": {0: "car", 1: "person", "other": None}}
    assert yaml.safe_load(container.run(command="cat {config_path}", spec=spec).out) == spec


BLOB = "".join(chr(33 + (i * 7919 + i // 89) % 89) for i in range(2_000_000))


def test_a_spec_of_48_kb_travels_in_the_command(container: Container) -> None:
    ran = container.run(command="cat {config_path}", spec={"blob": BLOB[:48_000]})
    assert yaml.safe_load(ran.out) == {"blob": BLOB[:48_000]}


def test_a_spec_of_2_mb_travels_in_a_file(container: Container) -> None:
    ran = container.run_staged(command="cat {config_path}", spec={"blob": BLOB})
    assert ran.out == write_spec({"blob": BLOB}, "yaml")
    assert (container.root / "payload.pyz").exists()  # it belongs to the platform


def test_names_in_a_spec_are_filled_but_interpolations_are_not(container: Container) -> None:
    spec = {"out": "{results_dir}/x", "ref": "${results_dir}/y", "other": "{unknown}", "id": "{job_id}-{split_id}"}
    ran = container.run(command="cat {config_path}", spec=spec, split_id="7")
    assert yaml.safe_load(ran.out) == {
        "out": f"{container.results}/x",
        "ref": "${results_dir}/y",
        "other": "{unknown}",
        "id": "job1-7",
    }


def test_the_split_comes_from_the_platform_too(container: Container) -> None:
    assert container.run({"TAO_SPLIT_ID": "4"}, command="echo {split_id}").out == "4\n"


def test_a_full_disk_is_one_line(container: Container) -> None:
    (container.root / "results").mkdir()
    (container.root / "results" / "job1").write_text("a file is in the way")
    ran = container.run(command="true", spec={})
    assert ran.code == 73
    assert "cannot make" in ran.log and "Traceback" not in ran.log


def test_args_are_appended_as_words(container: Container) -> None:
    args = {"name": "it's; rm -rf $HOME", "n": 3, "on": True, "off": False, "none": None, "many": ["a", 1], "-x": "y"}
    ran = container.run(command=f"{SHOW[0]} -c '{SHOW[2]}' run", args=args, flags=["--verbose", "two words"])
    assert json.loads(ran.out) == [
        "run",
        *("--name", "it's; rm -rf $HOME", "--n", "3", "--on", "true", "--off", "false"),
        *("--many", '["a", 1]', "-x", "y", "--verbose", "two words"),
    ]


def test_args_of_a_command_that_takes_a_spec_become_one(container: Container) -> None:
    args = {"results_dir": "{results_dir}", "grounding.data.root": "/data", "grounding.steps": '["0"]'}
    ran = container.run(command="cat {config_path}", args=args)
    assert yaml.safe_load(ran.out) == {
        "results_dir": str(container.results),
        "grounding": {"data": {"root": "/data"}, "steps": '["0"]'},
    }


def test_the_command_sees_the_jobs_variables_and_not_the_runners(container: Container) -> None:
    ran = container.run(
        {"MINE": "a=b, 'c' %d\nnext"},
        command=[sys.executable, "-c", "import os, json; print(json.dumps(dict(os.environ)))"],
    )
    env = json.loads(ran.out)
    assert env["MINE"] == "a=b, 'c' %d\nnext"
    assert (env["TAO_JOB_ID"], env["TAO_RESULTS_DIR"]) == ("job1", str(container.results))
    assert not [name for name in env if name in ("TAO_RUN_PAYLOAD", "CLOUD_METADATA", "PYTHONPATH")]


def test_the_record_tells_what_ran_without_secrets(container: Container) -> None:
    ran = container.run({"HF_TOKEN": "hf_canary"}, command="echo hf_canary; exit 4")
    assert ran.record["exit_code"] == 4
    assert ran.record["state"] == "failed"
    assert ran.record["command"] == "echo [redacted]; exit 4"
    assert "hf_canary" not in (container.results / "tao-run.json").read_text()
    assert ran.record["timings"]["command_seconds"] >= 0


def test_without_any_place_for_results_the_warning_is_loud(container: Container) -> None:
    ran = container.run({"TAO_RESULTS_ROOT": ""}, command="true")
    assert ran.code == 0
    assert "THE RESULTS WILL BE LOST" in ran.log


@pytest.mark.skipif(os.access("/results", os.W_OK), reason="this machine has a /results like a container")
def test_users_of_one_node_have_directories_of_their_own(container: Container) -> None:
    ran = container.run({"TAO_RESULTS_ROOT": ""}, command='printf %s "$TAO_RESULTS_DIR"')
    assert ran.out == str(container.root / "tmp" / f"tao-results-{os.getuid()}" / "job1")


def test_nothing_temporary_stays(container: Container) -> None:
    container.run(command="true", spec={"a": 1})
    assert list((container.root / "tmp").iterdir()) == []


def test_an_image_without_python_gets_a_clear_error(container: Container) -> None:
    empty = container.root / "empty"
    empty.mkdir()
    text = inline_script(make_plan(command="true", spec={})).replace("/usr/", "/none/").replace("/opt/", "/none/")
    done = subprocess.run(["/bin/bash", "-c", text], env={"PATH": str(empty)}, text=True, capture_output=True)
    assert done.returncode == 69
    assert "no python3 (3.8 or newer)" in done.stderr
    assert "fix: use an image with Python" in done.stderr


def test_a_python_that_is_too_old_is_passed_over(container: Container) -> None:
    old = container.root / "bin"
    old.mkdir()
    for name in ("python3", "python"):
        (old / name).write_text("#!/bin/sh\nexit 1\n")
        (old / name).chmod(0o755)
    ran = container.run({"TAO_RUN_PYTHON": "", "PATH": f"{old}:{container.environment()['PATH']}"}, command="echo ran")
    assert ran.out == "ran\n"
