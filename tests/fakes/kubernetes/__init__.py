"""A wire-level Kubernetes API whose pods run as local bash processes."""

from tests.fakes.kubernetes.api import FakeKubernetes
from tests.fakes.kubernetes.faults import Fault, LogFault

__all__ = ["FakeKubernetes", "Fault", "LogFault"]
