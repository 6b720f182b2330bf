"""Status of many jobs in one round trip: one squeue for all, one sacct for those that squeue no longer knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from tao_run.jobs.model import Job, JobState, JobStatus
from tao_run.platforms.exits import exit_words
from tao_run.platforms.slurm.nodelist import expand
from tao_run.platforms.slurm.reasons import explain, reason_name
from tao_run.platforms.slurm.remote import Answer, Remote, Section
from tao_run.platforms.slurm.states import REQUEUE_CAUSES, job_state, state_name, state_words
from tao_run.platforms.slurm.submit import command_error
from tao_run.platforms.slurm.tables import SACCT_FORMAT, SQUEUE_FORMAT, Row, parse_sacct, parse_squeue

GONE = "Gone"
# slurmctld puts a requeued job back into the queue within two minutes; until then the old end is all there is.
REQUEUE_WINDOW = timedelta(seconds=180)
_BOOKKEEPING = timedelta(days=1)  # the clocks of this machine and the cluster, and its time zone, may differ

# squeue fails for one unknown id alone but not beside a known one. Jobs that it does not list are looked up in
# accounting and in the exit codes that their scripts left.
_OBSERVE = """\
export SLURM_TIME_FORMAT=%s
queue=$(squeue -h -t all -j {ids} -O '{squeue}' 2>&1); code=$?
case $queue in *'Invalid job id specified'*) code=0;; esac
say() {{ printf '%s\\n' "$queue"; return $code; }}
section squeue say
[ $code = 0 ] || exit
missing=()
left() {{ local id dir; while read -r id dir; do
  case $'\\n'"$queue" in *$'\\n'"$id|"*) continue;; esac
  missing+=("$id")
  [ -s "$dir/exit-code" ] && records+="$id $(< "$dir/exit-code")"$'\\n'
done; }}
records=
left <<END
{jobs}
END
[ ${{#missing[@]}} = 0 ] && exit
records() {{ printf '%s' "$records"; }}
section records records
section sacct sacct -X -n -P -S {since} -j "$(IFS=,; echo "${{missing[*]}}")" --format={sacct}
"""


def poll(remote: Remote, jobs: Sequence[Job], now: datetime) -> dict[str, JobStatus]:
    """The status of jobs of one cluster, by job id.

    Raises BackendUnreachable if no login host or no slurmctld answers. If only accounting does not answer,
    jobs that squeue still knows are told, and the others keep their last state, marked as not reachable.
    """
    asked = [job for job in jobs if job.backend_id]
    if not asked:
        return {}
    lines = "\n".join(f"{job.backend_id} {_directory(remote, job)}" for job in asked)
    since = min(job.created_at for job in asked) - _BOOKKEEPING
    answer = remote.run(
        _OBSERVE.format(
            ids=",".join(str(job.backend_id) for job in asked),
            jobs=lines,
            squeue=SQUEUE_FORMAT,
            sacct=SACCT_FORMAT,
            since=since.strftime("%Y-%m-%dT%H:%M:%S"),
        )
    )
    return _statuses(answer, asked, now)


def _directory(remote: Remote, job: Job) -> str:
    # The list is a here-document: `$HOME` is expanded there, quotes are not needed.
    path = remote.cluster.job_dir(job.name)
    return "$HOME" + path[1:] if path.startswith("~/") else path


def _statuses(answer: Answer, jobs: Sequence[Job], now: datetime) -> dict[str, JobStatus]:
    queue = answer["squeue"]
    if queue.code:
        raise command_error("squeue", Section(queue.code, "", queue.out))
    rows = {row.job_id: row for row in parse_squeue(queue.out.splitlines())}
    past = answer.get("sacct")
    for row in parse_sacct(past.out.splitlines()) if past else ():
        rows.setdefault(row.job_id, row)
    records = _records(answer.get("records"))
    return {job.id: _one(job, rows, records, past, now) for job in jobs}


def _records(section: Section | None) -> dict[str, int]:
    pairs = [line.split() for line in section.out.splitlines()] if section else []
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdecimal()}


def _one(
    job: Job, rows: Mapping[str, Row], records: Mapping[str, int], past: Section | None, now: datetime
) -> JobStatus:
    row, code = rows.get(str(job.backend_id)), records.get(str(job.backend_id))
    if row is not None and row.name == job.name:
        # sacct writes 9:0 for 137: what the job's script left is exact
        exact = code is not None and state_name(row.state) in ("FAILED", "COMPLETED")
        return status_of(replace(row, exit_code=code, signal=None) if exact else row, job, now)
    if code is not None:
        state = JobState.ERROR if code else JobState.COMPLETE
        message = f"{exit_words(code)} (SLURM no longer lists the job; its script left this)"
        return JobStatus(state, "ExitRecord", message, exit_code=code, observed_at=now)
    if past is not None and past.code and "accounting storage is disabled" not in past.err and past.code != 127:
        words = command_error("sacct", past).message
        return replace(job.status, reachable=False, message=f"accounting does not answer: {words}")
    known = "and this cluster keeps no accounting" if past is not None and past.code else "nor does accounting"
    return JobStatus(
        JobState.UNKNOWN,
        GONE,
        f"SLURM no longer knows job {job.backend_id}, {known}: how it ended cannot be told",
        observed_at=now,
    )


def status_of(row: Row, job: Job, now: datetime) -> JobStatus:
    """One row of squeue or sacct as our status."""
    state, name = job_state(row.state), state_name(row.state)
    if state.terminal and _comes_back(row, name, job, now):
        words = f"{state_words(name)}; SLURM puts it back into the queue"
        return JobStatus(JobState.PENDING, "Requeue", words, row.state, observed_at=now, ready=0, total=job.nodes)
    reason, message = _words(row, state, name)
    return JobStatus(
        state=state,
        reason=reason,
        message=message,
        native_state=row.state,
        exit_code=_exit_code(row, state, name),
        observed_at=now,
        ready=len(expand(row.nodes)) if state is JobState.RUNNING else 0,
        total=job.nodes,
    )


def _comes_back(row: Row, name: str, job: Job, now: datetime) -> bool:
    recent = row.ended is None or now - row.ended < REQUEUE_WINDOW
    return name in REQUEUE_CAUSES and bool(job.options.get("requeue")) and recent


def _words(row: Row, state: JobState, name: str) -> tuple[str, str]:
    if state is JobState.PENDING and name == "PENDING":
        why = explain(row.reason)
        again = f"requeued {row.restarts}x, " if row.restarts else ""
        words = f"{again}{why.words}; {why.advice}".replace("JOB", row.job_id)
        name = reason_name(row.reason)
        return name, words if name == row.reason else f"{words} ({row.reason})"
    if state is JobState.ERROR:
        return name, _failure(row, name)
    again = f"run {row.restarts + 1} after {row.restarts} requeue(s)" if row.restarts else ""
    words = "; ".join(filter(None, (state_words(name), again)))
    return ("" if state is JobState.COMPLETE or name == "RUNNING" else name), words


def _failure(row: Row, name: str) -> str:
    if name == "FAILED" and (row.exit_code, row.signal) == (0, 53):
        return "SLURM could not open the job's log or working directory (exit 0:53)"
    if name == "FAILED" and row.signal:
        return f"the batch script was ended by signal {row.signal}"
    if name == "FAILED" and row.exit_code:
        return exit_words(row.exit_code)
    return state_words(name)


def _exit_code(row: Row, state: JobState, name: str) -> int | None:
    """The command's exit code; None where SLURM ended the job and there is none."""
    if state is JobState.COMPLETE:
        return row.exit_code or 0
    if name == "OUT_OF_MEMORY":
        return row.exit_code or 137  # SLURM writes 0:125, which is no signal
    if name != "FAILED" or (row.exit_code, row.signal) == (0, 53):
        return None
    return 128 + row.signal if row.signal else row.exit_code
