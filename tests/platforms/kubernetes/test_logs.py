"""Following on the fake: hour-long cuts, stalls, rotation, replaced pods, outages. No loss, no repeat, no silence."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from tao_run.errors import BackendFault, CredentialRefused, UsageError
from tao_run.jobs.model import JobState, LogLine, LogQuery
from tao_run.platforms.kubernetes import KubernetesSDK
from tests.fakes.kubernetes import FakeKubernetes, Fault, LogFault
from tests.platforms.kubernetes.conftest import Jobs

SLOWLY = "for i in $(seq 1 40); do echo line $i; sleep 0.02; done"
ALL = [f"line {number}" for number in range(1, 41)]


def follow(sdk: KubernetesSDK, job: object, **query: object) -> list[LogLine]:
    return list(sdk.logs(job, LogQuery(follow=True, **query)))  # type: ignore[arg-type]


def texts(lines: list[LogLine], kind: str = "line") -> list[str]:
    return [line.text for line in lines if line.kind == kind]


@pytest.mark.parametrize("kind", ["end", "stall", "reset"])
def test_a_stream_that_ends_stalls_or_breaks_is_taken_up_again(
    jobs: Jobs, sdk: KubernetesSDK, cluster: FakeKubernetes, kind: str
) -> None:
    for after in (0, 3, 9, 1):
        cluster.faults.add(LogFault(kind, after))
    lines = follow(sdk, jobs.start(SLOWLY))
    assert texts(lines) == ALL
    assert texts(lines, "gap") == []


def test_lines_of_the_very_same_time_are_counted(jobs: Jobs, sdk: KubernetesSDK, cluster: FakeKubernetes) -> None:
    job = jobs.start("sleep 30")
    jobs.until(job, lambda s: s.ready == 1)
    log = next(iter(cluster.kubelet.logs.values()))
    at = time.time_ns()
    for number in range(6):
        log.write(b"same %d\n" % (number // 2), at)
    cluster.faults.add(LogFault("end", 2))  # cut between two equal lines of one and the same time
    stream = sdk.logs(job, LogQuery(follow=True))
    seen = [next(stream).text for _ in range(6)]
    log.write(b"after\n", at)
    assert [*seen, next(stream).text] == ["same 0", "same 0", "same 1", "same 1", "same 2", "same 2", "after"]
    sdk.cancel(job, delete=True)


def test_rotation_is_told_where_lines_may_be_missing(jobs: Jobs, sdk: KubernetesSDK, cluster: FakeKubernetes) -> None:
    job = jobs.start("sleep 30")
    jobs.until(job, lambda s: s.ready == 1)
    log = next(iter(cluster.kubelet.logs.values()))
    cluster.faults.add(LogFault("stall", 0))
    log.write(b"old\n")
    stream = sdk.logs(job, LogQuery(follow=True))
    assert next(stream).text == "old"
    log.write(b"lost\n")
    log.rotate()
    log.write(b"new\n")
    gap, line = next(stream), next(stream)
    assert (gap.kind, line.text) == ("gap", "new")
    assert "rotated" in gap.text
    sdk.cancel(job, delete=True)


def test_a_replaced_pod_is_followed_on(jobs: Jobs, sdk: KubernetesSDK, cluster: FakeKubernetes) -> None:
    flag = f"/tmp/tao-run-test-replaced-{id(cluster)}"
    command = f"[ -e {flag} ] && {{ echo second; rm {flag}; exit 0; }}; touch {flag}; echo first; sleep 0.4; exit 1"
    job = jobs.start(command, backoff_limit=1)
    lines = follow(sdk, job)
    assert texts(lines) == ["first", "second"]
    assert len({line.replica for line in lines if line.kind == "line"}) == 2
    assert jobs.ended(job).state is JobState.COMPLETE
    assert [replica.exit_code for replica in sdk.replicas(job)] == [0]


def test_ranks_are_merged_by_time(jobs: Jobs, sdk: KubernetesSDK) -> None:
    command = "for i in 1 2 3; do sleep 0.$((NODE_RANK * 2 + 1)); echo $i; done"
    job = jobs.start(command, nodes=3)
    lines = [line for line in follow(sdk, job) if line.kind == "line"]
    assert sorted((line.rank, line.text) for line in lines) == [(r, str(i)) for r in range(3) for i in (1, 2, 3)]
    after = [line for line in sdk.logs(job, LogQuery()) if line.kind == "line"]
    assert [line.time for line in after] == sorted(line.time for line in after if line.time)
    assert [line.rank for line in sdk.logs(job, LogQuery(replica="1"))] == [1, 1, 1]
    assert len(list(sdk.logs(job, LogQuery(tail=4)))) == 4


def test_since_shows_only_what_came_later(jobs: Jobs, sdk: KubernetesSDK) -> None:
    job = jobs.start("echo early; sleep 1.2; echo late")
    jobs.ended(job)
    early = next(iter(sdk.logs(job, LogQuery())))
    assert early.time is not None
    from datetime import timedelta

    later = list(sdk.logs(job, LogQuery(since=early.time + timedelta(milliseconds=100))))
    assert texts(later) == ["late"]


def test_waiting_is_said_once_and_goes_on(jobs: Jobs, sdk: KubernetesSDK, cluster: FakeKubernetes) -> None:
    cluster.kubelet.missing = lambda image: True
    job = jobs.start("echo started")
    stream = sdk.logs(job, LogQuery(follow=True))
    said = next(line for line in stream if "ImagePull" in line.text)
    assert said.kind == "note"
    cluster.kubelet.missing = lambda image: False
    rest = list(stream)
    assert texts(rest) == ["started"]


def test_an_outage_is_told_and_survived(jobs: Jobs, sdk: KubernetesSDK, cluster: FakeKubernetes) -> None:
    job = jobs.start("for i in $(seq 1 30); do echo line $i; sleep 0.05; done")
    lines: list[LogLine] = []
    for line in sdk.logs(job, LogQuery(follow=True)):
        lines.append(line)
        if line.text == "line 5":
            cluster.faults.add(Fault("GET", "/log", 503, times=8))
            cluster.cut_logs()
    assert texts(lines) == [f"line {number}" for number in range(1, 31)]
    assert any("503" in note for note in texts(lines, "note"))


def test_an_outage_without_end_is_an_error(jobs: Jobs, sdk: KubernetesSDK, cluster: FakeKubernetes) -> None:
    job = jobs.start("echo one; sleep 60")
    with pytest.raises(BackendFault):
        for line in sdk.logs(job, LogQuery(follow=True)):
            if line.text == "one":
                cluster.faults.add(Fault("GET", "/log", 500, times=10**6))
                cluster.cut_logs()
    cluster.faults.clear()
    sdk.cancel(job, delete=True)


def test_a_refused_credential_ends_a_follow(jobs: Jobs, sdk: KubernetesSDK, cluster: FakeKubernetes) -> None:
    job = jobs.start("echo one; sleep 60")
    admin = cluster.users["admintoken"]

    def read() -> Iterator[LogLine]:
        for line in sdk.logs(job, LogQuery(follow=True)):
            cluster.users.pop("admintoken", None)
            cluster.cut_logs()
            yield line

    with pytest.raises(CredentialRefused):
        list(read())
    cluster.users["admintoken"] = admin
    sdk.cancel(job, delete=True)


def test_a_line_of_ten_megabytes_and_split_characters(jobs: Jobs, sdk: KubernetesSDK) -> None:
    job = jobs.start("head -c 10000000 /dev/zero | tr '\\0' x; echo; printf '\\xe2\\x82'; sleep 0.1; printf '\\xac\\n'")
    lines = texts(follow(sdk, job))
    assert (len(lines[0]), lines[1]) == (10_000_000, "€")


def test_a_full_log_is_streamed(jobs: Jobs, sdk: KubernetesSDK) -> None:
    job = jobs.start("seq 1 20000")
    assert texts(follow(sdk, job)) == [str(number) for number in range(1, 20001)]


def test_logs_of_a_job_that_never_had_a_pod(jobs: Jobs, sdk: KubernetesSDK) -> None:
    job = jobs.start("true", gpus=64)
    jobs.until(job, lambda s: s.reason == "Unschedulable")
    (line,) = sdk.logs(job, LogQuery())
    assert line.kind == "note"


def test_what_is_logged_while_canceling_is_kept(jobs: Jobs, sdk: KubernetesSDK, cluster: FakeKubernetes) -> None:
    job = jobs.start("trap 'echo saving; sleep 0.3; echo saved; exit 0' TERM; echo begun; while :; do sleep 0.05; done")
    next(line for line in sdk.logs(job, LogQuery(follow=True)) if line.text == "begun")
    assert sdk.cancel(job).state is JobState.CANCELED
    assert cluster.objects.select("jobs", "default") == []
    assert texts(list(sdk.logs(job, LogQuery()))) == ["begun", "saving", "saved"]
    assert texts(list(sdk.logs(job, LogQuery(tail=1)))) == ["saved"]
    with pytest.raises(UsageError, match="no replica"):
        list(sdk.logs(job, LogQuery(replica="7")))
    evidence = sdk.evidence(job)
    assert [replica.rank for replica in evidence.replicas] == [0]
    assert evidence.facts["namespace"] == "default"
    kept = sdk.store.directory / "kubernetes" / job.id
    assert {path.stat().st_mode & 0o077 for path in kept.iterdir()} == {0}


def test_a_full_disk_does_not_keep_a_job_alive(make_sdk: Callable[..., KubernetesSDK], cluster: FakeKubernetes) -> None:
    sdk = make_sdk()
    job = Jobs(sdk).start("echo begun; sleep 30")
    Jobs(sdk).until(job, lambda s: s.ready == 1)
    (sdk.store.directory / "kubernetes").write_text("a file where the directory should be")
    said: list[str] = []
    sdk.note = said.append
    assert sdk.cancel(job).state is JobState.CANCELED
    assert "cannot be kept" in said[0]


def test_a_follower_can_leave(jobs: Jobs, sdk: KubernetesSDK) -> None:
    job = jobs.start("echo one; sleep 0.7; echo two; sleep 30")
    stream = sdk.logs(job, LogQuery(follow=True))
    next(line for line in stream if line.text == "two")
    before = {thread for thread in threading.enumerate() if thread.name.startswith("log of")}
    assert before
    stream.close()  # type: ignore[attr-defined]
    sdk.cancel(job, delete=True)
    for thread in before:
        thread.join(5)
        assert not thread.is_alive()
