"""The one output layer: results to text or JSON on stdout, notes and errors to stderr."""

from __future__ import annotations

import contextlib
import io
import json
import sys
from collections.abc import Mapping
from typing import Any, TextIO

from tao_run.cli.output.plain import plain, to_data
from tao_run.errors import InternalError, Interrupted, TaoRunError
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
        return cls(sys.stdout or io.StringIO(), sys.stderr or io.StringIO(), environ)  # None: closed (`>&-`)

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
        self.line(self.dumps({"schema_version": SCHEMA_VERSION, **to_data(result)}, indent))

    def dumps(self, data: Any, indent: int | None = None) -> str:
        """JSON that the stream can carry: what it cannot encode is escaped, not replaced."""
        text = json.dumps(data, ensure_ascii=False, indent=indent)
        try:
            text.encode(self.out.encoding or "utf-8")
        except UnicodeEncodeError:
            text = json.dumps(data, indent=indent)
        return text

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

        class Pipe(Console):
            def on_broken_pipe(self) -> None:
                raise BrokenPipeError  # Rich would end the process with 1

        width = self._width or (None if self.interactive else _WIDE)
        return Pipe(
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
        if self.json:
            with contextlib.suppress(OSError):  # stdout itself may be what is at fault; stderr says it
                self.line(self.dumps({"schema_version": SCHEMA_VERSION, "error": fault_data(error)}))
        self.fault(error)
        return error.exit_code

    def fault(self, error: TaoRunError) -> None:
        """Say on stderr what went wrong beside a result that is printed all the same."""
        said, stopped = fault_data(error), isinstance(error, Interrupted)
        self.note(said["message"] if stopped else f"error: {said['message']}")
        if said["hint"]:
            self.note(f"  {said['hint']}" if stopped else f"  do: {said['hint']}")

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
        message = f"a fault in tao-run itself: {name}: {text[:500]}"
        return self.error(InternalError(message, "run it again with --debug and report what it prints"))

    def traceback(self) -> None:
        """For --debug: the traceback, with secrets removed."""
        import traceback

        self.note(redact(traceback.format_exc()).rstrip())


def fault_data(error: TaoRunError) -> dict[str, Any]:
    """An error as data: code, exit code, message and hint, without secrets and terminal control."""
    message, hint = plain(redact(error.message)), plain(redact(error.hint))
    return {"code": error.code, "exit_code": error.exit_code, "message": message, "hint": hint}
