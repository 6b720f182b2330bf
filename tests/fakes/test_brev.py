"""The brev double behaves as the CLI that it stands for: grammar, output, traps, faults."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.brev import FakeBrev
from tests.fakes.brev.control import TOKEN


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[FakeBrev]:
    fake = FakeBrev(tmp_path / "brev")
    yield fake
    fake.close()


def brev(cloud: FakeBrev, *argv: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run the CLI with stdin closed to /dev/null, or piped."""
    feed = {"input": stdin} if stdin is not None else {"stdin": subprocess.DEVNULL}
    return subprocess.run(
        ["brev", *argv], capture_output=True, text=True, env=cloud.environ, timeout=60, check=False, **feed
    )


def test_ls_prints_an_object_whose_workspaces_may_be_null(cloud: FakeBrev) -> None:
    assert json.loads(brev(cloud, "ls", "--json").stdout) == {"workspaces": None}
    cloud.add("box", health="UNHEALTHY")
    (row,) = json.loads(brev(cloud, "ls", "--json").stdout)["workspaces"]
    assert (row["name"], row["status"], row["instance_type"]) == ("box", "UNHEALTHY", "g6e.xlarge")
    assert brev(cloud, "ls").stdout == "box\n"


def test_search_has_the_real_field_names(cloud: FakeBrev) -> None:
    found = json.loads(brev(cloud, "search", "--json", "--gpu-name", "l40s").stdout)
    assert [row["type"] for row in found] == ["massedcompute_L40S", "g6e.xlarge", "g6e.12xlarge"]
    assert found[2]["gpu_count"] == 4 and "gpuCount" not in found[2]


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("create", "x", "--cloud-cred-id", "c"), "unknown flag: --cloud-cred-id"),
        (("create", "x", "--det"), "unknown flag: --det"),
        (("exec", "x", "-c"), "unknown shorthand flag: 'c'"),
        (("frobnicate",), 'unknown command "frobnicate"'),
        (("copy", "a", "b"), "exactly one of source or destination"),
        (("create", "x", "--type", "nope"), "could only create 0/1 instances"),
    ],
)
def test_what_does_not_exist_is_refused(cloud: FakeBrev, argv: tuple[str, ...], words: str) -> None:
    done = brev(cloud, *argv)
    assert done.returncode == 1
    assert words in done.stderr


def test_exec_takes_one_string_and_appends_the_name(cloud: FakeBrev) -> None:
    cloud.add("box")
    done = brev(cloud, "exec", "box", "echo $HOME; echo '$X' \"two  words\"")
    assert done.stdout.splitlines() == [str(cloud.instance("box") / "home"), "$X two  words", "box"]


def test_exec_takes_all_but_the_last_word_for_instances(cloud: FakeBrev) -> None:
    cloud.add("box")
    done = brev(cloud, "exec", "box", "--", "bash", "-c", "echo hi")
    assert done.returncode == 1
    assert "bash" in done.stderr and "could not look up instance" in done.stderr


def test_exec_reads_names_from_a_piped_stdin(cloud: FakeBrev) -> None:
    cloud.add("one")
    cloud.add("two", "g5.xlarge")
    done = brev(cloud, "exec", "one", "cat", stdin="two\n")
    assert done.stdout.splitlines() == ["one", "two"], "stdin is names, the command's own is empty"


def test_a_failing_command_runs_twice_and_its_code_is_lost(cloud: FakeBrev) -> None:
    cloud.add("box")
    done = brev(cloud, "exec", "box", "echo x >> $HOME/runs; exit 7")
    assert done.returncode == 1
    assert (cloud.instance("box") / "home" / "runs").read_text() == "x\nx\n"
    assert "box" not in done.stdout


def test_exec_starts_a_stopped_instance(cloud: FakeBrev) -> None:
    cloud.add("box", status="STOPPED")
    assert brev(cloud, "exec", "box", "echo up").stdout == "up\nbox\n"
    assert json.loads(brev(cloud, "ls", "--json").stdout)["workspaces"][0]["status"] == "RUNNING"


def test_running_comes_before_ssh(cloud: FakeBrev) -> None:
    cloud.set(boot_polls=2, ssh_failures=3)
    assert brev(cloud, "create", "box", "--type", "g5.xlarge", "--detached").stdout == "box\n"
    seen = [json.loads(brev(cloud, "ls", "--json").stdout)["workspaces"][0]["status"] for _ in range(3)]
    assert seen == ["DEPLOYING", "DEPLOYING", "RUNNING"]
    assert brev(cloud, "exec", "box", "true").returncode == 1
    assert brev(cloud, "exec", "box", "true").returncode == 0


def test_create_tries_types_in_order_and_says_what_is_full(cloud: FakeBrev) -> None:
    cloud.set(no_capacity=["g5.xlarge"])
    done = brev(cloud, "create", "box", "--type", "g5.xlarge,g6e.xlarge")
    assert done.returncode == 0 and "insufficient capacity" in done.stderr
    again = brev(cloud, "create", "box", "--type", "g6e.xlarge")
    assert again.returncode == 1 and "duplicate workspace" in again.stderr


