"""Runs pods as local bash processes: env, secrets, mounts, logs, exit codes, graceful end."""

from __future__ import annotations

import base64
import contextlib
import os
import re
import shlex
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.fakes.kubernetes.objects import ApiError, Objects, now
from tests.fakes.kubernetes.podlog import PodLog

Obj = dict[str, Any]


class Kubelet:
    """One node's agent. `missing(image)` says whether an image cannot be pulled.

    `verdict(pod, exit_code)` may return a `terminated` block to report instead of the plain one (OOM kill).
    """

    def __init__(self, objects: Objects) -> None:
        self.objects = objects
        self.missing: Callable[[str], bool] = lambda image: "missing" in image or "does-not-exist" in image
        self.verdict: Callable[[Obj, int], Obj | None] = lambda pod, code: None
        self.logs: dict[str, PodLog] = {}
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._ending: dict[str, float] = {}
        self._root = tempfile.TemporaryDirectory(prefix="fake-kubelet-")

    def tick(self) -> None:
        """Move each pod of the node one step on; hold the objects' lock."""
        for pod in self.objects.each("pods"):
            if not pod["spec"].get("nodeName"):
                if pod["metadata"].get("deletionTimestamp"):
                    self.objects.remove("pods", pod)
                continue
            phase = pod["status"]["phase"]
            if pod["metadata"].get("deletionTimestamp"):
                self._end(pod)
            elif phase == "Pending":
                self._start(pod)

    def stop(self) -> None:
        for process in list(self._running.values()):
            _kill(process, signal.SIGKILL)
        self._root.cleanup()

    def crash(self, pod: Obj) -> None:
        """The pod is gone at once, as when its node dies."""
        process = self._running.get(pod["metadata"]["uid"])
        if process:
            _kill(process, signal.SIGKILL)

    def _end(self, pod: Obj) -> None:
        uid = pod["metadata"]["uid"]
        process = self._running.get(uid)
        if process is None or process.poll() is not None:
            self.objects.remove("pods", pod)
            return
        started = self._ending.get(uid)
        if started is None:
            self._ending[uid] = time.monotonic()
            process.terminate()  # the container's main process alone, as container engines do
        elif time.monotonic() - started > pod["metadata"].get("deletionGracePeriodSeconds", 30):
            _kill(process, signal.SIGKILL)

    def _start(self, pod: Obj) -> None:
        container = pod["spec"]["containers"][0]
        if self.missing(container["image"]):
            image = container["image"]
            message = f'Failed to pull image "{image}": rpc error: manifest for {image} not found: manifest unknown'
            first = not pod["status"].get("containerStatuses")
            self._waiting(pod, "ErrImagePull" if first else "ImagePullBackOff", message)
            self.objects.event(pod, "Failed", message)
            return
        try:
            env = self._environment(pod, container)
            mounts = self._mounts(pod, container)
        except ApiError as error:
            self._waiting(pod, "CreateContainerConfigError", str(error))
            self.objects.event(pod, "Failed", f"Error: {error}")
            return
        self._run(pod, container, env, mounts)

    def _waiting(self, pod: Obj, reason: str, message: str) -> None:
        name = pod["spec"]["containers"][0]["name"]
        state = {"waiting": {"reason": reason, "message": message}}
        status = [{"name": name, "ready": False, "restartCount": 0, "state": state, "image": "", "imageID": ""}]
        if pod["status"].get("containerStatuses") != status:
            pod["status"]["containerStatuses"] = status
            self.objects.touch(pod)

    def _environment(self, pod: Obj, container: Obj) -> dict[str, str]:
        env = {"PATH": os.environ["PATH"], "HOME": "/root", "HOSTNAME": pod["spec"].get("hostname", "")}
        namespace = pod["metadata"]["namespace"]
        for source in container.get("envFrom") or []:
            secret = self.objects.live("secrets", namespace, source["secretRef"]["name"])
            env.update({k: base64.b64decode(v).decode() for k, v in _data(secret).items()})
        for variable in container.get("env") or []:
            env[variable["name"]] = expand(self._value(pod, variable), env)
        return env

    def _value(self, pod: Obj, variable: Obj) -> str:
        source = variable.get("valueFrom") or {}
        if "secretKeyRef" in source:
            key = source["secretKeyRef"]
            secret = self.objects.live("secrets", pod["metadata"]["namespace"], key["name"])
            return base64.b64decode(_data(secret)[key["key"]]).decode()
        if "fieldRef" in source:
            path = source["fieldRef"]["fieldPath"]
            if path.startswith("metadata.annotations["):
                return str(pod["metadata"].get("annotations", {}).get(path[22:-2], ""))
            head, leaf = path.split(".", 1)
            return str(pod[head].get(leaf, ""))
        return str(variable.get("value", ""))

    def _mounts(self, pod: Obj, container: Obj) -> list[tuple[str, str]]:
        volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes") or []}
        found = []
        for mount in container.get("volumeMounts") or []:
            if mount["mountPath"] == "/dev/shm":
                continue
            source = self._source(pod, volumes[mount["name"]])
            if mount.get("subPath"):
                source = source / mount["subPath"]
                if not source.exists():
                    source.mkdir(parents=True)
            found.append((str(source), mount["mountPath"]))
        return found

    def _source(self, pod: Obj, volume: Obj) -> Path:
        if "hostPath" in volume:
            return Path(volume["hostPath"]["path"])
        base = Path(self._root.name)
        namespace = pod["metadata"]["namespace"]
        if "persistentVolumeClaim" in volume:
            claim = volume["persistentVolumeClaim"]["claimName"]
            self.objects.live("persistentvolumeclaims", namespace, claim)
            place = base / "pvc" / namespace / claim
        else:
            place = base / pod["metadata"]["uid"] / volume["name"]
        place.mkdir(parents=True, exist_ok=True)
        if "configMap" in volume:
            held = self.objects.live("configmaps", namespace, volume["configMap"]["name"])
            for key, text in (held.get("data") or {}).items():
                (place / key).write_text(text)
            for key, data in (held.get("binaryData") or {}).items():
                (place / key).write_bytes(base64.b64decode(data))
        return place

    def _run(self, pod: Obj, container: Obj, env: dict[str, str], mounts: list[tuple[str, str]]) -> None:
        argv = [expand(part, env) for key in ("command", "args") for part in container.get(key) or []]
        uid = pod["metadata"]["uid"]
        log = self.logs[uid] = PodLog()
        pod["status"]["startTime"] = started = now()
        with _targets(mounts) as inside:
            try:
                process = subprocess.Popen(
                    [*inside, *argv],
                    env=env,
                    cwd=container.get("workingDir") or "/",
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            except OSError as error:
                self._finished(pod, started, 128, {"reason": "StartError", "message": str(error)})
                return
        self._running[uid] = process
        self._state(pod, "Running", {"running": {"startedAt": started}})
        threading.Thread(target=_end_group, args=(process,), daemon=True).start()
        threading.Thread(target=self._watch, args=(pod, process, log, started), daemon=True).start()

    def _watch(self, pod: Obj, process: subprocess.Popen[bytes], log: PodLog, started: str) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            log.write(line)
        code = process.wait()
        log.close()
        with self.objects.lock:
            self._finished(pod, started, 128 - code if code < 0 else code, {})

    def _finished(self, pod: Obj, started: str, code: int, extra: Obj) -> None:
        reason = {"reason": "Completed" if code == 0 else "Error"}
        ended = {"exitCode": code, "startedAt": started, "finishedAt": now(), **reason, **extra}
        ended.update(self.verdict(pod, code) or {})
        if not ended.pop("keep-pod", False):
            self._state(pod, "Succeeded" if ended["exitCode"] == 0 else "Failed", {"terminated": ended})

    def _state(self, pod: Obj, phase: str, state: Obj) -> None:
        name = pod["spec"]["containers"][0]["name"]
        ready = phase == "Running"
        status = {"name": name, "ready": ready, "restartCount": 0, "state": state, "image": "", "imageID": ""}
        pod["status"].update(phase=phase, containerStatuses=[status])
        self.objects.touch(pod)


def expand(text: str, known: dict[str, str]) -> str:
    """`$(NAME)` of a known variable is its value, `$$` is `$`: what a kubelet does to env, command and args."""

    def one(found: re.Match[str]) -> str:
        if found[0] == "$$":
            return "$"
        return known.get(found[1], found[0])

    return re.sub(r"\$\$|\$\(([^)]*)\)", one, text)


def _data(secret: Obj) -> dict[str, str]:
    plain = {k: base64.b64encode(v.encode()).decode() for k, v in (secret.get("stringData") or {}).items()}
    return {**(secret.get("data") or {}), **plain}


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """A container ends with its main process: what that left running goes with it."""
    process.wait()
    _kill(process, signal.SIGKILL)


def _kill(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


@contextlib.contextmanager
def _targets(mounts: list[tuple[str, str]]) -> Any:
    """A prefix for argv that runs it in a mount namespace of its own, where the volumes are bound."""
    if not mounts:
        yield []
        return
    script = "".join(
        f"{'mkdir -p' if Path(source).is_dir() else 'touch'} {shlex.quote(target)} && "
        f"mount --bind {shlex.quote(source)} {shlex.quote(target)} && "
        for source, target in mounts
    )
    user = [] if os.geteuid() == 0 else ["-r"]
    yield ["unshare", *user, "-m", "--propagation", "private", "/bin/sh", "-c", f'{script}exec "$@"', "sh"]
