"""The `brev` executable of the tests: the grammar, the answers and the traps of the real one, v0.6.99.

Differences that matter to a caller are kept: `ls --json` prints an object whose `workspaces` may be null;
`exec` takes every argument but the last for an instance, reads more of them from a stdin that is no
terminal, runs a failing command a second time, loses its exit code and appends the instance's name;
an expired login shows as a prompt on stdout. It never waits: time passes by being looked at (cloud.tick).
"""

from __future__ import annotations

import json
import os
import stat
import sys
import time
from pathlib import Path
from typing import Any

from tests.fakes.brev import catalog, remote
from tests.fakes.brev.cloud import Cloud, find_workspace, set_status, tick
from tests.fakes.brev.grammar import Call, CliError, parse

VERSION = "v0.6.99"
PROMPT = "You are currently logged out, would you like to log in? [Y/n]: "


def main(argv: list[str]) -> int:
    """Run one command line; returns the exit code."""
    cloud = Cloud(Path(os.environ["FAKE_BREV_ROOT"]))
    cloud.record({"argv": argv, "env": dict(os.environ), "stdin": _kind(0), "pid": os.getpid()})
    try:
        call = parse(argv)
        fault = cloud.take_fault(call.command)
        if fault is not None:
            _strike(fault, before=True)
        HANDLERS[call.command](cloud, call)
        if fault is not None:
            _strike(fault, before=False)
    except CliError as error:
        print(f"[error] {error}", file=sys.stderr)
        return 1
    return 0


def _strike(fault: dict[str, Any], before: bool) -> None:
    kind = fault["kind"]
    if before and kind == "network":
        raise CliError('Get "https://api.example.test": dial tcp: lookup api.example.test: no such host')
    if before and kind == "unauthorized":
        raise CliError("api error: 401 Unauthorized")
    if before and kind == "server":
        raise CliError("api error: 502 Bad Gateway")
    if before and kind == "garbage":
        print("<html><body>proxy login</body></html>")
        sys.exit(0)
    if before and kind == "hang":
        time.sleep(float(fault.get("seconds", 60)))
    if not before and kind == "lost_reply":
        raise CliError("unexpected EOF")


def _kind(descriptor: int) -> str:
    try:
        mode = os.fstat(descriptor).st_mode
    except OSError:
        return "closed"
    return "terminal" if stat.S_ISCHR(mode) else "piped"


def names_from(call: Call, args: list[str]) -> list[str]:
    """Instance names from the arguments and, if stdin is no character device, one per line from there."""
    piped = [line.strip() for line in sys.stdin] if _kind(0) == "piped" else []
    names = [*args, *(name for name in piped if name)]
    if not names:
        raise CliError("instance name required: provide as argument or pipe from another command")
    return names


def require_login(cloud: Cloud) -> None:
    """Every call of the API needs a session: the token of ~/.brev/credentials.json, if the server knows it."""
    path = Path(os.environ["HOME"], ".brev", "credentials.json")
    saved = json.loads(path.read_text()) if path.exists() else {}
    good = cloud.read()["good_tokens"]
    if saved.get("access_token") in good or saved.get("refresh_token") in good:
        return
    print(PROMPT, end="")
    sys.stdout.flush()
    raise CliError("EOF\npkg/auth.shouldLogin\npkg/auth.Auth.PromptForLogin")


def login(cloud: Cloud, call: Call) -> None:
    token = call.flags.get("token")
    if token is None:
        raise CliError("EOF")  # the browser flow cannot run here
    path = Path(os.environ["HOME"], ".brev", "credentials.json")
    path.parent.mkdir(mode=0o700, exist_ok=True)
    is_jwt = token.count(".") == 2
    saved = {"access_token": token if is_jwt else "auto-login", "refresh_token": "" if is_jwt else token}
    path.write_text(json.dumps(saved))
    require_login(cloud)


def logout(cloud: Cloud, call: Call) -> None:
    Path(os.environ["HOME"], ".brev", "credentials.json").unlink(missing_ok=True)


def refresh(cloud: Cloud, call: Call) -> None:
    require_login(cloud)


def set_org(cloud: Cloud, call: Call) -> None:
    require_login(cloud)
    with cloud.edit() as state:
        if call.args[0] not in [org["name"] for org in state["orgs"]]:
            raise CliError(f"no org exists with name {call.args[0]}")
        state["active_org"] = call.args[0]


def ls(cloud: Cloud, call: Call) -> None:
    require_login(cloud)
    if len(call.args) > 1:
        raise CliError("too many args provided")
    with cloud.edit() as state:
        tick(state)
    wanted = call.args[0] if call.args else ""
    if wanted in ("org", "orgs"):
        active = state["active_org"]
        _show(call, [{**org, "is_active": org["name"] == active} for org in state["orgs"]])
    elif wanted in ("node", "nodes"):
        _show(call, state["nodes"])
    else:
        _list_workspaces(call, state, bare=bool(wanted))


