"""Questions to somebody at a terminal: on stderr, so that stdout holds the result and nothing else."""

from __future__ import annotations

import sys

import typer

from tao_run.cli.runtime import Runtime


def ask(runtime: Runtime, question: str, default: str = "") -> str:
    """The answer, or `default` for an empty one. Raises typer.Abort if nobody answers any more."""
    shown = f" [{default}]" if default else ""
    while True:
        runtime.output.err.write(f"{question}{shown}: ")
        runtime.output.err.flush()
        line = _line()
        if not line:
            runtime.output.err.write("\n")  # leave the line of the question
            raise typer.Abort
        if line.strip() or default:
            return line.strip() or default


def _line() -> str:
    try:
        return sys.stdin.readline()
    except KeyboardInterrupt:
        return ""


def ask_number(runtime: Runtime, question: str, default: float) -> float:
    """A number greater than zero."""
    while True:
        answer = ask(runtime, question, f"{default:g}")
        try:
            number = float(answer)
        except ValueError:
            number = 0.0
        if 0 < number < float("inf"):
            return number
        runtime.output.note(f"{answer} is not a number greater than zero")


def agree(runtime: Runtime, question: str, default: bool) -> bool:
    """Yes or no."""
    while True:
        answer = ask(runtime, question, "Y/n" if default else "y/N").lower()
        if answer in ("y", "yes", "n", "no", "y/n"):
            return default if answer == "y/n" else answer.startswith("y")
