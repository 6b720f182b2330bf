"""Submission: one round trip that stages a job's files and hands them to sbatch, exactly once."""

from __future__ import annotations

import io
import re
import shlex
import tarfile
import time
from collections.abc import Mapping
from datetime import timedelta

from tao_run.errors import (
    BackendRejected,
    BackendUnreachable,
    NotInstalled,
    PermissionRefused,
    TaoRunError,
    Unavailable,
)
from tao_run.jobs.model import Job
from tao_run.platforms.base import Launch
from tao_run.platforms.slurm.cluster import Cluster, shell_path
from tao_run.platforms.slurm.options import read_options
from tao_run.platforms.slurm.remote import Answer, NeverBegan, Remote, Section
from tao_run.platforms.slurm.script import ENVIRONMENT, PAYLOAD, SCRIPT, assignments
from tao_run.platforms.slurm.sqsh import cached_image, import_step
from tao_run.platforms.slurm.ssh import NeverConnected
from tao_run.redact import redact

# The lock keeps a second attempt, or a search after a lost answer, waiting until the first one is through. A
# directory that was there before means that there was a first one: then the queue is asked before sbatch, and the
# files of its job stay as they are. A script is handed in only when all of its files are there. Nothing is printed
# before the end: if this process dies meanwhile, all of it is done or, with half of the files, nothing stays.
_SUBMIT = """\
umask 077
dir={directory}
submit() {{
  local id= after= fresh=
  mkdir -p {parents} || return {not_staged}
  mkdir "$dir" 2>/dev/null && fresh=1
  cd "$dir" && exec 9>>lock || return {not_staged}
  command -v flock >/dev/null && flock -w 60 9
  if [ -z "$fresh" ]; then
    [ -s job-id ] && {{ cat job-id; return; }}
    id=$(squeue -h -t all -u "$(id -un)" -n {name} -o %i) || return
  fi
  if [ -z "$id" ]; then
    tar -x -m -f - <&7 && [ -s {script} ] || {{ [ -z "$fresh" ] || rm -rf -- "$dir"; return {not_staged}; }}
{import_step}    id=$(sbatch --parsable {dependency}{script}) || return
  fi
  id=${{id%%;*}}
  echo "$id" > job-id.new && mv job-id.new job-id
  echo "$id"
}}
exec 7<&0
section submit submit
"""
_NOT_STAGED = 74  # EX_IOERR of sysexits.h
_FULL = re.compile(r"No space left|[Qq]uota exceeded|Wrote only")

# After a refusal nothing of the job may stay behind; a secret file least of all.
_REMOVE = "rm -rf -- {directory}"

_FIND = """\
dir={directory}
if [ -e "$dir/lock" ] && command -v flock >/dev/null; then exec 9>>"$dir/lock"; flock -w 60 9; fi
[ -s "$dir/job-id" ] && {{ section recorded cat "$dir/job-id"; exit; }}
section squeue squeue -h -t all -u "$(id -un)" -n {name} -o '%i|%j'
section sacct sacct -X -n -P -S {since} --name={name} --format=JobID,JobName
"""

NO_ANSWER = re.compile(
    r"Unable to contact slurm controller|[Ss]ocket timed out|Zero Bytes were transmitted|Connection refused"
    r"|temporarily unable|Transport endpoint|Unexpected message received|Connection reset|Protocol authentication error"
)
_NOT_ALLOWED = re.compile(r"[Pp]ermission denied|not permitted to use|Access denied")

# What sbatch says -> what to do.
_HINTS = (
    ("account or account/partition", "`sacctmgr show assoc user=$USER` lists your accounts: `-o account=...`"),
    ("partition", "`tao-run resources --platform slurm` lists the partitions"),
    ("qos", "`sacctmgr show assoc user=$USER format=account,qos` lists what you may use: `-o qos=...`"),
    ("time limit", "ask for less: `-o time=...`; `tao-run resources --platform slurm` shows each partition's limit"),
    ("generic resource", "`tao-run resources --platform slurm` lists the GPU types: `-o gpu_type=...`"),
    ("node configuration is not available", "no node has what was asked for: fewer GPUs, or another gpu_type"),
    ("Job violates accounting/QOS policy", "a limit of your account or QOS: `sacctmgr show assoc user=$USER`"),
    ("unrecognized option", "this SLURM does not know an option; see `-o sbatch=` and `-o srun=`"),
    ("dependency", "`-o dependency=` names a job that this cluster does not know"),
)


