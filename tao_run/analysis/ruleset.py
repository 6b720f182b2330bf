"""The rules of failure analysis: read from the YAML files in rules/, validated, in one immutable set."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property, lru_cache
from importlib import resources
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from tao_run.errors import UsageError

ErrClass = Literal["ERR_PROGRAM", "ERR_INFRA", "ERR_CONFIG"]
Certainty = Literal["sure", "likely", "possible", "consequence", "unknown"]
#: from the strongest to the weakest: a finding of an earlier kind is preferred to one of a later kind
CERTAINTIES: tuple[Certainty, ...] = ("sure", "likely", "possible", "consequence", "unknown")
Where = Literal["log", "backend"]


class _Data(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, ignored_types=(cached_property,))


def _list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _pattern(value: Any) -> Any:
    return {"has": value} if isinstance(value, str) else value


class Pattern(_Data):
    """What a line looks like: it holds one of the literals `has`, and `match` (a regular expression) if given.

    The literals let a log of any size be searched fast; named groups of `match` become details.
    """

    has: Annotated[list[str], BeforeValidator(_list)] = Field(min_length=1)
    match: str | None = None

    @cached_property
    def regex(self) -> re.Pattern[str] | None:
        """`match`, compiled."""
        return None if self.match is None else re.compile(self.match)

    @cached_property
    def words(self) -> re.Pattern[str]:
        """The literals as whole words, for the backend's own terse vocabulary (TIMEOUT, Evicted)."""
        return re.compile(r"(?<!\w)(?:" + "|".join(map(re.escape, self.has)) + r")(?!\w)")

    def details(self, line: str) -> dict[str, str] | None:
        """The named groups if the line of a log fits, else None."""
        if not any(literal in line for literal in self.has):
            return None
        return self.groups(line)

    def fact_details(self, fact: str) -> dict[str, str] | None:
        """The same for something that the backend says."""
        if self.regex is None:
            return {} if self.words.search(fact) else None
        return self.details(fact)

    def groups(self, line: str) -> dict[str, str] | None:
        """The named groups of `match` in a line that holds a literal; None if it does not fit."""
        if self.regex is None:
            return {}
        found = self.regex.search(line)
        return None if found is None else {key: value for key, value in found.groupdict().items() if value}


PatternList = Annotated[list[Annotated[Pattern, BeforeValidator(_pattern)]], Field(default_factory=list)]


class Rule(_Data):
    """One known way to fail: what is seen, what it means, what to do.

    `text` patterns are looked for in logs and in what the backend says, `log` and `backend` in one of them.
    `exit` are exit codes, `at_least` thresholds of numeric facts. `outranks` names what it explains away.
    `bad_node` says that the node is at fault and a retry should avoid it. `victim` marks what is seen of a process
    that fell with another one, or that somebody stopped: it never outranks a process's own exception, and its
    lines are no exceptions of the program's own.
    """

    id: str = Field(pattern=r"^[a-z0-9-]+$")
    title: str
    category: str
    err_class: ErrClass
    certainty: Certainty
    retryable: bool = False
    bad_node: bool = False
    before_start: bool = False
    victim: bool = False
    outranks: list[str] = Field(default_factory=list)
    text: PatternList
    log: PatternList
    backend: PatternList
    exit: list[int] = Field(default_factory=list)
    at_least: dict[str, float] = Field(default_factory=dict)
    means: str
    do: str

    @property
    def strength(self) -> int:
        """The place of its certainty: 0 is the strongest."""
        return CERTAINTIES.index(self.certainty)

    def patterns(self, where: Where) -> list[Pattern]:
        """What to look for in a log, or in what the backend says."""
        return [*self.text, *(self.log if where == "log" else self.backend)]


class RuleSet:
    """All rules by id, with the lines that are known to be harmless."""

    def __init__(self, rules: Iterable[Rule], harmless: Iterable[str] = ()) -> None:
        self.rules = {rule.id: rule for rule in rules}
        self.harmless = tuple(harmless)

    def __iter__(self) -> Any:
        return iter(self.rules.values())

    def __len__(self) -> int:
        return len(self.rules)

    def __getitem__(self, rule_id: str) -> Rule:
        return self.rules[rule_id]


@lru_cache(maxsize=1)
def packaged_rules() -> RuleSet:
    """The rules that come with tao-run. Raises UsageError if a file is damaged."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    rules: list[Rule] = []
    harmless: list[str] = []
    for name, text in packaged_files():
        data = yaml.load(text, Loader=loader)
        if name == "harmless.yaml":
            harmless = [str(line) for line in data]
        else:
            rules.extend(_parse(name, item) for item in data)
    return RuleSet(rules, harmless)


def packaged_files() -> list[tuple[str, str]]:
    """Name and text of every file of rules, in the order in which they are read."""
    folder = resources.files("tao_run.analysis") / "rules"
    files = sorted((item for item in folder.iterdir() if item.name.endswith(".yaml")), key=lambda item: item.name)
    return [(item.name, item.read_text(encoding="utf-8")) for item in files]


def _parse(source: str, item: Any) -> Rule:
    try:
        return Rule.model_validate(item)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise UsageError(f"{source}: rule {item.get('id', '?')!r}: {where}: {first['msg']}") from None
