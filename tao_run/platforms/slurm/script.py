"""The files of a job on the cluster: the sbatch script, the task that each node runs, the environment file."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping

from tao_run.errors import UsageError
from tao_run.jobs.model import Job
from tao_run.jobs.request import JobRequest
from tao_run.platforms.slurm.cluster import Cluster, shell_path
from tao_run.platforms.slurm.container import Containment, containment
from tao_run.platforms.slurm.options import Options, limit_seconds, read_options
from tao_run.platforms.slurm.sqsh import IMPORT_SCRIPT, cached_image, import_script, wait_for_image
from tao_run.platforms.slurm.timeline import SAMPLE_SCRIPT, SAMPLER
from tao_run.platforms.slurm.times import slurm_duration

SCRIPT, TASK, COMMAND, ENVIRONMENT, PAYLOAD = "job.sbatch", "task.sh", "command.sh", "env", "payload"
RESULTS_ROOT = "TAO_RESULTS_ROOT"
_PLAIN_VALUE = re.compile(r"[A-Za-z0-9_./,:@%+=&|*!?~^<>\[\](){}-]*")
# Read by container runtimes on the node, before the task begins.
_EARLY = ("NVIDIA_", "MELLANOX_", "ENROOT_", "PYXIS_", "APPTAINER_", "SINGULARITY_")

# The job's variables are read here, in the container: a PATH or LD_LIBRARY_PATH meant for the image must not
# reach srun, and no secret is in the environment of anything but the task. What is unset are SLURM's and MPI's
# words for the layout of tasks, which Lightning and others take for their own: torchrun makes its own layout.
_TASK = """\
# One task, one node. $1 is the job's directory.
job_dir=$1 base=${1%/jobs/*}
set -a
. "$job_dir/env"
NODE_RANK=${SLURM_PROCID:-0}
[ ! -e "$job_dir/payload" ] || TAO_RUN_PAYLOAD=$job_dir/payload
set +a
unset SLURM_NTASKS SLURM_NPROCS SLURM_PROCID SLURM_LOCALID SLURM_TASKS_PER_NODE SLURM_NTASKS_PER_NODE SLURM_GTIDS \\
  SLURM_STEP_NUM_TASKS SLURM_STEP_TASKS_PER_NODE PMI_RANK PMI_SIZE PMI_FD RANK LOCAL_RANK GROUP_RANK
/bin/bash "$job_dir/command.sh"
code=$?
now=${EPOCHREALTIME:-$(date +%s)}
echo "$code ${now/,/.}" > "$job_dir/ranks/$NODE_RANK" 2>/dev/null
exit "$code"
"""

_BODY = """\
set -euo pipefail
job_dir=$PWD
# Not a trap on EXIT: that runs also when SLURM ends the script, and a requeued job needs its environment again.
leave() {{ rm -f env; echo "$1" > exit-code; exit "$1"; }}
trap 'leave $?' ERR
rm -f exit-code ranks/*
mapfile -t hosts < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
export MASTER_ADDR=${{hosts[0]}} MASTER_PORT={port} NNODES={nodes} WORLD_SIZE={nodes} NUM_GPU_PER_NODE={gpus}
{early}{before}code=0
/bin/bash sample.sh & sampler=$!
srun {srun} \\
  {command}/bin/bash "$job_dir/task.sh" "$job_dir" || code=$?
kill "$sampler" && wait "$sampler" || true
# srun gives the highest code; the first rank that failed is the cause, those ended after it (128+n) its victims.
first=$(awk '$1 > 0 {{print $2, ($1 > 128), $1}}' ranks/* 2>/dev/null | sort -n -k1,1 -k2,2 | head -n 1 || true)
[ "$code" = 0 ] || [ -z "$first" ] || code=${{first##* }}
leave "$code"
"""


def job_files(job: Job, cluster: Cluster, script: str, env: Mapping[str, str]) -> dict[str, str]:
    """All text files of a job by name, without its secrets.

    Raises UsageError for options that cannot be honoured.
    """
    options, image = read_options(job.request), job.request.image
    cached = cached_image(image, options)
    inside = containment(image, options, mounts(job.request, cluster, options), cached)
    importing = {IMPORT_SCRIPT: import_script(image, cached, options)} if image and cached else {}
    return {
        SCRIPT: batch_script(job, options, inside, env, wait_for_image(cached)),
        COMMAND: script + "\n",
        ENVIRONMENT: environment_file(env, cluster),
        **inside.files,
        **importing,
        TASK: _TASK,
        SAMPLER: SAMPLE_SCRIPT,
    }


def native(job: Job, cluster: Cluster, files: Mapping[str, str], secrets: Mapping[str, str]) -> str:
    """What `--dry-run` shows: every file as it is staged, secrets as references."""
    references = assignments({name: f"<value of {source}>" for name, source in secrets.items()})
    shown = {**files, ENVIRONMENT: files[ENVIRONMENT] + references}
    heads = {SCRIPT: f"{SCRIPT}: cd {shell_path(cluster.job_dir(job.name))} && sbatch --parsable {SCRIPT}"}
    heads[ENVIRONMENT] = f"{ENVIRONMENT}: readable by its owner alone, removed when the job ends"
    return "\n".join(f"# ---- {heads.get(name, name)}\n{text}" for name, text in shown.items())


def gpus_per_node(job: Job) -> int:
    """GPUs per node: one if the request does not say, as everywhere in TAO."""
    return job.request.gpus_or(1)


def master_port(job_id: str) -> int:
    """A port for the rendezvous, below the ephemeral range, that jobs sharing a node seldom share."""
    return 15000 + int(job_id[:8], 16) % 15000


def mounts(request: JobRequest, cluster: Cluster, options: Options) -> list[str]:
    """The base directory (job files and results), the request's own results directory and shared mount, and what
    the options name."""
    named = (request.results, request.mount)
    shared = [path for path in named if isinstance(path, str) and path.startswith(("/", "~/"))]
    return list(dict.fromkeys([cluster.base, *shared, *options.container_mounts]))


def batch_script(job: Job, options: Options, inside: Containment, env: Mapping[str, str], before: str = "") -> str:
    """The sbatch script. Its exit code is that of the rank that failed first, else srun's."""
    words = [
        f"--ntasks={job.nodes} --ntasks-per-node=1 --kill-on-bad-exit=1 --export=ALL --open-mode=append",
        '--output="$job_dir/logs/rank-%t.log"',
        # srun does not take this over from sbatch since 22.05
        *([f"--cpus-per-task={options.cpus_per_task}"] if options.cpus_per_task else []),
        *inside.srun,
        *(shlex.join(shlex.split(line)) for line in options.srun),
    ]
    early = assignments({name: value for name, value in env.items() if name.startswith(_EARLY)}, "export ")
    body = _BODY.format(
        port=master_port(job.id),
        nodes=job.nodes,
        gpus=gpus_per_node(job),
        early=early,
        before=before + inside.before,
        srun=" \\\n  ".join(words),
        command=f"{inside.command} " if inside.command else "",
    )
    lines = [f"#SBATCH {line}" for line in directives(job, options)]
    return "\n".join(["#!/bin/bash", *lines, body])


# options that are named as in sbatch
_SAME_NAME = (
    "partition",
    "account",
    "qos",
    "cpus-per-task",
    "mem",
    "constraint",
    "reservation",
    "nodelist",
    "exclude",
    "begin",
    "signal",
    "mail-user",
    "dependency",
)


def directives(job: Job, options: Options) -> list[str]:
    """The #SBATCH options, only those that were asked for: what is left out, the cluster decides."""
    limit = limit_seconds(job.request, options)
    asked: list[tuple[str, object]] = [
        ("job-name", job.name),
        ("nodes", job.nodes),
        ("ntasks-per-node", 1),
        *_gpus(job, options),
        ("time", slurm_duration(limit) if limit else None),
        *((name, getattr(options, name.replace("-", "_"))) for name in _SAME_NAME),
        ("mail-type", options.mail_type or ("END,FAIL" if options.mail_user else None)),
        ("output", "logs/job.log"),
        ("open-mode", "append"),
    ]
    flags = [("exclusive", options.exclusive), ("hold", options.hold), ("requeue", options.requeue)]
    flags += [("no-requeue", not options.requeue), ("wait-all-nodes=1", job.nodes > 1)]
    return [
        *(f"--{name}={_value(name, value)}" for name, value in asked if value is not None),
        *(f"--{name}" for name, wanted in flags if wanted),
        *options.sbatch,
    ]


def _gpus(job: Job, options: Options) -> list[tuple[str, object]]:
    count = gpus_per_node(job)
    if not count:
        return []
    gpus = f"{options.gpu_type}:{count}" if options.gpu_type else str(count)
    return [("gres", f"gpu:{gpus}") if options.gpu_syntax == "gres" else ("gpus-per-node", gpus)]


def _value(name: str, value: object) -> str:
    text = str(value)
    if not _PLAIN_VALUE.fullmatch(text):
        raise UsageError(f"{name}={text!r} has a character that an #SBATCH line cannot hold")
    return text


def environment_file(env: Mapping[str, str], cluster: Cluster) -> str:
    """The job's plain variables. A results root under `~/` becomes the task's own `$base`: home directories
    differ between host and container."""
    inside = {name: value for name, value in env.items() if name != RESULTS_ROOT}
    root = env.get(RESULTS_ROOT)
    if root is None:
        return assignments(inside)
    below = root.removeprefix(f"{cluster.base}/")
    word = f'"$base"/{shlex.quote(below)}' if root.startswith("~/") and below != root else shlex.quote(root)
    return f"{RESULTS_ROOT}={word}\n" + assignments(inside)


def assignments(env: Mapping[str, str], prefix: str = "") -> str:
    """`NAME='value'` lines for bash: quotes, spaces, newlines, `$` and `%` arrive as they are."""
    return "".join(f"{prefix}{name}={shlex.quote(value)}\n" for name, value in sorted(env.items()))
