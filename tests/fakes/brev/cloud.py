"""The state behind the brev double: one JSON file under a lock, shared by every call and by the test."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

EMPTY: dict[str, Any] = {
    "good_tokens": [],
    "orgs": [{"name": "acme-hq", "id": "org-1"}],
    "active_org": "acme-hq",
    "workspaces": [],
    "nodes": [],
    "types": [],
    "no_capacity": [],
    "faults": [],
    "boot_polls": 0,
    "ssh_failures": 0,
    "delete_polls": 0,
    "serial": 0,
}


class Cloud:
    """`root` holds the state (`cloud.json`), the calls (`calls.jsonl`) and one directory per instance."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @contextmanager
    def edit(self) -> Iterator[dict[str, Any]]:
        """The state, locked; what the block changes is written back."""
        with (self.root / "lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            state = self.read()
            yield state
            fresh = self.root / f"cloud.{os.getpid()}.tmp"
            fresh.write_text(json.dumps(state, indent=1))
            fresh.replace(self.root / "cloud.json")

    def read(self) -> dict[str, Any]:
        """The state as it is now."""
        path = self.root / "cloud.json"
        return {**EMPTY, **(json.loads(path.read_text()) if path.exists() else {})}

    def record(self, call: dict[str, Any]) -> None:
        """Append one call to the journal."""
        with (self.root / "calls.jsonl").open("a") as journal:
            fcntl.flock(journal, fcntl.LOCK_EX)
            journal.write(json.dumps(call) + "\n")

    def take_fault(self, where: str) -> dict[str, Any] | None:
        """The next fault planned for `where` (a command, or `ssh`), used up by one."""
        with self.edit() as state:
            for fault in state["faults"]:
                if fault["on"] == where and fault["times"] > 0:
                    if fault.get("skip", 0) > 0:
                        fault["skip"] -= 1
                        return None
                    fault["times"] -= 1
                    return dict(fault)
        return None

    def instance_dir(self, workspace: dict[str, Any]) -> Path:
        """The root directory of an instance: `home`, `tmp`, `bin`, `docker`."""
        return self.root / "instances" / str(workspace["id"])


def find_workspace(state: dict[str, Any], wanted: str) -> dict[str, Any] | None:
    """A workspace of the active organization by name or id."""
    for workspace in state["workspaces"]:
        if workspace["org"] == state["active_org"] and wanted in (workspace["name"], workspace["id"]):
            return dict(workspace)
    return None


def set_status(state: dict[str, Any], workspace_id: str, status: str) -> None:
    """Change the status of one workspace in place."""
    for workspace in state["workspaces"]:
        if workspace["id"] == workspace_id:
            workspace["status"] = status


def tick(state: dict[str, Any]) -> None:
    """Time passes by being looked at: every listing brings boots and deletions one step further."""
    left = []
    for workspace in state["workspaces"]:
        if workspace["status"] == "DEPLOYING":
            workspace["boot_polls"] -= 1
            if workspace["boot_polls"] < 0:
                workspace["status"] = "RUNNING"
        if workspace["status"] == "DELETING":
            workspace["delete_polls"] -= 1
            if workspace["delete_polls"] < 0:
                continue
        left.append(workspace)
    state["workspaces"] = left
