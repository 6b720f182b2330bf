"""Looking at jobs: one job by its id, many by one label query, and what became of those that are gone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tao_run.errors import BackendRejected, BackendUnreachable, NotFound, PermissionRefused, ProtocolError
from tao_run.jobs.model import Job, JobState, JobStatus, Replica
from tao_run.platforms.lepton.api import ALIVE_AND_ARCHIVE, LeptonApi, job_path
from tao_run.platforms.lepton.documents import number, part, word
from tao_run.platforms.lepton.labels import GROUP_LABEL, LABEL
from tao_run.platforms.lepton.states import read_status
from tao_run.platforms.lepton.workers import first_issue, read_replicas

if TYPE_CHECKING:
    from tao_run.platforms.lepton.ends import End

Document = dict[str, Any]
_PAGE = 500
_ONE_BY_ONE = 2
_MOST_PAGES = 200
_MOST_EXPLAINED = 50
_MOST_ASKED_AGAIN = 20
_DEFAULT_TTL = 259_200
_WAITING = ("Starting", "Queueing", "Restarting", "PendingRetry")
_NOT_YET_SECONDS = 60.0  # so long a job that was just accepted may be unknown to a part of the service


class Observer:
    """Reads jobs of one workspace."""

    def __init__(self, api: LeptonApi) -> None:
        self._api = api

    def statuses(self, jobs: Sequence[Job]) -> dict[str, JobStatus]:
        """The status of every job: a request each for one or two, pages of 500 jobs for more.

        Of many jobs that no list shows some are asked for at each look; the others are left out of the answer.
        """
        found = self._each(jobs) if len(jobs) <= _ONE_BY_ONE else self._listed(jobs)
        jobs = [job for job in jobs if job.backend_id in found]
        statuses = {job.id: self._status(job, found[str(job.backend_id)]) for job in jobs}
        self._add_issues(jobs, statuses)
        return self._explained(jobs, statuses, found)

    def document(self, job: Job) -> Document | None:
        """The job's document, or None if the workspace has no such job.

        Raises PermissionRefused if it is the workspace that is not there, ProtocolError for any other document.
        """
        try:
            answer = self._api.get(job_path(job.backend_id or ""), job_query_mode=ALIVE_AND_ARCHIVE)
        except NotFound:
            self._api.require_workspace()
            return None
        if not isinstance(answer, dict) or _metadata(answer).get("id") != job.backend_id:
            raise ProtocolError("the Lepton API answered with something that is not this job", "try again in a minute")
        return answer

    def find(self, job: Job) -> str | None:
        """The id of the job that carries our label; it is looked for by name too before it is said not to exist."""
        for question in ({"query": f"{LABEL}={job.id}"}, {"q": job.name}):
            rows = self._api.rows("/jobs", "jobs", **question, job_query_mode=ALIVE_AND_ARCHIVE, page=1, page_size=20)
            mine = [row for row in rows if _label(row) == job.id or _metadata(row).get("name") == job.name]
            mine.sort(key=lambda row: number(_metadata(row).get("created_at")))
            found = [word(_metadata(row).get("id")) for row in mine]
            if any(found):
                return next(filter(None, found))
        return None

    def replicas(self, job: Job) -> list[Replica]:
        """The job's workers by rank; none if it is gone or has not started."""
        return read_replicas(self.replica_rows(job))

    def replica_rows(self, job: Job) -> list[Document]:
        """The replicas as the API shows them."""
        try:
            return self._api.rows(job_path(job.backend_id or "", "replicas"), job_query_mode=ALIVE_AND_ARCHIVE)
        except NotFound:
            self._api.require_workspace()
            return []

    def ends(self, job: Job, document: Document) -> list[End]:
        """How the workers of the current attempt ended, as far as the log tells."""
        from tao_run.platforms.lepton.ends import Marks
        from tao_run.platforms.lepton.logs import JobLog

        marks = Marks(job.id)
        log = JobLog(self._api, document, job.created_at, marks)
        return marks.read(self._api, str(job.backend_id), log.start(), log.now())

    # -- one and many ----------------------------------------------------------------------------------

    def _each(self, jobs: Sequence[Job]) -> dict[str, Document | None]:
        return {str(job.backend_id): self.document(job) for job in jobs}

    def _listed(self, jobs: Sequence[Job]) -> dict[str, Document | None]:
        """Alive jobs by one label query, and the archive only for those that are missing then.

        A list proves nothing about a job that is not on it: such jobs are asked for one by one, those first whose
        last look is the longest ago.
        """
        groups = {job.group for job in jobs}
        group = next(iter(groups)) if len(groups) == 1 else None
        selector = f"{GROUP_LABEL}={group}" if group else LABEL
        wanted = {str(job.backend_id) for job in jobs}
        found: dict[str, Document] = {}
        for mode in ("alive_only", "archive_only"):
            self._collect(selector, mode, wanted, found)
        missing = [job for job in jobs if job.backend_id not in found]
        missing.sort(key=lambda job: job.status.observed_at or job.created_at)
        return {**found, **self._each(missing[:_MOST_ASKED_AGAIN])}

    def _collect(self, selector: str, mode: str, wanted: set[str], found: dict[str, Document]) -> None:
        seen: set[str] = set()
        for page in range(1, _MOST_PAGES):
            if wanted <= found.keys():
                return
            rows = {word(_metadata(row).get("id")): row for row in self._page(selector, mode, page, _PAGE)}
            if rows.keys() <= seen:
                return  # the end, or a service that does not turn pages
            seen |= rows.keys()
            found.update((key, row) for key, row in rows.items() if key in wanted)

    def _page(self, selector: str, mode: str, page: int, size: int) -> list[Document]:
        return self._api.rows("/jobs", "jobs", query=selector, job_query_mode=mode, page=page, page_size=size)

    # -- what is said of one ---------------------------------------------------------------------------

    def _status(self, job: Job, document: Document | None) -> JobStatus:
        now = self._api.clock.now()
        if document is not None:
            return read_status(document, job.status, now)
        age = (now - job.created_at).total_seconds()
        if age < _NOT_YET_SECONDS and not job.status.native_state:
            message = "was accepted a moment ago, and is not listed yet"
            return JobStatus(JobState.PENDING, message=message, observed_at=now)
        if age > int(job.options.get("ttl_seconds") or _DEFAULT_TTL):
            message = "Lepton has no record of the job any more, and how it ended was not seen in time"
            return JobStatus(JobState.UNKNOWN, "Expired", message, "Gone", observed_at=now)
        message = "the job was deleted from the workspace by someone else before it was seen to end"
        return JobStatus(JobState.CANCELED, "Removed", message, "Gone", observed_at=now)

    def _add_issues(self, jobs: Sequence[Job], statuses: dict[str, JobStatus]) -> None:
        """Why jobs wait: asked of the replicas of a few at each look, and kept of the others as last seen."""
        waiting = [job for job in jobs if statuses[job.id].native_state in _WAITING]
        known = {job.id for job in waiting if _knows_issue(job.status, statuses[job.id])}
        asked = 0 if len(jobs) > _PAGE else _ONE_BY_ONE
        for job in sorted(waiting, key=lambda job: job.id in known):
            if asked > 0:
                asked -= 1
                statuses[job.id] = self._with_issue(job, statuses[job.id])
            elif job.id in known:
                statuses[job.id] = replace(statuses[job.id], reason=job.status.reason, message=job.status.message)

    def _with_issue(self, job: Job, status: JobStatus) -> JobStatus:
        replica = first_issue(self.replicas(job))
        if replica is None:
            return status
        return replace(status, reason=replica.issue_reason, message=replica.issue_message)

    def _explained(
        self, jobs: Sequence[Job], statuses: dict[str, JobStatus], found: dict[str, Document | None]
    ) -> dict[str, JobStatus]:
        """With exit codes of the jobs that failed; that they failed is known also if the log cannot be read."""
        failed = [job for job in jobs if statuses[job.id].state is JobState.ERROR]
        try:
            for job in failed[:_MOST_EXPLAINED]:
                document = found[str(job.backend_id)]
                if document is not None:
                    statuses[job.id] = self._explain(job, statuses[job.id], document)
        except (BackendUnreachable, BackendRejected, PermissionRefused):
            return statuses
        return statuses

    def _explain(self, job: Job, status: JobStatus, document: Document) -> JobStatus:
        from tao_run.platforms.lepton.ends import explain

        return explain(status, self.ends(job, document))


def _knows_issue(last: JobStatus, now: JobStatus) -> bool:
    return last.native_state == now.native_state and last.reason not in ("", now.reason)


def _metadata(row: Document) -> Mapping[str, Any]:
    return part(row, "metadata")


def _label(row: Document) -> str | None:
    return word(part(_metadata(row), "labels").get(LABEL)) or None
