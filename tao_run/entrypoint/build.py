"""`build_entrypoint`: the container command as Python users of the field know it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tao_run.entrypoint.bundle import inline_script
from tao_run.entrypoint.plans import make_plan


def build_entrypoint(
    *,
    command: str | Sequence[str],
    inputs: Mapping[str, Any] | None = None,
    outputs: Mapping[str, Any] | Sequence[str] | None = None,
    specs: Mapping[str, Any] | None = None,
    args: Mapping[str, Any] | None = None,
    config_format: str = "yaml",
    upload_excludes: Sequence[str] | None = None,
    mount_path: str | None = None,
    flags: Mapping[str, bool] | Sequence[str] | None = None,
) -> dict[str, str]:
    """A container command that stages inputs, runs `command` and delivers outputs.

    With `specs` they are written to `{config_path}` in `config_format`; with `args` they are appended as
    `--key value`; with neither, the command runs as it is. `inputs` and `outputs` are the declarations of a
    skill_info.yaml (spec key -> type, optional, ...) or a map of container path to URI. `mount_path` is a
    shared mount that caches inputs.

    Returns a dict whose `command` is bash text for `create_job`. Raises UsageError.
    """
    plan = make_plan(
        command=command,
        spec=specs,
        args=args,
        flags=flags,
        inputs=inputs,
        outputs=outputs,
        config_format=config_format,
        upload_excludes=upload_excludes,
        mount=mount_path,
    )
    return {"command": inline_script(plan)}
