"""The session and its errors: every fault of the service is an error of ours, and no secret is in it."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tao_run.errors import (
    BackendFault,
    BackendRejected,
    BackendUnreachable,
    Conflict,
    CredentialRefused,
    NotFound,
    PermissionRefused,
    ProtocolError,
    RateLimited,
    TaoRunError,
)
from tao_run.platforms.lepton.account import Account
from tao_run.platforms.lepton.api import LeptonApi, job_path
from tests.fakes.lepton import FakeLepton, Fault, document, error, html
from tests.platforms.lepton.conftest import HurriedClock

STATUSES = [
    (400, BackendRejected, 2),
    (401, CredentialRefused, 3),
    (403, PermissionRefused, 3),
    (404, NotFound, 2),
    (407, BackendUnreachable, 6),
    (409, Conflict, 2),
    (422, BackendRejected, 2),
    (429, RateLimited, 6),
    (500, BackendFault, 6),
    (503, BackendFault, 6),
]


@pytest.mark.parametrize(("status", "kind", "exit_code"), STATUSES)
def test_each_status_is_its_own_error(
    lepton: FakeLepton, api: LeptonApi, status: int, kind: type[TaoRunError], exit_code: int
) -> None:
    lepton.faults.add(error(status, "what it says", times=None))
    with pytest.raises(kind) as caught:
        api.get("/jobs")
    assert type(caught.value) is kind
    assert caught.value.exit_code == exit_code
    assert caught.value.hint or kind in (BackendRejected, NotFound, Conflict)


def test_the_services_words_are_shown_and_only_those(lepton: FakeLepton, api: LeptonApi) -> None:
    lepton.faults.add(Fault(status=400, body=b'{"code":"E","message":"no \\u001b[31mshape\\n here","envs":["hush"]}'))
    with pytest.raises(BackendRejected) as caught:
        api.get("/jobs")
    assert caught.value.message == "Lepton rejects the request (HTTP 400): no [31mshape here"


@pytest.mark.parametrize("body", [b"<html>hush</html>", b'["hush"]', b'{"message": {"a": "hush"}}', b"\xff\xfe"])
def test_a_body_of_another_shape_is_not_shown(lepton: FakeLepton, api: LeptonApi, body: bytes) -> None:
    lepton.faults.add(Fault(status=422, body=body))
    with pytest.raises(BackendRejected) as caught:
        api.get("/jobs")
    assert "hush" not in str(caught.value)


def test_our_token_is_not_shown_even_if_the_service_repeats_it(lepton: FakeLepton, api: LeptonApi) -> None:
    from tao_run.redact import register

    register([lepton.token])
    lepton.faults.add(error(401, f"bad token {lepton.token}"))
    with pytest.raises(CredentialRefused) as caught:
        api.get("/jobs")
    assert lepton.token not in caught.value.message


def test_html_where_json_should_be(lepton: FakeLepton, api: LeptonApi) -> None:
    lepton.faults.add(html())
    with pytest.raises(ProtocolError, match="text/html instead of JSON"):
        api.get("/jobs")


@pytest.mark.parametrize("value", ["text", 5, {"jobs": {"a": 1}}])
def test_a_list_that_is_none(lepton: FakeLepton, api: LeptonApi, value: object) -> None:
    lepton.faults.add(document(value))
    with pytest.raises(ProtocolError):
        api.rows("/jobs", "jobs")


def test_a_null_list_is_empty_and_odd_items_are_left_out(lepton: FakeLepton, api: LeptonApi) -> None:
    lepton.faults.add(document({"jobs": None}))
    assert api.rows("/jobs", "jobs") == []
    lepton.faults.add(document({"jobs": [None, "x", {"a": 1}]}))
    assert api.rows("/jobs", "jobs") == [{"a": 1}]


def test_reads_are_repeated_after_passing_faults(lepton: FakeLepton, api: LeptonApi, clock: HurriedClock) -> None:
    lepton.faults.add(error(503, times=2))
    assert api.rows("/jobs", "jobs") == []
    assert len(lepton.requests) == 3
    assert len(clock.slept) == 2


def test_a_read_waits_as_long_as_the_service_asks_but_no_longer_than_a_minute(
    lepton: FakeLepton, api: LeptonApi, clock: HurriedClock
) -> None:
    lepton.faults.add(error(429, headers={"Retry-After": "7"}))
    lepton.faults.add(error(429, headers={"Retry-After": "3600"}))
    assert api.rows("/jobs", "jobs") == []
    assert clock.slept == [7, 60]


def test_a_limit_that_stays_is_reported_with_its_time(lepton: FakeLepton, api: LeptonApi) -> None:
    lepton.faults.add(error(429, times=None, headers={"Retry-After": "2"}))
    with pytest.raises(RateLimited) as caught:
        api.get("/jobs")
    assert caught.value.retry_after == 2


@pytest.mark.parametrize("fault", [error(503), error(429), Fault(drop="before"), Fault(drop="after")])
def test_a_write_is_never_repeated(lepton: FakeLepton, api: LeptonApi, fault: Fault) -> None:
    lepton.faults.add(fault)
    with pytest.raises(BackendUnreachable):
        api.post("/usersecrets", [{"name": "A", "value": "v"}])
    assert len(lepton.asked("POST")) == 1


def test_a_dropped_connection_on_a_read_is_tried_again(lepton: FakeLepton, api: LeptonApi) -> None:
    lepton.faults.add(Fault(drop="before"))
    assert api.rows("/jobs", "jobs") == []


def test_an_answer_that_does_not_come(lepton: FakeLepton, clock: HurriedClock) -> None:
    api = LeptonApi(Account("ws1", lepton.url), lepton.token, clock, timeout=(1, 0.1))
    lepton.faults.add(Fault(delay=1, times=None))
    with pytest.raises(BackendUnreachable, match="in time"):
        api.get("/jobs")


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_nobody_listens(clock: HurriedClock) -> None:
    api = LeptonApi(Account("ws1", f"http://127.0.0.1:{closed_port()}/api/v2/workspaces/ws1"), "t" * 12, clock)
    with pytest.raises(BackendUnreachable, match="connection refused"):
        api.get("/jobs")


def test_an_unknown_host(clock: HurriedClock) -> None:
    api = LeptonApi(Account("ws1", "http://nowhere.invalid/api/v2/workspaces/ws1"), "t" * 12, clock)
    api.session.trust_env = False
    with pytest.raises(BackendUnreachable, match="unknown host"):
        api.get("/jobs")


def test_a_proxy_that_is_not_there(clock: HurriedClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{closed_port()}")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    api = LeptonApi(Account("ws1", "http://nowhere.invalid/api/v2/workspaces/ws1"), "t" * 12, clock)
    with pytest.raises(BackendUnreachable, match="proxy"):
        api.get("/jobs")


def test_a_proxy_is_not_asked_for_this_machine(
    lepton: FakeLepton, api: LeptonApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{closed_port()}")
    assert api.rows("/jobs", "jobs") == []


def test_a_netrc_entry_does_not_replace_the_token(
    lepton: FakeLepton, api: LeptonApi, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login me password other\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    api.session.trust_env = True
    assert api.rows("/jobs", "jobs") == []
    assert lepton.requests[-1].headers["Authorization"] == f"Bearer {lepton.token}"


def test_an_id_cannot_change_the_path() -> None:
    assert job_path("a/../b?x", "log") == "/jobs/a%2F..%2Fb%3Fx/log"
