"""The one error tree: every failure that a user can meet, with its exit code and what to do about it."""

from __future__ import annotations


class TaoRunError(Exception):
    """Base of all errors shown to users: one line says what is wrong, `hint` says what to do."""

    exit_code = 1
    code = "error"

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message


class UsageError(TaoRunError):
    """The request is wrong: a bad option, job file, name or value."""

    exit_code = 2
    code = "usage"


class BackendRejected(TaoRunError):
    """The backend understood the request and says that it is invalid (HTTP 400, 404 of a named thing, 409, 422)."""

    exit_code = 2
    code = "rejected"


class NotFound(BackendRejected):
    """The backend says that there is no such thing (HTTP 404)."""

    code = "not_found"


class Conflict(BackendRejected):
    """The backend says that it is there already, or is another than the one meant (HTTP 409)."""

    code = "conflict"


class CredentialError(TaoRunError):
    """A credential is missing or refused."""

    exit_code = 3
    code = "credential"


class CredentialMissing(CredentialError):
    """A needed variable is not set. `names` lists all of them."""

    code = "credential_missing"

    def __init__(self, message: str, hint: str = "", names: tuple[str, ...] = ()) -> None:
        super().__init__(message, hint)
        self.names = names


class CredentialRefused(CredentialError):
    """The backend does not accept the credential (HTTP 401)."""

    code = "credential_refused"


class PermissionRefused(CredentialError):
    """The credential is valid but may not do this (HTTP 403)."""

    code = "permission_refused"


class PreflightFailed(TaoRunError):
    """At least one launch check failed; nothing was submitted."""

    exit_code = 4
    code = "preflight"


class NoSuchJob(TaoRunError):
    """No job goes by this id, prefix or name."""

    exit_code = 5
    code = "no_such_job"


class BackendUnreachable(TaoRunError):
    """The backend does not answer: network, DNS, proxy, time-out. Says nothing about any job."""

    exit_code = 6
    code = "unreachable"


class BackendFault(BackendUnreachable):
    """The backend answers with a fault of its own (HTTP 5xx)."""

    code = "backend_fault"


class RateLimited(BackendUnreachable):
    """The backend asks to slow down (HTTP 429). `retry_after` is in seconds, if it said so."""

    code = "rate_limited"

    def __init__(self, message: str, hint: str = "", retry_after: float | None = None) -> None:
        super().__init__(message, hint)
        self.retry_after = retry_after


class ProtocolError(BackendUnreachable):
    """The answer is not what this backend speaks (HTML from a proxy, half a body)."""

    code = "protocol"


class Unavailable(TaoRunError):
    """Something needed before a job can be created does not answer: it is certain that nothing was created.

    Unlike BackendUnreachable, which after a launch leaves it open whether the job exists.
    """

    exit_code = BackendUnreachable.exit_code
    code = BackendUnreachable.code


class NotInstalled(TaoRunError):
    """A package or tool is needed and not there. The hint is the exact command that installs it."""

    exit_code = 8
    code = "not_installed"


class RecordError(TaoRunError):
    """The record of jobs on this machine cannot be read or written (disk full, corrupt file, newer version)."""

    exit_code = 9
    code = "record"


class WaitTimeout(TaoRunError):
    """The time given to watch or logs ran out; the job goes on."""

    exit_code = 124
    code = "timeout"


class Interrupted(TaoRunError):
    """Ctrl-C. What runs goes on; the hint says how to come back and how to stop it."""

    exit_code = 130
    code = "interrupted"


class InternalError(TaoRunError):
    """A fault of tao-run itself."""

    exit_code = 70
    code = "internal"


class SystemFault(TaoRunError):
    """This machine refused something: a full disk, a directory that may not be written."""

    exit_code = 74
    code = "system"
