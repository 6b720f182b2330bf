"""Entry of the runner: what the archive's `__main__` calls, with the archive itself as the only argument."""

from __future__ import annotations

import os
import shutil
import sys
import zipfile

from . import log
from .errors import RunnerError
from .job import Job
from .plan import Plan, load_plan
from .process import adopt_orphans
from .stop import Stop

PLAN_MEMBER = "plan.json"
UNPACKED_PREFIX = "tao-run-boot-"


def main() -> None:
    """Run the plan of this archive, and end the process with its exit code."""
    archive = os.path.abspath(sys.argv[0])
    code = _run(archive)
    folder = os.path.dirname(archive)
    if os.path.basename(folder).startswith(UNPACKED_PREFIX):
        shutil.rmtree(folder, ignore_errors=True)
    sys.stdout.flush()
    os._exit(code)  # threads that still wait for an answer must not hold up the end of the job


def _run(archive: str) -> int:
    stop = Stop()
    stop.install()
    adopt_orphans()
    try:
        job = Job(_plan(archive), os.environ, stop)
    except RunnerError as error:
        log.error(error)
        return error.exit_code
    try:
        return job.run()
    finally:
        job.close()


def _plan(archive: str) -> Plan:
    with zipfile.ZipFile(archive) as members:
        return load_plan(members.read(PLAN_MEMBER).decode("utf-8"))
