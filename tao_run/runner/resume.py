"""Continues a training after a restart: finds the newest checkpoint that an earlier attempt of this job has left."""

from __future__ import annotations

import os
from typing import Any, Iterator, Mapping, Optional, Tuple

_KEY = "resume_training_checkpoint_path"
_ENDINGS = (".pth", ".pth.tar", ".pt", ".ckpt")


def resume(spec: Any, work: str, staged: str, env: Mapping[str, str]) -> Optional[str]:
    """Set every empty `resume_training_checkpoint_path` to the newest checkpoint in `work`; returns its path.

    TAO_AUTO_RESUME=0 (or false, no) switches it off.
    """
    if env.get("TAO_AUTO_RESUME", "1").lower() in ("0", "false", "no"):
        return None
    places = [where for where in _places(spec) if not where[_KEY]]
    newest = max(_checkpoints(work, staged), default=None) if places else None
    if newest is None:
        return None
    for where in places:
        where[_KEY] = newest[1]
    return newest[1]


def _places(data: Any) -> Iterator[Any]:
    """Every mapping, also inside lists, that has the key."""
    if isinstance(data, dict):
        if _KEY in data:
            yield data
        for value in data.values():
            yield from _places(value)
    elif isinstance(data, list):
        for value in data:
            yield from _places(value)


def _checkpoints(work: str, staged: str) -> Iterator[Tuple[float, str]]:
    """Time and path of each checkpoint that is not empty, without those that are inputs."""
    for folder, folders, files in os.walk(work):
        folders[:] = [name for name in folders if os.path.join(folder, name) != staged and name != ".tao-run"]
        for name in files:
            path = os.path.join(folder, name)
            if name.endswith(_ENDINGS) and os.path.isfile(path) and os.path.getsize(path):
                yield os.path.getmtime(path), path
