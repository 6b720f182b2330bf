"""The commands as a user types them: first run, wrong input, piped, on a terminal, in a script."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tao_run import __version__
from tao_run.cli.main import COMMANDS
from tests.cli.harness import CommandLine, Ended

RUN = ("submit", "--platform", "local", "--no-preflight")


def submit(tao: CommandLine, *more: str, detach: bool = True) -> Ended:
    return tao(*RUN, *(["--detach"] if detach else []), *more)


def finish(tao: CommandLine, job: str = "@last") -> Ended:
    return tao("watch", job, "--interval", "0.01")


def test_version_and_help(tao: CommandLine) -> None:
    assert tao.process("--version").out == f"tao-run {__version__}\n"
    help_text = tao.process("--help")
    assert help_text.code == 0
    assert all(command in help_text.out for command in COMMANDS)


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_command_has_help_with_an_example(tao: CommandLine, command: str) -> None:
    words = {"instances": ["list"], "paths": ["check"]}.get(command, [])
    ended = tao.process(command, *words, "--help")
    assert ended.code == 0, ended.err
    assert f"tao-run {command}" in ended.out.replace("\n", " ")
    assert "Example" in ended.out


def test_a_first_status_says_how_to_begin(tao: CommandLine) -> None:
    ended = tao("status")
    assert (ended.code, ended.out) == (0, "")
    assert "tao-run submit" in ended.err


def test_submit_detached_prints_the_id_alone(tao: CommandLine) -> None:
    ended = submit(tao, "--name", "hello", "--", "echo", "hi there")
    assert ended.code == 0
    assert len(ended.out.strip()) == 16
    assert finish(tao).code == 0
    status = tao("--format", "json", "status", ended.out.strip()).json
    assert status["schema_version"] == 1
    assert status["jobs"][0]["state"] == "Complete"
    assert tao("logs", "hello").out == "hi there\n"


def test_submit_and_watch_ends_with_the_outcome(tao: CommandLine) -> None:
    assert submit(tao, "-c", "exit 0", "--interval", "0.01", detach=False).code == 0
    failed = submit(tao, "-c", "exit 3", "--interval", "0.01", detach=False)
    assert failed.code == 1
    assert "Error" in failed.out
    assert "exited with 3" in failed.out


def test_every_argument_after_the_dashes_arrives(tao: CommandLine) -> None:
    arguments = ["--name", "x y", "-o", "--", "$HOME", "it's", "a\nb", "--format=json"]
    submit(tao, "--", "printf", "[%s]", *arguments)
    finish(tao)
    assert tao("logs", "@last").out == "".join(f"[{argument}]" for argument in arguments) + "\n"


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["nonsense"], 2, "unknown command 'nonsense'"),
        (["statsu"], 2, "did you mean `tao-run status`"),
        (["status", "--nonsense"], 2, "nonsense"),
        (["status", "abcd"], 5, "no job 'abcd'"),
        (["logs", "@last"], 5, "no job"),
        (["watch"], 2, "no job given"),
        (["cancel"], 2, "no job given"),
        (["submit", "--", "echo"], 2, "--platform"),
        (["submit", "--platform", "locl", "--", "echo"], 2, "did you mean local?"),
        (["submit", "--platform", "local"], 2, "nothing says what runs"),
        (["submit", "--platform", "local", "--"], 2, "no command after `--`"),
        (["submit", "--platform", "local", "-c", "x", "--", "y"], 2, "both --command and"),
        (["submit", "absent.yaml"], 2, "absent.yaml"),
        (["submit", "--platform", "local", "-o", "nonsense=1", "--", "x"], 2, "no option 'nonsense'"),
        (["submit", "--platform", "local", "-o", "grase=1", "--", "x"], 2, "did you mean grace?"),
        (["submit", "--platform", "local", "--partition", "batch", "--", "x"], 2, "option of slurm"),
        (["submit", "--platform", "local", "--gpus", "9", "--no-preflight", "--", "x"], 2, "offers 0"),
        (["submit", "--platform", "local", "--nodes", "0", "--", "x"], 2, "nodes"),
        (["submit", "--platform", "local", "--env", "A-B=1", "--", "x"], 2, "A-B"),
        (["submit", "--platform", "local", "--split", "3-1", "--", "x"], 2, "--split"),
        (["submit", "--platform", "local", "--env-file", "absent", "--", "x"], 2, "absent"),
        (["submit", "--platform", "local", "--secret", "NOT_SET_ANYWHERE", "--no-preflight", "--", "x"], 3, "NOT_SET"),
    ],
)
def test_bad_input_is_one_clear_line_with_the_right_code(
    tao: CommandLine, arguments: list[str], code: int, said: str
) -> None:
    ended = tao(*arguments)
    assert ended.code == code, ended
    assert said in ended.err.replace("\n", " ")
    assert "Traceback" not in ended.err
    assert ended.out == ""


def test_errors_as_json_go_to_stdout_with_their_code(tao: CommandLine) -> None:
    fault = tao("--format", "json", "status", "nothing").json["error"]
    assert (fault["code"], fault["exit_code"]) == ("no_such_job", 5)
    assert fault["hint"]


def test_a_job_file_of_the_directory_is_used_and_named(tao: CommandLine) -> None:
    Path("tao-run.yaml").write_text("platform: local\ncommand: [echo, from the file]\nname: filed\n")
    ended = tao("submit", "--detach", "--no-preflight", "--name", "mine")
    assert ended.code == 0, ended.err
    assert "using tao-run.yaml" in ended.err
    finish(tao)
    assert tao("logs", "mine").out == "from the file\n"


def test_dry_run_prints_and_records_nothing(tao: CommandLine) -> None:
    ended = tao(*RUN, "--dry-run", "--env", "A=b c", "--", "echo", "{x}")
    assert ended.code == 0
    assert json.loads(ended.out)["env"]["A"] == "b c"
    assert tao("--format", "json", "status", "--all").json["jobs"] == []


def test_cancel_says_what_was_seen(tao: CommandLine) -> None:
    submit(tao, "-o", "grace=1", "--", "sleep", "300")
    ended = tao("cancel", "@last", "--yes")
    assert ended.code == 0
    assert "Canceled" in ended.out
    assert finish(tao).code == 7


def test_watch_gives_up_after_its_timeout_and_the_job_goes_on(tao: CommandLine) -> None:
    submit(tao, "-o", "grace=1", "--", "sleep", "300")
    assert tao("watch", "@last", "--interval", "0.01", "--timeout", "1s").code == 124
    assert tao("--format", "json", "status", "@last").json["jobs"][0]["state"] == "Running"
    tao("cancel", "@last", "--yes")


def test_logs_leave_after_their_timeout_and_the_job_goes_on(tao: CommandLine) -> None:
    submit(tao, "-o", "grace=1", "-c", "echo one; sleep 300")
    ended = tao.process("logs", "@last", "--follow", "--timeout", "2s")
    assert (ended.code, ended.out) == (124, "one\n")
    assert "the job goes on" in ended.err
    assert tao("--format", "json", "status", "@last").json["jobs"][0]["state"] == "Running"
    tao("cancel", "@last", "--yes")


def test_ctrl_c_in_watch_detaches_cleanly(tao: CommandLine) -> None:
    submit(tao, "-o", "grace=1", "--", "sleep", "300")
    child = tao.start("watch", "@last")
    time.sleep(1.5)
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=30)
    assert child.returncode == 130
    assert "Traceback" not in err
    assert tao("--format", "json", "status", "@last").json["jobs"][0]["state"] == "Running"
    tao("cancel", "@last", "--yes")


def test_a_closed_pipe_is_quiet(tao: CommandLine) -> None:
    submit(tao, "-c", "seq 1 200000")
    finish(tao)
    script = f"{sys.executable} -m tao_run logs @last | head -n 2"
    environ = {**tao.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    ended = subprocess.run(["bash", "-c", script], env=environ, capture_output=True, text=True, check=False)
    assert (ended.stdout, ended.stderr) == ("1\n2\n", "")


def test_text_from_a_job_controls_no_terminal_and_is_exact_in_a_pipe(tao: CommandLine) -> None:
    hostile = "\x1b[2J[red]x[/red]\x1b]0;title\x07 \x9b31m end"
    submit(tao, "--", "printf", "%s\n", hostile)
    finish(tao)
    shown = tao("logs", "@last", terminal=True).out
    assert "[red]x[/red]" in shown
    assert not any(character in shown for character in "\x1b\x07\x9b")
    assert tao("logs", "@last").out == hostile + "\n"


def test_progress_bars_show_what_was_drawn_last(tao: CommandLine) -> None:
    submit(tao, "--", "printf", "10%%\r50%%\r100%%\ndone\n")
    finish(tao)
    assert tao("logs", "@last", terminal=True).out == "100%\ndone\n"


def test_ids_are_never_cut_however_narrow_the_terminal(tao: CommandLine) -> None:
    ids = [submit(tao, "--name", "a-rather-long-name-for-a-job", "--", "true").out.strip() for _ in range(2)]
    shown = tao("status", terminal=True, width=40).out
    assert all(job_id in shown for job_id in ids)
    piped = tao("status").out
    assert all(job_id in piped for job_id in ids)
    assert "…" not in piped


def test_no_colour_off_a_terminal_or_with_no_color(tao: CommandLine) -> None:
    for _ in range(2):
        submit(tao, "--", "true")
    tao.extra["NO_COLOR"] = "1"
    assert "\x1b" not in tao("status", terminal=True).out
    assert "\x1b" not in tao("status").out


def test_results_are_listed(tao: CommandLine) -> None:
    submit(
        tao,
        "--results",
        "out",
        "-c",
        'mkdir -p "$TAO_RESULTS_ROOT/$TAO_JOB_ID"; echo 1 > "$TAO_RESULTS_ROOT/$TAO_JOB_ID/a"',
    )
    finish(tao)
    listed = tao("--format", "json", "results", "@last", "--list").json
    assert [entry["path"] for entry in listed["files"]] == ["a", "tao-run.json"]
    assert Path(listed["results_dir"]).parent == Path("out").absolute()


def test_init_writes_a_private_template_once_and_shows_no_value(tao: CommandLine, tmp_path: Path) -> None:
    tao.extra |= {"TAO_ENV_FILE": str(tmp_path / "conf" / ".env"), "HF_TOKEN": "hf_not_to_be_shown_123"}
    first = tao("--format", "json", "init")
    assert first.code == 0, first.err
    assert first.json["written"] is True
    assert "HF_TOKEN" in first.json["present"]
    assert "hf_not_to_be_shown_123" not in first.out + first.err
    assert (tmp_path / "conf" / ".env").stat().st_mode & 0o777 == 0o600
    assert tao("--format", "json", "init").json["written"] is False


def test_schema_is_one_that_editors_can_use(tao: CommandLine) -> None:
    import jsonschema

    schema = json.loads(tao("schema").out)
    jsonschema.Draft202012Validator.check_schema(schema)
    good = {"platform": "local", "command": "x", "options": {"local": {"grace": 3}}}
    jsonschema.validate(good, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**good, "comand": "x"}, schema)


def test_debug_shows_a_traceback_and_no_secret(tao: CommandLine) -> None:
    tao.extra["HF_TOKEN"] = "hf_debug_canary_1234"
    ended = tao("--debug", "submit", "--platform", "local", "--env", "X=hf_debug_canary_1234", "--", "x")
    assert ended.code == 2, ended
    assert "--secret NAME" in ended.err
    assert "hf_debug_canary_1234" not in ended.out + ended.err
