"""The one call that creates: image, devices, container, files, start; nothing is left behind when it fails."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tao_run.errors import (
    BackendFault,
    BackendRejected,
    BackendUnreachable,
    Conflict,
    NotFound,
    TaoRunError,
    Unavailable,
    UsageError,
)
from tao_run.platforms.docker.client import Daemon
from tao_run.platforms.docker.create import LABEL_GPUS, LABEL_ID, LABEL_NAME, Plan, container_body
from tao_run.platforms.docker.gpus import cdi_gpus, choose, conflicts, requested_devices
from tao_run.platforms.docker.pull import ensure_image
from tao_run.platforms.docker.staging import stage
from tao_run.platforms.nvidia import Gpu, local_gpus

_TRIES = 12
_PAUSE = 0.5  # seconds before something is done again after the connection broke
_NO_GPUS = "this engine ignored the request for GPUs"
#: seconds after which a container that was created and not started will never be started by its launcher
START_GRACE = 300.0
UNSTARTED = ("created", "configured", "initialized")
_LIVE = (*UNSTARTED, "running", "paused", "restarting")


def start(
    daemon: Daemon,
    plan: Plan,
    secrets: Mapping[str, str],
    payload: bytes | None,
    auth: Mapping[str, str] | None,
    say: Callable[[str], None],
) -> str:
    """Create and start the container of a job; returns its id. Raises as `Platform.launch` does."""
    try:
        plan = _fit_user(daemon, plan)
        _make_results(daemon, plan)
        ensure_image(daemon, plan.image, plan.options.pull_policy or "missing", auth, say)
        remove_unstarted(daemon)
    except BackendUnreachable as error:  # before the create: there is nothing to look for
        raise Unavailable(error.message, error.hint) from None
    container = _create(daemon, plan)
    try:
        _patiently(daemon, lambda: _finish(daemon, container, plan, secrets, payload))
        with daemon.translated():
            daemon.api.start(container)
    except BackendFault as error:
        _settle_fault(daemon, container, error)
    except BackendUnreachable:
        raise  # it may run: the caller looks for it
    except TaoRunError:
        remove(daemon, container)
        raise
    return container


def _patiently(daemon: Daemon, step: Callable[[], None]) -> None:
    """Do what may be done twice, once more if the connection broke. Never for the start: a job runs once."""
    try:
        step()
    except BackendUnreachable:
        daemon.clock.sleep(_PAUSE)
        step()


def _settle_fault(daemon: Daemon, container: str, error: BackendFault) -> None:
    """The engine answered the start with a fault: either it runs all the same, or nothing of it stays."""
    with daemon.translated():
        state = daemon.api.inspect_container(container)["State"]
    if not state.get("Running"):
        remove(daemon, container)
        raise BackendRejected(error.message, error.hint) from None


def _fit_user(daemon: Daemon, plan: Plan) -> Plan:
    """In a rootless engine, and with user namespaces, the container's root already is the caller or nobody."""
    if plan.user is None or plan.options.user != "auto":
        return plan
    options = " ".join(map(str, daemon.info.get("SecurityOptions") or []))
    return replace(plan, user=None) if "rootless" in options or "userns" in options else plan


def _make_results(daemon: Daemon, plan: Plan) -> None:
    for mount in plan.binds if daemon.is_local else ():
        try:
            Path(mount.source).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"cannot make the results directory {mount.source}: {error.strerror}") from None


# -- create, and devices that nobody else holds ----------------------------------------------------------------


def _create(daemon: Daemon, plan: Plan) -> str:
    """Create with free devices. Afterwards look again: of two launchers that took the same, both give way.

    The engine lists a container once it is created, so of two that clash at least one sees the other.
    """
    if not plan.gpus.wanted:
        return _create_container(daemon, plan)
    for attempt in range(_TRIES):
        chosen = _with_devices(daemon, plan, last=attempt == _TRIES - 1)
        if chosen is not None:
            container = _create_container(daemon, chosen)
            others = held_gpus(daemon, container)
            if plan.gpus.share or not conflicts(chosen.gpus.ids, {gpu: job for gpu, (job, _) in others.items()}):
                return container
            remove(daemon, container)
        daemon.clock.sleep(random.uniform(0.05, 0.5))
    raise BackendRejected("other jobs take the GPUs at the same moment", "submit again in a moment")


