"""Checkpoints among the results of a job: which files they are, their epoch and metric as far as names tell."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

SUFFIXES = (".pth", ".pth.tar", ".pt", ".ckpt", ".tlt", ".hdf5", ".safetensors", ".bin")
_NOT_OURS = re.compile(r"(^|/)(inputs|ptm|\.[^/]*)/")
_EPOCH = re.compile(r"(?:^|[^a-z])(?:epoch|ep|e)[_=-]?0*(\d+)", re.IGNORECASE)
_STEP = re.compile(r"(?:^|[^a-z])(?:step|iter|iteration|global_step|checkpoint)[_=-]?0*(\d+)", re.IGNORECASE)
_METRIC = re.compile(r"(?:^|[-_/])([a-z]\w*?)=(-?\d+(?:\.\d+)?)", re.IGNORECASE)
_NO_METRIC = {"epoch", "step", "iter", "iteration", "global_step", "ep", "e"}
_LATEST = re.compile(r"latest|last", re.IGNORECASE)


@dataclass(frozen=True)
class Checkpoint:
    """A file one can resume from. `path` is below the results directory, `size` in bytes."""

    path: str
    size: int | None = None
    epoch: int | None = None
    step: int | None = None
    metric: str = ""
    value: float | None = None
    latest: bool = False


def checkpoints_of(files: Iterable[tuple[str, int | None]]) -> list[Checkpoint]:
    """The checkpoints among files, the furthest last. Empty files and downloaded models are none."""
    found = [_checkpoint(path, size) for path, size in files if _is_one(path, size)]
    return sorted(found, key=lambda item: (_rank(item), item.path))


def _is_one(path: str, size: int | None) -> bool:
    return path.lower().endswith(SUFFIXES) and size != 0 and not _NOT_OURS.search(path)


def _checkpoint(path: str, size: int | None) -> Checkpoint:
    name = path.rpartition("/")[2]
    epoch, step = _EPOCH.search(name), _STEP.search(name)
    metric = next((found for found in _METRIC.finditer(name) if found[1].lower() not in _NO_METRIC), None)
    return Checkpoint(
        path,
        size,
        int(epoch[1]) if epoch else None,
        int(step[1]) if step else None,
        metric[1] if metric else "",
        float(metric[2].rstrip(".")) if metric else None,
        bool(_LATEST.search(name)),
    )


def _rank(item: Checkpoint) -> tuple[int, int, int]:
    """How far a checkpoint is: one that calls itself the latest is the furthest."""
    return int(item.latest), item.epoch if item.epoch is not None else -1, item.step if item.step is not None else -1


def furthest(found: list[Checkpoint]) -> Checkpoint | None:
    """The checkpoint to resume from; None if there is none."""
    return found[-1] if found else None
