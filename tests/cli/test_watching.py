"""analyze, watch, retry, splits and logs of failures on the command line, over jobs that really run."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tests.analysis.builders import FIXTURES
from tests.cli.harness import CommandLine

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB"
FAST = ("--interval", "0.05")


def submit(tao: CommandLine, *arguments: str, detach: bool = True) -> str:
    mode = ("--detach",) if detach else FAST
    ended = tao("submit", "--platform", "local", "--no-preflight", *mode, *arguments)
    assert ended.code in (0, 1), ended.err
    return ended.out.strip()


def test_analyze_names_cause_and_what_to_do(tao: CommandLine) -> None:
    submit(tao, "--", "bash", "-c", f"echo start; echo '{OOM}'; exit 1")
    assert tao("watch", "@last", *FAST).code == 1
    shown = tao("analyze", "@last")
    assert shown.code == 0
    assert "GPU memory exhausted" in shown.out and "batch size" in shown.out and OOM in shown.out
    full = tao("--format", "json", "analyze", "@last", "--full").json
    assert (full["err_class"], full["retryable"], full["rule"]) == ("ERR_PROGRAM", False, "cuda-oom")
    assert full["log_streams"][0]["values"][0][1] == OOM


def test_analyze_of_a_job_that_did_well_has_nothing_to_say(tao: CommandLine) -> None:
    submit(tao, "--", "true")
    tao("watch", "@last", *FAST)
    assert "nothing that looks like a failure" in tao("analyze", "@last").out
    assert tao("--format", "json", "analyze", "@last").json["err_class"] is None


@pytest.mark.parametrize("packed", [False, True])
def test_analyze_works_on_a_saved_log_without_any_backend(tao: CommandLine, tmp_path: Path, packed: bool) -> None:
    text = (FIXTURES / "hf-gated.log").read_bytes()
    path = tmp_path / ("run.log.gz" if packed else "run.log")
    path.write_bytes(gzip.compress(text) if packed else text)
    found = tao("--format", "json", "analyze", "--log", str(path)).json
    assert (found["rule"], found["err_class"]) == ("hf-gated", "ERR_CONFIG")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["analyze"], "give a job, or a saved log"),
        (["analyze", "@last", "--log", "x"], "give a job, or a saved log"),
        (["analyze", "--log", "no/such/file"], "cannot read no/such/file"),
        (["retry"], "no job given"),
    ],
)
def test_wrong_use_is_one_clear_line(tao: CommandLine, arguments: list[str], said: str) -> None:
    ended = tao(*arguments)
    assert ended.code == 2 and said in ended.err


def test_hostile_text_in_a_log_controls_no_terminal(tao: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_bytes(b"\x1b[2J[red]" + OOM.encode() + b"\x1b]0;title\x07[/red]\n")
    shown = tao("analyze", "--log", str(path), terminal=True, width=300).out
    assert "\x1b" not in shown and f"[red]{OOM}" in shown


def test_retry_refuses_a_program_error_and_force_overrules(tao: CommandLine) -> None:
    first = submit(tao, "--name", "x", "--", "bash", "-c", f"echo '{OOM}'; exit 1")
    tao("watch", "@last", *FAST)
    refused = tao("retry", "@last")
    assert refused.code == 2 and "would fail again" in refused.err and "--force" in refused.err
    again = tao("retry", "@last", "--force").out.strip()
    assert again != first
    rows = tao("--format", "json", "status", again).json["jobs"]
    assert rows[0]["retry_of"] == first


def test_retry_of_a_running_job_is_refused_even_with_force(tao: CommandLine) -> None:
    submit(tao, "-o", "grace=1", "--", "sleep", "100")
    assert tao("retry", "@last", "--force").code == 2
    tao("cancel", "@last", "--yes")


def test_splits_make_a_group_whose_failed_members_are_retried(tao: CommandLine) -> None:
    script = "echo part {split_id}; test {split_id} != 2"
    out = submit(tao, "--name", "sweep", "--split", "0-3", "--", "bash", "-c", script)
    assert len(out.split()) == 4
    watched = tao("watch", "--group", "sweep", *FAST)
    assert watched.code == 1
    states = {
        row["split_id"]: row["state"] for row in tao("--format", "json", "status", "--group", "sweep").json["jobs"]
    }
    assert states == {"0": "Complete", "1": "Complete", "2": "Error", "3": "Complete"}
    again = tao("retry", "--group", "sweep", "--force")
    assert len(again.out.split()) == 1
    tao("watch", again.out.strip(), *FAST)
    assert tao("logs", again.out.strip()).out.startswith("part 2")


def test_watch_in_a_pipe_says_each_change_once_and_then_the_outcome(tao: CommandLine) -> None:
    job = submit(tao, "--", "sleep", "0.5")
    ended = tao("watch", "@last", *FAST)
    states = [line.split()[3] for line in ended.out.splitlines() if job in line]
    assert states[-1] == "Complete" and len(states) == len(set(states))
    assert "1 Complete; exit code 0" in ended.err


def test_watch_as_json_is_one_object_per_line(tao: CommandLine) -> None:
    submit(tao, "--", "bash", "-c", f"echo '{OOM}'; exit 1")
    ended = tao("--format", "json", "watch", "@last", *FAST)
    lines = [json.loads(line) for line in ended.out.splitlines()]
    assert [line["event"] for line in lines] == ["job"] * (len(lines) - 1) + ["summary"]
    assert (lines[-2]["state"], lines[-2]["cause"]) == ("Error", "GPU memory exhausted")
    assert (lines[-1]["exit_code"], lines[-1]["states"]) == (1, {"Error": 1})


def test_watch_on_a_terminal_draws_a_table(tao: CommandLine) -> None:
    job = submit(tao, "--", "bash", "-c", f"echo '{OOM}'; exit 1")
    ended = tao("watch", "@last", *FAST, terminal=True, width=200)
    assert ended.code == 1
    assert job in ended.out and "GPU memory exhausted" in ended.out


def test_on_change_gets_the_job_as_json(tao: CommandLine, tmp_path: Path) -> None:
    submit(tao, "--", "sleep", "0.5")
    seen = tmp_path / "seen.jsonl"
    tao("watch", "@last", *FAST, "--on-change", f"cat >> {seen}")
    states = [json.loads(line)["state"] for line in seen.read_text().splitlines()]
    assert states[-1] == "Complete"
    ended = tao("watch", "@last", *FAST, "--on-change", "exit 9")
    assert ended.code == 0


def test_a_broken_on_change_is_said_and_does_not_end_the_watch(tao: CommandLine) -> None:
    submit(tao, "--", "sleep", "0.5")
    ended = tao("watch", "@last", *FAST, "--on-change", "exit 9")
    assert ended.code == 0 and "ended with 9" in ended.err


def test_first_failure_shows_the_lines_around_it(tao: CommandLine) -> None:
    script = f"seq 1 500; echo '{OOM}'; seq 501 900; exit 1"
    submit(tao, "--", "bash", "-c", script)
    tao("watch", "@last", *FAST)
    shown = tao("logs", "@last", "--first-failure").out.splitlines()
    assert shown[0] == "461" and OOM in shown and shown[-1] == "560"


def test_resume_starts_from_the_furthest_checkpoint(tao: CommandLine, tmp_path: Path) -> None:
    script = (
        "D=$TAO_RESULTS_ROOT/$TAO_JOB_ID/train; mkdir -p $D; for n in 1 2; do echo x > $D/model_epoch_00$n.pth; done"
    )
    first = submit(tao, "--results", str(tmp_path / "r"), "--", "bash", "-c", script)
    assert tao("watch", "@last", *FAST).code == 0
    listed = tao("--format", "json", "results", first, "--checkpoints").json["checkpoints"]
    assert [item["epoch"] for item in listed] == [1, 2]
    submit(tao, "--resume", first, "--", "bash", "-c", "echo from $TAO_RUN_RESUME")
    tao("watch", "@last", *FAST)
    assert tao("logs", "@last").out.strip().endswith("model_epoch_002.pth")


def test_ctrl_c_says_how_to_come_back(tao: CommandLine) -> None:
    import signal

    job = submit(tao, "-o", "grace=1", "--", "sleep", "100")
    child = tao.start("watch", "@last")
    assert child.stdout is not None and job in child.stdout.readline()
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=30)
    assert child.returncode == 130
    assert f"tao-run watch {job}" in err and f"tao-run cancel {job}" in err
    tao("cancel", "@last", "--yes")


def test_a_large_log_is_analyzed_in_seconds(tao: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    block = b"".join(b"Epoch %d: %d%% loss=0.%d lr=1e-4\n" % (n % 90, n % 100, n) for n in range(20_000))
    with path.open("wb") as file:
        for _ in range(20):
            file.write(block)
        file.write(OOM.encode() + b"\n")
    ended = tao.process("--format", "json", "analyze", "--log", str(path))
    assert ended.json["evidence"][0]["line"] == 400_001


def test_a_narrow_terminal_leaves_out_columns_and_never_cuts_an_id() -> None:
    from tao_run.cli.output.views import fitting

    columns, rows = fitting(30, ("ID", "NAME", "STATE"), [("0" * 16, "a-long-name", "Running")], ("NAME",))
    assert (list(columns), [list(row) for row in rows]) == (["ID", "STATE"], [["0" * 16, "Running"]])
    columns, _ = fitting(60, ("ID", "NAME", "STATE"), [("0" * 16, "a-long-name", "Running")], ("AGE", "NAME"))
    assert list(columns) == ["ID", "NAME", "STATE"]
