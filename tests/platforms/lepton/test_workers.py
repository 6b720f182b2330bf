"""Replicas and their readiness issues, in every shape the API has been seen to give them."""

from __future__ import annotations

from typing import Any

import pytest

from tao_run.platforms.lepton.workers import first_issue, read_replica, read_replicas


def row(index: int, **status: Any) -> dict[str, Any]:
    name = f"job-x9k2-{index}-2nm7s"
    return {"metadata": {"id": name}, "id": name, "status": status}


NODE = {"name": "node-a", "id": "node-a", "node_group_id": "pool"}


def test_a_running_replica() -> None:
    replica = read_replica(row(3, node=NODE, cpu=2, memory_in_mb=8192))
    assert (replica.rank, replica.node, replica.node_group) == (3, "node-a", "pool")
    assert (replica.cpu, replica.memory_mb, replica.ready, replica.issue_reason) == (2, 8192, True, "")


ISSUE = {"reason": "InProgress", "message": "Pulling image"}


@pytest.mark.parametrize("issue", [ISSUE, [ISSUE], [{"reason": "Ready", "message": ""}, ISSUE]])
def test_an_issue_may_be_an_object_or_a_list(issue: Any) -> None:
    replica = read_replica(row(0, node=NODE, readiness_issue=issue))
    assert (replica.issue_reason, replica.issue_message, replica.ready) == ("InProgress", "Pulling image", False)


@pytest.mark.parametrize("issue", [None, [], {}, {"reason": "Ready", "message": ""}])
def test_no_issue_means_ready(issue: Any) -> None:
    assert read_replica(row(0, node=NODE, readiness_issue=issue)).ready is True


def test_without_a_node_a_replica_is_queued() -> None:
    replica = read_replica({"id": "odd", "status": None})
    assert (replica.rank, replica.phase, replica.ready) == (None, "Queueing", False)


def test_replicas_come_by_rank() -> None:
    assert [replica.rank for replica in read_replicas([row(10), row(2), row(0)])] == [0, 2, 10]


def test_a_fault_explains_more_than_waiting() -> None:
    waiting = read_replica(row(0, readiness_issue=ISSUE))
    faulty = read_replica(row(1, readiness_issue={"reason": "ConfigError", "message": "Mount point not found"}))
    assert first_issue([waiting, faulty]) == faulty
    assert first_issue([waiting]) == waiting
    assert first_issue([]) is None
