"""Declared outputs: where the command writes them, what is delivered where, and whether they are there at the end."""

from __future__ import annotations

import os
import posixpath
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Tuple

from . import log
from .context import Context
from .errors import OutputError
from .plan import Output
from .trees import Tree
from .uris import bucket_path, join, scheme_of

# Keys that mean the job's results directory itself.
_WHOLE = ("results_dir", "output_dir", "results-dir", "output-dir")
_CUSTOMARY = "/results"  # what spec templates put there where no place is meant
# A file output that the spec leaves open gets the ending by which the tool knows it.
_ENDINGS = {"onnx_file": ".onnx", "trt_engine": ".engine", "checkpoint": ".pth"}


@dataclass(frozen=True)
class Target:
    """One declared output: where the command writes it, and where it goes (nothing: with the results)."""

    key: str
    path: str
    kind: str
    uri: str = ""


class Outputs:
    """All declared outputs of a plan, resolved to local paths.

    `read` and `write` look up and set a declared key in the spec or the arguments. `names` collects what
    `{name}` stands for.
    """

    def __init__(
        self,
        declared: Sequence[Output],
        context: Context,
        mount: Optional[str],
        read: Callable[[str], Any],
        write: Callable[[str, Any], None],
    ) -> None:
        self._context, self._mount = context, mount
        self._read, self._write = read, write
        self._folders = _distinct_names([item.key for item in declared if item.is_path])
        self.names: Dict[str, str] = {}
        self._left: Set[str] = set()
        self.targets = [self._resolve(item) for item in declared]

    def _resolve(self, declared: Output) -> Target:
        kind = declared.type or "folder"
        value = declared.key if declared.is_path else self._read(declared.key)
        uri = declared.uri or (value if scheme_of(value) == "s3" else "")
        if declared.is_path:
            path = os.path.abspath(declared.key)
            kind = declared.type or ""
        elif isinstance(value, str) and "${" in value:
            path = self._context.work  # an interpolation that the tool resolves, below its results directory
        else:
            path = self._path_for(declared, kind, uri, value)
            self._write(declared.key, path)
        self.names[declared.key] = self.names[declared.key.replace("-", "_")] = path
        os.makedirs(os.path.dirname(path) or "/", exist_ok=True)
        return Target(declared.key, path, kind, uri)

    def _path_for(self, declared: Output, kind: str, uri: str, value: Any) -> str:
        work, name = self._context.work, declared.key.replace(".", "_").replace("-", "_")
        if uri:
            bucket, key = bucket_path(uri)
            root = self._mount or os.path.join(work, ".tao-run", "outputs")
            return os.path.join(root, bucket, key)
        last = declared.key.rpartition(".")[2]
        unset = not isinstance(value, str) or value.rstrip("/") in ("", _CUSTOMARY)
        if last in _WHOLE and unset:
            return work
        if isinstance(value, str) and value:
            return os.path.normpath(os.path.join(work, value))
        return os.path.join(work, name + (_ENDINGS.get(last, "") if kind == "file" else ""))

    # -- delivery ----------------------------------------------------------------------------------------

    def trees(self, staged: str) -> List[Tree]:
        """What this rank delivers. `staged` is the directory of the inputs, which are nobody's results."""
        context = self._context
        if context.shares_work:
            own = context.record_name
            return [Tree(os.path.join(context.work, own), join_uri(context.uri, own))] if context.uri else []
        trees = []
        if context.uri:
            trees.append(Tree(context.work, self._ranked(context.uri), (staged,)))
        for target in self.targets:
            trees += self._tree_of(target, staged)
        return trees

    def _ranked(self, uri: str) -> str:
        return uri if self._context.rank == 0 else join_uri(uri, f"rank-{self._context.rank}")

    def _tree_of(self, target: Target, staged: str) -> List[Tree]:
        context = self._context
        if target.uri:
            return [Tree(target.path, self._ranked(target.uri), (staged,))]
        if _inside(target.path, context.work):
            return []
        skip = (staged, os.path.realpath(context.work))
        name = self._folders.get(target.key, os.path.basename(target.path))
        if context.uri:
            return [Tree(target.path, join_uri(self._ranked(context.uri), name), skip)]
        if context.persistent and not _on_a_mount(target.path):
            return [Tree(target.path, os.path.join(context.work, name), skip)]
        if target.key not in self._left:
            self._left.add(target.key)
            log.say(f"output {target.key} stays where it is, at {target.path}")
        return []

    # -- at the end ----------------------------------------------------------------------------------------

    def require_all(self) -> None:
        """Raises OutputError if the command has not made what was declared."""
        absent = [target for target in self.targets if not _is_there(target)]
        if absent and not self._context.shares_work and self._context.rank == 0:
            listed = ", ".join(f"{target.key} ({target.path})" for target in absent)
            raise OutputError(
                f"the command ended well, but declared outputs are missing: {listed}",
                "check where the command writes, or remove the declaration",
            )

    def report(self) -> List[Dict[str, Any]]:
        """One entry per declared output for the job's record."""
        return [
            {"key": target.key, "path": target.path, "uri": target.uri or None, "there": _is_there(target)}
            for target in self.targets
        ]


def _is_there(target: Target) -> bool:
    if os.path.exists(target.path):
        return True
    folder, name = os.path.split(target.path)
    # tools add an ending to a file name that they are given without one
    return (
        target.kind == "file"
        and os.path.isdir(folder)
        and any(entry.startswith(f"{name}.") for entry in os.listdir(folder))
    )


def _distinct_names(paths: Sequence[str]) -> Dict[str, str]:
    """A name for each path: its last part, and as many more as it takes to tell it from the others."""
    split: List[Tuple[str, List[str]]] = [
        (path, [part for part in path.split("/") if part not in ("", ".", "..")]) for path in paths
    ]
    names: Dict[str, str] = {}
    for path, parts in split:
        depth = 1
        while depth < len(parts) and any(other[-depth:] == parts[-depth:] for key, other in split if key != path):
            depth += 1
        names[path] = "/".join(parts[-depth:])
    return names


def join_uri(uri: str, name: str) -> str:
    """A URI one level further down."""
    return f"{uri.rstrip('/')}/{join(name)}"


def _inside(path: str, folder: str) -> bool:
    return posixpath.commonpath([os.path.realpath(path), os.path.realpath(folder)]) == os.path.realpath(folder)


def _on_a_mount(path: str) -> bool:
    """Whether a path lies on another file system than the container's own: then it outlives the job."""
    while not os.path.exists(path):
        path = os.path.dirname(path)
    return os.stat(path).st_dev != os.stat("/").st_dev
