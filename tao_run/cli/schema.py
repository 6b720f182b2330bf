"""`tao-run schema`: the JSON Schema of the job file, for editors."""

from __future__ import annotations

import json
from typing import Any

import typer

from tao_run.cli.runtime import runtime_of

app = typer.Typer(add_completion=False)


@app.command()
def schema(ctx: typer.Context) -> None:
    """Print the JSON Schema of the job file. Editors use it to complete and check job files.

    Example: tao-run schema > tao-run.schema.json
    """
    runtime_of(ctx).output.line(json.dumps(job_file_schema(), indent=2))


def job_file_schema() -> dict[str, Any]:
    """The schema of a job file, with the options of every platform."""
    from tao_run.jobs.jobfile import JobFile
    from tao_run.platforms.registry import names, platform_class

    document = JobFile.model_json_schema()
    blocks = {name: platform_class(name).options_model().model_json_schema() for name in names()}
    definitions = document.setdefault("$defs", {})
    for block in blocks.values():
        definitions.update(block.pop("$defs", {}))
    document["properties"]["options"] = {
        "type": "object",
        "description": "options of each platform; only the block of the chosen one is used",
        "properties": blocks,
    }
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "tao-run job", **document}
