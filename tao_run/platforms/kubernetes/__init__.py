"""The Kubernetes platform: Jobs and Indexed Jobs through the Kubernetes API."""

from tao_run.platforms.kubernetes.adapter import KubernetesSDK

__all__ = ["KubernetesSDK"]
