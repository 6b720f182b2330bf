"""The host side: modes, checks, sizes, and what travels where."""

from __future__ import annotations

import datetime
import enum
import pathlib
import random
import re
import subprocess
import sys
import zipfile
from dataclasses import replace
from io import BytesIO
from typing import Any

import pytest

from tao_run.credentials import Credentials
from tao_run.entrypoint import Entry, build_entrypoint, entry_for
from tao_run.entrypoint.bundle import LIMIT, archive, inline_script, without_prose
from tao_run.entrypoint.plans import make_plan
from tao_run.entrypoint.values import plain
from tao_run.errors import UsageError
from tao_run.jobs.model import Job
from tao_run.jobs.request import parse_request, to_record
from tao_run.runner.plan import decode

KEYS = {"ACCESS_KEY": "canary-access", "SECRET_KEY": "canary-secret", "HF_TOKEN": "canary-hf", "NGC_KEY": "canary-ngc"}
JOB_ID = "0123456789abcdef"


def job_of(results_dir: str = "", **request: Any) -> Job:
    spec = to_record(parse_request({"platform": "local", **request}))
    created = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)
    return Job(JOB_ID, f"t-{JOB_ID}", "local", "here", spec, created, results_dir=results_dir)


def entry_of(job: Job, settings: dict[str, str] | None = None, **options: Any) -> Entry:
    return entry_for(job, credentials=Credentials(settings or {}), **options)


def run(script: str, **env: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": "/usr/bin:/bin", "TAO_RUN_PYTHON": sys.executable, **env}
    return subprocess.run(["/bin/bash", "-c", script], env=environment, text=True, capture_output=True, timeout=60)


# -- build_entrypoint ------------------------------------------------------------------------------------------


def test_the_mode_follows_from_what_is_given(tmp_path: pathlib.Path) -> None:
    def out(**given: Any) -> str:
        done = run(build_entrypoint(**given)["command"], TAO_RESULTS_ROOT=str(tmp_path))
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert out(command="cat {config_path}", specs={"a": [1]}, config_format="json") == '{\n  "a": [\n    1\n  ]\n}\n'
    assert out(command="echo run", args={"n": 1}, flags={"fast": True, "slow": False}) == "run --n 1 --fast\n"
    assert out(command="echo {config_path} {results_dir}").startswith("{config_path} " + str(tmp_path))
    with pytest.raises(UsageError, match="a spec or args, not both"):
        build_entrypoint(command="x", specs={}, args={})


def test_a_flat_dotted_key_is_an_error_that_shows_the_nested_form() -> None:
    with pytest.raises(UsageError, match=r"flat key 'train.optim\[0\].lr'") as caught:
        build_entrypoint(command="x {config_path}", specs={"train.optim[0].lr": 0.1, "ok": {}})
    assert caught.value.hint == 'write {"train": {"optim": [{"lr": 0.1}]}}'


def test_data_below_the_top_may_have_keys_with_dots() -> None:
    assert build_entrypoint(command="x", specs={"logging": {"torch.distributed": "WARN"}, "files": {"a.jpg": 1}})


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"config_format": "xml", "specs": {}}, "config_format 'xml' is unknown"),
        ({"config_format": "toml", "specs": {"a": {"b": None}}}, "TOML has no null: remove a.b"),
        ({"config_format": "json", "specs": {"a": float("nan")}}, "JSON has no NaN"),
        ({"specs": {"a": object()}}, "a spec cannot hold"),
        ({"inputs": {"a": {"tipe": "file"}}}, "unknown key 'tipe'"),
        ({"inputs": {"a[": {}}}, "is not a spec key"),
        ({"inputs": {"a": {"selective": {"keys": ["v"]}}}}, "needs an annotation and keys"),
        ({"command": ""}, "there is no command"),
    ],
)
def test_what_cannot_work_is_refused_here_and_not_in_the_container(given: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError) as caught:
        build_entrypoint(**{"command": "x", **given})
    assert says in caught.value.message + caught.value.hint


