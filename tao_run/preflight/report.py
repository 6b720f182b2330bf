"""What a preflight found: every check with its outcome, in a fixed order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tao_run.jobs.model import Check


@dataclass(frozen=True)
class Report:
    """All checks of one launch. `passed` says that none failed; a check that is ok and has a fix is a warning."""

    platform: str
    passed: bool
    checks: tuple[Check, ...]

    @classmethod
    def of(cls, platform: str, checks: Sequence[Check]) -> Report:
        """The report on `checks`."""
        return cls(platform, all(check.status != "failed" for check in checks), tuple(checks))

    @property
    def failed(self) -> tuple[Check, ...]:
        """The checks that forbid a launch."""
        return tuple(check for check in self.checks if check.status == "failed")

    @property
    def warnings(self) -> tuple[Check, ...]:
        """Checks that passed and have something to say."""
        return tuple(check for check in self.checks if check.status == "ok" and check.fix)
