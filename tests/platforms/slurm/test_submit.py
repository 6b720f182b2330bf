"""Submission: what is staged, exactly once, and what a refusal leaves behind."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tao_run.errors import BackendRejected, BackendUnreachable, CredentialMissing, Unavailable, UsageError
from tao_run.jobs.model import JobState
from tao_run.jobs.observe import refresh
from tao_run.platforms.lifecycle import observe, submit
from tao_run.platforms.slurm.cluster import parse_account
from tao_run.platforms.slurm.remote import Remote
from tao_run.platforms.slurm.ssh import SshSettings
from tao_run.platforms.slurm.submit import archive, staged_files, submit_text
from tests.platforms.slurm.conftest import Site
from tests.services.slurm import HOME

SECRET = "s3cr3t-\"quoted'\n$value"


def test_the_secret_is_in_the_0600_file_alone_and_the_file_is_gone_at_the_end(site: Site) -> None:
    site.more["MY_TOKEN"] = SECRET
    job = site.submit('printf %s "$KEY" | od -An -tx1 | tr -d " \\n"; echo; sleep 3', secrets={"KEY": "MY_TOKEN"})
    directory = site.directory(job)
    holders = [path.name for path in directory.rglob("*") if path.is_file() and "s3cr3t" in path.read_text()]
    assert holders == ["env"]
    assert stat.S_IMODE((directory / "env").stat().st_mode) == 0o600
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert site.ended(job).state is JobState.COMPLETE
    assert site.texts(job) == [SECRET.encode().hex()]
    assert not (directory / "env").exists()


def test_the_secret_goes_also_when_slurm_ends_the_job(site: Site) -> None:
    site.more["MY_TOKEN"] = SECRET
    held = [site.submit("true", secrets={"KEY": "MY_TOKEN"}, options={"hold": True}) for _ in range(2)]
    assert all((site.directory(job) / "env").exists() for job in held)
    site.adapter().cancel(held[0])
    site.cluster.run("scancel", str(held[1].backend_id))
    site.adapter().settle(replace(held[1], status=site.ended(held[1])))
    assert not any((site.directory(job) / "env").exists() for job in held)


def test_launching_twice_is_one_job(site: Site) -> None:
    adapter = site.adapter()
    launch = adapter.prepare(site.build("true", options={"hold": True}))
    first = adapter.launch(launch)
    assert adapter.launch(launch) == first
    # the note of the first submission is lost, as after a crash right behind sbatch
    (site.directory(launch.job) / "job-id").unlink()
    assert adapter.find(launch.job) == first
    assert adapter.launch(launch) == first
    assert site.cluster.run("squeue", "-h", "-n", launch.job.name, "-o", "%i").split() == [first]


@pytest.mark.parametrize(
    ("options", "words", "hint"),
    [
        ({"partition": "nowhere"}, "invalid partition", "resources"),
        ({"account": "nobody"}, "account", "sacctmgr"),
        ({"qos": "gold"}, "qos", "sacctmgr"),
        ({"constraint": "quantum"}, "feature", ""),
        ({"sbatch": "--no-such-option"}, "unrecognized option", "sbatch"),
    ],
)
def test_a_refusal_says_why_and_leaves_nothing(site: Site, options: dict[str, str], words: str, hint: str) -> None:
    job = site.build("true", options=options)
    with pytest.raises(BackendRejected, match=f"(?i){words}") as caught:
        submit(site.adapter(), site.store, job)
    assert hint in caught.value.hint
    assert not site.directory(job).exists()
    assert site.store.get(job.id).status.state is JobState.ERROR


def test_a_base_directory_that_cannot_be_written_is_named(site: Site) -> None:
    site.base = HOME.parent / "root-only"
    with pytest.raises(BackendRejected, match=r"cannot write to /home/root-only .*Permission denied"):
        site.submit("true")


@pytest.fixture
def tiny(scratch: Path) -> Iterator[Path]:
    """A file system of half a megabyte that belongs to the login user."""
    owner = HOME.stat().st_uid
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size=512k,uid={owner}", "tmpfs", str(scratch)], check=True)
    yield scratch
    subprocess.run(["umount", "-l", str(scratch)], check=True)


def test_a_script_whose_files_do_not_all_fit_is_not_submitted(site: Site, tiny: Path) -> None:
    site.base = tiny
    job = site.build(f"true {'x' * 2**20}")
    with pytest.raises(BackendRejected) as caught:
        submit(site.adapter(), site.store, job)
    assert "make room" in caught.value.hint
    assert site.cluster.run("squeue", "-h", "-t", "all", "-n", job.name) == ""
    assert not site.directory(job).exists()


@pytest.mark.parametrize("left", [100, 1024, 4096])
def test_a_submission_that_is_cut_off_in_its_files_leaves_nothing(site: Site, left: int) -> None:
    adapter = site.adapter()
    launch = adapter.prepare(site.build("true"))
    job, remote = launch.job, Remote(parse_account(launch.job.account), SshSettings.read(adapter.credentials))
    whole = archive(staged_files(launch, {}))
    said = remote.run(submit_text(job, remote.cluster), whole[:left], repeat=False)["submit"]
    assert said.code != 0
    assert site.cluster.run("squeue", "-h", "-t", "all", "-n", job.name) == ""
    assert not site.directory(job).exists()


def test_without_a_connection_it_is_certain_that_nothing_was_submitted(site: Site) -> None:
    job = site.build()
    with site.cluster.stopped("sshd-a", "sshd-b"), pytest.raises(Unavailable, match="Connection refused"):
        submit(site.adapter(), site.store, job)
    assert site.store.get(job.id).status.reason == "SubmitRefused"


def test_an_account_whose_shell_does_not_run_commands_got_nothing(site: Site, tmp_path: Path) -> None:
    ssh = tmp_path / "ssh"
    ssh.write_text(
        '#!/bin/sh\ncase "$*" in *" -G "*) exit;; esac\necho "This account is currently not available."\nexit 1\n'
    )
    ssh.chmod(0o755)
    job = site.build()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        with pytest.raises(Unavailable, match="not available"):
            submit(site.adapter(), site.store, job)
    assert site.store.get(job.id).status.reason == "SubmitRefused"


def test_the_files_of_a_job_that_an_earlier_attempt_submitted_stay_as_they_are(site: Site) -> None:
    site.more["MY_TOKEN"] = SECRET
    adapter = site.adapter()
    launch = adapter.prepare(site.build("true", secrets={"KEY": "MY_TOKEN"}))
    first = adapter.launch(launch)
    site.until(replace(launch.job, backend_id=first), lambda status: status.state.terminal)
    assert adapter.launch(launch) == first
    assert not (site.directory(launch.job) / "env").exists()


def test_slurmctld_down_is_unreachable_keeps_the_last_state_and_recovers(plain: Site) -> None:
    job = plain.submit("sleep 120", options={"container": "none"})
    plain.running(job)
    seen = observe(plain.adapter(), plain.store, [job])[0]
    launch = plain.adapter().prepare(plain.build("true", options={"container": "none"}))
    with plain.cluster.stopped("slurmctld"):
        sweep = refresh([seen], lambda _: plain.adapter(), plain.store)
        with pytest.raises(BackendUnreachable, match="slurm controller"):
            plain.adapter().launch(launch)
    assert [fault.exit_code for fault in sweep.faults.values()] == [6]
    stale = sweep.jobs[0].status
    assert (stale.state, stale.reachable, stale.observed_at) == (JobState.RUNNING, False, seen.status.observed_at)
    assert plain.look(job)[0].state is JobState.RUNNING
    assert plain.adapter().find(launch.job) is None


def test_the_staged_scripts_are_bash_and_say_what_was_asked(site: Site) -> None:
    options = {
        "partition": "batch",
        "account": "research",
        "qos": "normal",
        "time": "90m",
        "gpu_type": "h100",
        "mem": "2G",
        "cpus_per_task": 2,
        "constraint": "h100",
        "exclusive": True,
        "signal": "TERM@60",
        "mail_user": "me@example.com",
        "requeue": True,
        "container_mounts": "/data:/data:ro,/scratch",
        "sbatch": "--comment=hello",
    }
    files = site.adapter().prepare(site.build("true", nodes=2, gpus=4, options=options)).extra
    script = files["job.sbatch"]
    for line in (
        "--nodes=2",
        "--ntasks-per-node=1",
        "--gres=gpu:h100:4",
        "--time=01:30:00",
        "--partition=batch",
        "--account=research",
        "--qos=normal",
        "--mem=2G",
        "--cpus-per-task=2",
        "--constraint=h100",
        "--exclusive",
        "--signal=TERM@60",
        "--mail-user=me@example.com",
        "--mail-type=END,FAIL",
        "--requeue",
        "--comment=hello",
    ):
        assert f"#SBATCH {line}\n" in script
    assert "--container-image='nvcr.io#nvidia/tao/tao-toolkit:6.0'" in script
    assert "--cpus-per-task=2 \\\n" in script.partition("srun ")[2]
    assert f"{site.base}:{site.base},/data:/data:ro,/scratch:/scratch" in script
    for name, text in files.items():
        if name.endswith((".sh", ".sbatch")):
            checked = subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True)
            assert checked.returncode == 0, (name, checked.stderr)


def test_what_is_not_asked_for_is_left_to_the_cluster(site: Site) -> None:
    script = site.adapter().prepare(site.build("true")).extra["job.sbatch"]
    lines = [line for line in script.splitlines() if line.startswith("#SBATCH")]
    assert [line.partition("=")[0].split()[1] for line in lines] == [
        "--job-name",
        "--nodes",
        "--ntasks-per-node",
        "--output",
        "--open-mode",
        "--no-requeue",
    ]


def test_defaults_of_the_environment_are_recorded_with_the_job(site: Site) -> None:
    site.more.update(SLURM_PARTITION="short", SLURM_TIME_HOURS="0.05", SLURM_CONTAINER_MOUNTS="/home")
    job = site.build("true", options={"partition": "batch"})
    assert job.options["partition"] == "batch"
    assert job.options["time"] == "3"
    site.more.clear()
    assert "--time=00:03:00" in site.adapter().prepare(job).extra["job.sbatch"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"partitoin": "x"}, "did you mean 'partition'"),
        ({"time": "soon"}, "time"),
        ({"partition": "a b"}, "partition"),
        ({"sbatch": "--output=/x"}, "set by tao-run itself"),
        ({"sbatch": "comment"}, "not an option"),
        ({"container_mounts": "relative:/x"}, "not a mount"),
        ({"container": "podman"}, "container"),
    ],
)
def test_wrong_options_are_told_before_anything_is_contacted(site: Site, options: dict[str, str], words: str) -> None:
    job = site.build("true", options=options)
    with pytest.raises(UsageError, match=words):
        site.adapter(SLURM_HOSTNAME="nowhere.invalid").prepare(job)


def test_an_image_is_needed_unless_the_job_runs_on_the_nodes(site: Site) -> None:
    with pytest.raises(UsageError, match="needs an image"):
        site.adapter().prepare(site.build("true", image=None))
    script = site.adapter().prepare(site.build("true", image=None, options={"container": "none"}))
    assert "--container" not in script.extra["job.sbatch"]


def test_an_image_of_the_cluster_that_cannot_be_imported_is_an_error_with_its_cause(site: Site) -> None:
    job = site.submit("true", image="nvcr.io/nvidia/does-not-exist:1")
    status = site.ended(job)
    assert status.state is JobState.ERROR
    evidence = site.adapter().evidence(job)
    assert any("404 Not Found" in line.text for line in evidence.log_tail)


def test_the_container_gets_what_was_asked_for(site: Site) -> None:
    site.adapter()
    job = site.submit(
        'echo "$TEST_CONTAINER_IMAGE"; echo "$PATH"; ls /extra',
        env={"PATH": "/image/bin:/usr/bin:/bin"},
        options={"container_mounts": f"{site.cluster.root}/etc:/extra:ro"},
    )
    assert site.ended(job).state is JobState.COMPLETE
    lines = site.texts(job)
    assert lines[0] == "nvcr.io#nvidia/tao/tao-toolkit:6.0"
    assert lines[1] == "/image/bin:/usr/bin:/bin"  # the image's PATH, which srun itself never saw
    assert "slurm.conf" in lines
    asked = [line for line in site.cluster.containers if line.startswith(f"job={job.backend_id} ")]
    assert len(asked) == 1
    assert "MASTER_ADDR" in asked[0]


def test_results_under_the_home_directory_have_their_real_path_in_the_job(site: Site) -> None:
    site.more["SLURM_BASE_RESULTS_DIR"] = "~/at-home"
    job = site.submit('echo "$TAO_RESULTS_ROOT"')
    assert job.results_dir == f"~/at-home/results/{job.id}"
    site.ended(job)
    assert site.texts(job) == [f"{HOME}/at-home/results"]


@pytest.mark.parametrize("base", ["relative", "/", "/a/../b", "/has space", "/a:b", "/quo'te"])
def test_a_base_directory_that_is_not_safe_is_refused(site: Site, base: str) -> None:
    site.more["SLURM_BASE_RESULTS_DIR"] = base
    with pytest.raises(UsageError, match="SLURM_BASE_RESULTS_DIR"):
        site.build("true")


def test_without_a_cluster_all_missing_names_are_told_at_once(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")  # with sbatch in it, this machine would be a login node
    adapter = site.adapter(SLURM_USER="", SLURM_HOSTNAME="")
    with pytest.raises(CredentialMissing, match="SLURM_USER, SLURM_HOSTNAME") as caught:
        adapter.account(site.request())
    assert caught.value.names == ("SLURM_USER", "SLURM_HOSTNAME")


def test_a_record_of_another_base_directory_is_still_found(site: Site) -> None:
    job = site.submit("echo here")
    site.ended(job)
    site.base = HOME / "elsewhere"
    assert site.texts(job) == ["here"]


def test_a_command_too_long_for_an_argument_is_staged_as_a_file(site: Site) -> None:
    text = f"x='{'y' * 200_000}'; echo ${{#x}}; echo \"$0\""
    job = site.submit(text)
    assert site.ended(job).state is JobState.COMPLETE
    assert site.texts(job)[0] == "200000"


def test_results_go_where_they_were_asked_to_and_the_job_can_write_there(site: Site, scratch: Path) -> None:
    job = site.submit('echo done > "$TAO_RESULTS_DIR/model.pth"', results=str(scratch))
    assert site.ended(job).state is JobState.COMPLETE
    assert job.results_dir == f"{scratch}/{job.id}"
    assert (scratch / job.id / "model.pth").read_text() == "done\n"
    with pytest.raises(UsageError, match="no place on the cluster"):
        site.build("true", results="relative/dir")
