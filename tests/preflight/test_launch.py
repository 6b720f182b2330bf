"""The checks of a whole launch, on real platforms and a real S3 server."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tao_run.preflight import Wanted
from tests.preflight.conftest import Preflight
from tests.services.s3 import S3Service

LOCAL = {"platform": "local", "command": "true"}


@pytest.mark.service
class TestObjectStorage:
    """s3:// paths against a server that checks signatures."""

    @pytest.mark.parametrize(
        ("path", "outcome", "said"),
        [
            ("foobar", "ok", "object"),
            ("data", "ok", "prefix"),
            ("data/", "ok", "prefix"),
            ("foo", "failed", "there is only"),
            ("data/a", "failed", "there is only"),
            ("foobar/", "failed", ""),
            ("data//a.jsonx", "failed", ""),
            ("data//a.json", "ok", "data/a.json is there"),
            ("gone", "failed", "no such object"),
        ],
    )
    def test_inputs(self, s3: S3Service, bucket: str, preflight: Preflight, path: str, outcome: str, said: str) -> None:
        checks = preflight({**LOCAL, "inputs": {"x": f"s3://{bucket}/{path}"}}, s3.host_env())
        assert checks["path.x"].status == outcome
        assert said in checks["path.x"].detail

    def test_the_right_form_is_named(self, s3: S3Service, bucket: str, preflight: Preflight) -> None:
        inputs = {"slash": f"s3://{bucket}/foobar/", "double": f"s3://{bucket}//data//nothing"}
        checks = preflight({**LOCAL, "inputs": inputs}, s3.host_env())
        assert checks["path.slash"].fix.endswith(f"write s3://{bucket}/foobar")
        assert checks["path.double"].fix.endswith(f"write s3://{bucket}/data/nothing")
        inputs = {"there": f"s3://{bucket}//foobar"}
        assert preflight({**LOCAL, "inputs": inputs}, s3.host_env())["path.there"].fix.endswith(f"s3://{bucket}/foobar")

    def test_optional_inputs_may_be_absent(self, s3: S3Service, bucket: str, preflight: Preflight) -> None:
        source = {"uri": f"s3://{bucket}/gone", "optional": True}
        assert preflight({**LOCAL, "inputs": {"x": source}}, s3.host_env())["path.x"].status == "ok"

    def test_a_list_of_uris_is_checked_one_by_one(self, s3: S3Service, bucket: str, preflight: Preflight) -> None:
        uris = [f"s3://{bucket}/foobar", f"s3://{bucket}/gone"]
        checks = preflight({**LOCAL, "inputs": {"x": uris}}, s3.host_env())
        assert (checks["path.x[0]"].status, checks["path.x[1]"].status) == ("ok", "failed")

    def test_results_are_written_read_and_removed(self, s3: S3Service, bucket: str, preflight: Preflight) -> None:
        data = {**LOCAL, "results": f"s3://{bucket}/results"}
        assert preflight(data, s3.host_env())["results"].status == "ok"
        assert s3.keys(bucket, "results") == []

    def test_a_reader_cannot_hold_results(self, s3: S3Service, bucket: str, preflight: Preflight) -> None:
        reader = {**s3.host_env(), "ACCESS_KEY": s3.read_key, "SECRET_KEY": s3.read_secret}
        data = {**LOCAL, "inputs": {"x": f"s3://{bucket}/foobar"}, "results": f"s3://{bucket}/results"}
        checks = preflight(data, reader)
        assert checks["path.x"].status == "ok"
        assert checks["results"].status == "failed"
        assert "refused" in checks["results"].detail

    def test_a_wrong_key_fails_every_path_and_shows_no_value(
        self, s3: S3Service, bucket: str, preflight: Preflight
    ) -> None:
        canary = "canary-preflight-secret"
        data = {**LOCAL, "inputs": {"x": f"s3://{bucket}/foobar"}, "results": f"s3://{bucket}/results"}
        checks = preflight(data, {**s3.host_env(), "SECRET_KEY": canary})
        assert (checks["path.x"].status, checks["results"].status) == ("failed", "failed")
        assert "SECRET_KEY" in checks["path.x"].detail
        assert canary not in str(checks)

    def test_annotations_in_the_store(self, s3: S3Service, bucket: str, preflight: Preflight) -> None:
        inputs = {"train": f"s3://{bucket}/data/a.json", "lines": f"s3://{bucket}/data/b.jsonl"}
        wanted = Wanted(
            json_required_fields={"train": ("id", "video"), "lines": ("id", "video"), "none": ("id",)},
            effective_batch_limits={"train": ((1, 2), (2, 2))},
        )
        checks = preflight({**LOCAL, "inputs": inputs}, s3.host_env(), wanted)
        assert checks["json.train"].status == "ok"
        assert checks["json.lines"].status == "failed"
        assert "lacks video" in checks["json.lines"].detail
        assert "--path none=PATH" in checks["json.none"].fix
        assert checks["batch.train"].status == "failed"


