"""A `docker` command for instances of the brev double: containers are processes, logs and states are files.

It has the part of the command line that a job needs, with docker's words, exit codes and JSON. An image
`missing...` does not exist, `private...` needs `docker login`, `latest` tags count as pulled each time.
"""

from __future__ import annotations

import fcntl
import getopt
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, BinaryIO

ROOT = Path(os.environ.get("FAKE_DOCKER_ROOT", "."))
RUN_FLAGS = [
    *("name=", "label=", "gpus=", "env=", "volume=", "shm-size=", "ipc=", "ulimit=", "pull=", "network="),
    *("detach", "rm", "init"),
]


class DockerError(Exception):
    """Text for stderr and the exit code."""

    def __init__(self, text: str, code: int = 1) -> None:
        super().__init__(text)
        self.code = code


def main(argv: list[str]) -> int:
    with (ROOT / "calls.jsonl").open("a") as journal:
        fcntl.flock(journal, fcntl.LOCK_EX)
        journal.write(json.dumps({"argv": argv, "config": os.environ.get("DOCKER_CONFIG", "")}) + "\n")
    try:
        if (ROOT / "down").exists() and argv[0] != "__run":
            raise DockerError("Cannot connect to the Docker daemon at unix:///var/run/docker.sock.")
        command = " ".join(argv[:2]) if argv[0] == "image" else argv[0]
        COMMANDS[command](argv[2:] if argv[0] == "image" else argv[1:])
    except DockerError as error:
        print(error, file=sys.stderr)
        return error.code
    return 0


def version(argv: list[str]) -> None:
    print("24.0.7")


def login(argv: list[str]) -> None:
    flags, args = getopt.gnu_getopt(argv, "u:", ["username=", "password-stdin"])
    password = sys.stdin.read().rstrip("\n")
    expected = (ROOT / "registry_password").read_text() if (ROOT / "registry_password").exists() else password
    if not password or password != expected:
        raise DockerError(f"Error response from daemon: Get https://{args[0]}/v2/: unauthorized")
    config = _config()
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(json.dumps({"auths": {args[0]: {"user": dict(flags).get("-u", "")}}}))
    print("Login Succeeded")


