"""Containers without pyxis, the image cache, and what analysis gets to see of a failure."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tao_run.analysis import analyze
from tao_run.jobs.model import JobState
from tao_run.platforms.slurm.images import cache_name
from tests.platforms.slurm.conftest import IMAGE, Site
from tests.services.slurm import HOME

# Stand-ins that note what they were asked and then do the work on the host itself.
ENROOT = """#!/bin/bash
echo "$*" >> {log}
case $1 in
  import)
    [[ $4 == *does-not-exist* ]] && { echo "[ERROR] https://x returned error code: 404 Not Found" >&2; exit 1; }
    printf 'hsqs image' > "$3";;
  create) [ -s "${@: -1}" ] || { echo "no such image" >&2; exit 1; };;
  start) while [[ $1 != tao-run-* ]]; do shift; done; shift; exec "$@";;
esac
"""
APPTAINER = """#!/bin/bash
echo "$*" >> {log}
while [[ $1 != docker://* ]]; do shift; done; shift
exec "$@"
"""


@pytest.fixture
def runtimes(site: Site) -> Iterator[Path]:
    """enroot and apptainer are on every node; yields the file of what they were asked."""
    places = {name: HOME / "bin" / name for name in ("enroot", "apptainer")}
    log = HOME / "runtimes.log"
    log.unlink(missing_ok=True)
    (HOME / "bin").mkdir(exist_ok=True)
    for name, text in (("enroot", ENROOT), ("apptainer", APPTAINER)):
        places[name].write_text(text.replace("{log}", str(log)))
        places[name].chmod(0o755)
    yield log
    for place in places.values():
        place.unlink()


def test_apptainer_runs_the_image_with_its_mounts(site: Site, runtimes: Path) -> None:
    job = site.submit(
        "echo in $NNODES $MASTER_PORT", options={"container": "apptainer", "container_mounts": "/tmp:/t:ro"}
    )
    assert site.ended(job).state is JobState.COMPLETE
    port = site.adapter().prepare(job).extra["job.sbatch"].partition("MASTER_PORT=")[2].split()[0]
    assert site.texts(job) == [f"in 1 {port}"]
    asked = runtimes.read_text()
    assert "exec --nv --bind" in asked
    assert f"{site.base}:{site.base},/tmp:/t:ro docker://{IMAGE} /bin/bash" in asked


def test_enroot_imports_once_and_removes_each_container(site: Site, runtimes: Path) -> None:
    job = site.submit("echo in rank $NODE_RANK", nodes=2, options={"container": "enroot"})
    assert site.ended(job).state is JobState.COMPLETE
    assert sorted(site.texts(job)) == ["in rank 0", "in rank 1"]
    words = [line.split()[0] for line in runtimes.read_text().splitlines()]
    assert {word: words.count(word) for word in set(words)} == {"import": 1, "create": 2, "start": 2, "remove": 2}
    assert "docker://nvcr.io#nvidia/tao/tao-toolkit:6.0" in runtimes.read_text()


def test_the_image_cache_imports_once_for_all_jobs(site: Site, runtimes: Path, scratch: Path) -> None:
    cache = scratch / "cache"
    options = {"sqsh_cache": str(cache), "sqsh_partition": "short", "sqsh_time": "2"}
    jobs = [site.submit(f"echo job {number}", options=options) for number in range(3)]
    assert [site.ended(job).state for job in jobs] == [JobState.COMPLETE] * 3
    later = site.submit("echo later", options=options)
    assert site.ended(later).state is JobState.COMPLETE
    assert [line.split()[0] for line in runtimes.read_text().splitlines()] == ["import"]
    image = cache / cache_name(IMAGE)
    assert image.read_bytes().startswith(b"hsqs")
    assert not list(cache.glob("*.partial"))
    asked = [line for line in site.cluster.containers if line.startswith(f"job={later.backend_id} ")]
    assert f"image={image} " in asked[0]


def test_an_image_that_cannot_be_imported_fails_the_job_with_the_cause(
    site: Site, runtimes: Path, scratch: Path
) -> None:
    options = {"sqsh_cache": str(scratch / "cache"), "sqsh_partition": "short", "sqsh_time": "2"}
    job = site.submit("echo never", image="nvcr.io/nvidia/does-not-exist:1", options=options)
    status = site.ended(job)
    assert (status.state, status.exit_code) == (JobState.ERROR, 1)
    assert site.texts(job) == []
    evidence = site.adapter().evidence(job)
    assert any("404 Not Found" in line.text for line in evidence.log_tail)


@pytest.mark.parametrize(("container", "code"), [("enroot", 1), ("apptainer", 127)])
def test_a_script_that_fails_before_the_task_leaves_its_code_and_no_secret(
    site: Site, runtimes: Path, container: str, code: int
) -> None:
    site.more["MY_TOKEN"] = "s3cr3t-value"
    (HOME / "bin" / "apptainer").rename(HOME / "bin" / "apptainer.away")
    try:
        image = "nvcr.io/nvidia/does-not-exist:1"
        job = site.submit("true", image=image, secrets={"KEY": "MY_TOKEN"}, options={"container": container})
        assert site.ended(job).exit_code == code
    finally:
        (HOME / "bin" / "apptainer.away").rename(HOME / "bin" / "apptainer")
    assert (site.directory(job) / "exit-code").read_text() == f"{code}\n"
    assert not (site.directory(job) / "env").exists()


def test_without_pyxis_the_option_is_refused_by_srun_and_told(plain: Site) -> None:
    job = plain.submit("true")
    assert plain.ended(job).state is JobState.ERROR
    lines = [line.text for line in plain.adapter().evidence(job).log_tail]
    assert any("unrecognized option" in line for line in lines)


def test_memory_that_ran_out_is_named_by_analysis(site: Site) -> None:
    if not site.cluster.cgroups:
        pytest.skip("memory limits are not enforced here: cgroup v1 cannot be written to")
    job = site.submit("python3 -c 'x = bytearray(600_000_000)'", options={"mem": "100M"})
    site.ended(job)
    seen = site.until(job, lambda _: "OUT_OF_ME" in site.cluster.run("sacct", "-n", "-j", str(job.backend_id)))
    assert seen.exit_code == 137
    evidence = site.adapter().evidence(job)
    assert "OUT_OF_MEMORY" in [event.name for event in evidence.events]
    assert evidence.facts["partition"] == "batch"
    analysis = analyze(evidence)
    assert analysis is not None
    assert analysis.rule == "host-oom", analysis


def test_a_waiting_job_has_its_reason_and_age_as_evidence(site: Site) -> None:
    job = site.submit("true", options={"partition": "short", "time": "10"})
    site.until(job, lambda status: status.reason == "PartitionTimeLimit")
    facts = site.adapter().evidence(job).facts
    assert (facts["pending_reason"], facts["stuck"]) == ("PartitionTimeLimit", "yes")
    assert float(facts["pending_minutes"]) < 5
