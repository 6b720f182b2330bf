"""What `watch` does: looks, shows changes in one of three ways, lets go of what ended jobs held."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from tao_run.cli.interrupting import detached
from tao_run.cli.notify import Notifier
from tao_run.cli.output.watch import Face, face_for
from tao_run.cli.watchrows import WatchRow, watch_row
from tao_run.errors import TaoRunError
from tao_run.jobs.model import JobState
from tao_run.jobs.retry import AutomaticRetry, analysis_of
from tao_run.jobs.watch import Watcher

if TYPE_CHECKING:
    from tao_run.analysis import FailureAnalysis
    from tao_run.cli.runtime import Runtime
    from tao_run.jobs.model import Job
    from tao_run.jobs.observe import Sweep

MOST_CAUSES = 25  # analyses cost requests of their own; what fails beyond this shows the backend's reason


def watch_jobs(
    runtime: Runtime,
    jobs: Sequence[Job],
    interval: float,
    timeout: float | None = None,
    on_change: str | None = None,
) -> int:
    """Show jobs until they have ended and return the exit code. `interval` and `timeout` are in seconds."""
    causes = Causes(runtime)
    retry = AutomaticRetry(runtime.platform_of, runtime.store, causes.of, runtime.output.note)
    watcher = Watcher(jobs, runtime.platform_of, runtime.store, runtime.clock, interval, successor=retry)
    runtime.interrupted = lambda: detached(list(watcher.jobs.values()))
    with face_for(runtime.output, runtime.clock, interval) as face:
        show = Show(runtime, face, causes, Notifier(on_change, runtime.output.note))
        for sweep in watcher.sweeps(timeout):
            show.sweep(sweep, watcher.next_look)
    code = outcome([job.status.state for job in watcher.jobs.values()])
    face.end(show.rows(), code)
    return code


def outcome(states: Sequence[JobState]) -> int:
    """The exit code of a set of jobs: 1 if any failed, 7 if any was canceled, 124 if any goes on, else 0."""
    if JobState.ERROR in states:
        return 1
    if JobState.CANCELED in states:
        return 7
    return 0 if all(state.terminal for state in states) else 124


class Causes:
    """Why jobs failed, each asked for once and only for so many jobs."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._known: dict[str, FailureAnalysis | None] = {}

    def of(self, job: Job) -> FailureAnalysis | None:
        """The analysis of a failed job. Raises what asking its platform raises."""
        if job.id not in self._known:
            platform = self._runtime.platform_of(job)
            self._known[job.id] = analysis_of(platform, job, self._runtime.clock.now())
        return self._known[job.id]

    def title(self, job: Job) -> str:
        """In a few words why a job failed; empty if it has not, or nobody could say."""
        if job.status.state is not JobState.ERROR or (job.id not in self._known and len(self._known) >= MOST_CAUSES):
            return ""
        try:
            found = self.of(job)
        except TaoRunError:
            self._known[job.id] = None  # the row shows the backend's own reason
            return ""
        return "" if found is None or found.certainty == "unknown" else found.title


class Show:
    """Turns sweeps into rows, and tells the face and the notifier what has changed."""

    def __init__(self, runtime: Runtime, face: Face, causes: Causes, notifier: Notifier) -> None:
        self._runtime = runtime
        self._face = face
        self._causes = causes
        self._notifier = notifier
        self._rows: dict[str, WatchRow] = {}

    def rows(self) -> list[WatchRow]:
        """The rows as they were last shown."""
        return list(self._rows.values())

    def sweep(self, sweep: Sweep, next_look: float) -> None:
        """Show what a sweep has changed."""
        before, self._rows = self._rows, {}
        changed: list[WatchRow] = []
        for job in sweep.jobs:
            row = self._row(job, before.get(job.id))
            self._rows[job.id] = row
            if job.id not in before or row.key != before[job.id].key:
                changed.append(row)
                if before:
                    self._notifier.changed(row)
                self._settle(job)
        self._face.show(list(self._rows.values()), changed, next_look)

    def _row(self, job: Job, before: WatchRow | None) -> WatchRow:
        now = self._runtime.clock.now()
        row = watch_row(job, now, before.changed_at if before else self._last_change(job))
        if before is not None and row.key == before.key:
            return replace(row, cause=before.cause)
        return replace(row, cause=self._causes.title(job), changed_at=now if before else row.changed_at)

    def _last_change(self, job: Job) -> datetime | None:
        history = self._runtime.store.history(job.id)
        return history[-1].observed_at if history else job.created_at

    def _settle(self, job: Job) -> None:
        """Let go of what an ended job held: `status` only looks, this is where a rented instance is given back."""
        if job.status.state.terminal:
            try:
                notes = self._runtime.platform_of(job).settle(job)
            except TaoRunError as error:
                notes = [f"{job.name}: {error.message}"]
            for note in notes:
                self._runtime.output.note(note)
