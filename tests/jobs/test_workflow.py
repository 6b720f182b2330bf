"""Run folders: whole at any moment, reopened, without secrets, Unknown is not an end."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tao_run import ActionWorkflow as Exported
from tao_run.errors import RecordError
from tao_run.jobs.model import JobState, JobStatus, LogLine
from tao_run.jobs.workflow import LOG_LINES, ActionWorkflow
from tao_run.redact import register
from tests.fakes.scripted import Life
from tests.jobs.bench import Bench


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "state")


def read(flow: ActionWorkflow, name: str) -> Any:
    return json.loads((flow.folder / name).read_text())


def test_a_run_from_start_to_failure(bench: Bench, tmp_path: Path) -> None:
    flow = ActionWorkflow(tmp_path, "dino", clock=bench.clock)
    flow.write_metadata(model="dino", action="train")
    flow.write_status("Running")
    job = bench.submit(Life(0, 1, JobState.ERROR, ("torch.OutOfMemoryError: CUDA out of memory.",), exit_code=1))
    flow.update([job])
    assert [item["id"] for item in read(flow, "active_jobs.json")["jobs"]] == [job.id]
    list(bench.watcher(job).sweeps())
    job = bench.store.get(job.id)
    flow.update([job])
    flow.capture(bench.platform, job)
    flow.write_status("Error", "the job failed")
    assert read(flow, "active_jobs.json")["jobs"] == []
    assert read(flow, "failure_analysis.json")["rule"] == "cuda-oom"
    assert "CUDA out of memory" in (flow.folder / "latest_logs.txt").read_text()
    events = [json.loads(line)["event"] for line in (flow.folder / "status_events.jsonl").read_text().splitlines()]
    assert events == ["status", "job", "job", "status"]
    assert flow.folder.parent.name == "dino" and flow.folder.name == "20260114T090000Z"


def test_a_job_whose_state_is_not_known_stays_active(bench: Bench, tmp_path: Path) -> None:
    flow = ActionWorkflow(tmp_path, "x", clock=bench.clock)
    job = bench.submit()
    flow.update([replace(job, status=JobStatus(JobState.UNKNOWN)), replace(job, status=JobStatus(JobState.PAUSED))])
    assert len(read(flow, "active_jobs.json")["jobs"]) == 2


def test_secrets_reach_no_file(bench: Bench, tmp_path: Path) -> None:
    register(["hunter2-hunter2"])
    flow = ActionWorkflow(tmp_path, "x", clock=bench.clock)
    flow.write_metadata(command="login hunter2-hunter2")
    flow.write_status("Running", "token hunter2-hunter2")
    flow.write_logs([LogLine("token=hunter2-hunter2")])
    flow.write_analysis({"suggestion": "hunter2-hunter2"})
    text = "".join(path.read_text() for path in flow.folder.iterdir())
    assert "hunter2" not in text and "[redacted]" in text


def test_a_folder_is_opened_again_and_its_metadata_kept(bench: Bench, tmp_path: Path) -> None:
    flow = ActionWorkflow(tmp_path, "x", clock=bench.clock)
    flow.write_metadata(model="dino")
    bench.clock.sleep(100)
    again = ActionWorkflow.open(flow.folder, clock=bench.clock)
    again.write_metadata(image="tao:1")
    data = read(again, "metadata.json")
    assert (data["model"], data["image"], data["started_at"]) == ("dino", "tao:1", "2026-01-14T09:00:00+00:00")
    with pytest.raises(RecordError, match="no run folder"):
        ActionWorkflow.open(tmp_path)


def test_two_runs_in_the_same_second_have_folders_of_their_own(bench: Bench, tmp_path: Path) -> None:
    folders = {ActionWorkflow(tmp_path, "x", clock=bench.clock).folder for _ in range(3)}
    assert len(folders) == 3


def test_only_the_end_of_a_log_is_kept(bench: Bench, tmp_path: Path) -> None:
    flow = ActionWorkflow(tmp_path, "x", clock=bench.clock)
    flow.write_logs(LogLine(str(n)) for n in range(LOG_LINES * 3))
    lines = (flow.folder / "latest_logs.txt").read_text().splitlines()
    assert (len(lines), lines[-1]) == (LOG_LINES, str(LOG_LINES * 3 - 1))


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(bench: Bench, tmp_path: Path) -> None:
    flow = ActionWorkflow(tmp_path, "x", clock=bench.clock)
    flow.write_status("Running")

    class Unprintable:
        def __str__(self) -> str:
            raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        flow.write_status("Error", thing=Unprintable())
    assert read(flow, "status.json")["state"] == "Running"
    assert [path for path in flow.folder.iterdir() if path.name.startswith(".")] == []


def test_a_folder_that_cannot_be_written_is_an_error_of_the_record(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RecordError, match="cannot be written"):
        ActionWorkflow(tmp_path / "file", "x", clock=bench.clock)


def test_it_is_part_of_the_public_api() -> None:
    assert Exported is ActionWorkflow
