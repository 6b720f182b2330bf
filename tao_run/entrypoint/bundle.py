"""Packs the runner and a plan: into the bash text itself, or into a file that the platform stages."""

from __future__ import annotations

import ast
import base64
import io
import json
import zipfile
import zlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import tao_run.runner
from tao_run.runner.errors import EXIT_NO_PYTHON
from tao_run.runner.main import PLAN_MEMBER, UNPACKED_PREFIX

# Linux takes no single argument of more than 128 KiB, and a platform's own prelude needs room too.
LIMIT = 100 * 1024
PAYLOAD_VARIABLE = "TAO_RUN_PAYLOAD"
_PACKAGE = "tao_runner"
_MAIN = f"from {_PACKAGE}.main import main\nmain()\n"
_EPOCH = (1980, 1, 1, 0, 0, 0)
_PYTHONS = (
    "python3 python3.12 python3.11 python3.10 python3.9 python3.8 python3.13 python /usr/bin/python3 "
    "/usr/local/bin/python3 /opt/conda/bin/python"
)
_NO_PYTHON = (
    "tao-run: error: this image has no python3 (3.8 or newer), which a job with a spec, inputs or outputs needs\n"
    "tao-run:   fix: use an image with Python, or set TAO_RUN_PYTHON to its path"
)
_CHECK = "import sys, zlib, base64; sys.exit(sys.version_info < (3, 8))"
_UNPACK = (
    "import base64, os, sys, tempfile, zlib; "
    f'path = os.path.join(tempfile.mkdtemp(prefix="{UNPACKED_PREFIX}"), "runner.pyz"); '
    'open(path, "wb").write(zlib.decompress(base64.b64decode(sys.stdin.read()))); print(path)'
)


def marks(command: str) -> bool:
    """Whether a bash text already has the runner in it."""
    return UNPACKED_PREFIX in command


def inline_script(plan: Mapping[str, Any]) -> str:
    """Bash text that unpacks the runner and becomes it. Works under any size limit that the text itself meets."""
    packed = base64.b64encode(zlib.compress(archive(plan, zipfile.ZIP_STORED), 9)).decode("ascii")
    # printf is part of bash: its argument never passes through the kernel, which limits the size of one
    return _search(
        f"tao_runner=$(printf %s '{packed}' | \"$tao_python\" -I -c '{_UNPACK}') || exit 1\n"
        '  exec "$tao_python" "$tao_runner"'
    )


def payload_script() -> str:
    """Bash text that becomes the runner that lies at TAO_RUN_PAYLOAD."""
    return _search(f'exec "$tao_python" "${PAYLOAD_VARIABLE}"')


def _search(action: str) -> str:
    return (
        f'for tao_python in "${{TAO_RUN_PYTHON-}}" {_PYTHONS}; do\n'
        f"  \"$tao_python\" -I -c '{_CHECK}' 2>/dev/null || continue\n"
        f"  {action}\n"
        f"done\necho '{_NO_PYTHON}' >&2\nexit {EXIT_NO_PYTHON}\n"
    )


def archive(plan: Mapping[str, Any], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    """The runner as an archive that Python executes, with the plan in it. Same plan, same bytes."""
    members = {**_sources(), "__main__.py": _MAIN.encode(), PLAN_MEMBER: _plan_text(plan).encode()}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for name, data in members.items():
            file.writestr(zipfile.ZipInfo(name, _EPOCH), data, compression, 9)
    return buffer.getvalue()


def _plan_text(plan: Mapping[str, Any]) -> str:
    return json.dumps(plan, ensure_ascii=False, separators=(",", ":"))


@cache
def _sources() -> dict[str, bytes]:
    """The runner's own files, in a fixed order."""
    root = Path(tao_run.runner.__file__).parent
    paths = sorted(root.rglob("*.py"))
    return {f"{_PACKAGE}/{path.relative_to(root).as_posix()}": without_prose(path.read_text()) for path in paths}


def without_prose(source: str) -> bytes:
    """Python source without docstrings and whole-line comments, a quarter smaller; line numbers stay as they are."""
    lines = source.splitlines()
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
            continue
        if ast.get_docstring(node, clean=False) is not None:
            text = node.body[0]
            lines[text.lineno - 1 : text.end_lineno] = [""] * ((text.end_lineno or text.lineno) - text.lineno + 1)
            if len(node.body) == 1:
                lines[text.lineno - 1] = " " * text.col_offset + "pass"
    kept = ["" if line.lstrip().startswith("#") else line.rstrip() for line in lines]
    return ("\n".join(kept) + "\n").encode()