def test_python_values_become_plain_data() -> None:
    class Color(str, enum.Enum):
        RED = "red"

    class Array:
        def tolist(self) -> list[int]:
            return [1, 2]

    value = {"e": Color.RED, "p": pathlib.PurePath("/a"), "t": (1, {2}), "d": datetime.date(2026, 1, 2), "n": Array()}
    assert plain(value, "spec") == {"e": "red", "p": "/a", "t": [1, [2]], "d": "2026-01-02", "n": [1, 2]}
    loop: dict[str, Any] = {}
    loop["self"] = loop
    with pytest.raises(UsageError, match=r"spec.self contains itself"):
        plain(loop, "spec")


# -- packing -----------------------------------------------------------------------------------------------------


def test_the_same_plan_gives_the_same_bytes() -> None:
    plan = make_plan(command="x", spec={"b": 1, "a": 2})
    assert archive(plan) == archive(dict(plan))
    assert inline_script(plan) == inline_script(dict(plan))


def test_the_runner_leaves_room_for_a_spec() -> None:
    text = "".join(random.Random(1).choices("abcdefghijklmnopqrstuvwxyz0123456789", k=48_000))
    assert len(inline_script(make_plan(command="x", spec={}))) < 60_000
    assert len(inline_script(make_plan(command="x", spec={"blob": text}))) < LIMIT


def test_the_runner_is_complete_and_imports_nothing_from_outside_itself() -> None:
    with zipfile.ZipFile(BytesIO(archive(make_plan(command="x")))) as members:
        names = members.namelist()
        sources = {name: members.read(name).decode() for name in names if name.endswith(".py")}
    assert {"__main__.py", "plan.json", "tao_runner/main.py", "tao_runner/objects/base.py"} <= set(names)
    outside = re.compile(r"^\s*(from|import)\s+tao_run\b", re.MULTILINE)
    assert [name for name, text in sources.items() if outside.search(text)] == []


def test_prose_goes_and_line_numbers_stay() -> None:
    body = '    def f(self):\n        """Doc\n        more."""\n        return "#1"\n'
    source = f'"""Doc."""\n\n# why\nclass A:\n    """Doc."""\n\n{body}'
    stripped = without_prose(source).decode()
    assert "Doc" not in stripped and "why" not in stripped
    assert stripped.splitlines()[9] == '        return "#1"'
    scope: dict[str, Any] = {}
    exec(stripped, scope)
    assert scope["A"]().f() == "#1"


# -- entry_for ---------------------------------------------------------------------------------------------------


def test_a_job_without_work_for_the_runner_is_just_its_command() -> None:
    words = ["printf", "%s|", "a b", "it's", "$HOME", "{x}", ""]
    entry = entry_of(job_of(command=words))
    assert "python" not in entry.script
    assert run(entry.script).stdout == "a b|it's|$HOME|{x}||"
    assert entry_of(job_of(command="echo $((1+1)) && false")).script == "echo $((1+1)) && false"


def test_the_script_stands_strict_preludes(tmp_path: pathlib.Path) -> None:
    script = entry_of(job_of(command="echo ran; exit 4", spec={})).script
    env = {"PATH": f"{pathlib.Path(sys.executable).parent}:/usr/bin:/bin", "TAO_RESULTS_ROOT": str(tmp_path)}
    strict = f"set -euo pipefail\n{script}"
    done = subprocess.run(["/bin/bash", "-c", strict], capture_output=True, text=True, env=env)
    assert (done.returncode, done.stdout) == (4, "ran\n"), done.stderr


def test_split_and_job_are_filled_in_without_the_runner_too() -> None:
    entry = entry_of(job_of(command="echo {split_id} {job_id} {other}", split_id="3"))
    assert entry.script == f"echo 3 {JOB_ID} {{other}}"


