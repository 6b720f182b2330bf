"""The far side of the brev double: `ssh` and `scp` to an instance, as processes and files of this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.fakes.brev.cloud import Cloud, find_workspace, set_status, tick
from tests.fakes.brev.grammar import CliError

REFUSED = "ssh: connect to host 203.0.113.7 port 22: Connection refused"


def execute(cloud: Cloud, name: str, command: str, require_login: Callable[[], None]) -> None:
    """As `brev exec` does it: ssh at once and, if anything fails, look at the instance and run it again."""
    if _ssh(cloud, _known(cloud, name), command) == 0:
        return
    print("Connection failed, checking instance status...", file=sys.stderr)
    require_login()
    workspace = find_workspace(cloud.read(), name)
    if workspace is None:
        raise CliError(f'ssh connection failed and could not look up instance "{name}": exit status 255')
    if workspace["status"] == "STOPPED":
        with cloud.edit() as state:
            set_status(state, workspace["id"], "RUNNING")
    elif workspace["status"] != "RUNNING":
        raise CliError(f'instance "{name}" is in state "{workspace["status"]}" — please check with: brev ls')
    workspace = _known(cloud, name)
    if _ssh(cloud, workspace, "echo ' '", quiet=True) != 0:
        raise CliError(f'could not connect to instance "{name}": \n{REFUSED}\nPlease check with: brev ls')
    if _ssh(cloud, workspace, command) != 0:
        raise CliError("exit status 1")


def _known(cloud: Cloud, name: str) -> dict[str, Any] | None:
    """An instance that the ssh configuration knows, whatever organization is active."""
    return next((dict(item) for item in cloud.read()["workspaces"] if name in (item["name"], item["id"])), None)


def _ssh(cloud: Cloud, workspace: dict[str, Any] | None, command: str, quiet: bool = False) -> int:
    argv = ["ssh", "-T", "-o", "ConnectTimeout=5", workspace["name"] if workspace else "?", command]
    cloud.record({"argv": argv, "env": dict(os.environ), "stdin": "none", "pid": os.getpid()})
    if workspace is None or workspace["status"] not in ("RUNNING",) or _not_yet(cloud, workspace):
        print(REFUSED, file=sys.stderr)
        return 255
    fault = None if quiet else cloud.take_fault("ssh")
    if fault is not None and fault["kind"] == "refused":
        print(REFUSED, file=sys.stderr)
        return 255
    code = _run(cloud, workspace, command, fault, quiet)
    return 255 if fault is not None else code


def _not_yet(cloud: Cloud, workspace: dict[str, Any]) -> bool:
    with cloud.edit() as state:
        for item in state["workspaces"]:
            if item["id"] == workspace["id"] and item["ssh_failures"] > 0:
                item["ssh_failures"] -= 1
                return True
    return False


def _run(cloud: Cloud, workspace: dict[str, Any], command: str, fault: dict[str, Any] | None, quiet: bool) -> int:
    """Run as the login shell of the instance would. A fault `cut` ends it after some lines of output."""
    top = cloud.instance_dir(workspace)
    lines = 10**9 if fault is None else int(fault.get("lines", 0))
    process = subprocess.Popen(
        ["/bin/bash", "-c", command],
        cwd=top / "home",
        env=_environment(cloud, top, workspace),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None
    running = cloud.root / "running" / str(process.pid)
    running.write_text(command)
    for number, line in enumerate(process.stdout, 1):
        if number > lines and fault is not None and fault["kind"] == "cut":
            process.kill()
            break
        if not quiet and (fault is None or fault["kind"] == "cut"):
            sys.stdout.buffer.write(line)
            sys.stdout.flush()
    running.unlink(missing_ok=True)
    return process.wait()


def _environment(cloud: Cloud, top: Path, workspace: dict[str, Any]) -> dict[str, str]:
    settings = {
        "HOME": str(top / "home"),
        "TMPDIR": str(top / "tmp"),
        "USER": "ubuntu",
        "LANG": "C.UTF-8",
        "PATH": f"{top / 'bin'}:/usr/local/bin:/usr/bin:/bin",
        "FAKE_DOCKER_ROOT": str(top / "docker"),
        "FAKE_GPUS": str(workspace["gpus"]),
    }
    host = cloud.root / "docker_host"
    return {**settings, "DOCKER_HOST": host.read_text()} if host.exists() else settings


def copy(cloud: Cloud, source: str, target: str) -> None:
    """As `brev copy` does it: exactly one side is `instance:path`; a stopped instance is started."""
    sides = [_side(source), _side(target)]
    if bool(sides[0][0]) == bool(sides[1][0]):
        raise CliError("exactly one of source or destination must be an instance path (format: instance_name:/path)")
    name = sides[0][0] or sides[1][0]
    upload = not sides[0][0]
    if upload and not Path(source).exists():
        raise CliError(f"local file or directory does not exist: {source}")
    workspace = _ready(cloud, name)
    home = cloud.instance_dir(workspace) / "home"
    paths = [Path(side[1]) if not side[0] else _inside(home, side[1]) for side in sides]
    if cloud.take_fault("scp") is not None:
        raise CliError("scp failed: exit status 255\nOutput: scp: Connection closed")
    _scp(paths[0], paths[1])
    print("\n✓ Successfully copied", source, "→", target)


def _side(path: str) -> tuple[str, str]:
    parts = path.split(":")
    if len(parts) > 2:
        raise CliError("invalid instance path format, use instance_name:/path")
    return (parts[0], parts[1]) if len(parts) == 2 else ("", path)


def _inside(home: Path, path: str) -> Path:
    """A path of the instance: relative ones start at its home directory."""
    found = home / path
    if home.parent not in found.parents:
        raise CliError(f"scp failed: exit status 1\nOutput: scp: {path}: the double has only its home directory")
    return found


def _ready(cloud: Cloud, name: str) -> dict[str, Any]:
    for _ in range(100):
        with cloud.edit() as state:
            workspace = find_workspace(state, name)
            if workspace is None:
                raise CliError(f"instance with id/name {name} not found")
            if workspace["status"] == "STOPPED":
                set_status(state, workspace["id"], "RUNNING")
            tick(state)
        if workspace["status"] == "RUNNING":
            if _not_yet(cloud, workspace):
                raise CliError("\n" + REFUSED)
            return workspace
    raise CliError("timed out waiting for instance to reach RUNNING state")


def _scp(source: Path, target: Path) -> None:
    """scp -r: a directory goes into an existing one; the mode is the source's, less the umask."""
    if source.is_dir():
        into = target / source.name if target.is_dir() else target
        shutil.copytree(source, into, dirs_exist_ok=True)
        return
    into = target / source.name if target.is_dir() else target
    if not into.parent.is_dir():
        raise CliError(f"scp failed: exit status 1\nOutput: scp: {into}: No such file or directory")
    shutil.copyfile(source, into)
    into.chmod(source.stat().st_mode & 0o777)
