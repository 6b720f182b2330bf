"""Many jobs of one namespace observed with two list calls, and what can be said of those that are gone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from tao_run.errors import BackendUnreachable
from tao_run.jobs.model import Job, JobState, JobStatus
from tao_run.platforms.kubernetes import names, states
from tao_run.platforms.kubernetes.account import Account
from tao_run.platforms.kubernetes.client import Api
from tao_run.platforms.kubernetes.events import last_message, last_words, queue_message, visible
from tao_run.platforms.kubernetes.options import Options

Object = Mapping[str, Any]
INTERRUPTED = "LaunchInterrupted"
#: seconds in which a Job makes its pods if nothing is wrong
_SLOW = 10.0


class Observer:
    """One look at one namespace. `grace`: a launch that has taken longer than this is over."""

    def __init__(self, api: Api, now: datetime, grace: float) -> None:
        self._api, self._now, self._grace = api, now, grace

    def statuses(self, jobs: Sequence[Job]) -> dict[str, JobStatus]:
        """A status for each job."""
        selector = names.selector_for(jobs)
        found = {_job_id(job): job for job in self._api.list("jobs", labels=selector)}
        by_job: dict[str, list[Object]] = {}
        for pod in self._api.list("pods", labels=selector):
            by_job.setdefault(_job_id(pod), []).append(pod)
        here = {job.id: found[job.id] for job in jobs if _is_the_same(job, found.get(job.id))}
        seen = {job.id: self._status(job, here[job.id], by_job.get(job.id, [])) for job in jobs if job.id in here}
        self._explain_queues(here, seen)
        self._explain_missing_pods([job for job in jobs if self._age(job) > _SLOW], here, seen)
        return {**seen, **self._gone([job for job in jobs if job.id not in here], by_job)}

    def _status(self, job: Job, native: Object, job_pods: Sequence[Object]) -> JobStatus:
        if not states.is_unfinished_launch(native):
            return states.status_of(native, job_pods)
        if self._age(job) < self._grace:
            return JobStatus(JobState.PENDING, "Submitting", "", "Suspended", ready=0, total=job.nodes)
        message = (
            "the submission broke off before the job was complete; it is suspended and nothing runs; "
            f"`tao-run cancel {job.id} --delete` removes it"
        )
        return JobStatus(JobState.ERROR, INTERRUPTED, message, "Suspended")

    def _age(self, job: Job) -> float:
        return (self._now - job.created_at).total_seconds()

    def _explain_queues(self, here: Mapping[str, Object], seen: dict[str, JobStatus]) -> None:
        queued = [key for key, status in seen.items() if status.reason == "Queued"]
        workloads = visible(self._api, "workloads") if queued else []
        for key in queued:
            said = queue_message(workloads, here[key]["metadata"]["uid"])
            if said:
                seen[key] = replace(seen[key], message=f"{seen[key].message}: {said}")

    def _explain_missing_pods(
        self, jobs: Sequence[Job], here: Mapping[str, Object], seen: dict[str, JobStatus]
    ) -> None:
        """A quota or an admission rule that keeps a Job from making pods speaks in events only."""
        without = [job.id for job in jobs if job.id in seen and seen[job.id].reason == "NoPods"]
        events = visible(self._api, "events", fields="involvedObject.kind=Job,type=Warning") if without else []
        for key in without:
            said = last_message(events, here[key]["metadata"]["uid"])
            if said is not None:
                seen[key] = replace(seen[key], reason=said.name, message=said.message)

    def _gone(self, jobs: Sequence[Job], by_job: Mapping[str, list[Object]]) -> dict[str, JobStatus]:
        if not jobs:
            return {}
        self._check_cluster(jobs[0])
        events = visible(self._api, "events", fields="involvedObject.kind=Job")
        return {job.id: self._epitaph(job, events) for job in jobs}

    def _check_cluster(self, job: Job) -> None:
        """A job that is missing from another cluster is not gone."""
        recorded = Account.parse(job.account)
        if recorded.server and recorded.server != self._api.server:
            raise BackendUnreachable(
                f"context {recorded.context} now points to {self._api.server}; {job.name} was submitted to "
                f"{recorded.server} and is not there",
                "point the context to the old cluster again, or set KUBECONFIG to a file that does",
            )

    def _epitaph(self, job: Job, events: Sequence[Object]) -> JobStatus:
        reason = last_words(events, job.backend_id or "", states.LAST_EVENTS)
        if reason:
            message = "the Job has been removed from the cluster since; its last event says how it ended"
            return JobStatus(states.LAST_EVENTS[reason], reason, message, f"Removed/{reason}")
        ttl = Options.parse(job.request.for_platform()).ttl
        if ttl is not None and self._age(job) > ttl:
            message = "the Job is gone: it ended and its time to live ran out, or somebody removed it"
            return JobStatus(JobState.UNKNOWN, "Expired", message, "Removed")
        message = "the Job was removed from the cluster by someone else before it was seen to end"
        return JobStatus(JobState.CANCELED, "Removed", message, "Removed")


def _job_id(native: Object) -> str:
    return str((native["metadata"].get("labels") or {}).get(names.JOB_ID, ""))


def _is_the_same(job: Job, native: Object | None) -> bool:
    return native is not None and job.backend_id in (None, native["metadata"]["uid"])