def test_delete_takes_a_while(cloud: FakeBrev) -> None:
    cloud.set(delete_polls=1)
    cloud.add("box")
    assert brev(cloud, "delete", "box").returncode == 0
    seen = [json.loads(brev(cloud, "ls", "--json").stdout)["workspaces"] for _ in range(2)]
    assert seen[0][0]["status"] == "DELETING" and seen[1] is None
    assert "not found" in brev(cloud, "delete", "box").stderr


def test_an_expired_login_is_a_prompt_on_stdout_and_exec_still_works(cloud: FakeBrev) -> None:
    cloud.add("box")
    cloud.expire_login(good="fresh.jwt.token")
    done = brev(cloud, "ls", "--json")
    assert done.returncode == 1 and "currently logged out" in done.stdout and "EOF" in done.stderr
    assert brev(cloud, "exec", "box", "echo hi").stdout == "hi\nbox\n"
    assert brev(cloud, "login", "--token", TOKEN).returncode == 1
    assert brev(cloud, "login", "--token", "fresh.jwt.token").returncode == 0
    assert brev(cloud, "ls", "--json").returncode == 0


def test_copy_is_scp(cloud: FakeBrev, tmp_path: Path) -> None:
    cloud.add("box")
    source = tmp_path / "parcel"
    source.mkdir(mode=0o700)
    (source / "env").write_text("K=1")
    (source / "env").chmod(0o600)
    home = cloud.instance("box") / "home"
    (home / "jobs").mkdir()
    for _ in range(2):
        assert brev(cloud, "copy", str(source), "box:jobs/").returncode == 0
    assert [path.name for path in (home / "jobs").rglob("*")] == ["parcel", "env"]
    assert (home / "jobs" / "parcel" / "env").stat().st_mode & 0o777 == 0o600
    assert brev(cloud, "copy", "box:jobs/parcel/env", str(tmp_path / "back")).returncode == 0
    assert (tmp_path / "back").read_text() == "K=1"


def test_transport_faults(cloud: FakeBrev) -> None:
    cloud.add("box")
    cloud.fail("ssh", "cut", lines=1)
    done = brev(cloud, "exec", "box", "echo a; echo b")
    assert done.stdout == "a\na\nb\nbox\n", "the CLI itself runs the command again"
    cloud.fail("ssh", "refused", times=2)
    assert brev(cloud, "exec", "box", "echo a").returncode == 1
    cloud.fail("ls", "network")
    assert "no such host" in brev(cloud, "ls", "--json").stderr


def test_every_call_is_on_record(cloud: FakeBrev) -> None:
    cloud.add("box")
    brev(cloud, "exec", "box", "true")
    (call,) = cloud.calls("exec")
    assert call["argv"] == ["exec", "box", "true"] and call["stdin"] == "terminal"
    assert call["env"]["HOME"] == str(cloud.home)
    (far,) = cloud.calls("ssh")
    assert far["argv"][-2:] == ["box", "true"]


def on(cloud: FakeBrev, command: str) -> list[str]:
    return brev(cloud, "exec", "box", f"({command}) 2>&1 || echo code $?").stdout.splitlines()[:-1]


def test_containers_run_log_and_end(cloud: FakeBrev) -> None:
    cloud.add("box")
    on(
        cloud,
        "A=secret docker run -d --name c --label tao-run.gpus=0 -e A -e B=2 --gpus device=0 img "
        "bash -c 'echo $A $B; exit 3'",
    )
    assert on(cloud, "docker logs -f c") == ["secret 2"]
    (state,) = on(cloud, "docker inspect --format '{{json .State}}' c")
    assert (json.loads(state)["Status"], json.loads(state)["ExitCode"]) == ("exited", 3)
    assert on(cloud, "docker run -d --name c img true")[-1] == "code 125"
    assert on(cloud, "docker inspect nope")[-1] == "code 1"


def test_images_and_stop(cloud: FakeBrev) -> None:
    cloud.add("box")
    assert "manifest unknown" in on(cloud, "docker pull missing:1")[0]
    assert "pull access denied" in on(cloud, "docker pull nvcr.io/private:1")[0]
    assert on(cloud, "printf k | docker login nvcr.io -u u --password-stdin") == ["Login Succeeded"]
    assert on(cloud, "docker image inspect nvcr.io/private:1 >/dev/null || docker pull -q nvcr.io/private:1 >/dev/null")
    on(cloud, "docker run -d --name c img sleep 60")
    assert len(on(cloud, "docker ps -q")) == 1
    assert on(cloud, "docker stop -t 1 c") == ["c"]
    (state,) = on(cloud, "docker inspect --format '{{json .State}}' c")
    assert json.loads(state)["ExitCode"] == 143
    assert on(cloud, "docker rm -f c") == ["c"]
