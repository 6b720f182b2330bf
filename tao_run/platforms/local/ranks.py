"""Rendezvous variables of ranks that run side by side on this machine."""

from __future__ import annotations

import zlib

_FIRST_PORT = 29500
_PORTS = 2000


def rank_environment(job_id: str, nodes: int, gpus_per_node: int) -> list[dict[str, str]]:
    """One set of variables per rank; WORLD_SIZE is the number of nodes, as TAO entry points expect.

    Every job has a port of its own, so that two jobs on one machine do not meet.
    """
    if nodes == 1:
        return [{"NUM_GPU_PER_NODE": str(gpus_per_node)}]
    port = _FIRST_PORT + zlib.crc32(job_id.encode()) % _PORTS
    shared = {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "NNODES": str(nodes),
        "WORLD_SIZE": str(nodes),
        "NUM_GPU_PER_NODE": str(gpus_per_node),
        "WORKER_ADDRS": ",".join(["127.0.0.1"] * (nodes - 1)),
    }
    return [{**shared, "NODE_RANK": str(rank)} for rank in range(nodes)]
