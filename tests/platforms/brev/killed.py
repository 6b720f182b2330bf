"""A process that submits a job and is killed meanwhile."""

from __future__ import annotations

import os
from pathlib import Path

from tao_run.credentials import Credentials
from tao_run.jobs.request import parse_request
from tao_run.jobs.store import Store
from tao_run.platforms.brev import BrevSDK
from tao_run.platforms.lifecycle import build_job, submit


def main(state: str) -> None:
    """Submit; the instance never gets ready, so this goes on until it is killed."""
    store = Store(Path(state))
    sdk = BrevSDK(Credentials(os.environ), store)
    options = {"brev": {"gpu_type": "L40S"}}
    data = {"platform": "brev", "image": "mini:1", "gpus": 1, "command": "echo never", "options": options}
    submit(sdk, store, build_job(sdk, parse_request(data)))