def _config() -> Path:
    return Path(os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker") / "config.json"


def pull(argv: list[str]) -> None:
    image = argv[-1]
    while (ROOT / "slow_pull").exists():
        time.sleep(0.02)
    if "missing" in image:
        raise DockerError(f"Error response from daemon: manifest for {image} not found: manifest unknown")
    if "private" in image and not _config().exists():
        raise DockerError(
            f"Error response from daemon: pull access denied for {image}, repository does not exist or may "
            "require 'docker login': denied: requested access to the resource is denied"
        )
    (ROOT / "images").mkdir(exist_ok=True)
    (ROOT / "images" / _digest(image)).write_text(image)
    print(f"Status: Downloaded newer image for {image}")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def image_inspect(argv: list[str]) -> None:
    if not (ROOT / "images" / _digest(argv[-1])).exists():
        raise DockerError(f"Error response from daemon: No such image: {argv[-1]}")
    print("[{}]")


def run(argv: list[str]) -> None:
    flags, args = getopt.getopt(argv, "de:v:", RUN_FLAGS)
    options: dict[str, list[str]] = {}
    for flag, value in flags:
        name = {"-e": "env", "-v": "volume", "-d": "detach"}.get(flag, flag.lstrip("-"))
        options.setdefault(name, []).append(value)
    image, command = args[0], args[1:]
    if not (ROOT / "images" / _digest(image)).exists():
        pull([image])
    home = _container(options["name"][0])
    try:
        home.mkdir(parents=True)
    except FileExistsError:
        raise DockerError(
            f'docker: Error response from daemon: Conflict. The container name "/{home.name}" is in use.', 125
        ) from None
    labels = dict(item.partition("=")[::2] for item in options.get("label", []))
    record = {
        "Id": _digest(home.name),
        "Name": "/" + home.name,
        "Config": {"Image": image, "Labels": labels, "Cmd": command, "Env": _env(options)},
        "HostConfig": {"ShmSize": options.get("shm-size", ["64m"])[0], "Gpus": options.get("gpus", [""])[0]},
        "Binds": options.get("volume", []),
    }
    _write(home / "config.json", record)
    _write(home / "state.json", _state("created"))
    if shutil.which(command[0]) is None:
        text = f'exec: "{command[0]}": executable file not found in $PATH: unknown'
        _write(home / "state.json", {**_state("created"), "ExitCode": 127, "Error": text})
        raise DockerError(f"docker: Error response from daemon: {text}.", 127)
    subprocess.Popen(
        [sys.executable, *sys.orig_argv[1:-len(sys.argv[1:])], "__run", home.name],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    _await(home, lambda state: state["Status"] != "created")
    print(record["Id"])


def _env(options: dict[str, list[str]]) -> list[str]:
    """`-e K=V`, or `-e K`: the value of the docker command's own environment, nothing if it is not set."""
    wanted = []
    for item in options.get("env", []):
        if "=" in item:
            wanted.append(item)
        elif item in os.environ:
            wanted.append(f"{item}={os.environ[item]}")
    return wanted


def supervise(argv: list[str]) -> None:
    """Be the container: run the command, keep its log, write down how it ended."""
    home = _container(argv[0])
    record = json.loads((home / "config.json").read_text())
    binds = [bind.split(":")[:2] for bind in record["Binds"]]
    env = dict(item.partition("=")[::2] for item in record["Config"]["Env"])
    env = {"PATH": os.defpath, "HOME": "/root", **{key: _mapped(value, binds) for key, value in env.items()}}
    process = subprocess.Popen(
        [_mapped(word, binds) for word in record["Config"]["Cmd"]],
        env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        cwd=home,
    )  # fmt: skip
    _write(home / "state.json", {**_state("running"), "Running": True, "Pid": process.pid, "StartedAt": _now()})
    with (home / "log.jsonl").open("a") as log:
        lock = threading.Lock()
        readers = [
            threading.Thread(target=_collect, args=(stream, name, log, lock))
            for stream, name in ((process.stdout, "stdout"), (process.stderr, "stderr"))
        ]
        for reader in readers:
            reader.start()
        code = process.wait()
        for reader in readers:
            reader.join()
    ended = {**json.loads((home / "state.json").read_text()), "Status": "exited", "Running": False, "Pid": 0}
    ended.update(ExitCode=code if code >= 0 else 128 - code, FinishedAt=_now(), OOMKilled=(home / "oom").exists())
    _write(home / "state.json", ended)


def _mapped(text: str, binds: list[list[str]]) -> str:
    for source, target in binds:
        text = text.replace(target, source)
    return text


def _collect(stream: BinaryIO, name: str, log: Any, lock: threading.Lock) -> None:
    """As the json-file driver keeps it: one record per line, pieces of 16 KiB for a longer one."""
    for line in stream:
        for start in range(0, len(line), 16384):
            text = line[start : start + 16384].decode("utf-8", "surrogateescape")
            with lock:
                log.write(json.dumps({"log": text, "stream": name, "time": _now()}) + "\n")
                log.flush()


def inspect(argv: list[str]) -> None:
    flags, args = getopt.gnu_getopt(argv, "f:", ["format=", "type="])
    template = dict(flags).get("--format") or dict(flags).get("-f")
    for name in args:
        home = _existing(name)
        record = json.loads((home / "config.json").read_text())
        record["State"] = json.loads((home / "state.json").read_text())
        print(_formatted(record, template))


def _formatted(record: dict[str, Any], template: str | None) -> str:
    if template == "{{.State.Status}}":
        return str(record["State"]["Status"])
    if template == "{{json .State}}":
        return json.dumps(record["State"])
    if template == '{{index .Config.Labels "tao-run.gpus"}}':
        return str(record["Config"]["Labels"].get("tao-run.gpus", ""))
    if template is None:
        return json.dumps([record])
    raise DockerError(f"the double does not know the template {template}")


def logs(argv: list[str]) -> None:
    flags, args = getopt.gnu_getopt(argv, "ftn:", ["follow", "timestamps", "tail=", "since="])
    given = dict(flags)
    home = _existing(args[0])
    for line in _entries(home, given.get("--since", ""), bool({"-f", "--follow"} & given.keys())):
        stamp = f"{line['time']} " if {"-t", "--timestamps"} & given.keys() else ""
        out = sys.stdout if line["stream"] == "stdout" else sys.stderr
        out.buffer.write((stamp + line["log"]).encode("utf-8", "surrogateescape"))
        out.flush()


def _entries(home: Path, since: str, follow: bool) -> Iterator[dict[str, str]]:
    path = home / "log.jsonl"
    path.touch()
    with path.open() as log:
        while True:
            ended = json.loads((home / "state.json").read_text())["Status"] == "exited"
            for text in log:
                if not since or json.loads(text)["time"] >= since:
                    yield json.loads(text)
            if ended or not follow:
                return
            time.sleep(0.02)


def stop(argv: list[str]) -> None:
    _, args = getopt.gnu_getopt(argv, "t:", ["time="])
    for name in args:
        home = _existing(name)
        if (home / "unstoppable").exists():
            raise DockerError(f"Error response from daemon: cannot stop container: {name}: tried to kill container")
        _kill(home, signal.SIGTERM)
        print(name)


def kill(argv: list[str]) -> None:
    _kill(_existing(argv[-1]), signal.SIGKILL)


def _kill(home: Path, number: int) -> None:
    pid = json.loads((home / "state.json").read_text()).get("Pid")
    if not pid:
        return
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        pass
    _await(home, lambda state: state["Status"] == "exited")


def remove(argv: list[str]) -> None:
    _, args = getopt.gnu_getopt(argv, "fv", ["force", "volumes"])
    for name in args:
        home = _existing(name)
        _kill(home, signal.SIGKILL)
        shutil.rmtree(home)
        print(name)


def ps(argv: list[str]) -> None:
    flags, _ = getopt.gnu_getopt(argv, "aq", ["filter=", "format=", "no-trunc"])
    everything = any(flag == "-a" for flag, _ in flags)
    label = next((value.partition("=")[2] for flag, value in flags if flag == "--filter"), "")
    for home in sorted((ROOT / "containers").glob("*")):
        record = json.loads((home / "config.json").read_text())
        running = json.loads((home / "state.json").read_text())["Status"] == "running"
        labelled = not label or label.partition("=")[0] in record["Config"]["Labels"]
        if labelled and (running or everything):
            print(record["Id"][:12])


def _container(name: str) -> Path:
    return ROOT / "containers" / name


def _existing(name: str) -> Path:
    for home in (ROOT / "containers").glob("*"):
        if home.name == name or (len(name) >= 12 and _digest(home.name).startswith(name)):
            return home
    raise DockerError(f"Error response from daemon: No such container: {name}")


def _state(status: str) -> dict[str, Any]:
    return {
        "Status": status, "Running": False, "Paused": False, "Restarting": False, "OOMKilled": False,
        "Dead": False, "Pid": 0, "ExitCode": 0, "Error": "",
        "StartedAt": "0001-01-01T00:00:00Z", "FinishedAt": "0001-01-01T00:00:00Z",
    }  # fmt: skip


def _await(home: Path, wanted: Any) -> None:
    limit = time.monotonic() + 10
    while time.monotonic() < limit:
        if wanted(json.loads((home / "state.json").read_text())):
            return
        time.sleep(0.01)
    raise DockerError("the container did not get there in time")


def _write(path: Path, data: Any) -> None:
    fresh = path.with_suffix(".tmp")
    fresh.write_text(json.dumps(data))
    fresh.replace(path)


def _now() -> str:
    now = datetime.now(timezone.utc)
    return now.strftime("%Y-%m-%dT%H:%M:%S.") + f"{now.microsecond:06d}000Z"


COMMANDS = {
    "version": version, "login": login, "pull": pull, "image inspect": image_inspect, "run": run,
    "inspect": inspect, "logs": logs, "stop": stop, "kill": kill, "rm": remove, "ps": ps, "__run": supervise,
}  # fmt: skip

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
