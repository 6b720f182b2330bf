"""SLURM clusters: jobs staged and submitted over the system's OpenSSH, or directly on a login node."""