def _with_devices(daemon: Daemon, plan: Plan, last: bool) -> Plan | None:
    """The plan with devices, or None: what is missing is held by a container that may yet give way."""
    held = held_gpus(daemon)
    try:
        ids = choose(plan.gpus, {gpu: job for gpu, (job, _) in held.items()}, known_gpus(daemon))
    except BackendRejected:
        if not last and any(state == "created" for _, state in held.values()):
            return None
        raise
    return replace(plan, gpus=replace(plan.gpus, ids=ids, count=0))


def held_gpus(daemon: Daemon, but: str = "") -> dict[str, tuple[str, str]]:
    """Device -> (job, state of its container), over all jobs of ours on that daemon that have not ended."""
    held: dict[str, tuple[str, str]] = {}
    for one in list_containers(daemon, LABEL_GPUS):
        if one.get("State") in _LIVE and one.get("Id") != but:
            for gpu in one["Labels"][LABEL_GPUS].split(","):
                held[gpu] = (str(one["Labels"].get(LABEL_NAME, "")), str(one["State"]))
    return held


def known_gpus(daemon: Daemon) -> list[Gpu]:
    """The GPUs of the daemon's host, as far as they can be known from here."""
    return (local_gpus() if daemon.is_local else []) or cdi_gpus(daemon.info)


def list_containers(daemon: Daemon, *labels: str) -> list[dict[str, Any]]:
    """All containers that bear these labels, in any state, with one request."""
    with daemon.translated():
        return list(daemon.api.containers(all=True, filters={"label": list(labels)}))


def _create_container(daemon: Daemon, plan: Plan) -> str:
    try:
        return _post(daemon, plan)
    except Conflict:
        _clear_name(daemon, plan)
    return _post(daemon, plan)


def _post(daemon: Daemon, plan: Plan) -> str:
    try:
        with daemon.translated():
            return str(daemon.api.create_container_from_config(container_body(plan), plan.job.name)["Id"])
    except BackendUnreachable as error:
        if "already in use" in error.message:  # Podman says with 500 what Docker says with 409
            raise Conflict(error.message) from None
        return _after_lost_answer(daemon, plan, error)


def _after_lost_answer(daemon: Daemon, plan: Plan, error: BackendUnreachable) -> str:
    """The container, if the create came through. A fault is an answer: without a container nothing was created."""
    daemon.clock.sleep(_PAUSE)
    found = list_containers(daemon, f"{LABEL_ID}={plan.job.id}")
    if found:
        return str(found[0]["Id"])
    if isinstance(error, BackendFault):
        raise BackendRejected(error.message, error.hint) from None
    raise error


def _clear_name(daemon: Daemon, plan: Plan) -> None:
    """An unfinished container of this very job may hold its name: it is replaced. Anything else stays."""
    for one in list_containers(daemon, f"{LABEL_ID}={plan.job.id}"):
        if one.get("State") == "created":
            remove(daemon, str(one["Id"]))
            return
    raise BackendRejected(f"a container {plan.job.name} exists already", f"docker inspect {plan.job.name}")


def _finish(daemon: Daemon, container: str, plan: Plan, secrets: Mapping[str, str], payload: bytes | None) -> None:
    with daemon.translated():
        made = daemon.api.inspect_container(container)
    if plan.gpus.wanted and plan.options.runtime != "nvidia" and not requested_devices(made["HostConfig"]):
        raise BackendRejected(_NO_GPUS, "use Docker with nvidia-container-toolkit; Podman's API drops such requests")
    stage(daemon, container, secrets, payload, str(made["Config"].get("User") or ""))


# -- removal ---------------------------------------------------------------------------------------------------


def remove(daemon: Daemon, container: str) -> None:
    """Remove a container with its anonymous volumes; it is fine if it is gone already."""
    try:
        with daemon.translated():
            daemon.api.remove_container(container, force=True, v=True)
    except (NotFound, Conflict):  # 409: its removal is under way
        return


def remove_if_unstarted(daemon: Daemon, container: str) -> None:
    """Remove a container that was created and never started; one that runs or ran stays."""
    try:
        with daemon.translated():
            daemon.api.remove_container(container, v=True)  # without force: the engine refuses while it runs
    except (NotFound, Conflict):
        return


def remove_unstarted(daemon: Daemon) -> None:
    """Containers of ours whose launcher died before it started them: they hold devices and a secrets file."""
    unstarted = [one for one in list_containers(daemon, LABEL_ID) if one.get("State") == "created"]
    if not unstarted:
        return
    now = daemon.now().timestamp()
    for one in unstarted:
        if now - float(one.get("Created") or now) > START_GRACE:
            remove(daemon, str(one["Id"]))