@pytest.mark.parametrize(
    "request_fields",
    [
        {"spec": {}},
        {"args": {"a": 1}},
        {"inputs": {"/d": "s3://bucket/x"}},
        {"outputs": ["/o"]},
        {"flags": ["-v"]},
        {"results": "/somewhere"},
        {"upload_interval": 60},
        {"command": "train --out {results_dir}"},
        {"command": ["train", "$TAO_RESULTS_DIR"]},
    ],
)
def test_a_job_with_work_for_the_runner_gets_it(request_fields: dict[str, Any]) -> None:
    assert "tao_runner" in entry_of(job_of(**{"command": "x", **request_fields})).script


def test_a_large_spec_becomes_a_payload(tmp_path: pathlib.Path) -> None:
    blob = "".join(random.Random(2).choices("abcdefghijklmnopqrstuvwxyz0123456789", k=2_000_000))
    entry = entry_of(job_of(command="cat {config_path} | wc -c", spec={"blob": blob}))
    assert entry.payload is not None and len(entry.script) < 2_000
    path = tmp_path / "payload"
    path.write_bytes(entry.payload)
    done = run(entry.script, TAO_RUN_PAYLOAD=str(path), TAO_RESULTS_ROOT=str(tmp_path))
    assert (done.returncode, int(done.stdout)) == (0, 2_000_011), done.stderr


def test_a_large_command_becomes_a_payload(tmp_path: pathlib.Path) -> None:
    text = "\n".join(["echo $0 $#"] * 20_000)
    entry = entry_of(job_of(command=text))
    assert entry.payload == text.encode()
    path = tmp_path / "payload"
    path.write_bytes(entry.payload)
    assert run(entry.script, TAO_RUN_PAYLOAD=str(path)).stdout.count("\n") == 20_000


def test_an_entry_point_with_a_large_spec_is_a_command_like_any_other(tmp_path: pathlib.Path) -> None:
    blob = "".join(random.Random(3).choices("abcdefghijklmnopqrstuvwxyz0123456789", k=500_000))
    command = build_entrypoint(command="cat {config_path} | wc -c", specs={"blob": blob})["command"]
    entry = entry_of(job_of(command=command))
    assert entry.payload == command.encode()
    path = tmp_path / "payload"
    path.write_bytes(entry.payload)
    done = run(entry.script, TAO_RUN_PAYLOAD=str(path), TAO_RESULTS_ROOT=str(tmp_path))
    assert (done.returncode, done.stdout) == (0, "500011\n"), done.stderr


def test_secrets_travel_by_name_and_only_those_that_are_needed_and_there() -> None:
    s3 = {"AWS_ACCESS_KEY_ID": "ACCESS_KEY", "AWS_SECRET_ACCESS_KEY": "SECRET_KEY"}
    assert entry_of(job_of(command="x"), KEYS).secrets == {}
    assert entry_of(job_of(command="x", inputs={"/d": "s3://bucket/x"}), KEYS).secrets == s3
    hub = entry_of(job_of(command="x", spec={"m": "hf_model://a/b"}), KEYS)
    assert hub.secrets == {
        **s3,
        "HF_TOKEN": "HF_TOKEN",
        "NGC_KEY": "NGC_KEY",
    }
    assert entry_of(job_of(command="x", inputs={"/d": "s3://bucket/x"}), {}).secrets == {}
    embedded = job_of(command=build_entrypoint(command="x", specs={"m": "hf_model://a/b"})["command"])
    assert set(entry_of(embedded, KEYS).secrets) == {*s3, "HF_TOKEN", "NGC_KEY"}
    mine = entry_of(job_of(command="x", secrets=["TOKEN=HF_TOKEN"]), KEYS)
    assert mine.secrets == {"TOKEN": "HF_TOKEN"}
    entry = entry_of(job_of(command="x", spec={"a": "s3://bucket/x"}), KEYS)
    plan = make_plan(command="x", spec={"a": "s3://bucket/x"})
    assert "canary" not in entry.script + str(entry.env) + str(plan)


