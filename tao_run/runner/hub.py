"""Fetches models and datasets from the hubs (hf_model://, hf_dataset://, ngc://) into a root directory."""

from __future__ import annotations

import os
from typing import Any, List, Mapping, Optional, Tuple

from . import log
from .errors import Absent, InputError
from .packages import Packages
from .stage import Moved, Stage
from .stop import Stop
from .uris import HF_DATASET, NGC, Uri, confined

HUGGINGFACE = "huggingface_hub>=0.23,<3"
# A hub directory with exactly one of these is a checkpoint in wrapping: the file itself is what tools want.
_CHECKPOINTS = (".pth", ".pth.tar", ".pt", ".ckpt", ".hdf5", ".tlt")


class Hubs:
    """The hubs, with the keys of the job's environment."""

    def __init__(self, env: Mapping[str, str], stage: Stage, packages: Packages, stop: Stop) -> None:
        self._env, self._stage, self._packages, self._stop = env, stage, packages, stop

    def fetch(self, uri: Uri) -> Tuple[str, Moved]:
        """The local file or directory of a hub URI. Raises InputError, NoClient, Stopped."""
        if uri.scheme == NGC:
            return self._ngc(uri)
        return self._hugging_face(uri)

    def _ngc(self, uri: Uri) -> Tuple[str, Moved]:
        from .ngc import Ngc, parse  # its HTTP modules cost every job some of its start

        wanted = parse(uri)
        folder = os.path.join(self._stage.root, wanted.folder)
        with self._stage.locked(uri.text):
            names = Ngc(self._env, self._stop).fetch(uri, folder, self._stage.scratch())
        paths = [os.path.join(folder, name) for name in names]
        return (paths[0] if wanted.file else checkpoint_in(folder, paths)), _moved(paths)

    def _hugging_face(self, uri: Uri) -> Tuple[str, Moved]:
        repo, revision, inner = parse_repo(uri)
        kind = "dataset" if uri.scheme == HF_DATASET else "model"
        folder = os.path.join(self._stage.root, confined(f"_hf_{kind}s", repo, revision or "main"))
        with self._stage.locked(uri.text):
            log.say(f"{uri.text}: asking Hugging Face")
            self._snapshot(uri, repo, kind, revision, inner, folder)
        paths = _files_below(folder)
        if inner:
            path = os.path.join(folder, inner)
            if not os.path.exists(path):
                raise Absent(f"{uri.text} is not there", f"{repo} has no {inner}")
            return path, _moved([path] if os.path.isfile(path) else _files_below(path))
        return checkpoint_in(folder, paths), _moved(paths)

    def _snapshot(self, uri: Uri, repo: str, kind: str, revision: Optional[str], inner: str, folder: str) -> None:
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
        os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
        self._packages.require("huggingface_hub", HUGGINGFACE, uri.scheme + "://")
        import huggingface_hub
        from huggingface_hub import errors

        token = self._env.get("HF_TOKEN") or None
        patterns: Any = [inner, f"{inner}/*"] if inner else None
        options = {"repo_type": kind, "revision": revision, "local_dir": folder, "allow_patterns": patterns}
        try:
            huggingface_hub.snapshot_download(repo, token=token, **options)
        except errors.GatedRepoError:
            fix = "ask for access on its page, and set HF_TOKEN"
            raise InputError(f"{uri.text} is gated: this token has no access to it", fix) from None
        except (errors.RepositoryNotFoundError, errors.RevisionNotFoundError) as error:
            reason = type(error).__name__.replace("NotFoundError", "").lower()
            fix = "check the name; a private one needs HF_TOKEN"
            raise Absent(f"Hugging Face has no such {reason}: {uri.text}", fix) from None
        except (errors.HfHubHTTPError, errors.LocalEntryNotFoundError, OSError) as error:
            first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            raise InputError(f"{uri.text} could not be fetched: {first}", "check network, proxy and HF_TOKEN") from None


def parse_repo(uri: Uri) -> Tuple[str, Optional[str], str]:
    """Repository, revision and inner path of `hf_model://org/name[@revision][/path]`. Raises InputError."""
    parts = [part for part in uri.key.split("/") if part]
    if not parts or len(parts) < 2:
        raise InputError(f"{uri.text} names no repository", f"write {uri.scheme}://org/name[@revision][/path]")
    name, _, revision = parts[1].partition("@")
    return f"{parts[0]}/{name}", revision or None, confined(*parts[2:]) if parts[2:] else ""


def checkpoint_in(folder: str, paths: List[str]) -> str:
    """The one checkpoint among `paths`, else the folder."""
    found = [path for path in paths if path.lower().endswith(_CHECKPOINTS)]
    return found[0] if len(found) == 1 else folder


def _files_below(folder: str) -> List[str]:
    found = []
    for where, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name != ".cache"]
        found += [os.path.join(where, name) for name in files]
    return found


def _moved(paths: List[str]) -> Moved:
    return Moved(len(paths), sum(os.stat(path).st_size for path in paths), paths=paths)
