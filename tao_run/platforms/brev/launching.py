"""Brings a job onto its instance: rent it, stage the files, set off the start script; undo all of it on failure."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from pathlib import Path

from tao_run.errors import BackendUnreachable, TaoRunError
from tao_run.platforms.brev import scripts
from tao_run.platforms.brev.fleet import Fleet, LaunchFailed
from tao_run.platforms.brev.parcels import parcel
from tao_run.platforms.brev.plan import Plan

_TRIES = 3
_PAUSE = 5.0  # seconds


class Launcher:
    """Launches one plan. `secrets` are values by container variable, `ngc_key` the registry's password; files are
    put together below `parcels`."""

    def __init__(
        self,
        fleet: Fleet,
        plan: Plan,
        secrets: Mapping[str, str],
        ngc_key: str,
        payload: bytes | None,
        parcels: Path,
    ) -> None:
        self.fleet = fleet
        self.plan = plan
        self._parcels = parcels
        self._files = _files(plan, secrets, ngc_key, payload)
        self._touched = self._set_off = False

    def run(self) -> str:
        """Launch; returns the instance's name. After any error but BackendUnreachable nothing is left."""
        try:
            if self.plan.rent is not None:
                self.fleet.rent(self.plan, self.plan.rent)
            instance = self.fleet.await_ready(self.plan.instance, self.plan.options.boot_timeout)
            self._stage(instance.name)
            self._start(instance.name)
            return instance.name
        except (TaoRunError, KeyboardInterrupt) as error:
            self._undo(error)
            raise

    def _stage(self, instance: str) -> None:
        self._touched = True
        self._exec(instance, scripts.prepare_directory())
        with parcel(self._parcels, self.plan.container.name, self._files) as made:
            self._again(lambda: self.fleet.cli.copy(made, instance, scripts.ROOT + "/"))

    def _start(self, instance: str) -> None:
        self._set_off = True
        self._again(lambda: self._exec(instance, scripts.launch(self.plan.container.name)))

    def _again(self, step: Callable[[], None]) -> None:
        """Do a step that may be repeated until it is answered."""
        for left in reversed(range(_TRIES)):
            try:
                return step()
            except BackendUnreachable:
                if not left:
                    raise
            self.fleet.clock.sleep(_PAUSE)

    def _exec(self, instance: str, script: str) -> None:
        done = self.fleet.cli.exec(instance, script)
        if done.code != 0:
            raise LaunchFailed(f"instance {instance}: {done.text.strip()[-300:] or f'exit code {done.code}'}")

    def _undo(self, error: BaseException) -> None:
        """Leave nothing behind. If that cannot be seen, the error becomes BackendUnreachable: `find` tells later.

        When it is not known whether the job was set off, it is left alone: it may be running.
        """
        name = self.plan.instance
        if self._set_off and isinstance(error, BackendUnreachable):
            return
        if self.plan.rent is None:
            if self._touched:  # else it may be stopped, and a command would start it
                self._forget(name)
            return
        if self.plan.options.keep_instance and self.fleet.get(name) is not None:
            self.fleet.note(f"instance {name} is kept and costs money: tao-run instances delete {name}")
            return
        try:
            self.fleet.delete(name)
        except TaoRunError as left:
            self.fleet.note(f"instance {name} may still cost money ({left}): tao-run instances delete {name}")
            raise BackendUnreachable(f"{error}; whether instance {name} is left is not known") from None
        if isinstance(error, BackendUnreachable):
            raise LaunchFailed(f"{error}; nothing is left of it", error.hint) from None

    def _forget(self, instance: str) -> None:
        try:
            self.fleet.cli.exec(instance, scripts.remove(self.plan.container.name))
        except TaoRunError:
            self.fleet.note(f"files of this job may be left on {instance} in {scripts.ROOT}/{self.plan.container.name}")


def _files(plan: Plan, secrets: Mapping[str, str], ngc_key: str, payload: bytes | None) -> dict[str, bytes]:
    """The files of a job by name. `env` sets the secrets in the environment of the docker command only."""
    files = {"start.sh": scripts.start_script(plan.container).encode()}
    if secrets:
        lines = [f"export {name}={shlex.quote(value)}" for name, value in secrets.items()]
        files["env"] = "\n".join([*lines, ""]).encode()
    if plan.container.registry:
        files["login"] = ngc_key.encode()
    return files if payload is None else {**files, "payload": payload}
