"""Platform docker: jobs as containers of a Docker engine, here or on another host."""

from tao_run.platforms.docker.adapter import DockerSDK

__all__ = ["DockerSDK"]
