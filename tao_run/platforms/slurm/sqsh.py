"""The image cache: an image is imported once, by a job of its own, into a squashfs file that all jobs use."""

from __future__ import annotations

import shlex

from tao_run.platforms.slurm.cluster import shell_path
from tao_run.platforms.slurm.images import cache_name, enroot_uri, parse_image
from tao_run.platforms.slurm.options import Options
from tao_run.platforms.slurm.times import slurm_duration, time_limit

IMPORT_SCRIPT = "import.sbatch"

# Written beside, checked for squashfs' magic, then renamed: a job sees the whole file or none.
_IMPORT = """\
#!/bin/bash
#SBATCH --job-name={name}
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --time={time}
{partition}#SBATCH --no-requeue
set -euo pipefail
image={image}
[ -s "$image" ] && exit 0
partial=$image.$SLURM_JOB_ID.partial
trap 'rm -f "$partial"' EXIT
enroot import -o "$partial" {uri}
[ "$(head -c 4 "$partial")" = hsqs ] || {{ echo "enroot import made no squashfs file" >&2; exit 1; }}
mv -f "$partial" "$image"
"""

# A missing file is a failure of this job with the cause in its log, not a dependency that never comes true.
_CHECK = """\
image={image}
if [ ! -s "$image" ]; then
  echo "tao-run: the image was not imported; the end of $image.log:" >&2
  tail -n 50 "$image.log" >&2 || true
  leave 1
fi
"""


def cached_image(image: str | None, options: Options) -> str:
    """The path of the squashfs file that stands for the image; empty without a cache."""
    if not (image and options.sqsh_cache) or options.container == "none" or parse_image(image).path:
        return ""
    return f"{options.sqsh_cache.rstrip('/')}/{cache_name(image)}"


def import_name(cached: str) -> str:
    """The name of the import job: the same for all jobs that need the same file, so that there is only one."""
    return f"tao-import-{cached.removesuffix('.sqsh')[-10:]}"


def import_script(image: str, cached: str, options: Options) -> str:
    """The sbatch script that imports the image. It needs enroot, and no GPU."""
    partition = options.sqsh_partition or options.partition
    return _IMPORT.format(
        name=import_name(cached),
        time=slurm_duration(time_limit(options.sqsh_time)),
        partition=f"#SBATCH --partition={partition}\n" if partition else "",
        image=shell_path(cached),
        uri=shell_path(enroot_uri(image)),
    )


def wait_for_image(cached: str) -> str:
    """Bash text at the start of a job that uses the cache."""
    return _CHECK.format(image=shell_path(cached)) if cached else ""


def import_step(cached: str, account: str | None) -> str:
    """Bash text at submission that sets `after` to an sbatch dependency unless the file is already there."""
    if not cached:
        return ""
    image, name = shell_path(cached), import_name(cached)
    charged = f" --account={shlex.quote(account)}" if account else ""
    return f"""\
    if [ ! -s {image} ]; then
      mkdir -p "$(dirname {image})" || return
      exec 8>>{image}.lock
      flock -w 60 8
      import=$(squeue -h -u "$(id -un)" -n {name} -o %i) || return
      import=${{import%%$'\\n'*}}
      [ -n "$import" ] || import=$(sbatch --parsable{charged} --output={image}.log {IMPORT_SCRIPT}) || return
      after=afterany:${{import%%;*}}
      exec 8>&-
    fi
"""
