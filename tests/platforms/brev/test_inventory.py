"""What `brev ls --json` and `brev search --json` print, and which type is chosen."""

from __future__ import annotations

import json

import pytest

from tao_run.errors import BackendRejected, ProtocolError
from tao_run.platforms.brev.inventory import choose_type, parse_instances, parse_orgs, parse_types
from tests.fakes.brev import TYPES

TYPES_SEEN = parse_types(json.dumps(TYPES))


def test_instances_of_the_object_that_ls_prints() -> None:
    row = {"name": "box", "id": "ws1", "status": "UNHEALTHY", "health_status": "UNHEALTHY", "instance_type": "g6e"}
    (found,) = parse_instances(json.dumps({"workspaces": [row], "nodes": [{"name": "n"}]}), "acme")
    assert (found.name, found.id, found.status, found.type, found.org) == ("box", "ws1", "UNHEALTHY", "g6e", "acme")


@pytest.mark.parametrize("text", ['{"workspaces": null}', "[]", "null"])
def test_no_instances(text: str) -> None:
    assert parse_instances(text) == []


@pytest.mark.parametrize("text", ["", "<html>", '{"error": 1}', '{"workspaces": ["a"]}', '{"workspaces": {"a": 1}}'])
def test_an_answer_that_is_none_is_no_empty_list(text: str) -> None:
    with pytest.raises(ProtocolError):
        parse_instances(text)


def test_the_active_organization_comes_first() -> None:
    rows = [{"name": "a", "id": "1", "is_active": False}, {"name": "b", "id": "2", "is_active": True}]
    assert parse_orgs(json.dumps(rows)) == ["b", "a"]


def test_type_by_gpu_takes_the_cheapest_with_exactly_that_many() -> None:
    assert choose_type(TYPES_SEEN, "l40s", 1).type == "massedcompute_L40S"
    assert choose_type(TYPES_SEEN, "L40S", 4).type == "g6e.12xlarge"
    assert choose_type(TYPES_SEEN, "g6e.xlarge", 1).type == "g6e.xlarge"


def test_never_a_bigger_one() -> None:
    with pytest.raises(BackendRejected, match="no Brev instance type L40S has 2 GPUs") as caught:
        choose_type(TYPES_SEEN, "L40S", 2)
    assert "1, 4" in caught.value.hint
    with pytest.raises(BackendRejected, match="offers no instance type or GPU 'B300'") as caught:
        choose_type(TYPES_SEEN, "B300", 1)
    assert "A100, A10G, L40S" in caught.value.hint


def test_a_gpu_is_not_chosen_by_part_of_its_name() -> None:
    with pytest.raises(BackendRejected):
        choose_type(TYPES_SEEN, "A10", 1)
