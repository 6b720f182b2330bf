"""Launch checks of what a job asks of its place: shape, nodes, queue, further mounts, and where its results go."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tao_run.errors import UsageError
from tao_run.jobs.model import Check
from tao_run.platforms.lepton.discovery import allowed_prefixes, choose_volume, owned_by_user
from tao_run.storage.mounts import within

if TYPE_CHECKING:
    from tao_run.jobs.request import JobRequest
    from tao_run.platforms.lepton.adapter import LeptonSDK
    from tao_run.platforms.lepton.options import MountOption
    from tao_run.platforms.lepton.preparing import Place


class Demands:
    """What a request asks of the place that was found for it. Reads only."""

    def __init__(self, platform: LeptonSDK, request: JobRequest, place: Place) -> None:
        self._request = request
        self._place = place
        self._options = platform.options(request)
        self._user = platform.storage_user(self._options)
        self._workspace = platform.workspace(platform.account(request))

    def checks(self) -> list[Check]:
        """What is wrong, and nothing else. Raises TaoRunError if the workspace cannot be asked."""
        found = [*self._shape(), *self._nodes(), *self._queue(), *self._results()]
        return [*found, *(check for item in self._options.mounts for check in self._mount(item))]

    def _shape(self) -> Iterator[Check]:
        """A shape that was named: its group offers it, with the GPUs that are asked for."""
        wanted, gpus = self._options.resource_shape, self._request.gpus
        if not wanted:
            return
        offered = {shape.id: shape for shape in self._workspace.shapes(self._place.group)}
        if wanted not in offered:
            listed = ", ".join(sorted(offered)) or "none"
            yield Check("lepton.shape", "failed", f"{self._place.group} has no shape {wanted}", f"there are: {listed}")
        elif gpus is not None and gpus != offered[wanted].gpus:
            detail = f"{gpus} GPUs per node are asked for, but shape {wanted} has {offered[wanted].gpus:g}"
            fewer = gpus < offered[wanted].gpus
            yield Check("lepton.shape", "ok" if fewer else "failed", detail, "make --gpus and the shape agree")

    def _nodes(self) -> Iterator[Check]:
        group, nodes = self._place.group, self._request.nodes
        if group.id and nodes > group.ready_nodes:
            detail = f"{nodes} nodes, but {group} has {group.ready_nodes} ready: the job waits until there are more"
            yield Check("lepton.nodes", "ok", detail, "ask for fewer --nodes, or another -o node_group=")

    def _queue(self) -> Iterator[Check]:
        group, options = self._place.group, self._options
        asked = (options.priority, options.can_be_preempted, options.can_preempt)
        if group.id and not group.quota and any(value is not None for value in asked):
            fix = "leave out priority, can_be_preempted and can_preempt"
            yield Check("lepton.queue", "failed", f"{group} has no quota: it knows no priorities", fix)

    def _results(self) -> Iterator[Check]:
        """A directory for results is on a mount: what is written elsewhere is gone with the container."""
        directory = self._request.results or ""
        mounted = [mount.mount_path for mount in self._options.mounts]
        mounted += [self._place.mount_path] if self._place.mount_path else []
        if directory.startswith("/") and not any(within(directory, root) for root in mounted):
            listed = ", ".join(mounted) or "nothing"
            detail = f"results in {directory} are lost when the job ends: it is on no mount; mounted: {listed}"
            yield Check("lepton.results", "failed", detail, "write results to s3://, or below a mount")

    def _mount(self, item: MountOption) -> Iterator[Check]:
        """A further mount: its volume exists, and its path may be mounted by this user."""
        if item.source.startswith("node-"):
            return
        group = self._place.group
        try:
            volume = choose_volume(group, item.source)
        except UsageError as error:
            yield Check("lepton.mount", "failed", error.message, error.hint)
            return
        rules = self._workspace.permissions(item.source, group) if volume else []
        allowed = allowed_prefixes(rules, self._user)
        known = allowed if self._user else [*allowed, *owned_by_user(rules)]
        if not any(within(item.path, root) for root in known):
            detail = f"{item.path} of volume {item.source} may not be mounted by you"
            yield Check("lepton.mount", "failed", detail, f"allowed: {', '.join(allowed) or 'none'}")
