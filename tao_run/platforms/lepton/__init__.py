"""DGX Cloud Lepton: jobs on dedicated or shared GPU node groups, through the workspace's API."""

from __future__ import annotations

from tao_run.platforms.lepton.adapter import LeptonSDK

__all__ = ["LeptonSDK"]
