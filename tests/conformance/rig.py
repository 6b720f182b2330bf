"""A rig: everything the conformance suite needs to run one platform for real. Each platform brings one."""

from __future__ import annotations

import contextlib
import importlib
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, ClassVar

from tao_run.clock import Clock, SystemClock
from tao_run.credentials import Credentials
from tao_run.jobs.request import JobRequest, parse_request
from tao_run.jobs.store import Store
from tao_run.platforms.base import Platform

CANARY = "canary-7d1f0b$'\"x"  # planted in every credential; must appear nowhere but where it is meant to be


class Rig(ABC):
    """One backend, started once for the session. `start` skips with a clear reason where it cannot run."""

    name: ClassVar[str]
    #: seconds that a trivial job may take from submission to its end
    patience: ClassVar[float] = 60.0
    #: most requests (remote commands, API calls) that polling 20 jobs of one account may cost
    poll_bound: ClassVar[int] = 3
    multi_node: ClassVar[bool] = True
    #: the image has Python 3.8 or newer, so the runner can work there
    has_python: ClassVar[bool] = True

    @abstractmethod
    def start(self, directory: Path) -> None:
        """Bring the backend up; `directory` is for its files."""

    def stop(self) -> None:  # noqa: B027 - a rig without a server has nothing to stop
        """End what `start` began."""

    @abstractmethod
    def environ(self) -> Mapping[str, str]:
        """Variables and credentials with which the platform reaches the backend."""

    def options(self) -> Mapping[str, Any]:
        """Platform options that every job here needs."""
        return {}

    def fields(self) -> Mapping[str, Any]:
        """Request fields that every job here needs (an image)."""
        return {}

    @abstractmethod
    def make(self, credentials: Credentials, store: Store, clock: Clock) -> Platform:
        """A fresh adapter, as a new process would have."""

    # -- what the backend has seen ---------------------------------------------------------------------

    @abstractmethod
    def requests(self) -> int | None:
        """How many requests the backend has had so far; None if that cannot be counted."""

    @abstractmethod
    def jobs_named(self, name: str) -> int:
        """How many jobs of this name the backend has ever been given and still knows."""

    @abstractmethod
    def seen_text(self) -> str:
        """All text in which a secret must not appear: argv, job specs, scripts, server logs, job directories."""

    # -- faults ----------------------------------------------------------------------------------------------

    @abstractmethod
    def unreachable(self) -> AbstractContextManager[None]:
        """While inside, the backend does not answer."""

    def refused(self) -> AbstractContextManager[None] | None:
        """While inside, the credential is refused (401). None if the platform knows no credential."""
        return None

    def lost_reply(self) -> AbstractContextManager[None] | None:
        """The next create succeeds on the backend and its answer is lost. None if that cannot happen."""
        return None

    def cut_streams(self) -> bool:
        """Break the log streams that are open now. False if there is no connection to break."""
        return False

    def remove(self, platform: Platform, job: Any) -> bool:
        """Remove a job behind our back, as another user would. False if that cannot happen."""
        return False

    # -- steps that tests share ---------------------------------------------------------------------------

    def request(self, command: str | list[str], **more: Any) -> JobRequest:
        """A request that really runs `command` on this backend."""
        data = {"platform": self.name, "command": command, "gpus": 0, **self.fields(), **more}
        options = {**self.options(), **data.pop("options", {})}
        return parse_request({**data, "options": {self.name: options}} if options else data, "rig")


class MovableClock(SystemClock):
    """The real clock, moved ahead by `ahead` seconds: to see what happens later without waiting."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def now(self) -> Any:
        from datetime import timedelta

        return super().now() + timedelta(seconds=self.ahead)


def all_rigs() -> list[str]:
    """The modules of tests/conformance/rigs, by name."""
    from tests.conformance import rigs

    return sorted(module.name for module in pkgutil.iter_modules(rigs.__path__))


def load_rig(name: str) -> Rig:
    """The rig of a module: its `RIG` class."""
    rig: Rig = importlib.import_module(f"tests.conformance.rigs.{name}").RIG()
    return rig


@contextlib.contextmanager
def nothing() -> Iterator[None]:
    """A context that changes nothing."""
    yield
