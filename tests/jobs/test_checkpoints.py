"""Checkpoints by name, where to resume from, and the lines around the first failure."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tao_run.analysis import analyze
from tao_run.errors import UsageError
from tao_run.jobs.checkpoints import checkpoints_of, furthest
from tao_run.jobs.firstfailure import around_failure, replica_of
from tao_run.jobs.model import Evidence, Job, JobState, JobStatus, LogLine
from tao_run.jobs.resume import VARIABLE, with_resume
from tests.fakes.scripted import ScriptedPlatform
from tests.jobs.bench import Bench

TAO = [
    ("train/model_epoch_009_step_3697.pth", 900),
    ("train/model_epoch_010_step_7394.pth", 900),
    ("train/model_epoch_002.pth", 900),
    ("train/status.json", 10),
    ("ptm/dino/dino_fan_small.pth", 500),
    ("inputs/x/checkpoint.pth", 500),
    ("train/model_epoch_011.pth", 0),
]


def test_tao_checkpoints_are_in_the_order_of_training() -> None:
    found = checkpoints_of(TAO)
    assert [(item.epoch, item.step) for item in found] == [(2, None), (9, 3697), (10, 7394)]


@pytest.mark.parametrize(
    ("name", "epoch", "step", "metric", "value"),
    [
        ("epoch=3-val_loss=0.25.ckpt", 3, None, "val_loss", 0.25),
        ("epoch=12-step=4000-mAP=0.512.ckpt", 12, 4000, "mAP", 0.512),
        ("checkpoint-500/model.safetensors", None, None, "", None),
        ("dino_model_latest.pth", None, None, "", None),
        ("iter_80000.pth", None, 80000, "", None),
        ("weights.ep07.pt", 7, None, "", None),
        ("resnet50.hdf5", None, None, "", None),
    ],
)
def test_names_tell_epoch_step_and_metric(
    name: str, epoch: int | None, step: int | None, metric: str, value: float | None
) -> None:
    (found,) = checkpoints_of([(name, 1)])
    assert (found.epoch, found.step, found.metric, found.value) == (epoch, step, metric, value)


def test_what_calls_itself_the_latest_is_the_furthest() -> None:
    last = furthest(checkpoints_of([*TAO, ("train/dino_model_latest.pth", 900)]))
    assert last is not None and last.path == "train/dino_model_latest.pth"
    assert furthest([]) is None


class WithResults(ScriptedPlatform):
    """A platform whose jobs have left files."""

    files: list[tuple[str, int | None]]

    def list_results(self, job: Job) -> Iterator[tuple[str, int | None]]:
        yield from self.files


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def platform_with(bench: Bench, files: list[tuple[str, int | None]]) -> WithResults:
    made = WithResults.over(bench.backends, clock=bench.clock, store=bench.store)
    made.files = files  # type: ignore[attr-defined]
    return made  # type: ignore[return-value]


def test_an_object_is_an_input_for_every_key_that_resumes(bench: Bench) -> None:
    job = bench.submit(results="s3://bucket/runs")
    request = bench.request(
        spec={"train": {"resume_training_checkpoint_path": None}, "x": [{"resume_training_checkpoint_path": ""}]}
    )
    resumed, place = with_resume(request, job, platform_with(bench, TAO))
    assert place == f"s3://bucket/runs/{job.id}/train/model_epoch_010_step_7394.pth"
    assert {key: source.uri for key, source in resumed.inputs.items()} == {
        "train.resume_training_checkpoint_path": place,
        "x[0].resume_training_checkpoint_path": place,
    }
    assert resumed.resume == job.id


def test_a_path_on_a_mount_goes_into_the_spec_as_it_is(bench: Bench) -> None:
    job = bench.submit(results="/mnt/lustre/runs")
    resumed, place = with_resume(bench.request(spec={"train": {"num_epochs": 3}}), job, platform_with(bench, TAO))
    assert resumed.spec == {"train": {"num_epochs": 3, "resume_training_checkpoint_path": place}}
    assert not resumed.inputs


def test_without_a_spec_a_variable_names_the_checkpoint(bench: Bench) -> None:
    job = bench.submit(results="/mnt/runs")
    resumed, place = with_resume(bench.request(), job, platform_with(bench, TAO))
    assert resumed.env == {VARIABLE: place}


def test_nothing_to_resume_from_is_said(bench: Bench) -> None:
    kept, lost = bench.submit(results="/mnt/runs"), bench.submit()
    with pytest.raises(UsageError, match="no checkpoint"):
        with_resume(bench.request(), kept, platform_with(bench, TAO[3:]))
    with pytest.raises(UsageError, match="no durable results"):
        with_resume(bench.request(), lost, platform_with(bench, TAO))


OOM = "torch.OutOfMemoryError: CUDA out of memory."
LOG = [LogLine(f"line {n}", rank=0) for n in range(100)]


def test_the_lines_around_the_first_failure() -> None:
    lines = [*LOG, LogLine(f"x\r{OOM}", rank=2), *LOG, LogLine(OOM, rank=2), *LOG]
    found = analyze(Evidence(JobStatus(JobState.ERROR), log_tail=tuple(lines)))
    assert found is not None and replica_of(found) == "2"
    shown = [line.text for line in around_failure(iter(lines), found, before=2, after=3)]
    assert shown == ["line 98", "line 99", f"x\r{OOM}", "line 0", "line 1", "line 2"]


def test_a_failure_that_is_not_in_the_log_shows_its_end_and_says_so() -> None:
    found = analyze(Evidence(JobStatus(JobState.ERROR, "OOMKilled", exit_code=137)))
    assert found is not None
    shown = list(around_failure(iter(LOG), found, before=1, after=1))
    assert [line.kind for line in shown] == ["note", "line", "line"]
    assert shown[-1].text == "line 99"
