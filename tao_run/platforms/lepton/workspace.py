"""A workspace as the adapter sees it: discovery in few, concurrent requests; secrets and pull secrets of a job."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar
from urllib.parse import quote

from tao_run.errors import Conflict, NotFound, TaoRunError
from tao_run.platforms.lepton.api import LeptonApi
from tao_run.platforms.lepton.body import pull_secret_name, secret_name, secret_prefix
from tao_run.platforms.lepton.discovery import SHARED, NodeGroup, Shape, choose_group, read_group, read_shape
from tao_run.platforms.lepton.documents import word
from tao_run.platforms.lepton.sdk import LeptonSdk

T = TypeVar("T")
U = TypeVar("U")
_NGC_REGISTRY = "nvcr.io"
_NGC_USER = "$oauthtoken"


class Workspace:
    """One workspace through leptonai."""

    def __init__(self, api: LeptonApi) -> None:
        self.api = api
        self.sdk = LeptonSdk(api)

    def groups(self) -> list[NodeGroup]:
        """All dedicated node groups."""
        return [group for group in map(read_group, self.sdk.node_groups()) if group.id]

    def group(self, wanted: str | None) -> NodeGroup:
        """The group of this name or id; the shared capacity, without a request, if none is named."""
        return choose_group(self.groups(), wanted) if wanted else SHARED

    def shapes(self, group: NodeGroup) -> list[Shape]:
        """What jobs may ask for in a group."""
        return [shape for shape in map(read_shape, self.sdk.shapes(group.id)) if shape.id]

    def permissions(self, volume: str, group: NodeGroup) -> list[dict[str, Any]]:
        """The storage permission rules of a volume."""
        return self.sdk.permissions(volume, group.id)

    # -- what a job needs to be there --------------------------------------------------------------------

    def create_secrets(self, job_id: str, values: Mapping[str, str]) -> None:
        """Workspace secrets of one job, by credential name. Those that are there already are made anew."""
        named = {secret_name(job_id, name): value for name, value in values.items()}
        try:
            self.sdk.create_secrets(named)
        except Conflict:
            self.delete_secrets(job_id)
            self.sdk.create_secrets(named)

    def create_pull_secret(self, job_id: str, key: str) -> None:
        """The job's image pull secret for NVIDIA's registry; one that is there already is made anew."""
        name = pull_secret_name(job_id)
        spec = {"registry_server": _NGC_REGISTRY, "username": _NGC_USER, "password": key}
        body = {"metadata": {"name": name, "id": name}, "spec": spec}
        try:
            self.api.post("/imagepullsecrets", body)
        except Conflict:
            self.delete_pull_secret(job_id)
            self.api.post("/imagepullsecrets", body)

    def delete_secrets(self, job_id: str) -> None:
        """Remove the workspace secrets of one job."""
        names = [word(row.get("name")) for row in self.api.rows("/usersecrets")]
        for name in names:
            if name.startswith(secret_prefix(job_id)):
                self._remove("/usersecrets", name)

    def delete_pull_secret(self, job_id: str) -> None:
        """Remove the job's image pull secret."""
        self._remove("/imagepullsecrets", pull_secret_name(job_id))

    def _remove(self, collection: str, name: str) -> None:
        try:
            self.api.delete(f"{collection}/{quote(name, safe='')}")
        except NotFound:
            pass


def both(first: Callable[[], T], second: Callable[[], U]) -> tuple[T, U]:
    """Two independent requests at the same time. Raises the first one's error if both fail."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        other = pool.submit(second)
        try:
            mine = first()
        except TaoRunError:
            other.exception()
            raise
        return mine, other.result()
