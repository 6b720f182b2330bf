"""The GPUs of this machine, as nvidia-smi tells."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass


@dataclass(frozen=True)
class Gpu:
    """One device of a host. Memory is in MiB; -1 is unknown."""

    index: str
    uuid: str = ""
    name: str = ""
    memory: int = -1


def local_gpus() -> list[Gpu]:
    """The GPUs of this machine; empty where there is none, or the driver does not answer."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return []
    query = [tool, "--query-gpu=index,uuid,name,memory.total", "--format=csv,noheader,nounits"]
    try:
        told = subprocess.run(query, capture_output=True, text=True, timeout=20, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    return [_gpu(line) for line in told.splitlines() if line.count(",") >= 3]


def _gpu(line: str) -> Gpu:
    index, uuid, *name, memory = (word.strip() for word in line.split(","))
    return Gpu(index, uuid, ", ".join(name), int(memory) if memory.isdecimal() else -1)
