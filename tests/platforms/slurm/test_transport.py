"""The way to the cluster: OpenSSH with the user's configuration, fail-over where it is right and only there."""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tao_run.errors import BackendUnreachable, CredentialError, CredentialRefused, NotInstalled, ProtocolError
from tao_run.platforms.slurm.cluster import Cluster as Where
from tao_run.platforms.slurm.cluster import parse_account
from tao_run.platforms.slurm.frames import Frame, frames
from tao_run.platforms.slurm.remote import Remote
from tao_run.platforms.slurm.ssh import SshSettings, control_directory, split_port, ssh_command, ssh_environment
from tests.services.slurm import USER, Cluster

BOTH = ("login-a", "login-b")


def remote(cluster: Cluster, *hosts: str, config: Path | None = None, **settings: bool) -> Remote:
    chosen = SshSettings(config=str(config or cluster.ssh_config), **settings)  # type: ignore[arg-type]
    return Remote(Where(USER, hosts or BOTH, "~/tao-run"), chosen)


def accepted(cluster: Cluster, host: str) -> int:
    log = cluster.root / "log" / f"sshd-{host}.out"
    return log.read_text(encoding="utf-8", errors="replace").count("Accepted publickey")


@pytest.fixture
def strange_config(slurm_cluster: Cluster, tmp_path: Path) -> Iterator[Path]:
    """The cluster's ssh configuration, with a file of known hosts of its own, empty at first."""
    text = slurm_cluster.ssh_config.read_text(encoding="utf-8")
    config = tmp_path / "config"
    config.write_text(re.sub(r"UserKnownHostsFile .*", f"UserKnownHostsFile {tmp_path}/known", text), encoding="utf-8")
    yield config


def test_output_is_exact_whatever_the_host_prints_around_it(slurm_cluster: Cluster) -> None:
    answer = remote(slurm_cluster).run(
        "section one sh -c 'printf \"a\\n\\nb\"; echo bad >&2; exit 3'\nsection two true"
    )
    assert (answer["one"].code, answer["one"].out, answer["one"].err) == (3, "a\n\nb", "bad")
    assert (answer["two"].code, answer["two"].out) == (0, "")


def test_standard_input_is_the_scripts_alone(slurm_cluster: Cluster) -> None:
    data = bytes(range(256)) * 2000
    answer = remote(slurm_cluster).run("exec 7<&0\ncount() { wc -c <&7; }\nsection ignored cat\nsection n count", data)
    assert answer["n"].out.strip() == str(len(data))
    assert answer["ignored"].out == ""


def test_many_commands_use_one_connection(slurm_cluster: Cluster) -> None:
    there = remote(slurm_cluster, "login-a")
    there.run("section x true")
    before = accepted(slurm_cluster, "a")
    for _ in range(5):
        there.run("section x true")
    assert accepted(slurm_cluster, "a") == before


def test_a_host_that_is_down_is_passed_over_and_the_next_is_remembered(slurm_cluster: Cluster) -> None:
    there = remote(slurm_cluster)
    with slurm_cluster.stopped("sshd-a"):
        assert there.run("section x echo one")["x"].out == "one\n"
    before = slurm_cluster.sessions()
    assert there.run("section x echo two")["x"].out == "two\n"
    assert slurm_cluster.sessions() == before + 1


def test_a_host_name_that_does_not_exist_is_passed_over(slurm_cluster: Cluster) -> None:
    there = remote(slurm_cluster, "no-such-host.invalid", "login-b")
    assert there.run("section x echo here")["x"].out == "here\n"


def test_words_in_output_never_cause_a_fail_over(slurm_cluster: Cluster) -> None:
    said = "ssh: connect to host x port 22: Connection refused; kex_exchange_identification: Connection reset"
    before = slurm_cluster.sessions()
    answer = remote(slurm_cluster).run(
        f"echo '{said}' >&2\necho '{said}'\nsection x sh -c \"echo '{said}' >&2; exit 255\""
    )
    assert answer["x"].code == 255
    assert slurm_cluster.sessions() == before + 1


def test_all_hosts_down_names_all_of_them(slurm_cluster: Cluster) -> None:
    with slurm_cluster.stopped("sshd-a", "sshd-b"), pytest.raises(BackendUnreachable) as caught:
        remote(slurm_cluster).run("section x true")
    assert "login-a" in caught.value.message
    assert "login-b" in caught.value.message
    assert caught.value.exit_code == 6


def test_a_connection_that_breaks_is_repeated_only_if_that_is_harmless(slurm_cluster: Cluster) -> None:
    breaking = "p=$$; while [ $(cat /proc/$p/comm) != sshd ]; do p=$(awk '/^PPid/{print $2}' /proc/$p/status); done\n"
    counted = "echo x >> ~/ran; [ $(wc -l < ~/ran) -gt 1 ] || kill -KILL $p\nsection x echo there"
    slurm_cluster.as_user("rm -f ~/ran")
    with pytest.raises(BackendUnreachable, match="broke off"):
        remote(slurm_cluster).run(breaking + counted, repeat=False)
    slurm_cluster.as_user("rm -f ~/ran")
    assert remote(slurm_cluster).run(breaking + counted)["x"].out == "there\n"
    assert slurm_cluster.as_user("wc -l < ~/ran").strip() == "2"


