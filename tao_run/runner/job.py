"""One job from plan to exit code: stage, run, deliver, and tell the truth about each."""

from __future__ import annotations

import os
import shutil
import tempfile
from functools import partial
from typing import Any, Callable, Dict, Mapping, Optional

from . import log, process
from .command import Data, command_text, write_config
from .context import child_environment, declared_buckets, make_context, secret_values
from .deliver import Deliverer, Periodic
from .errors import InputError, OutputError, RunnerError, Stopped, StoreError
from .hub import Hubs
from .inputs import Fetcher, Inputs, stage_hub_uris
from .objects.base import settings_from
from .objects.choose import open_store
from .outputs import Outputs
from .packages import Packages
from .plan import Plan
from .record import Record
from .resume import resume
from .stage import Stage
from .stop import Stop
from .transfer import Transfers

_SHELL = "/bin/bash"


class Job:
    """Runs one plan. Construction makes the results directory. Raises OutputError."""

    def __init__(self, plan: Plan, env: Mapping[str, str], stop: Stop) -> None:
        self._plan, self._env, self._stop = plan, env, stop
        self.context = make_context(plan, env)
        self._private = tempfile.mkdtemp(prefix="tao-run-")
        self._packages = Packages(env, plan.mount)
        self._opened: Optional[Transfers] = None
        root = plan.mount or os.path.join(self.context.work, "inputs")
        self._stage = Stage(root, self._transfers, stop, plan.refresh)
        self._data = Data(plan)
        self.record = Record(self.context.work, self.context.record_name, secret_values(env))

    def _transfers(self) -> Transfers:
        if self._opened is None:
            self._opened = Transfers(open_store(self._env, self._packages), self._stop)
        return self._opened

    def run(self) -> int:
        """Do it all. Returns the exit code: the command's own, 128 + n after a signal, or the runner's."""
        self._begin()
        deliverer: Optional[Deliverer] = None
        try:
            with self.record.timed("inputs"):
                inputs = self._stage_inputs()
            outputs = Outputs(self._plan.outputs, self.context, self._plan.mount, self._data.read, self._data.write)
            command = self._prepare(inputs, outputs)
            trees = partial(outputs.trees, self._stage.root)
            deliverer = Deliverer(trees, self._plan.upload_excludes, self._transfers, self._stage.adopt)
            if self.context.rank == 0:
                deliverer.deliver(final=True, quiet=True)  # record and spec: proves that results can be stored
            code = self._execute(command, deliverer)
            return self._end(code, deliverer, outputs)
        except Stopped as stopped:
            log.say(f"stopped by signal {stopped.number} before the command began")
            return self._fail(128 + stopped.number, deliverer)
        except StoreError as error:
            return self._fail(self._say(InputError(error.message, error.hint)), deliverer)
        except RunnerError as error:
            return self._fail(self._say(error), deliverer)
        except OSError as error:
            return self._fail(self._say(_of_system(error)), deliverer)

    def _begin(self) -> None:
        context, plan = self.context, self._plan
        where = f"{context.work} and {context.uri}" if context.uri else context.work
        rank = f", rank {context.rank} of {context.nodes}" if context.nodes > 1 else ""
        log.say(f"job {context.job_id}{rank}, results in {where}")
        self.record.put(
            job_id=context.job_id,
            rank=context.rank,
            nodes=context.nodes,
            split_id=plan.split_id,
            mode=plan.mode,
            command=plan.command,
            results={"directory": context.work, "uri": context.uri or None},
        )

    def _stage_inputs(self) -> Dict[str, str]:
        """Bring the inputs; returns the names that they go by in the command."""
        plan, data = self._plan, self._data
        hubs = Hubs(self._env, self._stage, self._packages, self._stop)
        fetcher = Fetcher(self._stage, hubs, self._packages, self._may_ask_store())
        inputs = Inputs(plan.inputs, fetcher, data.read, data.write)
        try:
            inputs.stage()
            data.value = stage_hub_uris(data.value, fetcher, inputs.report)
        finally:
            self.record.put(inputs=inputs.report)
        return inputs.names

    def _may_ask_store(self) -> bool:
        """Without keys, data that already lies on a mount is used as it is."""
        return bool(settings_from(self._env).access_key) or not self._plan.mount

    def _prepare(self, inputs: Dict[str, str], outputs: Outputs) -> str:
        """Write the spec and fill in the command."""
        context, plan = self.context, self._plan
        names = {**inputs, **outputs.names, "job_id": context.job_id, "results_dir": context.work}
        split_id = plan.split_id if plan.split_id is not None else self._env.get("TAO_SPLIT_ID")
        if split_id is not None:
            names["split_id"] = split_id
        if self._data.has_spec:
            found = resume(self._data.value, context.work, self._stage.root, self._env)
            if found:
                log.say(f"resuming from {found}")
        # ranks that share a directory must not write over each other; rank 0's spec is part of the results
        folder = context.work if context.rank == 0 else self._private
        path = write_config(plan, self._data, names, folder)
        if path is not None:
            names["config_path"] = path
        return command_text(plan, self._data, names)

    def _execute(self, command: str, deliverer: Deliverer) -> int:
        env = child_environment(self._env, self.context, declared_buckets(self._plan, self.context, self._env))
        shell = _SHELL if os.path.exists(_SHELL) else shutil.which("bash") or "/bin/sh"
        self.record.put(state="running")
        runner = process.Command([shell, "-c", command], env, self._stop, process.grace_from(self._env))
        with self.record.timed("command"), Periodic(deliverer, self._plan.upload_interval):
            code = runner.run()
        log.say(f"the command ended with exit code {code}" + (f" (signal {code - 128})" if code > 128 else ""))
        return code

    def _end(self, code: int, deliverer: Deliverer, outputs: Outputs) -> int:
        """Deliver whatever there is, however the command ended, and check what was promised."""
        self.record.put(state="delivering", outputs=outputs.report())
        code = self._attempt(code, lambda: self._deliver(deliverer))
        if code == 0:
            code = self._attempt(code, outputs.require_all)
        self._finish(code, deliverer)
        return code

    def _deliver(self, deliverer: Deliverer) -> None:
        with self.record.timed("outputs"):
            deliverer.deliver(final=True)
            deliverer.verify()
            self._stage.index.flush()

    def _attempt(self, code: int, action: Callable[[], Any]) -> int:
        """The exit code after an action: the command's own failure is never replaced by a later one."""
        try:
            action()
        except RunnerError as error:
            own = self._say(error)
            return code or own
        except OSError as error:
            own = self._say(_of_system(error))
            return code or own
        return code

    def _fail(self, code: int, deliverer: Optional[Deliverer]) -> int:
        if isinstance(deliverer, Deliverer):
            self._finish(code, deliverer)
        else:
            self.record.end(code)
        return code

    def _finish(self, code: int, deliverer: Deliverer) -> None:
        """Write the last record and deliver it too."""
        moved = {"files": deliverer.files, "bytes": deliverer.bytes}
        client = self._opened.store.name if self._opened else None
        self.record.end(code, delivered=moved, object_client=client)
        self._attempt(code, lambda: deliverer.deliver(final=True, quiet=True))

    @staticmethod
    def _say(error: RunnerError) -> int:
        log.error(error)
        return error.exit_code or OutputError.exit_code

    def close(self) -> None:
        """Remove what is temporary."""
        self._stage.close()
        self._packages.close()
        shutil.rmtree(self._private, ignore_errors=True)


def _of_system(error: OSError) -> RunnerError:
    """A full disk, a missing right: whatever the system refuses, in one line."""
    return RunnerError(f"{error.filename or 'the system'}: {error.strerror or error}", "check space and rights")
