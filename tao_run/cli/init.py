"""`tao-run init`: a template for the credentials file, and what is set (presence only)."""

from __future__ import annotations

import os
from pathlib import Path

import typer

from tao_run.cli.arguments import PlatformOption
from tao_run.cli.outcomes import InitReport
from tao_run.cli.runtime import FormatOption, Runtime, runtime_of
from tao_run.credentials import Credentials, env_file
from tao_run.errors import UsageError

app = typer.Typer(add_completion=False)

_HEAD = """# Credentials and settings of tao-run, read when a command starts; a variable that is already set wins.
# Fill in what you need and remove the leading `#`. Keep this file to yourself (mode 0600).
"""


@app.command()
def init(
    ctx: typer.Context,
    platform: PlatformOption = None,
    output: FormatOption = None,
) -> None:
    """Write a 0600 template of ~/.config/tao/.env if there is none, and say what is set. Never prints a value.

    Example: tao-run init --platform lepton
    """
    runtime = runtime_of(ctx, output)
    path = env_file(runtime.environ)
    variables = _variables(platform)
    written = _write_template(path, variables)
    credentials = Credentials.load(runtime.environ)
    for warning in credentials.warnings:
        runtime.output.note(f"warning: {warning}")
    _report(runtime, path, written, list(variables), credentials)


def _report(runtime: Runtime, path: Path, written: bool, names: list[str], credentials: Credentials) -> None:
    missing = credentials.missing(names)
    present = tuple(name for name in names if name not in missing)
    runtime.output.emit(InitReport(str(path), written, present, tuple(missing)))


def _variables(platform: str | None) -> dict[str, str]:
    """Variable -> what it is for, over the platforms of the catalog."""
    from tao_run.catalog import load

    catalog = load()
    platforms = [catalog.platform(platform)] if platform else list(catalog.platforms())
    found: dict[str, str] = {}
    for facts in platforms:
        for fact in facts.required_credentials + facts.optional_credentials:
            found.setdefault(fact.name, fact.description)
    return found


def _write_template(path: Path, variables: dict[str, str]) -> bool:
    if path.exists():
        return False
    body = "".join(f"\n# {text}\n#{name}=\n" for name, text in variables.items())
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(_HEAD + body)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}", "set TAO_ENV_FILE to another place") from None
    return True
