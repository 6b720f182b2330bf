"""What can go wrong in the container, each kind with the exit code that tells it from the command's own."""

from __future__ import annotations

# The sysexits of BSD (sysexits.h) where they fit: commands seldom use them.
EXIT_BAD_PLAN = 65
EXIT_NO_INPUT = 66
EXIT_NO_PYTHON = 69
EXIT_NO_CLIENT = 70
EXIT_NO_OUTPUT = 73


class RunnerError(Exception):
    """One line says what is wrong, `hint` what to do. `exit_code` is the runner's if nothing else failed first."""

    exit_code = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class PlanError(RunnerError):
    """The plan asks for what cannot be done: a spec key that does not fit, a value that a format cannot hold."""

    exit_code = EXIT_BAD_PLAN


class InputError(RunnerError):
    """An input is not there or cannot be used."""

    exit_code = EXIT_NO_INPUT


class OutputError(RunnerError):
    """An output was declared and is not there, or could not be stored."""

    exit_code = EXIT_NO_OUTPUT


class NoClient(RunnerError):
    """A package that the job needs can neither be imported nor installed."""

    exit_code = EXIT_NO_CLIENT


class StoreError(RunnerError):
    """The object store refused or failed. Whether that is an input's or an output's fault, the caller knows."""


class Absent(StoreError):
    """The object or its bucket is not there."""


class BucketAbsent(Absent):
    """The bucket is not there."""


class KeysRefused(StoreError):
    """The store does not know these keys, or their signature is wrong."""


class AccessDenied(StoreError):
    """The keys are good, but may not do this."""


class Unreachable(StoreError):
    """The store does not answer. Worth another try."""


class Transient(StoreError):
    """The store failed in a way that may pass: 5xx, 429, a broken body."""


class Stopped(BaseException):
    """A signal asked the job to end. Not an Exception, so that no handler of errors swallows it."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number
