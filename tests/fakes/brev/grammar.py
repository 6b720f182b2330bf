"""Flags and arguments as the brev CLI (cobra, pflag) reads them: interspersed, unknown ones refused."""

from __future__ import annotations

import getopt
from dataclasses import dataclass, field

FILTERS = {
    "gpu-name": "g",
    "provider": "",
    "min-vram": "v",
    "min-total-vram": "",
    "min-capability": "",
    "min-disk": "",
    "max-boot-time": "",
    "sort": "",
}
FILTER_SWITCHES = {"stoppable": "", "rebootable": "", "flex-ports": "", "desc": ""}

# command -> (flags with a value, switches), each name -> short letter
COMMANDS: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "login": ({"token": "", "email": "", "auth": ""}, {"skip-browser": ""}),
    "logout": ({}, {}),
    "refresh": ({}, {}),
    "set": ({}, {}),
    "ls": ({"org": "o"}, {"all": "", "json": ""}),
    "create": (
        {
            "name": "n",
            "type": "t",
            "count": "c",
            "parallel": "p",
            "timeout": "",
            "startup-script": "s",
            "mode": "",
            **FILTERS,
        },
        {"detached": "d", "dry-run": "", **FILTER_SWITCHES},
    ),
    "delete": ({}, {}),
    "start": ({"name": "n", "org": "o"}, {"detached": "d"}),
    "stop": ({}, {"all": "a"}),
    "search": (
        {**FILTERS, "provider": "p", "min-total-vram": "t", "min-capability": "c", "sort": "s"},
        {"json": "", "wide": "w", **FILTER_SWITCHES},
    ),
    "exec": ({}, {"host": ""}),
    "copy": ({}, {"host": ""}),
    "shell": ({}, {"host": ""}),
}
ALIASES = {
    "list": "ls",
    "cp": "copy",
    "scp": "copy",
    "ssh": "shell",
    "provision": "create",
    "gpu-create": "create",
    "gpu": "search",
    "gpus": "search",
}


class CliError(Exception):
    """What the CLI prints on stderr before it exits 1."""


@dataclass
class Call:
    """A parsed command line."""

    command: str
    args: list[str] = field(default_factory=list)
    flags: dict[str, str] = field(default_factory=dict)

    def has(self, name: str) -> bool:
        return name in self.flags


def parse(argv: list[str]) -> Call:
    """The command with its flags and arguments. Raises CliError in cobra's words."""
    if not argv or argv[0].startswith("-"):
        return Call("version" if "--version" in argv else "help")
    command = ALIASES.get(argv[0], argv[0])
    if command not in COMMANDS:
        raise CliError(f'unknown command "{argv[0]}" for "brev"')
    valued, switches = COMMANDS[command]
    names = {**valued, **switches}
    _refuse_abbreviations(argv[1:], names)
    shorts = "".join(f"{letter}:" for letter in valued.values() if letter)
    shorts += "".join(letter for letter in switches.values() if letter)
    try:
        pairs, args = getopt.gnu_getopt(argv[1:], shorts, [*(f"{name}=" for name in valued), *switches])
    except getopt.GetoptError as error:
        raise CliError(_cobra_words(error)) from None
    long_of = {letter: name for name, letter in names.items() if letter}
    flags = {long_of.get(flag.lstrip("-"), flag.lstrip("-")): value for flag, value in pairs}
    return Call(command, args, flags)


def _refuse_abbreviations(argv: list[str], names: dict[str, str]) -> None:
    for word in argv:
        if word == "--":
            return
        if word.startswith("--") and word[2:].partition("=")[0] not in names:
            raise CliError(f"unknown flag: {word.partition('=')[0]}")


def _cobra_words(error: getopt.GetoptError) -> str:
    if "requires argument" in error.msg:
        return f"flag needs an argument: --{error.opt}"
    return f"unknown shorthand flag: '{error.opt}' in -{error.opt}"
