"""What a preflight found: every check with its outcome, in a fixed order."""

from __future__ import annotations

from dataclasses import dataclass

from tao_run.jobs.model import Check


@dataclass(frozen=True)
class Report:
    """All checks of one launch. A check that is ok and yet has a fix is a warning."""

    platform: str
    checks: tuple[Check, ...]

    @property
    def failed(self) -> tuple[Check, ...]:
        """The checks that forbid a launch."""
        return tuple(check for check in self.checks if check.status == "failed")

    @property
    def warnings(self) -> tuple[Check, ...]:
        """Checks that passed and have something to say."""
        return tuple(check for check in self.checks if check.status == "ok" and check.fix)

    @property
    def passed(self) -> bool:
        """Whether nothing failed."""
        return not self.failed