def _list_workspaces(call: Call, state: dict[str, Any], bare: bool) -> None:
    org = call.flags.get("org", state["active_org"])
    if org not in [word for known in state["orgs"] for word in (known["name"], known["id"])]:
        raise CliError(f"no org found with name {org}")
    rows = [_public(item) for item in state["workspaces"] if item["org"] == org]
    if not call.has("json"):
        print("\n".join(row["name"] for row in rows))
    elif bare:
        _show(call, rows or None)
    else:
        _show(call, {"workspaces": rows or None, **({"nodes": state["nodes"]} if state["nodes"] else {})})


def _public(workspace: dict[str, Any]) -> dict[str, str]:
    ill = workspace["status"] == "RUNNING" and workspace["health"] == "UNHEALTHY"
    return {
        "name": workspace["name"],
        "id": workspace["id"],
        "status": "UNHEALTHY" if ill else workspace["status"],
        "build_status": "COMPLETED" if workspace["status"] == "RUNNING" else "BUILDING",
        "shell_status": "READY" if workspace["status"] == "RUNNING" else "NOT READY",
        "health_status": workspace["health"],
        "instance_type": workspace["type"],
        "instance_kind": "gpu",
        "gpu": workspace["gpu"],
    }


def _show(call: Call, data: Any) -> None:
    print(json.dumps(data, indent=2))


def search(cloud: Cloud, call: Call) -> None:
    require_login(cloud)
    _show(call, catalog.matching(cloud.read()["types"], call))


def create(cloud: Cloud, call: Call) -> None:
    require_login(cloud)
    name = call.flags.get("name") or (call.args[0] if call.args else "")
    if not name:
        raise CliError("name is required (as argument or --name flag)")
    types = [word.strip() for word in call.flags.get("type", "").split(",") if word.strip()]
    if not types:
        types = [row["type"] for row in catalog.matching(cloud.read()["types"], call)]
    for kind in types:
        print(f"[Worker 1] Trying {kind} for instance '{name}'...", file=sys.stderr)
        problem = catalog.create(cloud, name, kind)
        if not problem:
            print(name)
            return
        print(f"[Worker 1] {kind} Failed: {problem}", file=sys.stderr)
    print("\nWarning: Only created 0/1 instances", file=sys.stderr)
    raise CliError("could only create 0/1 instances")


def delete(cloud: Cloud, call: Call) -> None:
    require_login(cloud)
    errors = []
    for name in names_from(call, call.args):
        with cloud.edit() as state:
            workspace = find_workspace(state, name)
            if workspace is None:
                errors.append(f"instance with id/name {name} not found")
                continue
            set_status(state, workspace["id"], "DELETING")
        print(f"Deleting instance {name}. This can take a few minutes. Run 'brev ls' to check status")
    if errors:
        raise CliError(f"{len(errors)} error occurred:\n\t* " + "\n\t* ".join(errors))


def start(cloud: Cloud, call: Call) -> None:
    _turn(cloud, call, "RUNNING")


def stop(cloud: Cloud, call: Call) -> None:
    _turn(cloud, call, "STOPPED")


def _turn(cloud: Cloud, call: Call, status: str) -> None:
    require_login(cloud)
    for name in names_from(call, call.args):
        with cloud.edit() as state:
            workspace = find_workspace(state, name)
            if workspace is None:
                raise CliError(f"instance with id/name {name} not found")
            set_status(state, workspace["id"], status)


def execute(cloud: Cloud, call: Call) -> None:
    if not call.args:
        raise CliError("requires at least 1 arg(s), only received 0")
    *given, command = call.args
    names = names_from(call, given)
    if command.startswith("@"):
        command = Path(command[1:]).read_text()
    if not command:
        raise CliError("command is required")
    for name in names:
        remote.execute(cloud, name, command, lambda: require_login(cloud))
        if _kind(1) != "terminal":
            print(name, flush=True)


def copy(cloud: Cloud, call: Call) -> None:
    if len(call.args) != 2:
        raise CliError(f"accepts 2 arg(s), received {len(call.args)}")
    require_login(cloud)
    remote.copy(cloud, *call.args)


def shell(cloud: Cloud, call: Call) -> None:
    raise CliError("the input device is not a TTY")


def version(cloud: Cloud, call: Call) -> None:
    print(f"Current Version: {VERSION}")


def usage(cloud: Cloud, call: Call) -> None:
    print("Usage:\n  brev [command]")


HANDLERS = {
    "login": login,
    "logout": logout,
    "refresh": refresh,
    "set": set_org,
    "ls": ls,
    "search": search,
    "create": create,
    "delete": delete,
    "start": start,
    "stop": stop,
    "exec": execute,
    "copy": copy,
    "shell": shell,
    "version": version,
    "help": usage,
}
