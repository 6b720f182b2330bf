"""The one output layer: results to text or JSON on stdout, notes and errors to stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any, TextIO

from tao_run.cli.output.plain import plain, to_data
from tao_run.errors import TaoRunError
from tao_run.redact import redact

SCHEMA_VERSION = 1
_WIDE = 100_000  # piped output is never folded


class Output:
    """Where results go. `json` chooses the form; a terminal is only coloured if it is one and NO_COLOR is unset."""

    def __init__(
        self, out: TextIO, err: TextIO, environ: Mapping[str, str], as_json: bool = False, width: int | None = None
    ) -> None:
        self.out, self.err = out, err
        self.environ = environ
        self.json = as_json
        self._width = width

    @classmethod
    def from_process(cls, environ: Mapping[str, str]) -> Output:
        """The process's own streams; characters that a stream cannot show are replaced, never an error."""
        for stream in (sys.stdout, sys.stderr):
            reconfigure = getattr(stream, "reconfigure", None)
            if reconfigure is not None:
                reconfigure(errors="replace")
        return cls(sys.stdout, sys.stderr, environ)

    @property
    def interactive(self) -> bool:
        """Whether stdout is a terminal."""
        return self.out.isatty()

    @property
    def color(self) -> bool:
        """Whether to use colour."""
        return self.interactive and not self.environ.get("NO_COLOR") and self.environ.get("TERM") != "dumb"

    def emit(self, result: Any) -> None:
        """Print a typed result: as JSON with stable keys, or by its text view."""
        if self.json:
            self.json_line(result, indent=2)
        else:
            from tao_run.cli.output.views import text_view

            text_view(result, self)

    def json_line(self, result: Any, indent: int | None = None) -> None:
        """Print a result as one JSON document."""
        data = {"schema_version": SCHEMA_VERSION, **to_data(result)}
        self.line(json.dumps(data, ensure_ascii=False, indent=indent))

    def line(self, text: str) -> None:
        """Print one line to stdout as it is (the caller has made it plain)."""
        self.out.write(text + "\n")
        self.out.flush()

    def note(self, text: str) -> None:
        """Say something on stderr: progress, hints, which file was used."""
        self.err.write(plain(redact(text)) + "\n")
        self.err.flush()

    def console(self) -> Any:
        """A Rich console on stdout; markup is off, since text from outside must appear as it is."""
        from rich.console import Console

        width = self._width or (None if self.interactive else _WIDE)
        return Console(
            file=self.out,
            width=width,
            no_color=not self.color,
            force_terminal=self.color,
            highlight=False,
            markup=False,
            emoji=False,
        )

    def error(self, error: TaoRunError) -> int:
        """Print an error: what is wrong, what to do. Returns its exit code."""
        message, hint = plain(redact(error.message)), plain(redact(error.hint))
        if self.json:
            fault = {"code": error.code, "exit_code": error.exit_code, "message": message, "hint": hint}
            self.line(json.dumps({"schema_version": SCHEMA_VERSION, "error": fault}, ensure_ascii=False))
        self.note(f"error: {message}")
        if hint:
            self.note(f"  do: {hint}")
        return error.exit_code

    def usage_error(self, error: Any) -> int:
        """Print what the argument parser found wrong, and where help is."""
        context = getattr(error, "ctx", None)
        where = context.command_path if context is not None else "tao-run"
        from tao_run.errors import UsageError

        return self.error(UsageError(error.format_message(), f"`{where} --help` shows how to use it"))

    def internal_error(self, error: Exception, debug: bool) -> int:
        """Print a fault of tao-run itself. Returns 70, which no outcome of a job has."""
        if debug:
            self.traceback()
        name, text = type(error).__name__, plain(redact(str(error))).replace("\n", " ")
        self.note(f"error: a fault in tao-run itself: {name}: {text[:500]}")
        self.note("  do: run it again with --debug and report what it prints")
        return 70

    def interrupted(self) -> None:
        """End a Ctrl-C with a clean line."""
        self.note("interrupted")

    def traceback(self) -> None:
        """For --debug: the traceback, with secrets removed."""
        import traceback

        self.note(redact(traceback.format_exc()).rstrip())
