"""Instances: list them wherever they are, rent one and wait until commands run on it, delete it and see it gone."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tao_run.clock import Clock
from tao_run.errors import BackendRejected, BackendUnreachable, CredentialError, PermissionRefused, TaoRunError
from tao_run.platforms.brev import scripts
from tao_run.platforms.brev.client import BrevCli
from tao_run.platforms.brev.inventory import Instance, InstanceType, parse_instances, parse_orgs, parse_types
from tao_run.platforms.brev.plan import Plan
from tao_run.platforms.brev.states import INSTANCE_STATES

CREATE_TIMEOUT = 300.0
BOOT_INTERVAL, SSH_INTERVAL, DELETE_INTERVAL = 10.0, 5.0, 5.0
DELETE_LOOKS = 12
GONE = "DELETING"


class LaunchFailed(TaoRunError):
    """The job could not be started, and nothing of it is left."""

    code = "launch_failed"


class Fleet:
    """The instances of a Brev login."""

    def __init__(self, cli: BrevCli, clock: Clock, note: Callable[[str], None]) -> None:
        self.cli = cli
        self.clock = clock
        self.note = note

    # -- looking -------------------------------------------------------------------------------------------

    def orgs(self) -> list[str]:
        """Organizations of the login, the active one first."""
        return parse_orgs(self.cli.call("ls", "orgs", "--json"))

    def types(self, arguments: Sequence[str] = ()) -> list[InstanceType]:
        """Instance types that can be rented."""
        return parse_types(self.cli.call("search", "--json", *arguments))

    def listed(self, org: str = "") -> list[Instance]:
        """The instances of one organization, of the active one if not named."""
        return parse_instances(self.cli.call("ls", "--json", *(["--org", org] if org else [])), org)

    def locate(self, names: Sequence[str], org: str = "") -> dict[str, Instance]:
        """Instances by name (or id): in `org` or the active organization, and if not there in all others.

        Raises PermissionRefused if this login does not see `org` at all: then nothing is known of them.
        """
        found = _by_name(self.listed(), names)
        if len(found) == len(set(names)):
            return found
        orgs = self.orgs()
        for other in orgs[1:]:
            if len(found) < len(set(names)):
                found = {**_by_name(self.listed(other), names), **found}
        if org and org not in orgs and len(found) < len(set(names)):
            raise PermissionRefused(
                f"this brev login does not see the organization {org}", "`brev login` as a member of it"
            )
        return found

    def get(self, name: str, org: str = "") -> Instance | None:
        """One instance by name or id, or None if it is gone (or about to be)."""
        instance = self.locate([name], org).get(name)
        return None if instance is None or instance.status == GONE else instance

    # -- renting -------------------------------------------------------------------------------------------

    def rent(self, plan: Plan, wanted: InstanceType) -> None:
        """Create the plan's instance, or adopt the one of this name: an earlier answer may have been lost.

        Raises BackendRejected (no capacity, no such type), BackendUnreachable (it may exist now).
        """
        if self.get(plan.instance) is not None:
            self.note(f"instance {plan.instance} exists already and is used")
            return
        self.note(f"renting {wanted.describe()} as {plan.instance}")
        try:
            self.cli.call(*plan.create_command(wanted)[1:], timeout=CREATE_TIMEOUT)
        except CredentialError:
            raise
        except (BackendRejected, BackendUnreachable) as error:
            if self.get(plan.instance) is None:
                raise _refused(wanted, error) from None

    def await_ready(self, name: str, seconds: float) -> Instance:
        """Wait until a trivial command runs on the instance: RUNNING comes before ssh works.

        Raises LaunchFailed when it fails or is gone, BackendUnreachable when `seconds` are over.
        """
        deadline = self.clock.monotonic() + seconds
        instance = self._await_running(name, deadline, seconds)
        self.note(f"instance {name} is {instance.status}; waiting for ssh")
        while True:
            try:
                self.cli.exec(name, scripts.TRIVIAL)
                return instance
            except BackendUnreachable as error:
                if self.clock.monotonic() >= deadline:
                    raise _too_slow(name, seconds, error.message) from None
            self.clock.sleep(SSH_INTERVAL)

    def _await_running(self, name: str, deadline: float, seconds: float) -> Instance:
        while True:
            try:
                instance = self.get(name)
                if instance is not None and INSTANCE_STATES.get(instance.status, ("",)) is None:
                    return instance
                why = _still_booting(name, instance)
            except BackendUnreachable as error:  # boots take minutes: one lost answer is no reason to give up
                why = error.message
            if self.clock.monotonic() >= deadline:
                raise _too_slow(name, seconds, why)
            self.clock.sleep(BOOT_INTERVAL)

    # -- deleting ------------------------------------------------------------------------------------------

    def delete(self, name: str) -> None:
        """Delete an instance and see it go. Deleting one that is gone is no error.

        Raises BackendRejected if it is still there, BackendUnreachable if nobody answers.
        """
        instance = self.get(name)
        if instance is None:
            return
        try:
            self.cli.call("delete", instance.name)
        except BackendRejected as error:
            if self.get(name) is None:
                return  # somebody else was faster
            hint = f"brev set {instance.org}, then again" if instance.org else "`brev ls` shows it"
            raise BackendRejected(f"instance {name} could not be deleted: {error}", hint) from None
        for look in range(DELETE_LOOKS):
            if self.get(name) is None:
                return
            if look < DELETE_LOOKS - 1:
                self.clock.sleep(DELETE_INTERVAL)
        raise BackendRejected(f"instance {name} was told to go but is still there", f"brev delete {name}")


def _still_booting(name: str, instance: Instance | None) -> str:
    """What an instance that is not running yet is doing. Raises if it never will be."""
    if instance is None:
        raise BackendRejected(f"there is no instance {name}", "`tao-run instances list` shows what there is")
    if instance.status == "FAILURE":
        raise LaunchFailed(f"Brev could not make instance {name} ready (FAILURE)", "try another -o gpu_type=")
    if instance.status in ("STOPPED", "STOPPING"):
        raise BackendRejected(f"instance {name} is {instance.status}", f"start it: brev start {name}")
    return f"it is still {instance.status}"


def _too_slow(name: str, seconds: float, why: str) -> LaunchFailed:
    return LaunchFailed(
        f"instance {name} was not ready within {seconds:g} s: {why}", "-o boot_timeout=30m waits longer"
    )


def _by_name(instances: Sequence[Instance], names: Sequence[str]) -> dict[str, Instance]:
    found = {}
    for instance in instances:
        for name in names:
            if name in (instance.name, instance.id):
                found[name] = instance
    return found


def _refused(wanted: InstanceType, error: TaoRunError) -> TaoRunError:
    if isinstance(error, BackendUnreachable):
        return error
    full = "capacity" in error.message.lower() or "0/1 instances" in error.message
    hint = "`tao-run resources --platform brev` lists other types" if full else error.hint
    return BackendRejected(f"Brev did not make an instance of type {wanted.type}: {error}", hint)