def test_ten_paths_are_asked_for_at_the_same_time(preflight: Preflight) -> None:
    """Each HEAD waits until ten have come: one after the other they would never be answered."""
    together = threading.Barrier(10, timeout=20)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            body = b"x" if self.command == "GET" else b""
            self.send_response(200)
            self.send_header("Content-Length", "1")
            self.end_headers()
            self.wfile.write(body)

        def do_HEAD(self) -> None:
            together.wait()
            self.answer()

        def do_GET(self) -> None:
            self.answer()

        def log_message(self, *_: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    environ = {
        "ACCESS_KEY": "k",
        "SECRET_KEY": "some-secret",
        "S3_ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}",
    }
    inputs = {f"p{number}": f"s3://bucket/object{number}" for number in range(10)}
    checks = preflight({**LOCAL, "inputs": inputs}, environ)
    server.shutdown()
    server.server_close()
    assert [checks[f"path.p{number}"].status for number in range(10)] == ["ok"] * 10


def test_an_unreachable_store_fails_the_paths_and_nothing_else(preflight: Preflight) -> None:
    environ = {"ACCESS_KEY": "k", "SECRET_KEY": "some-secret", "S3_ENDPOINT_URL": "http://127.0.0.1:9"}
    checks = preflight({**LOCAL, "inputs": {"x": "s3://bucket/x", "here": "/"}}, environ)
    assert checks["path.x"].status == "failed"
    assert "does not answer" in checks["path.x"].detail
    assert checks["path.here"].status == "ok"
    assert checks["credentials.storage"].status == "ok"


def test_missing_storage_keys_are_named_together(preflight: Preflight) -> None:
    check = preflight({**LOCAL, "inputs": {"x": "s3://bucket/x"}})["credentials.storage"]
    assert check.status == "failed"
    assert "ACCESS_KEY, SECRET_KEY" in check.detail


@pytest.mark.parametrize(
    ("uri", "right"),
    [
        ("lepton://bucket/x", "s3://bucket/x"),
        ("https://bucket.s3.amazonaws.com/x", "s3://bucket/x"),
        ("gs://bucket/x", "S3_ENDPOINT_URL"),
        ("https://example.com/x.json", "copy it to s3://"),
        ("s3://Bad_Bucket/x", "s3://bucket-name/path"),
    ],
)
def test_wrong_forms_come_with_the_right_one(preflight: Preflight, uri: str, right: str) -> None:
    check = preflight({**LOCAL, "inputs": {"x": uri}})["path.x"]
    assert check.status == "failed"
    assert right in check.fix


def test_wrong_schemes_anywhere_in_the_spec(preflight: Preflight) -> None:
    spec = {"a": [{"b": "lepton://bucket/x"}], "c": "${results_dir}/x", "d": "hf_model://nvidia/x"}
    check = preflight({**LOCAL, "spec": spec})["spec.uris"]
    assert check.status == "failed"
    assert "lepton" in check.detail
    assert "hf_model" not in check.detail


def test_what_only_the_container_can_tell_is_skipped(preflight: Preflight) -> None:
    inputs = {"a": "${results_dir}/x", "b": "hf_model://nvidia/x", "c": "data/x.json"}
    checks = preflight({**LOCAL, "inputs": inputs})
    assert {checks[f"path.{label}"].status for label in inputs} == {"skipped"}


def test_paths_of_this_machine(preflight: Preflight, tmp_path: Path) -> None:
    (tmp_path / "ann.json").write_text(json.dumps([{"id": 1}]))
    inputs = {"there": f"file://{tmp_path}", "gone": f"{tmp_path}/gone", "ann": f"{tmp_path}/ann.json"}
    wanted = Wanted(json_required_fields={"ann": ("id",)})
    checks = preflight({**LOCAL, "inputs": inputs, "results": f"{tmp_path}/new/results"}, wanted=wanted)
    found = {label: checks[f"path.{label}"].status for label in inputs}
    assert found == {"there": "ok", "gone": "failed", "ann": "ok"}
    assert checks["json.ann"].status == "ok"
    assert checks["results"].status == "ok"
    assert not (tmp_path / "new").exists()


def test_a_place_that_cannot_be_written(preflight: Preflight) -> None:
    assert preflight({**LOCAL, "results": "/proc/results"})["results"].status == "failed"


def test_files_here_prove_nothing_about_a_remote_daemon(preflight: Preflight, tmp_path: Path) -> None:
    options = {"docker": {"host": "tcp://127.0.0.1:9"}}
    data = {
        "platform": "docker",
        "image": "ubuntu",
        "command": "true",
        "options": options,
        "inputs": {"x": str(tmp_path)},
    }
    checks = preflight(data)
    assert checks["path.x"].status == "skipped"
    assert "disk" not in checks
    assert [check for name, check in checks.items() if name.startswith("docker") and check.status == "failed"]


def test_more_nodes_than_the_platform_has(preflight: Preflight) -> None:
    data = {"platform": "docker", "image": "ubuntu", "command": "true", "nodes": 2}
    data["options"] = {"docker": {"host": "tcp://127.0.0.1:9"}}
    assert preflight(data)["nodes"].status == "failed"


def test_model_credentials_and_inputs(preflight: Preflight) -> None:
    data = {**LOCAL, "model": "cosmos-embed", "action": "train", "spec": {}, "secrets": {"HF_TOKEN": "HF_TOKEN"}}
    checks = preflight(data)
    assert (checks["credentials.model"].status, checks["credentials.job"].status) == ("failed", "failed")
    assert "HF_TOKEN" in checks["credentials.model"].detail
    set_now = preflight(data, {"HF_TOKEN": "hf-canary-value"})
    assert (set_now["credentials.model"].status, set_now["credentials.job"].status) == ("ok", "ok")
    assert "hf-canary-value" not in str(set_now)


def test_declared_inputs_without_a_value(preflight: Preflight) -> None:
    data = {**LOCAL, "model": "dino", "action": "train", "spec": {"dataset": {"train_data_sources": "???"}}}
    check = preflight(data)["inputs"]
    assert check.status == "failed"
    assert "dataset.train_data_sources[0].image_dir" in check.detail


def test_an_unknown_image_key(preflight: Preflight) -> None:
    check = preflight({**LOCAL, "image": "tao_toolkit.nope"})["image"]
    assert check.status == "failed"
    assert "tao_toolkit.pyt" in check.fix


def test_gpu_demands(preflight: Preflight) -> None:
    wanted = Wanted(gpu_min_count=2, gpu_arch_allowlist={"m": ("sm_80",)}, gpu_archs=("9.0",), target_gpu_count=1)
    checks = preflight(LOCAL, wanted=wanted)
    assert (checks["gpu.count"].status, checks["gpu.architecture.m"].status) == ("failed", "failed")


def test_too_little_disk(preflight: Preflight) -> None:
    assert preflight(LOCAL, wanted=Wanted(min_free_disk_gb=1e9))["disk"].status == "failed"


def test_checks_can_be_left_out_and_are_then_listed_as_skipped(preflight: Preflight) -> None:
    wanted = Wanted(skip=("disk", "path", "local.gpus"), min_free_disk_gb=1e9)
    checks = preflight({**LOCAL, "inputs": {"x": "/gone"}, "gpus": 999}, wanted=wanted)
    assert (checks["disk"].status, checks["path.x"].status) == ("skipped", "skipped")
    assert "local.gpus" not in checks


def test_platform_access_can_be_left_out(preflight: Preflight) -> None:
    checks = preflight(LOCAL, wanted=Wanted(skip_platform_access=True))
    assert not [name for name in checks if name.startswith("local.")]


def test_a_slow_check_is_cut_off(preflight: Preflight) -> None:
    gate = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            gate.wait(20)

        def log_message(self, *_: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    environ = {
        "ACCESS_KEY": "k",
        "SECRET_KEY": "some-secret",
        "S3_ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}",
    }
    checks = preflight({**LOCAL, "inputs": {"x": "s3://bucket/x", "y": "/"}}, environ, Wanted(timeout=1.5))
    gate.set()
    server.shutdown()
    server.server_close()
    assert checks["path.x"].status == "failed"
    assert checks["path.y"].status == "ok"
