"""What a command is given: output, clock, environment, record, credentials and platforms. Tests pass their own."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tao_run.clock import Clock, SystemClock
from tao_run.errors import Interrupted

if TYPE_CHECKING:
    from tao_run.cli.output import Output
    from tao_run.credentials import Credentials
    from tao_run.jobs.model import Job
    from tao_run.jobs.store import Store
    from tao_run.platforms.base import Platform


class Format(str, Enum):
    """How results are printed."""

    text = "text"
    json = "json"


FormatOption = Annotated[Format | None, typer.Option("--format", help="Output as text or JSON.")]


class Runtime:
    """Everything a command needs of the outside world, made when first used."""

    def __init__(self, output: Output, environ: Mapping[str, str], clock: Clock | None = None) -> None:
        self.output = output
        self.environ = environ
        self.clock: Clock = clock or SystemClock()
        self.debug = False
        self.command: list[str] | None = None  # what stands after `--`
        # says what Ctrl-C leaves behind: commands replace it once there is something to come back to
        self.interrupted: Callable[[], Interrupted] = lambda: Interrupted("interrupted")
        self._platforms: dict[str, Platform] = {}

    @classmethod
    def from_process(cls) -> Runtime:
        """The runtime of the console script."""
        from tao_run.cli.output import Output

        return cls(Output.from_process(os.environ), os.environ)

    def set_format(self, wanted: Format | None) -> None:
        """Choose the output format; None keeps what was chosen before the command."""
        if wanted is not None:
            self.output.json = wanted is Format.json

    def can_ask(self) -> bool:
        """Whether somebody is there to answer a question: questions go to stderr, answers come from stdin."""
        return self.output.err.isatty() and sys.stdin is not None and sys.stdin.isatty()

    @cached_property
    def store(self) -> Store:
        """The record of jobs."""
        from tao_run.jobs.store import Store, state_dir

        return Store(state_dir(self.environ))

    @cached_property
    def credentials(self) -> Credentials:
        """The user's credentials; what is wrong with the file is said once on stderr."""
        from tao_run.credentials import Credentials

        loaded = Credentials.load(self.environ)
        for warning in loaded.warnings:
            self.output.note(f"warning: {warning}")
        return loaded

    def platform(self, name: str) -> Platform:
        """The adapter of a platform, one per name and process."""
        from tao_run.platforms.registry import canonical, make

        wanted = canonical(name)
        if wanted not in self._platforms:
            self._platforms[wanted] = make(
                wanted, credentials=self.credentials, store=self.store, clock=self.clock, note=self.output.note
            )
        return self._platforms[wanted]

    def platform_of(self, job: Job) -> Platform:
        """The adapter that a recorded job belongs to."""
        return self.platform(job.platform)


def runtime_of(ctx: typer.Context, wanted: Format | None = None) -> Runtime:
    """The runtime of this invocation, with the command's own --format applied."""
    runtime: Runtime = ctx.obj
    runtime.set_format(wanted)
    return runtime


def leave(code: int) -> Any:
    """End the command with an exit code; 0 is the usual end."""
    if code:
        raise typer.Exit(code)
