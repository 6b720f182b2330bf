"""Models and datasets from Hugging Face and NGC, through whole jobs and stand-ins on the wire."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.fakes.hubs import Hub, HuggingFace, Ngc, serve
from tests.runner.conftest import Container

FILES = {"config.json": b"{}", "sub/weights.pth": b"W" * 1000, "README.md": b"read"}


@pytest.fixture
def hugging_face(container: Container) -> Iterator[Hub]:
    pytest.importorskip("huggingface_hub")
    with serve(HuggingFace, Hub(dict(FILES))) as hub:
        container.env.update(HF_ENDPOINT=hub.url, HF_HOME=str(container.root / "hf"))
        yield hub


@pytest.fixture
def ngc(container: Container) -> Iterator[Hub]:
    with serve(Ngc, Hub(dict(FILES))) as hub:
        container.env.update(NGC_API_URL=hub.url, NGC_AUTHN_URL=hub.url)
        yield hub


def test_hub_uris_anywhere_in_a_spec_become_paths(container: Container, hugging_face: Hub) -> None:
    hugging_face.files = {"config.json": b"{}", "tokenizer.model": b"t"}
    spec = {"model": [{"name": "hf_model://org/name"}], "data": "hf_dataset://org/name@v2", "other": "x"}
    ran = container.run(command="cat {config_path}", spec=spec)
    assert ran.code == 0, ran.log
    found = yaml.safe_load(ran.out)
    model, data = Path(found["model"][0]["name"]), Path(found["data"])
    assert sorted(path.name for path in model.iterdir() if path.is_file()) == ["config.json", "tokenizer.model"]
    assert (data / "tokenizer.model").read_bytes() == b"t"
    assert model != data
    asked = [path for path, _ in hugging_face.requests]
    assert "/api/datasets/org/name/revision/v2" in asked
    assert [entry["key"] for entry in ran.record["inputs"]] == ["model[0].name", "data"]


def test_one_checkpoint_is_the_file_itself(container: Container, hugging_face: Hub) -> None:
    ran = container.run(command="cat {config_path}", spec={"m": "hf_model://org/name"})
    assert Path(yaml.safe_load(ran.out)["m"]).name == "weights.pth"
    ran = container.run(command="cat {c}", inputs={"c": "hf_model://org/name/config.json"})
    assert ran.out == "{}"


@pytest.mark.parametrize(
    ("uri", "token", "says"),
    [
        ("hf_model://org/other", "", "Hugging Face has no such repository"),
        ("hf_model://org/name@v9", "", "Hugging Face has no such revision"),
        ("hf_model://org/name", "secret", "is gated"),
        ("hf_model://", "", "names no repository"),
    ],
)
def test_refusals_of_hugging_face_are_told_apart(
    container: Container, hugging_face: Hub, uri: str, token: str, says: str
) -> None:
    hugging_face.token = token
    ran = container.run(command="true", spec={"m": uri})
    assert (ran.code, says in ran.log) == (66, True), ran.log
    assert "Traceback" not in ran.log


def test_an_optional_model_that_is_not_there_is_left_out(container: Container, hugging_face: Hub) -> None:
    inputs = {"m": {"uri": "hf_model://org/other", "optional": True}, "n": {"uri": "hf_model://org/name/no.pth"}}
    ran = container.run(command="cat {config_path}", spec={"m": "x", "k": 1}, inputs={"m": inputs["m"]})
    assert ran.out == '"k": 1\n', ran.log
    ran = container.run(command="true", spec={}, inputs={"n": inputs["n"]})
    assert (ran.code, "org/name has no no.pth" in ran.log) == (66, True)


def test_a_token_opens_a_gated_repository(container: Container, hugging_face: Hub) -> None:
    hugging_face.token = "hf-canary"
    ran = container.run({"HF_TOKEN": "hf-canary"}, command="true", spec={"m": "hf_model://org/name"})
    assert ran.code == 0, ran.log
    assert "hf-canary" not in ran.log


def test_a_model_of_ngc(container: Container, ngc: Hub) -> None:
    ngc.cut = {"sub/weights.pth"}  # half a body comes once: tried again
    inputs = {"m": "ngc://org/team/model:1.0", "c": "ngc://org/team/model:1.0/config.json"}
    ran = container.run(command="cat {config_path}", spec={}, inputs=inputs)
    assert ran.code == 0, ran.log
    found = yaml.safe_load(ran.out)
    assert Path(found["m"]).read_bytes() == FILES["sub/weights.pth"]
    assert Path(found["c"]).read_bytes() == FILES["config.json"]
    before = len(ngc.requests)
    assert container.run(command="true", inputs=inputs).code == 0
    assert not [path for path, _ in ngc.requests[before:] if path.startswith("/storage/")]


@pytest.mark.parametrize(("key", "token"), [("nvapi-canary", "nvapi-canary"), ("old-key", "exchanged")])
def test_keys_of_ngc(container: Container, ngc: Hub, key: str, token: str) -> None:
    ngc.token = token
    ran = container.run({"NGC_KEY": key}, command="true", inputs={"m": "ngc://org/team/model:1.0"})
    assert ran.code == 0, ran.log
    assert not [path for path, sent in ngc.requests if path.startswith("/storage/") and sent]  # no key to storage
    assert key not in ran.log


@pytest.mark.parametrize(
    ("uri", "env", "says"),
    [
        ("ngc://org/team/model:1.0", {}, "NGC_KEY is not set"),
        ("ngc://org/team/model:1.0", {"NGC_KEY": "nvapi-wrong"}, "does not accept NGC_KEY"),
        ("ngc://org/team/model:1.0", {"NGC_KEY": "wrong"}, "does not accept NGC_KEY"),
        ("ngc://org/team/model:2.0", {"NGC_KEY": "nvapi-right"}, "NGC has no"),
        ("ngc://model", {}, "is not an NGC model version"),
    ],
)
def test_refusals_of_ngc_are_told_apart(
    container: Container, ngc: Hub, uri: str, env: dict[str, str], says: str
) -> None:
    ngc.token = "nvapi-right"
    ran = container.run(env, command="true", inputs={"m": {"uri": uri}})
    assert (ran.code, says in ran.log) == (66, True), ran.log
    assert "Traceback" not in ran.log
