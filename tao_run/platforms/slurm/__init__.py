"""SLURM clusters: jobs staged and submitted over the system's OpenSSH, or directly on a login node."""

from tao_run.platforms.slurm.adapter import SlurmSDK

__all__ = ["SlurmSDK"]
