"""A lock for processes on different machines that share only a file system, and that survives a dead holder.

`flock` does not reach across nodes on many shared file systems. So: a file made exclusively, kept alive by
touching it. Whoever waits breaks it when it has not been touched for a while by the waiter's own clock, or
at once if the holder is a process of the same machine that is gone. Should two ever hold it at the same time,
work is done twice and nothing breaks: files come into being by rename only.
"""

from __future__ import annotations

import json
import os
import threading
import time
import uuid
from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterator, Optional, Tuple

from .stop import Stop

TOUCH_SECONDS = 10.0
STALE_SECONDS = 120.0
_POLL_SECONDS = 0.5


def holder_identity() -> Dict[str, Any]:
    """This process, so that others on this machine can see whether it still lives."""
    return {"machine": _machine(), "pid": os.getpid(), "start": process_start(os.getpid()), "token": uuid.uuid4().hex}


def _machine() -> str:
    """The boot of this machine and its process namespace: pids mean something only inside one."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip() + os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def process_start(pid: int) -> str:
    """When a process started, in the kernel's ticks; empty if there is no such process, or it is a zombie."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] == "Z" else fields[19]


def is_dead(holder: Dict[str, Any]) -> bool:
    """Whether a holder is known to be gone. One on another machine is never known to be."""
    machine = _machine()
    if not machine or holder.get("machine") != machine:
        return False
    return process_start(int(holder.get("pid", 0))) != holder.get("start")


@contextmanager
def hold(path: str, stop: Stop, on_wait: Callable[[], None], stale: float = STALE_SECONDS) -> Iterator[None]:
    """Hold the lock file `path`. `on_wait` is called once if somebody else has it. Raises Stopped."""
    me = holder_identity()
    os.makedirs(os.path.dirname(path), exist_ok=True)
    _acquire(path, me, stop, on_wait, stale)
    released = threading.Event()
    toucher = threading.Thread(target=_keep_alive, args=(path, released), daemon=True)
    toucher.start()
    try:
        yield
    finally:
        released.set()
        if (_look(path)[0] or {}).get("token") == me["token"]:
            _unlink(path)


def _acquire(path: str, me: Dict[str, Any], stop: Stop, on_wait: Callable[[], None], stale: float) -> None:
    waited = False
    last_seen: Any = None
    changed = time.monotonic()
    while not _take(path, me):
        if not waited:
            waited = True
            on_wait()
        holder, touched = _look(path)
        if touched != last_seen:
            last_seen, changed = touched, time.monotonic()
        if (holder and is_dead(holder)) or time.monotonic() - changed > stale:
            _break(path, holder)
            continue
        stop.sleep(_POLL_SECONDS)


def _take(path: str, me: Dict[str, Any]) -> bool:
    """Make the lock with its content in one step: a link to a file of one's own, as even NFS does it atomically."""
    own = f"{path}.{me['token']}"
    with open(own, "w", encoding="utf-8") as file:
        json.dump(me, file)
    try:
        os.link(own, path)
        return True
    except FileExistsError:
        return False
    except OSError:
        return _take_without_links(path, me)
    finally:
        _unlink(own)


def _take_without_links(path: str, me: Dict[str, Any]) -> bool:
    """For file systems that have no hard links."""
    try:
        with open(path, "x", encoding="utf-8") as file:
            json.dump(me, file)
    except FileExistsError:
        return False
    return True


def _break(path: str, holder: Optional[Dict[str, Any]]) -> None:
    """Remove the lock of a dead holder, unless somebody else has just done so and taken it."""
    if _look(path)[0] == holder:
        _unlink(path)


def _look(path: str) -> Tuple[Optional[Dict[str, Any]], Any]:
    """The holder, and what changes whenever it touches the lock. Opening makes NFS ask its server again."""
    try:
        with open(path, encoding="utf-8") as file:
            found = os.fstat(file.fileno())
            touched = (found.st_ino, found.st_mtime_ns)
            data = json.load(file)
    except OSError:
        return None, None
    except ValueError:
        return None, touched
    return (data if isinstance(data, dict) else None), touched


def _keep_alive(path: str, released: threading.Event) -> None:
    while not released.wait(TOUCH_SECONDS):
        try:
            os.utime(path)
        except OSError:
            return


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass
