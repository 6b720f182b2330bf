"""The arrows of the house: who may import whom, checked on the code itself."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "tao_run"
SDKS = {"leptonai", "boto3", "botocore", "docker", "kubernetes", "obstore", "requests", "huggingface_hub"}

# A room may import itself and the rooms named here. The record layer (what a job is, and where it is written
# down) lies below the platforms; the work layer (watching, retrying, splitting) lies above them.
BASE = {"errors", "redact", "credentials", "clock", "yamltext", "userpaths"}
RECORD = BASE | {"jobs.record"}
MAY: dict[str, set[str]] = {
    "errors": set(),
    "redact": set(),
    "clock": set(),
    "yamltext": set(),
    "userpaths": {"errors"},
    "credentials": {"errors", "redact", "userpaths"},
    "runner": set(),
    "jobs.record": BASE,
    "analysis": RECORD,
    "storage": RECORD,
    "entrypoint": RECORD | {"runner", "storage"},
    "catalog": RECORD | {"storage"},
    "platforms": RECORD | {"entrypoint", "storage", "analysis", "catalog"},
    "preflight": RECORD | {"platforms", "storage", "catalog"},
    "jobs.work": RECORD | {"platforms", "analysis", "storage", "catalog", "preflight"},
    "cli": RECORD | {"jobs.work", "preflight", "analysis", "catalog", "platforms", "storage", "entrypoint"},
}
RECORD_MODULES = {
    "model",
    "request",
    "store",
    "schema",
    "commas",
    "durations",
    "jobfile",
    "speckeys",
    "readiness",
    "__init__",
}


def room_of(module: str) -> str:
    parts = module.split(".")[1:]
    if not parts or parts == ["__main__"]:
        return "top"
    if parts[0] == "jobs":
        return "jobs.record" if len(parts) == 1 or parts[1] in RECORD_MODULES else "jobs.work"
    return parts[0]


def imports_of(path: Path) -> list[tuple[str, int, bool]]:
    """Imported modules with line and whether at module level (run when the module is imported)."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    top = {id(node) for node in _at_import_time(tree.body)}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(alias.name, node.lineno, id(node) in top) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level and "runner" in path.parts:
            continue  # the runner is packed on its own and knows itself by relative names
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            found += [(f"{node.module}.{alias.name}", node.lineno, id(node) in top) for alias in node.names]
    return found


def _at_import_time(body: list[ast.stmt]) -> list[ast.stmt]:
    found: list[ast.stmt] = []
    for node in body:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        found.append(node)
        for inner in ("body", "orelse", "handlers", "finalbody"):
            if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                found += _at_import_time(getattr(node, inner, []))
    return found


FILES = sorted(ROOT.rglob("*.py"))


def module_of(path: Path) -> str:
    return ".".join(("tao_run", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_arrows_point_one_way(path: Path) -> None:
    room = room_of(module_of(path))
    if room == "top":
        return
    for name, line, _ in imports_of(path):
        if not name.startswith("tao_run.") or name == "tao_run.__version__":
            continue
        target = room_of(name)
        assert target in MAY[room] | {room}, f"{path.relative_to(ROOT)}:{line}: {room} imports {name}"


def test_adapters_do_not_know_each_other() -> None:
    for path in (ROOT / "platforms").glob("*/*.py"):
        own = path.parent.name
        for name, line, _ in imports_of(path):
            parts = name.split(".")
            if parts[:2] == ["tao_run", "platforms"] and (ROOT / "platforms" / parts[2]).is_dir():
                assert parts[2] == own, f"{path.relative_to(ROOT)}:{line}: {own} imports {name}"


def test_no_backend_sdk_is_imported_before_it_is_needed() -> None:
    for path in FILES:
        for name, line, at_top in imports_of(path):
            assert not (at_top and name.split(".")[0] in SDKS), f"{path.relative_to(ROOT)}:{line}: imports {name}"


def test_every_module_says_what_it_is_for_and_is_short() -> None:
    for path in FILES:
        text = path.read_text(encoding="utf-8")
        assert text.startswith('"""'), f"{path.relative_to(ROOT)} does not say what it is for"
        assert text.count("\n") <= 400, f"{path.relative_to(ROOT)} has more than 400 lines"


def test_no_function_is_long() -> None:
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                assert length <= 60, f"{path.relative_to(ROOT)}:{node.lineno}: {node.name} has {length} lines"
