"""Credentials and settings from the environment and ~/.config/tao/.env: the CLI asks for presence only."""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

from tao_run.errors import CredentialMissing, UsageError
from tao_run.redact import register
from tao_run.userpaths import home, own_path

# Names whose values are secret. Everything else (workspace id, bucket, region) is a setting.
SECRET_NAMES = frozenset(
    {
        "ACCESS_KEY",
        "SECRET_KEY",
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "NGC_KEY",
        "NGC_API_KEY",
        "NGC_CLI_API_KEY",
        "HF_TOKEN",
        "HUGGING_FACE_HUB_TOKEN",
        "LEPTON_AUTH_TOKEN",
        "LEPTON_WORKSPACE_TOKEN",
        "BREV_API_TOKEN",
        "DOCKER_PASSWORD",
        "WANDB_API_KEY",
        "CLEARML_API_SECRET_KEY",
    }
)
_SECRET_ENDINGS = ("_TOKEN", "_SECRET", "_PASSWORD", "_KEY", "_PASSWD", "_CREDENTIALS")
_NOT_SECRET = frozenset({"SSH_KEY_PATH", "S3_KEY_PREFIX"})


def is_secret_name(name: str) -> bool:
    """Whether a variable of this name holds a secret by its name."""
    return name in SECRET_NAMES or (name.endswith(_SECRET_ENDINGS) and name not in _NOT_SECRET)


def env_file(environ: Mapping[str, str]) -> Path:
    """The credentials file: TAO_ENV_FILE, else `~/.config/tao/.env`."""
    named = environ.get("TAO_ENV_FILE")
    return own_path(named) if named else home() / ".config" / "tao" / ".env"


class Credentials:
    """Variables of the process and of the credentials file; a variable that is already set wins.

    `has` and `missing` look at presence. `value` is for the one adapter that needs the value, at launch.
    `warnings` holds one line for each thing that is wrong with the file.
    """

    def __init__(self, environ: Mapping[str, str], file_values: Mapping[str, str] | None = None) -> None:
        self._values = {**(file_values or {}), **{k: v for k, v in environ.items() if v}}
        self.warnings: list[str] = []
        register(self.secret_values())

    @classmethod
    def load(cls, environ: Mapping[str, str] | None = None) -> Credentials:
        """Read the environment and, if it is there, the credentials file. Never raises for a bad line."""
        environ = os.environ if environ is None else environ
        path = env_file(environ)
        values, warnings = read_env_file(path, required=bool(environ.get("TAO_ENV_FILE")))
        loaded = cls(environ, values)
        loaded.warnings = warnings
        return loaded

    def has(self, name: str) -> bool:
        """Whether the variable is set and not empty."""
        return bool(self._values.get(name))

    def missing(self, names: Iterable[str]) -> list[str]:
        """Those of `names` that are not set, in the given order."""
        return [name for name in names if not self.has(name)]

    def require(self, names: Iterable[str], where: str) -> None:
        """Raises CredentialMissing naming all that are missing at once."""
        absent = self.missing(names)
        if absent:
            raise CredentialMissing(
                f"{where} needs {', '.join(absent)}, not set",
                "set them in the environment or in ~/.config/tao/.env (`tao-run init` writes a template)",
                tuple(absent),
            )

    def setting(self, name: str, default: str = "") -> str:
        """A value that is no secret (workspace id, host, bucket)."""
        return self._values.get(name) or default

    def value(self, name: str) -> str:
        """A secret's value, for the adapter that sends it. Raises CredentialMissing."""
        self.require([name], "this job")
        return self._values[name]

    def secret_values(self) -> list[str]:
        """All values that must never be shown."""
        return [value for name, value in self._values.items() if is_secret_name(name)]


def read_env_file(path: Path, required: bool = False) -> tuple[dict[str, str], list[str]]:
    """Names and values of an env file, and one warning per line that cannot be read.

    Handles `export`, quotes, `#`, CRLF and a byte-order mark. `$` is not expanded: tokens may hold one.
    Raises UsageError if the file is `required` and cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (FileNotFoundError, NotADirectoryError):
        if required:
            raise UsageError(f"TAO_ENV_FILE names {path}, which does not exist") from None
        return {}, []
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise UsageError(f"cannot read {path}: {reason}") from None
    values, warnings = parse_env(text, str(path))
    return values, [*_permission_warning(path), *warnings]


def parse_env(text: str, source: str) -> tuple[dict[str, str], list[str]]:
    """`KEY=value` lines of a text; a line without a value or with an open quote is warned about by number."""
    from dotenv.parser import parse_stream

    values: dict[str, str] = {}
    warnings: list[str] = []
    for binding in parse_stream(io.StringIO(text.replace("\r\n", "\n"))):
        line = binding.original.line
        if binding.error:
            warnings.append(f"{source} line {line}: cannot be read (an open quote?) and is ignored")
        elif binding.key is not None and binding.value is None:
            warnings.append(f"{source} line {line}: {binding.key} has no value")
        elif binding.key is not None and binding.value:
            values[binding.key] = binding.value
    return values, warnings


def _permission_warning(path: Path) -> list[str]:
    status = path.stat()
    mode = stat.S_IMODE(status.st_mode)
    if mode & 0o077 and stat.S_ISREG(status.st_mode):
        return [f"{path} can be read by others (mode {mode:04o}): chmod 600 {path}"]
    return []