def archive(files: Mapping[str, bytes]) -> bytes:
    """A tar of the job's files, the environment file readable by its owner alone."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for directory in ("logs", "ranks"):
            entry = tarfile.TarInfo(directory)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o700
            tar.addfile(entry)
        # the script last: an archive that was cut off between two files has none
        for name, content in sorted(files.items(), key=lambda item: item[0] == SCRIPT):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime = len(content), int(time.time())
            entry.mode = 0o600 if name == ENVIRONMENT else 0o700
            tar.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def submit(remote: Remote, launch: Launch, secrets: Mapping[str, str]) -> str:
    """Stage the job's files, with the values of its secrets, and submit it; returns SLURM's job id.

    Raises BackendUnreachable when it is not known whether the job exists: `find` tells. Any other error means
    that nothing was submitted, and nothing of the job is left on the cluster.
    """
    job, cluster = launch.job, remote.cluster
    directory = shell_path(cluster.job_dir(job.name))
    text = submit_text(job, cluster)
    try:
        answer = remote.run(text, archive(staged_files(launch, secrets)), repeat=False)
    except (NeverConnected, NeverBegan) as error:
        raise Unavailable(error.message, error.hint) from None
    try:
        return _job_id(answer, cluster)
    except BackendUnreachable:
        raise
    except TaoRunError:
        remote.run(_REMOVE.format(directory=directory))
        raise


def validate(remote: Remote, launch: Launch) -> list[str]:
    """Let SLURM check the script without submitting it (sbatch --test-only). Raises BackendRejected."""
    script = launch.extra[SCRIPT].encode()
    said = remote.run("exec 7<&0\ntest_only() { sbatch --test-only <&7; }\nsection test test_only", script)["test"]
    if said.code:
        raise command_error("sbatch", said)
    return [_words(said.err)]


def staged_files(launch: Launch, secrets: Mapping[str, str]) -> dict[str, bytes]:
    """The files of a launch as they are staged: secrets are values here, and nowhere else."""
    files = {name: text.encode() for name, text in launch.extra.items()}
    files[ENVIRONMENT] += assignments(secrets).encode()
    if launch.payload is not None:
        files[PAYLOAD] = launch.payload
    return files


def submit_text(job: Job, cluster: Cluster) -> str:
    """Bash text that stages the archive on its standard input and submits it: all of it, or nothing."""
    options = read_options(job.request)
    cached = cached_image(job.request.image, options)
    both = f"--dependency={shlex.quote(options.dependency)}" + '"${after:+,$after}"' if options.dependency else ""
    return _SUBMIT.format(
        directory=shell_path(cluster.job_dir(job.name)),
        parents=f"{shell_path(cluster.base + '/jobs')} {shell_path(cluster.base + '/results')}",
        name=job.name,
        import_step=import_step(cached, options.account),
        dependency=f"{both or '${after:+--dependency=$after}'} " if cached else "",
        script=SCRIPT,
        not_staged=_NOT_STAGED,
    )


def _job_id(answer: Answer, cluster: Cluster) -> str:
    said = answer["submit"]
    if said.code == _NOT_STAGED:
        raise _not_writable(said, cluster)
    found = said.out.strip()
    if said.code == 0 and found.isdecimal():
        return found
    raise command_error("sbatch", said)


def _not_writable(said: Section, cluster: Cluster) -> BackendRejected:
    full = _FULL.search(said.err)
    return BackendRejected(
        f"cannot write to {cluster.base} on {cluster.label}: {_words(said.err)}",
        ("its disk or your quota is full: make room there, or " if full else "")
        + "set SLURM_BASE_RESULTS_DIR to a directory on the shared file system that you may write to",
    )


def command_error(command: str, said: Section) -> TaoRunError:
    """What a SLURM command's failure means, from its own words."""
    words = _words(said.err or said.out)
    if said.code == 127 or "command not found" in said.err:
        return NotInstalled(f"{command} is not found on the login host", "SLURM's commands must be in its PATH")
    if NO_ANSWER.search(said.err):
        return BackendUnreachable(f"SLURM does not answer: {words}", "slurmctld may be restarting; try again soon")
    if _NOT_ALLOWED.search(said.err):
        return PermissionRefused(f"SLURM refuses: {words}")
    hint = next((advice for part, advice in _HINTS if part.lower() in words.lower()), "")
    return BackendRejected(f"{command} refuses the job: {words}", hint)


def _words(text: str) -> str:
    lines = [
        re.sub(r"^(sbatch|squeue|sacct|scancel|tar|slurm_load_jobs)(: error)?:? ", "", line.strip())
        for line in text.splitlines()
    ]
    return redact("; ".join(dict.fromkeys(line for line in lines if line))) or "it gave no reason"


def find(remote: Remote, job: Job) -> str | None:
    """SLURM's id of a job by its name: from its directory, the queue, or accounting. None if it is nowhere."""
    since = (job.created_at - timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%S")
    text = _FIND.format(directory=shell_path(remote.cluster.job_dir(job.name)), name=job.name, since=since)
    answer = remote.run(text)
    if "recorded" in answer:
        return answer["recorded"].out.strip()
    queue, past = answer["squeue"], answer["sacct"]
    if queue.code:
        raise command_error("squeue", queue)
    if past.code and "accounting storage is disabled" not in past.err and past.code != 127:
        raise command_error("sacct", past)
    rows = [line.split("|") for line in (queue.out + "\n" + past.out).splitlines()]
    return next((row[0] for row in rows if len(row) == 2 and row[1] == job.name and row[0].isdecimal()), None)
