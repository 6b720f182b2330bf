"""Brev's own options of a job (`-o key=value`)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from tao_run.jobs.request import Seconds, Strict


class BrevOptions(Strict):
    """Options of the brev platform."""

    instance: str | None = Field(
        None,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$",
        description="run on this existing instance (name or id); it is never deleted",
    )
    gpu_type: str | None = Field(
        None, description="rent an instance for this job: a GPU (L40S, A100, H100, ...) or an exact instance type"
    )
    provider: str | None = Field(None, description="rent only from this provider (aws, gcp, shadeform, ...)")
    min_vram: float | None = Field(None, gt=0, description="at least this much memory per GPU, in GB")
    min_disk: float | None = Field(None, gt=0, description="at least this much disk, in GB")
    keep_instance: bool = Field(False, description="keep the rented instance when the job has ended; it costs money")
    boot_timeout: Seconds = Field(900, description="how long an instance may take until commands run on it")
    shm_size: str = Field("16g", pattern=r"^\d+[bkmgBKMG]?$", description="size of /dev/shm in the container")
    pull_policy: Literal["missing", "always"] = Field(
        "missing", description="pull the image only if the instance does not have it, or always"
    )

    @model_validator(mode="after")
    def _one_place(self) -> BrevOptions:
        if self.instance and (self.gpu_type or self.provider or self.min_vram or self.min_disk):
            raise ValueError("instance names an existing one: gpu_type, provider, min_vram, min_disk do not apply")
        return self

    @property
    def rented(self) -> bool:
        """Whether the job gets an instance of its own."""
        return self.instance is None
