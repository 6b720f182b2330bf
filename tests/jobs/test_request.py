"""The request: strict, one clear line for each fault, nothing secret in it."""

from __future__ import annotations

import pytest

from tao_run.errors import UsageError
from tao_run.jobs.durations import parse_duration, short_duration
from tao_run.jobs.model import job_name
from tao_run.jobs.request import JobRequest, parse_request, to_record
from tao_run.redact import redact, register


def test_a_whole_request_survives_the_record() -> None:
    data = {
        "platform": "slurm",
        "command": ["python", "a b.py", "$x"],
        "nodes": 4,
        "gpus": 8,
        "env": {"A": 1, "B": "two"},
        "secrets": ["HF_TOKEN", "WANDB=WANDB_API_KEY"],
        "inputs": {"/data": "s3://b/d", "train.csv": {"uri": ["s3://b/1", "s3://b/2"], "optional": True}},
        "outputs": ["/results"],
        "max_time": "4h",
        "options": {"slurm": {"partition": "batch"}},
    }
    request = parse_request(data)
    assert request.env == {"A": "1", "B": "two"}
    assert request.secrets == {"HF_TOKEN": "HF_TOKEN", "WANDB": "WANDB_API_KEY"}
    assert request.max_time == 14400
    assert request.for_platform() == {"partition": "batch"}
    assert JobRequest.model_validate(to_record(request)) == request


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"comand": "x"}, "unknown key 'comand' (did you mean 'command'?)"),
        ({"inputs": {"/d": {"url": "s3://b/x"}}}, "unknown key 'inputs./d.url' (did you mean 'uri'?)"),
        ({"nodes": 0}, "nodes"),
        ({"gpus": -1}, "gpus"),
        ({"nodes": "many"}, "nodes"),
        ({"command": []}, "the command is empty"),
        ({"command": ["a\0b"]}, "NUL"),
        ({"env": {"1A": "x"}}, "'1A' is not a variable name"),
        ({"env": {"HF_TOKEN": "abc"}}, "HF_TOKEN is a secret"),
        ({"spec": {}, "args": {}}, "a spec or args, not both"),
        ({"action": "train"}, "an action needs a model"),
        ({"max_time": "soon"}, "not a duration"),
        ({"config_format": "xml"}, "config_format"),
    ],
)
def test_each_fault_is_one_clear_line(data: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_request(data, "job.yaml")
    assert said in raised.value.message
    assert raised.value.message.startswith("job.yaml: ")
    assert "\n" not in raised.value.message


@pytest.mark.parametrize(
    "data",
    [
        {"env": {"HARMLESS": "x hf_secret_value_1234"}},
        {"command": "login --token hf_secret_value_1234"},
        {"command": ["login", "hf_secret_value_1234"]},
        {"spec": {"train": {"tokens": ["hf_secret_value_1234"]}}},
        {"options": {"docker": {"x": "hf_secret_value_1234"}}},
    ],
)
def test_a_known_secret_value_is_refused_wherever_it_stands(data: dict[str, object]) -> None:
    register(["hf_secret_value_1234"])
    with pytest.raises(UsageError, match=r"holds the value") as raised:
        parse_request(data)
    assert "hf_secret_value_1234" not in raised.value.message + raised.value.hint


def test_a_short_secret_does_not_blank_out_ordinary_text() -> None:
    register(["minio1"])
    assert parse_request({"command": "ls /data/minio1/x"}).command == "ls /data/minio1/x"
    assert redact("key minio1 refused, see s3://minio1-data/x") == "key [redacted] refused, see s3://minio1-data/x"
    with pytest.raises(UsageError):
        parse_request({"env": {"HARMLESS": "minio1"}})


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("15m", 900), ("4h", 14400), ("1d", 86400), ("1h30m", 5400), ("1-02:00:00", 93600), (45, 45)],
)
def test_durations(text: str, seconds: int) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "h", "-1", "0", "1w", "1:2", "nan", "1e99"])
def test_bad_durations(text: str) -> None:
    with pytest.raises(UsageError):
        parse_duration(text)


def test_durations_for_people() -> None:
    assert [short_duration(s) for s in (5, 65, 3700, 90000)] == ["5s", "1m", "1h01m", "1d01h"]


@pytest.mark.parametrize("wanted", ["Train DINO!", "9lives", "---", "x" * 200, "日本", "a-"])
def test_job_names_fit_every_backend(wanted: str) -> None:
    import re

    name = job_name(wanted, "0123456789abcdef")
    assert re.fullmatch(r"[a-z][a-z0-9-]*[a-z0-9]", name)
    assert len(name) <= 36
    assert name.endswith("-0123456789abcdef")
