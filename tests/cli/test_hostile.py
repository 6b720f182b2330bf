"""The command line where things are odd: closed streams, full disks, strange arguments, Ctrl-C at any moment."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.harness import CommandLine

RUN = ("submit", "--platform", "local", "--no-preflight")
NO_FAULT_OF_OURS = 70


@pytest.mark.parametrize(
    "arguments",
    [
        ("status", "@-99999999999999999999"),
        ("status", "@-²"),
        ("status", "@-0"),
        ("logs", "@last", "--replica", "rank-²"),
        ("logs", "@last", "--tail", "99999999999999999999"),
        ("logs", "@last", "--since", "0001-01-01"),
        (*RUN, "--split", "²", "--", "true"),
        (*RUN, "--split", "0-99999999999", "--", "true"),
        (*RUN, "--splits", "0", "--", "true"),
        (*RUN, "--splits", "-1", "--", "true"),
        (*RUN, "--results", "~nobody-of-this-name/x", "--", "true"),
        (*RUN, "--", "echo", "caf\udce9"),
        (*RUN, "-o", "gpu_ids={a: b}", "--", "true"),
    ],
)
def test_odd_values_are_wrong_usage_and_no_fault_of_the_program(tao: CommandLine, arguments: tuple[str, ...]) -> None:
    tao(*RUN, "--detach", "--", "true")
    ended = tao(*arguments)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("error: ")
    assert len(ended.err.splitlines()) <= 2


@pytest.mark.parametrize("value", ["2026-99-99", "&a [*a]", "*"])
def test_option_values_that_only_look_like_yaml_arrive(tao: CommandLine, value: str) -> None:
    ended = tao("submit", "--platform", "local", "--dry-run", "-o", f"cwd={value}", "--", "true")
    assert json.loads(ended.out)["cwd"] == value


def test_a_name_that_begins_another_jobs_id_is_not_unique(tao: CommandLine) -> None:
    first = tao(*RUN, "--detach", "--", "true").out.strip()
    tao(*RUN, "--detach", "--name", first[:6], "--", "true")
    ended = tao("status", first[:6])
    assert ended.code == 2
    assert "fits 2 jobs" in ended.err


def test_bytes_that_are_no_text_name_no_job(tao: CommandLine) -> None:
    assert tao("status", "caf\udce9").code == 5
    assert tao("status", "--group", "caf\udce9").code == 5


def test_one_split_of_a_file_with_splits(tao: CommandLine) -> None:
    Path("job.yaml").write_text("platform: local\ncommand: echo {split_id}\nsplits: 3\n")
    ended = tao("submit", "job.yaml", "--no-preflight", "--detach", "--split", "2")
    assert ended.code == 0
    assert len(ended.out.splitlines()) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("status", "--bogus", "--format", "json"),
        ("--format=json", "no-such-command"),
        ("status", "nothing", "--format", "json"),
        ("submit", "--format", "json", "--platform", "local"),
        ("submit", "--format", "json", "--platform", "local", "--nodes", "x", "--", "true"),
        ("logs", "--format", "json"),
    ],
)
def test_every_error_is_one_json_document(tao: CommandLine, arguments: tuple[str, ...]) -> None:
    ended = tao(*arguments)
    assert ended.json["error"]["exit_code"] == ended.code != 0


def test_arguments_of_the_job_choose_no_format(tao: CommandLine) -> None:
    assert tao("submit", "--platform", "nowhere", "--", "x", "--format", "json").out == ""


def test_jobs_that_cannot_be_asked_about_are_part_of_the_one_document(tao: CommandLine) -> None:
    elsewhere(tao)
    for command, code in (("status", 6), ("cancel", 6)):
        ended = tao(command, "@last", "--format", "json")
        assert ended.code == code
        assert ended.json["errors"][0]["code"] == "unreachable"
        assert "runs on elsewhere" in ended.err


def elsewhere(tao: CommandLine) -> None:
    """A job that runs on another machine, as a shared home directory shows it."""
    import sqlite3

    tao(*RUN, "--detach", "--", "sleep", "1")
    with sqlite3.connect(tao.state / "jobs.db") as db:
        db.execute("UPDATE jobs SET account='elsewhere'")


def ended_with(tao: CommandLine, command: str) -> subprocess.CompletedProcess[str]:
    """A shell that runs `tao ...` as a process of its own."""
    program = f"{sys.executable} -m tao_run"
    environ = {**tao.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    script = command.replace("tao ", program + " ")
    return subprocess.run(["bash", "-c", script], env=environ, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_closed_streams_disturb_nothing(tao: CommandLine, closed: str) -> None:
    ended = ended_with(tao, f"tao submit --platform local --no-preflight --interval 0.01 -- true {closed}")
    assert (ended.returncode, "Traceback" in ended.stderr) == (0, False)
    assert tao("--format", "json", "status").json["jobs"][0]["state"] == "Complete"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("command", ["status --format json", "schema", "platforms", "logs @last"])
def test_an_output_that_is_full_is_said_in_one_line(tao: CommandLine, command: str) -> None:
    tao(*RUN, "--interval", "0.01", "--", "echo", "hello")
    ended = ended_with(tao, f"tao {command} > /dev/full")
    assert ended.returncode == 74
    assert ended.stderr.splitlines()[0] == "error: this machine refused: No space left on device"
    assert len(ended.stderr.splitlines()) == 2


@pytest.mark.parametrize("command", ["status --cached", "status --cached --format json", "logs @last", "schema"])
def test_a_closed_pipe_is_quiet_and_no_failure(tao: CommandLine, command: str) -> None:
    for _ in range(2):
        tao(*RUN, "--interval", "0.01", "--", "seq", "1000000")
    ended = ended_with(tao, f"tao {command} | true; exit ${{PIPESTATUS[0]}}")
    assert (ended.returncode, ended.stderr) == (0, "")


def test_a_directory_that_is_gone_is_said(tao: CommandLine, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    script = f"mkdir {gone}; cd {gone}; rmdir {gone}; tao submit --platform local --no-preflight"
    ended = ended_with(tao, script + " -- true")
    assert ended.returncode == 2
    assert "current directory does not exist" in ended.stderr
    assert ended_with(tao, script + " -o cwd=/ --interval 0.01 -- true").returncode == 0


def test_a_relative_state_directory_is_that_of_the_command(tao: CommandLine) -> None:
    tao.extra["TAO_RUN_STATE_DIR"] = "state-here"
    ended = tao(*RUN, "--interval", "0.01", "--", "echo", "hello")
    assert ended.code == 0
    assert (Path.cwd() / "state-here" / "local").is_dir()
    assert tao("logs", "@last").out == "hello\n"


@pytest.mark.parametrize("home", ["/dev/null", "/nonexistent"])
def test_homes_of_daemons_hold_no_credentials(tao: CommandLine, home: str) -> None:
    tao.extra["HOME"] = home
    assert ended_with(tao, "tao submit --platform local --no-preflight --interval 0.01 -- true").returncode == 0


def test_an_empty_name_of_the_credentials_file_is_none(tao: CommandLine) -> None:
    tao.extra["TAO_ENV_FILE"] = ""
    assert tao(*RUN, "--dry-run", "--", "true").code == 0


def interrupted(child: subprocess.Popen[str], seconds: float) -> tuple[int, str]:
    time.sleep(seconds)
    for _ in range(5):  # Python drops the exception when it meets an import hook or a finalizer: press again
        child.send_signal(signal.SIGINT)
        try:
            _, err = child.communicate(timeout=6)
        except subprocess.TimeoutExpired:
            continue
        return child.returncode, err
    raise AssertionError("Ctrl-C ends nothing")


def test_ctrl_c_while_following_says_how_to_come_back(tao: CommandLine) -> None:
    job = tao(*RUN, "--detach", "-c", "echo hello; sleep 30").out.strip()
    child = tao.start("logs", "--follow", job)
    assert child.stdout is not None
    assert child.stdout.readline() == "hello\n"  # at once, although nobody looks at a terminal
    code, err = interrupted(child, 0)
    tao("cancel", job)
    assert code == 130
    assert err.splitlines() == [
        "detached; 1 of 1 jobs go on",
        f"  come back: tao-run logs --follow {job}",
        f"  stop:      tao-run cancel {job}",
    ]


@pytest.mark.parametrize("seconds", [0.08, 0.15, 0.25, 0.4, 0.6, 0.9])
def test_ctrl_c_at_any_moment_of_a_submission_leaves_no_traceback(tao: CommandLine, seconds: float) -> None:
    child = tao.start(*RUN, "--", "sleep", "30", start_new_session=True)
    _, err = interrupted(child, seconds)
    recorded = tao("--format", "json", "status").json["jobs"]
    tao("cancel", *(job["id"] for job in recorded), "--yes")
    assert "/tao_run/" not in err  # no traceback through the program; before it, Python itself may print one
    if child.returncode == 130:
        assert "Traceback" not in err
        assert all(job["id"] in err for job in recorded)
    else:
        assert recorded == []


def test_no_is_an_answer_to_the_question_of_cancel(tao: CommandLine) -> None:
    import pty

    job = tao(*RUN, "--detach", "--", "sleep", "30").out.strip()
    ours, theirs = pty.openpty()
    child = tao.start("cancel", job, stdin=theirs, stderr=theirs)
    os.close(theirs)
    os.write(ours, b"n\n")
    out, _ = child.communicate(timeout=30)
    shown = os.read(ours, 4096).decode()
    os.close(ours)
    assert (child.returncode, out) == (2, "")
    assert "nothing was cancelled" in shown
    assert tao("--format", "json", "status", job).json["jobs"][0]["state"] in ("Pending", "Running")
    tao("cancel", job, "--yes")


@pytest.mark.parametrize(
    "arguments", [("status", "{}"), ("{}",), ("submit", "--{}"), ("submit", "{}.yaml"), ("watch", "{}", "--debug")]
)
def test_a_secret_typed_in_the_wrong_place_is_not_repeated(tao: CommandLine, arguments: tuple[str, ...]) -> None:
    tao.extra["HF_TOKEN"] = "hf_typed_in_the_wrong_place"
    ended = tao(*("--debug", *(part.format(tao.extra["HF_TOKEN"]) for part in arguments if part != "--debug")))
    assert ended.code != 0
    assert tao.extra["HF_TOKEN"] not in ended.out + ended.err


@pytest.mark.parametrize("width", [60, 80])
def test_a_narrow_table_breaks_no_word_into_letters(tao: CommandLine, width: int) -> None:
    for _ in range(2):
        tao(*RUN, "--interval", "0.01", "--", "true")
    tao.extra["NO_COLOR"] = "1"
    shown = tao("status", "--cached", terminal=True, width=width).out
    jobs = tao("--format", "json", "status", "--cached").json["jobs"]
    assert all(job["id"] in shown and job["name"] in shown for job in jobs)
    assert all(len(line) <= width for line in shown.splitlines())
