"""Entry point of `tao-run`: the list of commands, loaded lazily, and the one place where errors become exit codes."""

from __future__ import annotations

import contextlib
import gc
import itertools
import os
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from tao_run import __version__
from tao_run.cli.runtime import Format, FormatOption, Runtime
from tao_run.errors import Interrupted, SystemFault, TaoRunError, UsageError

# name -> (module, one line of help). The help is here so that `tao-run --help` imports no command.
COMMANDS: dict[str, tuple[str, str]] = {
    "submit": ("submit", "Submit a job: a command, a TAO model and action, or a job file."),
    "status": ("status", "Show what is known of jobs: state, reason, age, results."),
    "watch": ("watch", "Watch jobs until they have ended, exit code = outcome."),
    "logs": ("logs", "Show or follow the log of a job."),
    "replicas": ("replicas", "Show the workers of a job and why one is not ready."),
    "analyze": ("analyze", "Say why a job failed and what to do next."),
    "retry": ("retry", "Submit again what failed, and only that."),
    "cancel": ("cancel", "Stop jobs; record, logs and analysis stay."),
    "results": ("results", "Show where the results are, list or download them."),
    "platforms": ("platforms", "Show the platforms and what each needs."),
    "models": ("models", "Show TAO models, their actions and AutoML state."),
    "resolve-image": ("resolve_image", "Show the container image of a model and action."),
    "resources": ("resources", "Show what can be asked for on a platform."),
    "preflight": ("preflight", "Run every launch check without submitting anything."),
    "paths": ("paths", "Check or list storage paths."),
    "instances": ("instances", "List or delete GPU instances (Brev)."),
    "init": ("init", "Write a template for credentials and say what is missing."),
    "schema": ("schema", "Print the JSON Schema of the job file."),
}


class LazyGroup(TyperGroup):
    """Imports a command's module when the command is called; lists commands from the table."""

    _listing = False

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        module, help_line = COMMANDS[cmd_name]
        if self._listing:
            return TyperCommand(cmd_name, help=help_line)
        return _load(module, cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            import difflib

            near = difflib.get_close_matches(args[0], COMMANDS, n=1)
            hint = f"did you mean `tao-run {near[0]}`?" if near else "`tao-run --help` lists the commands"
            raise UsageError(f"unknown command {args[0]!r}", hint)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:  # here, because the parser's own handling of Ctrl-C says nothing
            raise ctx.obj.interrupted() from None
        except BrokenPipeError:  # and that of a closed pipe exits with 1
            raise typer.Exit(_closed_pipe()) from None

    def format_help(self, ctx: Any, formatter: Any) -> None:
        self._listing = True
        try:
            super().format_help(ctx, formatter)
        finally:
            self._listing = False

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        self._listing = True  # completing a command's name imports no command
        try:
            return super().shell_complete(ctx, incomplete)
        finally:
            self._listing = False


def _load(module: str, name: str) -> Any:
    import importlib

    loaded = importlib.import_module(f"tao_run.cli.{module}")
    command = typer.main.get_command(loaded.app)
    command.name = name
    return command


app = typer.Typer(
    cls=LazyGroup,
    name="tao-run",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich" if sys.stdout is not None and sys.stdout.isatty() else None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"tao-run {__version__}")
        raise typer.Exit


@app.callback()
def root(
    ctx: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_show_version)
    ] = False,
    output: FormatOption = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks and what is done on stderr.")] = False,
) -> None:
    """Describe a GPU job once; run it on a laptop, Docker, Kubernetes, SLURM, DGX Cloud Lepton or Brev.

    Example: tao-run submit --platform local -- python3 -c 'print(1)'
    """
    runtime: Runtime = ctx.obj
    runtime.set_format(output)
    runtime.debug = debug


# typer vendors click from 0.29 on and depends on it before: take its base error from where it is
_ClickError: Any = next(cls for cls in typer.BadParameter.__mro__ if cls.__name__ == "ClickException")


def run(arguments: list[str], runtime: Runtime) -> int:
    """Run one command line and return its exit code. Every error becomes one line and a hint on stderr."""
    runtime.set_format(_wanted_format(arguments))
    try:
        result = app(arguments, standalone_mode=False, obj=runtime, prog_name="tao-run")
    except TaoRunError as error:
        _learn_secrets(runtime)
        if runtime.debug:
            runtime.output.traceback()
        return runtime.output.error(error)
    except _ClickError as error:
        _learn_secrets(runtime)
        return runtime.output.usage_error(error)
    except (KeyboardInterrupt, typer.Abort):
        return runtime.output.error(runtime.interrupted())
    except BrokenPipeError:
        return _closed_pipe()
    except OSError as error:
        if runtime.debug:
            runtime.output.traceback()
        return runtime.output.error(_system_fault(error))
    except Exception as error:  # noqa: BLE001 - the last line: a fault of ours, never shown as a traceback unasked
        _learn_secrets(runtime)
        return runtime.output.internal_error(error, runtime.debug)
    if result == Interrupted.exit_code:  # Ctrl-C while the arguments were read: the parser ends silently
        return runtime.output.error(runtime.interrupted())
    return result if isinstance(result, int) else 0


def _learn_secrets(runtime: Runtime) -> None:
    """Before an error is shown: it may repeat a secret that was typed in the wrong place."""
    from tao_run.credentials import Credentials

    with contextlib.suppress(TaoRunError):
        Credentials.load(runtime.environ)


def _wanted_format(arguments: list[str]) -> Format | None:
    """What `--format` says, found before anything is parsed: an error of the parser shall have that form, too."""
    ours = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return Format.json if "--format=json" in ours or ("--format", "json") in itertools.pairwise(ours) else None


def _system_fault(error: OSError) -> SystemFault:
    where = "" if error.filename is None else f": {error.filename}"
    return SystemFault(f"this machine refused: {error.strerror or error}{where}", "check space, owner and mode")


def _closed_pipe() -> int:
    """The reader went away (`tao-run ... | head`): end quietly, also when Python flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def main() -> None:
    """The console script."""
    gc.set_threshold(50_000, 20, 20)  # starting makes many objects and drops few: collect less often
    runtime = Runtime.from_process()
    code = run(sys.argv[1:], runtime)
    try:
        runtime.output.out.flush()
    except BrokenPipeError:
        _closed_pipe()
    except OSError as error:
        _closed_pipe()
        if not code:  # else the same has been said already
            code = runtime.output.error(_system_fault(error))
    sys.exit(code)
