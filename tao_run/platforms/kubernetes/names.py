"""Names, labels and annotations by which our objects are found again, and Kubernetes' own that we read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tao_run.errors import UsageError

if TYPE_CHECKING:
    from tao_run.jobs.model import Job

MANAGED_BY = "app.kubernetes.io/managed-by"
TAO_RUN = "tao-run"
JOB_ID = "tao-run/job-id"
GROUP = "tao-run/group"
#: `incomplete` while the Job waits, suspended, for its Secret and the like; then `complete`
LAUNCH = "tao-run/launch"
COMPLETE, INCOMPLETE = "complete", "incomplete"
QUEUE = "kueue.x-k8s.io/queue-name"
INDEX = "batch.kubernetes.io/job-completion-index"

CONTAINER = "tao"
PAYLOAD_DIRECTORY = "/var/run/tao-run"
PAYLOAD_FILE = "payload"
#: an Indexed pod's host name is `<job>-<index>` and may have 63 characters; an index has up to four digits
NAME_LIMIT = 58

_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_LABEL_NAME = re.compile(r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_FEW = 50


def labels_of(job: Job) -> dict[str, str]:
    """The user's labels and ours. Raises UsageError where Kubernetes would refuse one."""
    wanted: Mapping[str, str] = job.request.labels
    for key, value in wanted.items():
        if not _LABEL_NAME.fullmatch(key) or not _LABEL_VALUE.fullmatch(value):
            raise UsageError(
                f"label {key}={value} is not one that Kubernetes takes",
                "at most 63 letters, digits, - _ . with a letter or digit at both ends",
            )
    return {**wanted, MANAGED_BY: TAO_RUN, JOB_ID: job.id}


def selector_for(jobs: Sequence[Job]) -> str:
    """A label selector that covers these jobs in one list call: by id while the URL stays short, else all ours."""
    if len(jobs) == 1:
        return f"{JOB_ID}={jobs[0].id}"
    if len(jobs) <= _FEW:
        return f"{JOB_ID} in ({','.join(job.id for job in jobs)})"
    return f"{MANAGED_BY}={TAO_RUN}"


def secret_name(job: Job) -> str:
    """The Secret that holds the credentials of a job."""
    return f"{job.name}-env"


def pull_secret_name(job: Job) -> str:
    """The Secret with which the job's image is pulled."""
    return f"{job.name}-pull"


def payload_name(job: Job) -> str:
    """The ConfigMap that holds the runner and its plan."""
    return f"{job.name}-run"
