"""Job and pods -> state. The Job's conditions decide; without one, its pods do. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tao_run.jobs.model import JobState, JobStatus
from tao_run.platforms.kubernetes import names, pods

Object = Mapping[str, Any]

#: condition of a Job -> state, the one that decides first. These are all that batch/v1 knows up to 1.37.
#: FailureTarget and SuccessCriteriaMet say how it will end; until then pods are still ending.
CONDITIONS: dict[str, JobState] = {
    "Complete": JobState.COMPLETE,
    "Failed": JobState.ERROR,
    "FailureTarget": JobState.RUNNING,
    "SuccessCriteriaMet": JobState.RUNNING,
    "Suspended": JobState.PAUSED,
}

#: phase of a pod -> state of a Job that has no other pod and no condition
PHASES: dict[str, JobState] = {
    "Pending": JobState.PENDING,
    "Running": JobState.RUNNING,
    "Succeeded": JobState.RUNNING,
    "Failed": JobState.RUNNING,
    "Unknown": JobState.UNKNOWN,
    "Terminating": JobState.PENDING,
}

#: reason of an event about a Job that is gone -> how it had ended
LAST_EVENTS: dict[str, JobState] = {
    "Completed": JobState.COMPLETE,
    "BackoffLimitExceeded": JobState.ERROR,
    "DeadlineExceeded": JobState.ERROR,
    "PodFailurePolicy": JobState.ERROR,
}


def status_of(job: Object, job_pods: Sequence[Object]) -> JobStatus:
    """What one Job and its pods say together."""
    deciding = _condition(job)
    if deciding is not None and CONDITIONS[deciding["type"]].terminal:
        return _ended(job, deciding, job_pods)
    if job["metadata"].get("deletionTimestamp"):
        message = "the Job is being removed; its pods are still ending"
        return _live(JobState.RUNNING, "Terminating", message, "Terminating", job, job_pods)
    if (job.get("spec") or {}).get("suspend"):
        return _suspended(job, job_pods)
    if deciding is not None and deciding["type"] != "Suspended":
        message = str(deciding.get("message") or "")
        return _live(JobState.RUNNING, deciding["type"], message, deciding["type"], job, job_pods)
    return _from_pods(job, job_pods)


def is_unfinished_launch(job: Object) -> bool:
    """Whether the Job still waits for its Secret and the like: its submission has not come to its end."""
    annotations = job["metadata"].get("annotations") or {}
    waits = bool((job.get("spec") or {}).get("suspend"))
    return waits and annotations.get(names.LAUNCH) == names.INCOMPLETE


def _condition(job: Object) -> Mapping[str, Any] | None:
    """The condition that decides, if one is true."""
    conditions = (job.get("status") or {}).get("conditions") or []
    true = {entry["type"]: entry for entry in conditions if entry.get("status") == "True"}
    return next((true[kind] for kind in CONDITIONS if kind in true), None)


def _total(job: Object) -> int:
    return int((job.get("spec") or {}).get("completions") or 1)


def _live(
    state: JobState, reason: str, message: str, native: str, job: Object, job_pods: Sequence[Object]
) -> JobStatus:
    ready = sum(pods.is_running(pod) for pod in job_pods)
    return JobStatus(state, reason, message, native, ready=ready, total=_total(job))


def _ended(job: Object, deciding: Mapping[str, Any], job_pods: Sequence[Object]) -> JobStatus:
    native = f"{deciding['type']}/{deciding.get('reason') or ''}".rstrip("/")
    if deciding["type"] == "Complete":
        return JobStatus(JobState.COMPLETE, "Completed", "", native, 0, total=_total(job))
    reason, message = str(deciding.get("reason") or "Failed"), str(deciding.get("message") or "")
    failure = pods.first_failure(job_pods)
    code = failure[1].exit_code if failure else None
    if failure and reason != "DeadlineExceeded":
        reason, message = _cause(*failure, total=_total(job))
    elif not failure and (worst := pods.worst_issue(job_pods)):
        reason, message = worst[1], worst[2]
    return JobStatus(JobState.ERROR, reason, message, native, code, total=_total(job))


def _cause(pod: Object, end: pods.Ended, total: int) -> tuple[str, str]:
    reason, message = pods.issue(pod)
    where = f"rank {pods.rank(pod)} " if total > 1 else ""
    said = f": {message}" if message and message != f"exit code {end.exit_code}" else ""
    return reason or end.reason or "Error", f"{where}exit code {end.exit_code}{said}"


def _suspended(job: Object, job_pods: Sequence[Object]) -> JobStatus:
    queue = (job["metadata"].get("labels") or {}).get(names.QUEUE)
    if queue:
        message = f"waits in queue {queue} until Kueue admits it"
        return _live(JobState.PENDING, "Queued", message, "Suspended", job, job_pods)
    message = "the Job is suspended; nothing runs until somebody resumes it"
    return _live(JobState.PAUSED, "Suspended", message, "Suspended", job, job_pods)


def _from_pods(job: Object, job_pods: Sequence[Object]) -> JobStatus:
    current, total = pods.newest_per_rank(job_pods), _total(job)
    if not current:
        failed = int((job.get("status") or {}).get("failed") or 0)
        message = "its pod is gone and the Job controller has not judged yet" if failed else "no pod was created yet"
        return _live(JobState.PENDING, "NoPods", message, "Active", job, current)
    states = {PHASES.get(pods.phase(pod), JobState.UNKNOWN) for pod in current}
    waiting = [pod for pod in current if PHASES.get(pods.phase(pod)) is JobState.PENDING and not _begun(pod)]
    if JobState.RUNNING in states or any(_begun(pod) for pod in current):
        return _running(job, current, waiting, total)
    if JobState.UNKNOWN in states:
        return _lost(job, current)
    return _pending(job, current, waiting)


def _begun(pod: Object) -> bool:
    return pods.is_running(pod) or pods.ended(pod) is not None


def _running(job: Object, current: Sequence[Object], waiting: Sequence[Object], total: int) -> JobStatus:
    late = total - len(current) + len(waiting)
    worst = pods.worst_issue(waiting)
    if worst:
        pod, reason, message = worst
        text = f"{late} of {total} pods do not run yet; rank {pods.rank(pod)}: {reason}: {message}"
        return _live(JobState.RUNNING, "PodsPending", text, "Active", job, current)
    if late:
        return _live(JobState.RUNNING, "PodsPending", f"{late} of {total} pods do not run yet", "Active", job, current)
    return _live(JobState.RUNNING, "", "", "Active", job, current)


def _lost(job: Object, current: Sequence[Object]) -> JobStatus:
    lost = next(pod for pod in current if PHASES.get(pods.phase(pod), JobState.UNKNOWN) is JobState.UNKNOWN)
    node = lost["spec"].get("nodeName") or "its node"
    message = pods.issue(lost)[1] or f"{node} does not answer the cluster"
    return _live(JobState.UNKNOWN, "NodeLost", message, pods.phase(lost), job, current)


def _pending(job: Object, current: Sequence[Object], waiting: Sequence[Object]) -> JobStatus:
    worst = pods.worst_issue(waiting)
    if worst is None:
        return _live(JobState.PENDING, pods.starting(waiting[0]), "", "Active", job, current)
    pod, reason, message = worst
    where = f"rank {pods.rank(pod)}: " if _total(job) > 1 else ""
    return _live(JobState.PENDING, reason, f"{where}{message}" if message else where, "Active", job, current)
