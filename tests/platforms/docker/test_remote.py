"""Daemons that are elsewhere: contexts, TCP, ssh://, and what a broken way to one looks like."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tao_run.clock import SystemClock
from tao_run.credentials import Credentials
from tao_run.errors import (
    BackendFault,
    BackendRejected,
    BackendUnreachable,
    CredentialRefused,
    PermissionRefused,
    ProtocolError,
    RateLimited,
    TaoRunError,
    UsageError,
)
from tao_run.jobs.model import JobState, LogQuery
from tao_run.jobs.request import parse_request
from tao_run.platforms.docker import DockerSDK
from tao_run.platforms.docker.client import Daemon
from tao_run.platforms.docker.endpoint import check_endpoint, default_endpoint, ssh_target, tls_files
from tao_run.platforms.lifecycle import build_job
from tests.platforms.docker.conftest import Bench
from tests.services.docker import DockerService, SshServer, free_port, ssh_server

# -- where the daemon is ---------------------------------------------------------------------------------------


def docker_config(directory: Path, current: str = "") -> dict[str, str]:
    """A ~/.docker with a context `lab` that has TLS files."""
    meta = directory / "contexts/meta/abc"
    meta.mkdir(parents=True)
    endpoint = {"Name": "lab", "Endpoints": {"docker": {"Host": "tcp://lab:2376"}}}
    (meta / "meta.json").write_text(json.dumps(endpoint))
    (directory / "contexts/tls/abc/docker").mkdir(parents=True)
    (directory / "config.json").write_text(json.dumps({"currentContext": current} if current else {}))
    return {"DOCKER_CONFIG": str(directory)}


def test_the_daemon_is_the_one_that_dockers_own_client_would_use(tmp_path: Path) -> None:
    plain = docker_config(tmp_path / "plain")
    lab = docker_config(tmp_path / "lab", current="lab")
    assert default_endpoint({"DOCKER_CONFIG": str(tmp_path / "none")}) == "unix:///var/run/docker.sock"
    assert default_endpoint(plain) == "unix:///var/run/docker.sock"
    assert default_endpoint(lab) == "tcp://lab:2376"
    assert default_endpoint({**plain, "DOCKER_CONTEXT": "lab"}) == "tcp://lab:2376"
    assert default_endpoint({**lab, "DOCKER_HOST": "ssh://gpu1"}) == "ssh://gpu1"
    with pytest.raises(UsageError, match="no Docker context 'no'"):
        default_endpoint({**plain, "DOCKER_CONTEXT": "no"})


def test_certificates_of_a_context_and_of_the_environment(tmp_path: Path) -> None:
    environ = docker_config(tmp_path)
    assert tls_files("tcp://lab:2376", environ) == (tmp_path / "contexts/tls/abc/docker", True)
    assert tls_files("tcp://other:2375", environ) is None
    assert tls_files("unix:///x", {"DOCKER_CERT_PATH": "/c"}) is None
    assert tls_files("tcp://o:1", {"DOCKER_CERT_PATH": "/c", "DOCKER_TLS_VERIFY": "1"}) == (Path("/c"), True)


@pytest.mark.parametrize(
    "text", ["", "gpu1", "ftp://x", "ssh://", "ssh://u:pw@h", "ssh://-oProxyCommand=x", "ssh://h:0x", "ssh://a b"]
)
def test_what_is_no_endpoint_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        check_endpoint(text)


def test_the_parts_of_an_ssh_endpoint() -> None:
    target = ssh_target("ssh://me@gpu1:2222/run/user/1000/docker.sock")
    assert (target.destination, target.port, target.socket) == ("me@gpu1", 2222, "/run/user/1000/docker.sock")
    assert ssh_target("ssh://gpu1").socket == "/var/run/docker.sock"
    assert check_endpoint("/run/d.sock") == "unix:///run/d.sock"


def test_the_job_remembers_its_daemon(bench: Bench) -> None:
    request = parse_request({"platform": "docker", "image": "mini:1", "command": "true"})
    job = build_job(DockerSDK(Credentials({"DOCKER_HOST": bench.service.host})), request)
    assert job.account == bench.service.host
    assert job.options["host"] == bench.service.host
    assert DockerSDK(Credentials({"DOCKER_HOST": "tcp://elsewhere:2375"})).find(job) is None


# -- over ssh --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ssh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshServer]:
    with ssh_server(tmp_path_factory.mktemp("sshd")) as server:
        yield server


@pytest.fixture
def over_ssh(bench: Bench, ssh: SshServer, dockerd: DockerService, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("PATH", str(ssh.bin), prepend=":")
    endpoint = f"ssh://root@127.0.0.1:{ssh.port}{dockerd.directory}/docker.sock"
    yield endpoint
    bench.sdk.daemon(endpoint).close()


def test_a_job_over_ssh(bench: Bench, over_ssh: str) -> None:
    options = {"host": over_ssh}
    job = bench.submit("echo one; sleep 1; echo $HF_TOKEN", options=options, secrets={"HF_TOKEN": "HF_TOKEN"})
    assert job.account == over_ssh
    assert bench.texts(job, follow=True) == ["one", "hf_canary-'\"$1"]
    assert bench.wait(job).state is JobState.COMPLETE


def test_a_broken_tunnel_is_built_again(bench: Bench, over_ssh: str) -> None:
    job = bench.submit("for i in $(seq 1 40); do echo $i; sleep 0.1; done", options={"host": over_ssh})
    seen = []
    for line in bench.sdk.iter_job_logs(job.id, LogQuery(follow=True)):
        seen += [line.text] if line.kind == "line" else []
        if len(seen) == 10:
            bench.sdk.daemon(over_ssh).close()
    assert seen == [str(number) for number in range(1, 41)]
    assert bench.wait(job).state is JobState.COMPLETE


def test_a_remote_daemon_does_not_look_at_our_disk(bench: Bench, over_ssh: str, tmp_path: Path) -> None:
    job = bench.build("true", options={"host": over_ssh, "mounts": "/no/such/place/here:/x"})
    with pytest.raises(BackendRejected, match="/no/such/place/here"):
        bench.sdk.launch(bench.sdk.prepare(job))
    assert not bench.exists(job)
    with pytest.raises(UsageError, match="another host"):
        bench.sdk.prepare(bench.build("true", options={"host": over_ssh, "mounts": "./data:/x"}))


@pytest.mark.parametrize(
    ("where", "kind", "text"),
    [
        ("ssh://nobody-here@127.0.0.1:{port}", CredentialRefused, "Permission denied"),
        ("ssh://root@127.0.0.1:{closed}", BackendUnreachable, "refused"),
    ],
)
def test_ssh_that_fails_says_why(
    ssh: SshServer, monkeypatch: pytest.MonkeyPatch, where: str, kind: type[TaoRunError], text: str
) -> None:
    monkeypatch.setenv("PATH", str(ssh.bin), prepend=":")
    daemon = Daemon(where.format(port=ssh.port, closed=free_port()), SystemClock(), {})
    with pytest.raises(kind, match=text) as failed:
        _ = daemon.info
    assert failed.value.hint
    daemon.close()


# -- what answers ----------------------------------------------------------------------------------------------


@pytest.fixture
def answering(request: pytest.FixtureRequest) -> Iterator[str]:
    """An HTTP server that always gives the status and body of the parameter."""
    status, body = request.param

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *parts: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"tcp://127.0.0.1:{server.server_port}"
    server.shutdown()


@pytest.mark.parametrize(
    ("answering", "kind"),
    [
        ((200, "<html>a proxy</html>"), ProtocolError),
        ((200, "{}"), ProtocolError),
        ((401, '{"message": "who are you"}'), CredentialRefused),
        ((403, '{"message": "authorization denied by plugin"}'), PermissionRefused),
        ((429, '{"message": "slow down"}'), RateLimited),
        ((500, '{"message": "disk on fire"}'), BackendFault),
    ],
    indirect=["answering"],
)
def test_what_is_no_docker_or_refuses_is_never_a_state(answering: str, kind: type[TaoRunError], tmp_path: Path) -> None:
    sdk = DockerSDK(Credentials({}))
    request = {"platform": "docker", "image": "mini:1", "command": "true", "options": {"docker": {"host": answering}}}
    with pytest.raises(kind):
        sdk.poll([build_job(sdk, parse_request(request))])


def test_no_daemon_at_all(tmp_path: Path) -> None:
    for endpoint in (f"unix://{tmp_path}/none.sock", f"tcp://127.0.0.1:{free_port()}"):
        with pytest.raises(BackendUnreachable, match=r"is not there|refuses") as failed:
            _ = Daemon(endpoint, SystemClock(), {}).info
        assert "DOCKER_HOST" in failed.value.hint
