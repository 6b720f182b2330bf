"""Brev: GPU instances through the `brev` command line tool, one container per job."""

from tao_run.platforms.brev.adapter import BrevSDK

__all__ = ["BrevSDK"]
