"""A fake DGX Cloud Lepton API server, checked against the real leptonai client.

It speaks the wire protocol on the loopback, runs the commands of its jobs as local processes, and
misbehaves on request (see `faults`). Nothing here imports the product or leptonai.
"""

from .faults import Fault, StreamPlan, document, error, html
from .jobs import FakeJob, FakeReplica
from .server import FakeLepton, Request
from .workspace import FakeWorkspace, shape

__all__ = [
    "FakeJob",
    "FakeLepton",
    "FakeReplica",
    "FakeWorkspace",
    "Fault",
    "Request",
    "StreamPlan",
    "document",
    "error",
    "html",
    "shape",
]
