"""Transfers in bad weather: connections that are cut, a store that is gone for a while, many files."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from tests.fakes.tcp import TcpProxy
from tests.runner.conftest import Container
from tests.services.s3 import S3Service


@pytest.fixture
def proxy(s3: S3Service) -> Iterator[TcpProxy]:
    made = TcpProxy(int(urlsplit(s3.endpoint).port or 0))
    yield made
    made.close()


def cut_until(done: threading.Event, proxy: TcpProxy, every: float, cuts: list[int]) -> threading.Thread:
    def cut() -> None:
        while not done.wait(every) and len(cuts) < 8:
            cut_now = proxy.cut()
            if cut_now:
                cuts.append(cut_now)

    thread = threading.Thread(target=cut)
    thread.start()
    return thread


@pytest.mark.parametrize("client", ["obstore", "boto3"])
def test_cut_connections_cost_time_and_no_data(cloud: Container, s3: S3Service, proxy: TcpProxy, client: str) -> None:
    bucket = s3.bucket()
    big = os.urandom(1 << 20) * 150
    s3.put(bucket, {"in/big": big, **{f"in/{i:03}": bytes([i]) * 20_000 for i in range(100)}})
    digest = hashlib.md5(big).hexdigest()
    env = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{proxy.port}",
        "TAO_RUN_OBJECT_CLIENT": client,
        "S3_BUCKET_NAME": bucket,
    }
    done, cuts = threading.Event(), list[int]()
    process = cloud.start(
        env,
        command="ls {d} | wc -l; md5sum < {d}/big; cp {d}/big {d}/001 {results_dir}",
        inputs={"d": f"s3://{bucket}/in"},
    )
    thread = cut_until(done, proxy, 0.15, cuts)
    ran = cloud.finish(process, timeout=120)
    done.set()
    thread.join()
    assert ran.code == 0, ran.log
    assert sum(cuts) > 0
    assert ran.out.split() == ["101", digest, "-"]
    assert hashlib.md5(s3.get(bucket, "results/job1/big")).hexdigest() == digest


def test_a_store_that_is_gone_for_a_moment_is_waited_for(cloud: Container, s3: S3Service, proxy: TcpProxy) -> None:
    bucket = s3.bucket()
    s3.put(bucket, {"in/x": b"x"})
    env = {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{proxy.port}"}
    with proxy.unreachable():
        process = cloud.start(env, command="cat {d}/x", inputs={"d": f"s3://{bucket}/in"})
        time.sleep(1.0)
    ran = cloud.finish(process)
    assert ran.out == "x", ran.log


def test_ten_thousand_files_there_and_back(cloud: Container, s3: S3Service) -> None:
    bucket = s3.bucket()
    make = "mkdir {results_dir}/d; cd {results_dir}/d; for i in {0..9999}; do echo $i > $i; done"
    ran = cloud.run({"S3_BUCKET_NAME": bucket}, command=make)
    assert ran.code == 0, ran.log
    cloud.job_id = "job2"
    ran = cloud.run(command="cat {d}/* | sort -n | md5sum", inputs={"d": f"s3://{bucket}/results/job1/d"})
    assert ran.code == 0, ran.log
    assert ran.out.split()[0] == hashlib.md5("".join(f"{i}\n" for i in range(10_000)).encode()).hexdigest()
    assert ran.record["inputs"][0]["files"] == 10_000
    ran = cloud.run(command="true", inputs={"d": f"s3://{bucket}/results/job1/d"})
    assert ran.record["inputs"][0]["fetched_files"] == 0
