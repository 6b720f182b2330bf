"""Options of the local platform (`-o key=value`)."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from tao_run.jobs.commas import comma_parts


def _ids(value: object) -> object:
    if isinstance(value, (str, int)):
        value = comma_parts(str(value))
    if not isinstance(value, list) or not all(isinstance(part, (str, int)) for part in value):
        return value
    names = (str(part).strip() for part in value)
    return list(dict.fromkeys(name for name in names if name))


class Options(BaseModel):
    """What can be asked of this machine beyond the request itself."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    cwd: str = Field("/", description="working directory of the job; the directory of the submission if not given")
    gpu_ids: Annotated[list[str], BeforeValidator(_ids)] | None = Field(
        None, description="use these GPUs: ids, separated by commas"
    )
    grace: float = Field(10.0, ge=0, le=3600, description="seconds between SIGTERM and SIGKILL")
