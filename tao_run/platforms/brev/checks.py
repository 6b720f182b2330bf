"""Brev's launch checks: the tool, the login, the instance or the type that is asked for, where the data lies."""

from __future__ import annotations

from tao_run.errors import TaoRunError
from tao_run.jobs.model import Check
from tao_run.jobs.request import JobRequest
from tao_run.platforms.brev.client import INSTALL
from tao_run.platforms.brev.fleet import Fleet
from tao_run.platforms.brev.inventory import choose_type
from tao_run.platforms.brev.options import BrevOptions
from tao_run.platforms.brev.plan import local_paths, search_arguments
from tao_run.platforms.brev.states import INSTANCE_STATES

TESTED_VERSION = "0.6.99"


def run_checks(fleet: Fleet, request: JobRequest | None, options: BrevOptions) -> list[Check]:
    """All checks, whatever the first ones say; what cannot be looked at any more is skipped."""
    checks = [_tool(fleet)]
    if checks[0].status == "failed":
        return [*checks, Check("brev.login", "skipped", "without the brev tool nothing can be asked")]
    checks.append(_login(fleet))
    if request is not None:
        allowed = checks[-1].status == "ok"
        checks.append(_place(fleet, request, options) if allowed else _unasked("brev.place"))
        checks.append(_data(request))
    return checks


def _unasked(name: str) -> Check:
    return Check(name, "skipped", "without a login nothing can be asked")


def _tool(fleet: Fleet) -> Check:
    try:
        version = fleet.cli.version()
    except TaoRunError as error:
        return Check("brev.tool", "failed", error.message, f"install it: {INSTALL}")
    return Check("brev.tool", "ok", f"brev {version} (written against {TESTED_VERSION})")


def _login(fleet: Fleet) -> Check:
    try:
        orgs = fleet.orgs()
    except TaoRunError as error:
        return Check("brev.login", "failed", error.message, error.hint or "`brev ls orgs` must work on this machine")
    if not orgs:
        return Check("brev.login", "failed", "the login belongs to no organization", "see the Brev console")
    return Check("brev.login", "ok", f"logged in, organization {orgs[0]}")


def _place(fleet: Fleet, request: JobRequest, options: BrevOptions) -> Check:
    """The instance that is named, or the type that would be rented."""
    try:
        if options.instance:
            return _instance(fleet, options.instance)
        gpus = request.gpus_or(1)
        if not options.gpu_type:
            return Check("brev.place", "failed", "nothing says where to run", "-o gpu_type=L40S or -o instance=NAME")
        chosen = choose_type(fleet.types(search_arguments(options)), options.gpu_type, gpus)
    except TaoRunError as error:
        return Check("brev.place", "failed", error.message, error.hint or "`brev search` and `brev ls` must work here")
    return Check("brev.place", "ok", f"would rent {chosen.describe()}")


def _instance(fleet: Fleet, name: str) -> Check:
    instance = fleet.get(name)
    if instance is None:
        hint = "`tao-run instances list` shows what there is"
        return Check("brev.place", "failed", f"there is no instance {name}", hint)
    if instance.status == "UNHEALTHY":
        return Check("brev.place", "failed", f"instance {name} is UNHEALTHY", f"brev reset {name}, or another one")
    if INSTANCE_STATES.get(instance.status, ("",)) is not None:
        fix = f"brev start {name}" if instance.status == "STOPPED" else "wait until `brev ls` shows it RUNNING"
        return Check("brev.place", "failed", f"instance {name} is {instance.status}", fix)
    return Check("brev.place", "ok", f"instance {name} ({instance.type}) is running")


def _data(request: JobRequest) -> Check:
    """No instance sees this machine's disk or any shared file system."""
    local = local_paths(request)
    if not local:
        return Check("brev.data", "ok", "no local paths are used")
    listed = ", ".join(f"{where} {uri}" for where, uri in local)
    return Check("brev.data", "failed", f"an instance cannot see {listed}", "copy the data to s3:// and use that")
