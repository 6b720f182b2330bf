"""What the documentation shows is run, parsed or compared with the code."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tao_run.errors import TaoRunError
from tao_run.platforms.registry import BUILTIN, platform_class
from tests.program import program_environ

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def blocks(kind: str) -> list[object]:
    found = []
    for page in PAGES:
        for number, (language, text) in enumerate(FENCE.findall(page.read_text(encoding="utf-8"))):
            if language == kind:
                found.append(pytest.param(text, id=f"{page.stem}-{number}"))
    return found


def as_script(text: str) -> str:
    """The commands of a console block; `# exit N` after one says how it ends, everything else ends with 0."""
    lines = []
    for line in text.splitlines():
        if not line.startswith("$ "):
            lines.append(line)  # the rest of a here-document
            continue
        wanted = re.search(r"#\s*exit (\d+)", line)
        command = re.sub(r"\s+#\s*exit \d+.*", "", line[2:])
        lines.append(f"{command}; test $? = {wanted.group(1)} || exit 99" if wanted else command)
    return "\n".join(lines)


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return program_environ(tmp_path)


@pytest.mark.parametrize("text", blocks("console"))
def test_console_examples_run(text: str, tmp_path: Path, environ: dict[str, str]) -> None:
    commands = as_script(text)
    script = commands if "test $?" in commands else f"set -e\n{commands}"
    ended = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=240, check=False
    )
    assert ended.returncode == 0, f"{script}\n{ended.stdout}\n{ended.stderr}"
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("text", blocks("python"))
def test_python_examples_run(text: str, tmp_path: Path, environ: dict[str, str]) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", text],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize("text", blocks("yaml"))
def test_yaml_examples_are_job_files(text: str) -> None:
    from tao_run.jobs.jobfile import JobFile

    assert JobFile.model_validate(yaml.safe_load(text)) is not None


@pytest.mark.parametrize("text", blocks("sh"))
def test_shell_examples_name_real_commands_and_options(text: str) -> None:
    from tao_run.cli.main import COMMANDS, _load

    for line in text.replace("\\\n", " ").splitlines():
        match = re.match(r"(?:\w+=\S+ )*tao-run ([\w-]+)(.*)", line.split(" #")[0])
        if not match:
            continue
        name, rest = match.groups()
        assert name in COMMANDS, line
        command = _load(COMMANDS[name][0], name)
        known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
        said = set(re.findall(r"(?<!\S)(--[a-z][\w-]*)", rest.split(" -- ")[0]))
        assert said <= known | {"--help"}, f"{line}: {said - known}"


def all_errors() -> list[type[TaoRunError]]:
    """Every class of the tree, the base first."""
    found: list[type[TaoRunError]] = [TaoRunError]
    for parent in found:
        found.extend(parent.__subclasses__())
    return found


def test_the_exit_code_page_has_every_code_and_no_other() -> None:
    import importlib
    import pkgutil

    import tao_run

    for module in pkgutil.walk_packages(tao_run.__path__, "tao_run."):  # some errors are defined where they are raised
        if not module.name.startswith(("tao_run.runner", "tao_run.__main__")):
            importlib.import_module(module.name)
    page = (ROOT / "docs" / "exit-codes.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \|.*\|(.*)\|$", page, re.MULTILINE)
    documented = {code: int(number) for number, codes in rows for code in re.findall(r"`(\w+)`", codes)}
    in_code = {error.code: error.exit_code for error in all_errors()}
    assert documented == in_code
    assert {int(number) for number, _ in rows} == {0, 7, 70, 130, *in_code.values()}


def test_the_json_page_has_every_key_of_a_job() -> None:
    from tao_run.cli.rows import JobRow

    page = (ROOT / "docs" / "json.md").read_text(encoding="utf-8")
    section = page.split("## A job")[1].split("## Others")[0]
    documented = {
        key for row in re.findall(r"^\| (`.*?) \|", section, re.MULTILINE) for key in re.findall(r"`(\w+)`", row)
    }
    assert documented == {field.name for field in dataclasses.fields(JobRow)}


def test_links_between_pages_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("name", list(BUILTIN))
def test_the_options_table_of_a_platform_has_every_option_and_no_other(name: str) -> None:
    page = (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
    table = page.split("\n## Options\n")[1].split("\n## ")[0]
    first_columns = re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
    documented = [option for column in first_columns for option in re.findall(r"`(\w+)`", column)]
    assert sorted(documented) == sorted(platform_class(name).options_model().model_fields)
