#!/usr/bin/env python3
"""Writes docs/troubleshooting.md from the rules of failure analysis; --check only says whether it is fresh."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tao_run.analysis.ruleset import Pattern, Rule, packaged_rules  # noqa: E402

TARGET = ROOT / "docs" / "troubleshooting.md"
CATEGORIES = {
    "gpu-memory": "GPU memory",
    "gpu-hardware": "GPU hardware",
    "gpu-software": "GPU, driver and image",
    "host-memory": "Host memory",
    "shared-memory": "Shared memory",
    "limits": "Limits of the container",
    "communication": "Communication between nodes",
    "network": "Network",
    "disk": "Disk",
    "storage": "Storage",
    "permissions": "Permissions",
    "data": "Data and checkpoints",
    "credentials": "Credentials",
    "image": "Container image",
    "scheduling": "Scheduling",
    "quota": "Quota",
    "node": "Nodes",
    "preemption": "Preemption and eviction",
    "time-limit": "Time limit",
    "spec": "Spec, command and options",
    "code": "Program",
    "numerics": "Training that diverges",
    "process": "How the process ended",
}
HEAD = """# Troubleshooting

What tao-run looks for when a job fails, what it means and what to do. `tao-run analyze JOB` applies these rules
to a job; `tao-run analyze --log FILE` applies them to a saved log, without any backend.

This page is generated from the rules in `tao_run/analysis/rules/` by `scripts/build_troubleshooting.py`.

How a cause is chosen among several: a rule that explains another (a device-side assert and the NCCL error of the
other ranks) goes before it; what is certain goes before what is possible, and both before mere consequences. An
error after which the log went on for thousands of lines was survived. Exit codes 137 and 143 of ranks that fell
because another failed are not causes. "Retry" says whether the same job may well succeed if it is run again: then
`tao-run retry` repeats it, and `--retries N` does so by itself while it is watched.

| class | meaning |
|---|---|
| ERR_PROGRAM | the program or its use of resources is at fault; the same run fails again |
| ERR_CONFIG | a setting, a credential, a path or an image is wrong; correct it and submit again |
| ERR_INFRA | a node, a network, a scheduler or a service is at fault |
"""


def page() -> str:
    """The whole page."""
    rules = list(packaged_rules())
    parts = [HEAD]
    for category, title in CATEGORIES.items():
        mine = [rule for rule in rules if rule.category == category]
        if mine:
            parts.append(f"\n## {title}\n")
            parts.extend(_section(rule) for rule in mine)
    unknown = {rule.category for rule in rules} - set(CATEGORIES)
    if unknown:
        raise SystemExit(f"no heading for {', '.join(sorted(unknown))}")
    return "".join(parts)


def _section(rule: Rule) -> str:
    seen = "".join(f"- {line}\n" for line in _seen(rule))
    retry = "yes" if rule.retryable else "no"
    means, do = _words(rule.means), _words(rule.do)
    return (
        f"\n### {rule.title}\n\n`{rule.id}`, {rule.err_class}, retry: {retry}.\n\n{means}\n\n**Do:** {do}\n\n"
        f"<details><summary>What is seen</summary>\n\n{seen}\n</details>\n"
    )


def _seen(rule: Rule) -> list[str]:
    lines = [f"log or backend: {_code(pattern)}" for pattern in rule.text]
    lines += [f"log: {_code(pattern)}" for pattern in rule.log]
    lines += [f"backend: {_code(pattern)}" for pattern in rule.backend]
    lines += [f"exit code {code}" for code in rule.exit]
    lines += [f"{name.replace('_', ' ')} is {least:g} or more" for name, least in rule.at_least.items()]
    return lines


def _code(pattern: Pattern) -> str:
    return ", ".join(f"`` {literal.strip()} ``" for literal in pattern.has)


def _words(text: str) -> str:
    """A text of a rule as it reads without details."""
    plain = re.sub(r"\{(\w+)\|([^}]*)\}", lambda found: found[2].strip() or "", text.strip())
    plain = re.sub(r" +([.,;:])", r"\1", re.sub(r"  +", " ", plain))
    return plain[0].upper() + plain[1:]


def main() -> int:
    """Write the page, or with --check compare it."""
    text = page()
    if "--check" in sys.argv[1:]:
        fresh = TARGET.exists() and TARGET.read_text(encoding="utf-8") == text
        print("fresh" if fresh else f"{TARGET} is not what the rules say: run {Path(__file__).name}")
        return 0 if fresh else 1
    TARGET.write_text(text, encoding="utf-8")
    print(f"wrote {TARGET}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
