"""How a task gets into its container: the srun options and the command for pyxis, apptainer, enroot, or none."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tao_run.errors import UsageError
from tao_run.platforms.slurm.cluster import shell_path
from tao_run.platforms.slurm.images import apptainer_image, enroot_uri, parse_image, pyxis_image
from tao_run.platforms.slurm.options import Options

#: set for each task by the batch script; they win over variables of the image
RANK_NAMES = ("NNODES", "MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "NUM_GPU_PER_NODE")


@dataclass(frozen=True)
class Containment:
    """Bash text around a task: `before` runs once in the batch script, `srun` and `command` are words of bash,
    `files` are staged beside the script."""

    before: str = ""
    srun: tuple[str, ...] = ()
    command: str = ""
    files: Mapping[str, str] = field(default_factory=dict)


def containment(image: str | None, options: Options, mounts: Sequence[str], cached: str = "") -> Containment:
    """How to run a task in `image`.

    `mounts` are `SRC[:DST[:FLAGS]]`; `~/` is the home directory on the cluster. `cached` is the path of the
    squashfs file that stands for the image. Raises UsageError without an image where one is needed.
    """
    if options.container == "none":
        return Containment()
    if not image:
        raise UsageError(
            "platform slurm needs an image", "give --image, or `-o container=none` to run on the nodes themselves"
        )
    words = [_mount(mount) for mount in mounts]
    if options.container == "pyxis":
        return _pyxis(cached or pyxis_image(image), options, words)
    if options.container == "apptainer":
        return _apptainer(cached or apptainer_image(image), options, words)
    return _enroot(cached or image, options, words)


def _mount(text: str) -> str:
    """One mount as a word of bash, source and target spelled out."""
    source, _, rest = text.partition(":")
    target, _, flags = rest.partition(":")
    word = f"{shell_path(source)}:{shell_path(target or source)}"
    return f"{word}:{shlex.quote(flags)}" if flags else word


def _pyxis(image: str, options: Options, mounts: list[str]) -> Containment:
    words = [
        f"--container-image={shell_path(image)}",
        f"--container-mounts={','.join(mounts)}",
        f"--container-env={','.join(RANK_NAMES)}",
    ]
    if options.container_workdir:
        words.append(f"--container-workdir={shlex.quote(options.container_workdir)}")
    return Containment(srun=tuple(words))


def _apptainer(image: str, options: Options, mounts: list[str]) -> Containment:
    # Only the APPTAINERENV_ form of a variable wins over the image's own.
    before = (
        f"for name in {' '.join(RANK_NAMES)}; do\n"
        '  export "APPTAINERENV_$name=${!name}" "SINGULARITYENV_$name=${!name}"\ndone\n'
        "runtime=$(command -v apptainer || command -v singularity) ||\n"
        '  { echo "tao-run: neither apptainer nor singularity is on $(hostname)" >&2; leave 127; }\n'
    )
    workdir = f" --pwd {shlex.quote(options.container_workdir)}" if options.container_workdir else ""
    command = f'"$runtime" exec --nv --bind {",".join(mounts)}{workdir} {shell_path(image)}'
    return Containment(before=before, command=command)


# Runs on the node, outside: one container per task, removed at its end. $1 is the image, the rest is the command.
_ENROOT = """\
set -euo pipefail
name=tao-run-$SLURM_JOB_ID-$SLURM_PROCID
image=$1
shift
trap 'enroot remove -f "$name" >/dev/null 2>&1' EXIT
enroot create --force --name "$name" "$image" >/dev/null
enroot start --rw {words} "$name" "$@"
"""


def _enroot(image: str, options: Options, mounts: list[str]) -> Containment:
    if parse_image(image).path:
        before = f"image={shell_path(image)}\n"
    else:  # one import for all tasks
        before = f'image=$job_dir/image.sqsh\n[ -s "$image" ] || enroot import -o "$image" {enroot_uri(image)}\n'
    words = [f"--mount {mount}" for mount in mounts] + [f"--env {name}" for name in RANK_NAMES]
    if options.container_workdir:
        raise UsageError("container_workdir is not available with container=enroot", "put `cd DIR` into the command")
    script = _ENROOT.format(words=" ".join(words))
    return Containment(before, command='/bin/bash "$job_dir/enroot.sh" "$image"', files={"enroot.sh": script})
