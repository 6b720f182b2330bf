"""tao-run: describe a TAO job once, run it anywhere. The public Python API, imported lazily."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_EXPORTS = {
    "LocalSDK": "tao_run.platforms.local",
    "DockerSDK": "tao_run.platforms.docker",
    "KubernetesSDK": "tao_run.platforms.kubernetes",
    "SlurmSDK": "tao_run.platforms.slurm",
    "LeptonSDK": "tao_run.platforms.lepton",
    "BrevSDK": "tao_run.platforms.brev",
    "build_entrypoint": "tao_run.entrypoint",
    "ActionWorkflow": "tao_run.jobs.workflow",
    "JobRequest": "tao_run.jobs.request",
    "Job": "tao_run.jobs.model",
    "JobState": "tao_run.jobs.model",
    "JobStatus": "tao_run.jobs.model",
    "TaoRunError": "tao_run.errors",
}

__all__ = ["__version__", *_EXPORTS]

if TYPE_CHECKING:
    from tao_run.entrypoint import build_entrypoint as build_entrypoint
    from tao_run.errors import TaoRunError as TaoRunError
    from tao_run.jobs.model import Job as Job
    from tao_run.jobs.model import JobState as JobState
    from tao_run.jobs.model import JobStatus as JobStatus
    from tao_run.jobs.request import JobRequest as JobRequest


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that `import tao_run` costs nothing."""
    module = _EXPORTS.get(name)
    if module is None:
        raise AttributeError(f"module 'tao_run' has no attribute {name!r}")
    return getattr(importlib.import_module(module), name)


def __dir__() -> list[str]:
    return sorted(__all__)
