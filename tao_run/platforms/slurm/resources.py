"""What can be asked for: partitions with their limits and GPUs, and the user's accounts and QOS."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from tao_run.jobs.model import ResourceTable
from tao_run.platforms.slurm.remote import Answer, Remote, Section
from tao_run.platforms.slurm.submit import command_error
from tao_run.platforms.slurm.times import slurm_seconds

_COLUMNS = ("PartitionName", "Available", "Time", "Nodes", "StateCompact", "Gres", "CPUs", "Memory")
RESOURCES = f"""\
section partitions sinfo -h -a -O '{",".join(f"{name}:|" for name in _COLUMNS)}'
section accounts sacctmgr -nP show assoc user="$(id -un)" format=account,partition,qos,defaultqos
"""
_GPU = re.compile(r"gpu(?::(?P<type>[^:,()]+))?:(?P<count>\d+)")
# Node states, without flags, in which a node takes jobs now or later.
_USABLE = frozenset({"idle", "mix", "alloc", "comp", "resv", "plnd", "mixed", "allocated", "completing", "planned"})


@dataclass(frozen=True)
class NodeGroup:
    """Nodes of one partition that are alike and in the same state."""

    partition: str
    up: bool
    limit: int | None
    limit_text: str
    nodes: int
    state: str
    gpu_type: str
    gpus: int
    cpus: str
    memory: str

    @property
    def usable(self) -> bool:
        """Whether these nodes can take jobs, now or when others end."""
        return self.state.rstrip("*~#!%$@^-+") in _USABLE


@dataclass(frozen=True)
class Association:
    """An account that the user may charge, with the QOS allowed there. An empty `partition` is any."""

    account: str
    partition: str
    qos: tuple[str, ...]


def node_groups(answer: Answer) -> list[NodeGroup]:
    """The rows of sinfo. Raises what its failure means."""
    said = answer["partitions"]
    if said.code:
        raise command_error("sinfo", said)
    rows = ([cell.strip() for cell in line.split("|")] for line in said.out.splitlines())
    return [_group(row) for row in rows if len(row) >= 8]


def _group(row: list[str]) -> NodeGroup:
    name, available, limit, nodes, state, gres, cpus, memory = row[:8]
    kind, count = _gpus(gres)
    return NodeGroup(
        partition=name.rstrip("*"),
        up=available == "up",
        limit=slurm_seconds(limit),
        limit_text=limit,
        nodes=int(nodes) if nodes.isdecimal() else 0,
        state=state,
        gpu_type=kind,
        gpus=count,
        cpus=cpus,
        memory=memory,
    )


def _gpus(gres: str) -> tuple[str, int]:
    found = list(_GPU.finditer(gres))
    return ",".join(match["type"] or "" for match in found).strip(","), sum(int(match["count"]) for match in found)


def associations(said: Section) -> list[Association] | None:
    """The user's accounts; None if this cluster keeps no accounting."""
    if said.code:
        return None
    rows = (line.split("|") for line in said.out.splitlines())
    return [Association(row[0], row[1], tuple(filter(None, row[2].split(",")))) for row in rows if len(row) >= 4]


def resources(remote: Remote) -> list[ResourceTable]:
    """Two tables: partitions, and accounts if the cluster keeps them. Raises BackendUnreachable."""
    answer = remote.run(RESOURCES)
    tables = [_partition_table(node_groups(answer))]
    known = associations(answer["accounts"])
    if known:
        rows = tuple((item.account, item.partition or "any", ", ".join(item.qos)) for item in known)
        tables.append(ResourceTable(f"accounts on {remote.cluster.label}", ("account", "partition", "qos"), rows))
    return tables


def _partition_table(groups: Iterable[NodeGroup]) -> ResourceTable:
    rows = tuple(
        (
            group.partition,
            "up" if group.up else "down",
            group.limit_text,
            group.state,
            str(group.nodes),
            str(group.gpus),
            group.gpu_type,
            group.cpus,
            group.memory,
        )
        for group in groups
    )
    columns = (
        "partition",
        "available",
        "time_limit",
        "state",
        "nodes",
        "gpus_per_node",
        "gpu_type",
        "cpus",
        "memory_mb",
    )
    return ResourceTable("partitions", columns, rows)
