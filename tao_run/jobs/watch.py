"""Poll jobs until all have ended: an iterator of sweeps, whoever shows them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tao_run.clock import Clock
from tao_run.jobs.observe import Sweep

_FIRST_DELAYS = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)


def watch(look: Callable[[], Sweep], clock: Clock, interval: float, timeout: float | None = None) -> Iterator[Sweep]:
    """Sweeps at growing delays up to `interval` seconds, until all jobs have ended or `timeout` seconds passed."""
    deadline = None if timeout is None else clock.monotonic() + timeout
    tick = 0
    while True:
        sweep = look()
        yield sweep
        if sweep.ended:
            return
        delay = min(interval, _FIRST_DELAYS[tick]) if tick < len(_FIRST_DELAYS) else interval
        if deadline is not None and clock.monotonic() + delay >= deadline:
            clock.sleep(deadline - clock.monotonic())
            yield look()
            return
        clock.sleep(delay)
        tick += 1