def test_settings_become_the_containers_variables() -> None:
    settings = {**KEYS, "S3_BUCKET_NAME": "bkt", "S3_ENDPOINT_URL": "http://s3:9000", "CLOUD_REGION": "eu-1"}
    entry = entry_of(job_of(command="x", env={"MINE": "1"}, split_id="4"), settings, results_root="/mnt/results")
    assert entry.env == {
        "TAO_JOB_ID": JOB_ID,
        "TAO_RESULTS_ROOT": "/mnt/results",
        "TAO_SPLIT_ID": "4",
        "S3_BUCKET_NAME": "bkt",
        "S3_ENDPOINT_URL": "http://s3:9000",
        "AWS_ENDPOINT_URL": "http://s3:9000",
        "AWS_DEFAULT_REGION": "eu-1",
        "AWS_REGION": "eu-1",
        "CLOUD_REGION": "eu-1",
        "MINE": "1",
    }


def plan_in(entry: Entry) -> dict[str, Any]:
    import base64
    import json
    import zlib

    packed = re.search(r"printf %s '([^']+)'", entry.script)
    assert packed is not None
    with zipfile.ZipFile(BytesIO(zlib.decompress(base64.b64decode(packed.group(1))))) as members:
        plan: dict[str, Any] = json.loads(members.read("plan.json"))
    return plan


@pytest.mark.parametrize(
    ("results_dir", "root", "results", "uri", "local_only"),
    [
        (f"s3://b1/r/{JOB_ID}", "s3://b1/r", None, f"s3://b1/r/{JOB_ID}", False),
        (f"s3://b1/r/{JOB_ID}", "/mnt", None, f"s3://b1/r/{JOB_ID}", False),
        ("", "s3://b1/r/", None, f"s3://b1/r/{JOB_ID}", False),
        (f"/mnt/r/{JOB_ID}", "/mnt/r", "/mnt/r", None, True),
        (f"/mnt/r/{JOB_ID}", "/mnt/r", None, None, False),
    ],
)
def test_results_go_where_the_record_says(
    results_dir: str, root: str, results: str | None, uri: str | None, local_only: bool
) -> None:
    given = {} if results is None else {"results": results}
    entry = entry_of(job_of(results_dir, command="x", spec={}, **given), results_root=root)
    plan = plan_in(entry)
    assert (plan.get("results_uri"), plan["results_local_only"]) == (uri, local_only)
    assert entry.env.get("TAO_RESULTS_ROOT") == (None if root.startswith("s3://") else root)


def test_the_whole_request_reaches_the_plan() -> None:
    selective = {"annotation": "ann", "keys": ["v"]}
    job = job_of(
        command=["a b"],
        spec={"ann": "s3://b/a"},
        inputs={"m": {"uri": "s3://b/m", "selective": selective, "optional": True}, "n": ["s3://b/1", "s3://b/2"]},
        outputs={"/o": "s3://b/o", "p": None},
        upload_excludes=["inputs/"],
        upload_interval="2m",
        mount="/lustre",
        refresh=True,
        split_id="9",
        config_format="toml",
    )
    plan = plan_in(entry_of(job))
    assert plan["command"] == "'a b'"
    assert decode(plan["spec"]) == {"ann": "s3://b/a"}
    assert plan["inputs"] == [
        {"key": "m", "uri": "s3://b/m", "optional": True, "selective": selective, "extract_to_parent": False},
        {"key": "n", "uri": ["s3://b/1", "s3://b/2"], "optional": False, "extract_to_parent": False},
    ]
    assert plan["outputs"] == [{"key": "/o", "uri": "s3://b/o"}, {"key": "p"}]
    assert (plan["upload_interval"], plan["mount"], plan["refresh"]) == (120, "/lustre", job.created_at.timestamp())
    off = replace(job, spec={**job.spec, "mount": False, "refresh": False})
    assert "mount" not in plan_in(entry_of(off, mount="/other"))
    assert plan_in(entry_of(replace(job, spec={**job.spec, "mount": None}), mount="/other"))["mount"] == "/other"
