"""Creating a job: the Job first and suspended, then what belongs to it, then it is let go."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from tao_run.clock import Clock
from tao_run.errors import BackendUnreachable, Conflict, NotFound, TaoRunError
from tao_run.jobs.model import Job
from tao_run.platforms.kubernetes import names
from tao_run.platforms.kubernetes.client import Api
from tao_run.platforms.kubernetes.manifest import Manifest, completed, owned, with_values

T = TypeVar("T")
_DELAYS = (0.3, 1.0, 2.5)
_LONGEST_DELAY = 15.0
RESOURCES = {"Job": "jobs", "Service": "services", "Secret": "secrets", "ConfigMap": "configmaps"}


class Launching:
    """One submission. Every step may be repeated: what is there already and is ours is taken as created."""

    def __init__(self, api: Api, job: Job, clock: Clock, grace: float) -> None:
        self._api, self._job, self._clock, self._grace = api, job, clock, grace

    def run(self, manifests: list[Manifest], values: Mapping[str, str]) -> str:
        """Create everything and return the Job's uid.

        After BackendUnreachable a suspended Job may be there: nothing runs, and `find` and `poll` know it.
        After any other error nothing is left.
        """
        first, *belongings = manifests
        created = self._insist(lambda: self._create("jobs", first))
        uid = str(created["metadata"]["uid"])
        if not belongings:
            return uid
        try:
            for manifest in belongings:
                body = owned(with_values(manifest, values), created)
                self._insist(partial(self._create, RESOURCES[manifest["kind"]], body))
            self._let_go(uid, queued=names.QUEUE in first["metadata"]["labels"])
        except BackendUnreachable:
            raise
        except TaoRunError as error:
            self._remove(uid, error)
            raise
        return uid

    def _create(self, resource: str, body: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return self._api.create(resource, body)
        except Conflict:
            found = self._api.get(resource, body["metadata"]["name"])
            if (found["metadata"].get("labels") or {}).get(names.JOB_ID) != self._job.id:
                raise
            return found

    def _let_go(self, uid: str, queued: bool) -> None:
        age = (self._clock.now() - self._job.created_at).total_seconds()
        if age > self._grace:  # another process may have recorded by now that this was never launched
            self._api.delete("jobs", self._job.name, uid)
            raise BackendUnreachable(
                f"the cluster took {int(age)} s to accept the job; it was removed again", "submit it once more"
            )
        self._insist(lambda: self._api.patch("jobs", self._job.name, completed(queued)))

    def _remove(self, uid: str, cause: TaoRunError) -> None:
        try:
            self._insist(lambda: self._api.delete("jobs", self._job.name, uid))
        except NotFound:
            return
        except TaoRunError:
            left = f"the suspended Job is left: kubectl delete job -n {self._api.account.namespace} {self._job.name}"
            cause.hint = f"{cause.hint}; {left}" if cause.hint else left

    def _insist(self, step: Callable[[], T]) -> T:
        """Repeat a step whose answer was lost: a second time finds what the first one made."""
        for delay in _DELAYS:
            try:
                return step()
            except BackendUnreachable as error:
                asked = getattr(error, "retry_after", None) or 0.0
                self._clock.sleep(max(delay, min(asked, _LONGEST_DELAY)))
        return step()


def try_on_server(api: Api, manifests: list[Manifest]) -> list[str]:
    """Let the server judge every object without storing it. Raises BackendRejected, PermissionRefused."""
    accepted = []
    for manifest in manifests:
        api.create(RESOURCES[manifest["kind"]], manifest, dry_run=True)
        accepted.append(f"{manifest['kind']} {manifest['metadata']['name']}: accepted by {api.server}")
    return accepted
