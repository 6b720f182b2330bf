"""Stopping a job: the Job is deleted after its pods, what they still log is kept, and the end is verified."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tao_run.clock import Clock
from tao_run.errors import NotFound, RecordError
from tao_run.jobs.model import Evidence, Job, JobState, JobStatus, LogQuery
from tao_run.platforms.kubernetes import names
from tao_run.platforms.kubernetes.client import Api
from tao_run.platforms.kubernetes.keepsake import MOST_LINES, Keepsake
from tao_run.platforms.kubernetes.logs import JobLog, Timing, View

#: seconds for a job to end: its pods get 30 s to end by themselves
PATIENCE = 75.0
_LOOK = 0.5


class Canceling:
    """One cancellation of the Job with this uid."""

    def __init__(self, api: Api, job: Job, uid: str, clock: Clock, timing: Timing) -> None:
        self._api, self._job, self._uid, self._clock = api, job, uid, clock
        self._timing = replace(timing, look=_LOOK, retry=min(timing.retry, _LOOK))
        self._deadline = clock.monotonic() + PATIENCE

    def run(self) -> JobStatus:
        """Delete and wait until it is gone."""
        self._delete()
        while not self._gone() and not self._late():
            self._clock.sleep(_LOOK)
        if self._gone():
            return JobStatus(JobState.CANCELED, "Canceled", "the Job and its pods are gone", "Removed")
        message = f"the Job has not ended within {int(PATIENCE)} s and may still hold its GPUs"
        return JobStatus(JobState.RUNNING, "Canceling", message, "Terminating")

    def run_and_keep(self, kept: Keepsake, evidence: Evidence, note: Callable[[str], None]) -> JobStatus:
        """The same, and the log goes to `kept` first. A full disk does not keep a job alive."""
        query = LogQuery(follow=True, tail=MOST_LINES)
        log = JobLog(self._api, query, self._view, self._timing)
        view = self._view()
        try:
            kept.remove()
            kept.append(log.backlog(view))
            self._delete()
            kept.append(line for line in log.live(view) if line.kind != "note")
        except RecordError as error:
            note(error.message)
        status = self.run()
        if status.state.terminal:
            _keep(kept, evidence, note)
        return status

    def _delete(self) -> None:
        try:
            self._api.delete("jobs", self._job.name, self._uid)
        except NotFound:
            return

    def _gone(self) -> bool:
        try:
            native = self._api.get("jobs", self._job.name)
        except NotFound:
            return True
        return bool(native["metadata"]["uid"] != self._uid)

    def _late(self) -> bool:
        return self._clock.monotonic() > self._deadline

    def _view(self) -> View:
        found = self._api.list("pods", labels=f"{names.JOB_ID}={self._job.id}")
        return View(found, over=not found or self._late(), stop=self._late())


def _keep(kept: Keepsake, evidence: Evidence, note: Callable[[str], None]) -> None:
    try:
        kept.keep(evidence)
    except RecordError as error:
        note(error.message)