def test_an_unknown_host_key_is_an_error_of_its_own_and_no_reason_to_fail_over(
    slurm_cluster: Cluster, strange_config: Path
) -> None:
    with pytest.raises(CredentialError, match="host key of login-a is not known") as caught:
        remote(slurm_cluster, config=strange_config).run("section x true")
    assert caught.value.exit_code == 3
    assert "ssh login-a" in caught.value.hint


def test_a_new_host_key_is_accepted_when_asked_a_changed_one_never(
    slurm_cluster: Cluster, strange_config: Path
) -> None:
    known = strange_config.with_name("known")
    there = remote(slurm_cluster, config=strange_config, accept_new=True)
    assert there.run("section x echo new")["x"].out == "new\n"
    other_key = "AAAAC3NzaC1lZDI1NTE5AAAAIDk7vcQpIGh1n3JZ2r3p8cZpJ0y1m6pKkq0gqk1wq0m8"
    port = known.read_text(encoding="utf-8").split(" ")[0]
    known.write_text(f"{port} ssh-ed25519 {other_key}\n", encoding="utf-8")
    slurm_cluster.drop_sessions()
    with pytest.raises(CredentialError, match="host key of login-a has changed"):
        there.run("section x true")


def test_a_refused_key_is_told_and_no_reason_to_fail_over(slurm_cluster: Cluster) -> None:
    with slurm_cluster.no_key():
        before = slurm_cluster.sessions()
        with pytest.raises(CredentialRefused, match="login-a refuses the login") as caught:
            remote(slurm_cluster).run("section x true")
    assert "ssh-agent" in caught.value.hint
    assert slurm_cluster.sessions() == before


def test_a_script_that_takes_too_long_is_unreachable(slurm_cluster: Cluster) -> None:
    with pytest.raises(BackendUnreachable, match="within 1 seconds"):
        remote(slurm_cluster, "login-a").run("sleep 20", timeout=1)


def test_the_command_keeps_to_the_users_own_configuration(tmp_path: Path) -> None:
    mine = tmp_path / "config"
    mine.write_text("Host own\n  ControlPath /tmp/own-%C\n  ControlMaster auto\n", encoding="utf-8")
    own = ssh_command("own", "me", SshSettings(config=str(mine)))
    other = ssh_command("other:2222", "me", SshSettings(config=str(mine), key="/keys/id"))
    assert "BatchMode=yes" in own
    assert not any("ControlPath" in word or "StrictHostKeyChecking" in word for word in own)
    path = next(word.partition("=")[2] for word in other if word.startswith("ControlPath="))
    assert len(path) < 90
    assert Path(path).parent == control_directory()
    assert other[other.index("-p") + 1] == "2222"
    assert other[other.index("-i") + 1] == "/keys/id"
    assert other[-2] == "other"


def test_the_directory_of_connections_is_private() -> None:
    assert stat.S_IMODE(control_directory().stat().st_mode) == 0o700


def test_without_an_ssh_client_the_package_is_named(monkeypatch: pytest.MonkeyPatch, slurm_cluster: Cluster) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(NotInstalled, match="OpenSSH") as caught:
        remote(slurm_cluster).run("section x true")
    assert "openssh-client" in caught.value.hint


def test_no_secret_is_in_the_environment_of_ssh() -> None:
    kept = ssh_environment({"HF_TOKEN": "x", "SSH_AUTH_SOCK": "/s", "AWS_SECRET_ACCESS_KEY": "y", "HOME": "/h"})
    assert kept == {"SSH_AUTH_SOCK": "/s", "HOME": "/h"}


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("login1", ("login1", "")),
        ("login1:2222", ("login1", "2222")),
        ("fe80::1", ("fe80::1", "")),
        ("a:b", ("a:b", "")),
    ],
)
def test_ports_of_hosts(text: str, parts: tuple[str, str]) -> None:
    assert split_port(text) == parts


@pytest.mark.parametrize(
    "where",
    [
        Where("me", ("a", "b:2222"), "/lustre/me"),
        Where("me", (), "~/tao-run"),
        Where("me", ("fe80::1",), "/x"),
    ],
)
def test_the_recorded_account_is_the_cluster(where: Where) -> None:
    assert parse_account(where.account) == where


def test_frames_after_a_welcome_in_any_chunks() -> None:
    stream = b"Welcome!\nM is no mark\n\nMARK logs/a 5 4\nab\nc\nMARK quiet\nMARK logs/a 9 1\nx\nMARK end\n"
    for size in (1, 2, 7, 1000):
        chunks = (stream[start : start + size] for start in range(0, len(stream), size))
        found = list(frames(chunks, "MARK"))
        data = b"".join(frame.data for frame in found)
        assert data == b"ab\ncx"
        assert [frame.word for frame in found if not frame.data] == ["quiet", "end"]
        assert next(frame for frame in found if frame.data).offset == 5


@pytest.mark.parametrize("broken", [b"MARK a 0 9\nabc", b"MARK a 0 3\nabcXYZ\nMARK end\n"])
def test_frames_that_lose_their_step_are_an_error(broken: bytes) -> None:
    seen: list[Frame] = []
    with pytest.raises(ProtocolError):
        for frame in frames(iter([broken]), "MARK"):
            seen.append(frame)
    assert seen[0].data == b"abc"
