"""The GPUs of this machine, and which job holds which: no GPU is given to two jobs."""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tao_run.jobs.commas import comma_parts
from tao_run.platforms.local.jobdir import JobDir, read_json, write_durably
from tao_run.platforms.nvidia import Gpu, local_gpus


def find_gpus(environ: Mapping[str, str]) -> list[Gpu]:
    """The GPUs that jobs may use: TAO_RUN_LOCAL_GPUS (ids), else those of nvidia-smi.

    CUDA_VISIBLE_DEVICES of the caller narrows the choice, as it would for any program.
    """
    named = environ.get("TAO_RUN_LOCAL_GPUS")
    found = [Gpu(name) for name in _ids(named)] if named is not None else local_gpus()
    visible = environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return found
    return [gpu for gpu in found if gpu.index in _ids(visible)]


def _ids(text: str) -> list[str]:
    """Ids separated by commas, each once: a GPU named twice is still one GPU."""
    return list(dict.fromkeys(comma_parts(text)))


class Bookings:
    """Which job directory holds which GPU ids, under a file lock. Bookings of dead jobs lapse."""

    def __init__(self, root: Path) -> None:
        self._table = root / "gpus.json"
        self._lock = root / "gpus.lock"

    def take(self, pool: list[str], count: int, holder: Path) -> list[str] | None:
        """Book `count` of `pool` for the job of directory `holder`, or None if not enough are free."""
        with self._locked() as (held, save):
            free = [gpu for gpu in pool if gpu not in held]
            if len(free) < count:
                return None
            save({**held, **{gpu: str(holder) for gpu in free[:count]}})
            return free[:count]

    def release(self, holder: Path) -> None:
        """Give back what a job holds."""
        with self._locked() as (held, save):
            save({gpu: path for gpu, path in held.items() if path != str(holder)})

    def held(self) -> dict[str, str]:
        """GPU id -> job directory, of living jobs."""
        with self._locked() as (held, _):
            return dict(held)

    @contextmanager
    def _locked(self) -> Iterator[tuple[dict[str, str], Callable[[dict[str, str]], None]]]:
        self._lock.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._lock.open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            held: dict[str, str] = read_json(self._table) or {}
            living = {gpu: path for gpu, path in held.items() if JobDir(Path(path)).alive()}
            yield living, lambda table: write_durably(self._table, table)
