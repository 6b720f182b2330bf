"""The quick start's own part: an S3 server for the occasion, a dataset in it, one job, its results."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[1]
BUCKET = "tao-quickstart"


@contextmanager
def s3_server() -> Iterator[str]:
    """An S3 server on a free port of this machine, in this process; yields its address."""
    import logging

    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # no line per request
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield f"http://{host}:{port}"
    finally:
        server.stop()


def upload_dataset(endpoint: str, keys: dict[str, str]) -> int:
    """Make the bucket and upload examples/dataset; returns the number of files."""
    import boto3

    client = boto3.client(
        "s3",
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id=keys["ACCESS_KEY"],
        aws_secret_access_key=keys["SECRET_KEY"],
    )
    client.create_bucket(Bucket=BUCKET)
    folder = ROOT / "examples" / "dataset"
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    for path in files:
        client.upload_file(str(path), BUCKET, f"dataset/{path.relative_to(folder).as_posix()}")
    return len(files)


def tao_run(*arguments: str) -> int:
    """Show a command and run it, as a user would type it."""
    print(f"\n$ tao-run {' '.join(arguments)}", flush=True)
    return subprocess.run(["tao-run", *arguments], check=False).returncode


def main() -> int:
    """Run the job and show what came of it; the exit code is the job's outcome."""
    keys = {"ACCESS_KEY": secrets.token_hex(8), "SECRET_KEY": secrets.token_hex(16)}
    state = Path(tempfile.mkdtemp(prefix="tao-run-quickstart-"))
    try:
        with s3_server() as endpoint:
            os.environ.update(keys, S3_ENDPOINT_URL=endpoint, S3_BUCKET_NAME=BUCKET, TAO_RUN_STATE_DIR=str(state))
            os.environ.update(NO_PROXY="127.0.0.1", TAO_ENV_FILE=os.devnull)
            count = upload_dataset(endpoint, keys)
            print(f"S3 server at {endpoint}, {count} files uploaded to s3://{BUCKET}/dataset/")
            submitted = tao_run("submit", "examples/daft.yaml", "--platform", "local", "--detach")
            if submitted:
                return submitted
            tao_run("logs", "@last", "--follow")
            outcome = tao_run("watch", "@last", "--interval", "0.02")
            tao_run("status", "@last")
            tao_run("results", "@last", "--list")
            return outcome
    finally:
        shutil.rmtree(state, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
