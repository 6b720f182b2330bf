"""What `submit` does, step by step: read, complete, ask, check, dry-run or submit, then watch or leave."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tao_run.cli.intake import ask_monitoring, ask_platform, confirm_image, monitoring
from tao_run.cli.interrupting import detached, while_submitting, while_submitting_group
from tao_run.cli.outcomes import DryRun, Submitted
from tao_run.cli.request_data import command_line_data, parse_splits, settings_of
from tao_run.cli.rows import job_row
from tao_run.cli.runtime import Runtime, leave
from tao_run.errors import PreflightFailed, UsageError
from tao_run.jobs import jobfile

if TYPE_CHECKING:
    from tao_run.catalog.apply import Completion
    from tao_run.jobs.model import Job
    from tao_run.jobs.request import JobRequest
    from tao_run.platforms.base import Platform


@dataclass(frozen=True)
class Plan:
    """A whole request and how many jobs it becomes: None for one job, else the split ids."""

    request: JobRequest
    splits: tuple[str, ...] | None
    given: Mapping[str, Any]


def run_submit(runtime: Runtime, given: Mapping[str, Any]) -> None:
    """The command. `given` is what the command line said, by parameter name."""
    runtime.credentials  # noqa: B018 - read first, so that a secret typed as a plain value is recognised
    plan = _resume(runtime, _complete(runtime, _read(runtime, given)))
    platform = runtime.platform(str(plan.request.platform))
    if given["dry_run"] is not None:
        _dry_run(runtime, platform, plan)
        return
    confirm_image(runtime, plan.request, assume_yes=given["yes"])
    if not given["no_preflight"]:
        _preflight(runtime, platform, plan)
    jobs = _submit(runtime, platform, plan)
    _afterwards(runtime, jobs, plan)


def _read(runtime: Runtime, given: Mapping[str, Any]) -> Plan:
    data = command_line_data(given, runtime.command)
    path = _job_file(given, data)
    source = "the command line"
    if path is not None:
        runtime.output.note(f"using {path}")
        source = str(path)
        data = jobfile.lay_over(jobfile.read_job_file(path), data)
    _require_something_to_run(data)
    data, given = _asked(runtime, data, given)
    request, count = jobfile.to_request(_with_platform_options(data, given), source)
    said = given["split"] is not None or given["splits"] is not None  # the command line wins over the file
    return Plan(request, parse_splits(given["split"], given["splits"] if said else count), given)


def _asked(
    runtime: Runtime, data: dict[str, Any], given: Mapping[str, Any]
) -> tuple[dict[str, Any], Mapping[str, Any]]:
    """With the platform, and where that had to be asked with how to watch: a dry run has nothing to watch."""
    if data.get("platform"):
        return data, {**given, **monitoring(given)}
    data = {**data, "platform": ask_platform(runtime)}
    how = monitoring(given) if given["dry_run"] is not None else ask_monitoring(runtime, given)
    return data, {**given, **how}


def _require_something_to_run(data: Mapping[str, Any]) -> None:
    if not data.get("command") and not data.get("model"):
        raise UsageError("nothing says what runs", "give a command after `--`, --model and --action, or a job file")


def _job_file(given: Mapping[str, Any], data: Mapping[str, Any]) -> Path | None:
    if given["jobfile"] is not None:
        return Path(given["jobfile"])
    default = Path(jobfile.DEFAULT_FILE)
    says_what_runs = data.get("command") or data.get("model")
    return default if not says_what_runs and default.exists() else None


def _with_platform_options(data: dict[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    from tao_run.cli.platform_options import collect, named
    from tao_run.platforms.registry import canonical

    platform = canonical(str(data["platform"]))
    said = collect(platform, given["option"] or [], named(given))
    options = dict(data.get("options") or {})
    if said:
        options[platform] = {**(options.get(platform) or {}), **said}
    return {**data, "platform": platform, "options": options} if options else {**data, "platform": platform}


def _complete(runtime: Runtime, plan: Plan) -> Plan:
    """Fill in from the catalog what a model and action imply."""
    from dataclasses import replace

    from tao_run.catalog import load
    from tao_run.catalog.apply import complete

    request = plan.request
    if request.model is None and request.image is None and request.command is not None:
        return plan
    bank = plan.given["skill_bank"]
    done = complete(request, load(bank, runtime.environ), settings_of(plan.given["set_"] or []))
    for note in done.notes:
        runtime.output.note(note)
    _say_automl(runtime, done)
    _require_something_to_run({"command": done.request.command})
    return replace(plan, request=done.request)


def _resume(runtime: Runtime, plan: Plan) -> Plan:
    """With --resume: start from the furthest checkpoint of another job."""
    if plan.request.resume is None:
        return plan
    from dataclasses import replace

    from tao_run.jobs.resume import with_resume

    job = runtime.store.resolve(plan.request.resume)
    request, place = with_resume(plan.request, job, runtime.platform_of(job))
    runtime.output.note(f"continuing {job.name} from {place}")
    return replace(plan, request=request)


def _say_automl(runtime: Runtime, done: Completion) -> None:
    model, request = done.model, done.request
    wanted = request.action == "train" and request.automl_policy is None
    if model is not None and wanted and model.automl_enabled and model.has_train_schema:
        runtime.output.note(
            f"{model.network_arch} supports AutoML: `tao-run models --automl` says how;"
            " --automl-policy off silences this"
        )


def _dry_run(runtime: Runtime, platform: Platform, plan: Plan) -> None:
    from tao_run.platforms.lifecycle import dry_run

    launch = dry_run(platform, plan.request)
    for note in launch.notes:
        runtime.output.note(note)
    if plan.given["dry_run"] == "server":
        for note in platform.validate(launch):
            runtime.output.note(note)
    runtime.output.emit(DryRun(platform.name, launch.native, dict(launch.secrets)))


def _preflight(runtime: Runtime, platform: Platform, plan: Plan) -> None:
    from tao_run.catalog import load
    from tao_run.cli.output.preflight import check_lines
    from tao_run.preflight import run

    catalog = load(plan.given["skill_bank"], runtime.environ)
    report = run(plan.request, platform, runtime.credentials, catalog=catalog)
    for check in (*report.warnings, *report.failed):
        if check.id != "credentials.file":  # said when the file was read
            for line in check_lines(check):
                runtime.output.note(line)
    if not report.passed:
        raise PreflightFailed(
            f"{len(report.failed)} of {len(report.checks)} launch checks failed; nothing was submitted",
            "repair what they name, or submit with --no-preflight",
        )


def _submit(runtime: Runtime, platform: Platform, plan: Plan) -> list[Job]:
    from tao_run.platforms.lifecycle import build_job, submit

    if plan.splits is not None:
        from tao_run.jobs.splits import submit_group

        runtime.interrupted = while_submitting_group
        return submit_group(platform, runtime.store, plan.request, plan.splits)
    job = build_job(platform, plan.request)
    runtime.interrupted = while_submitting(job, runtime.store)
    return [submit(platform, runtime.store, job)]


def _afterwards(runtime: Runtime, jobs: list[Job], plan: Plan) -> None:
    now = runtime.clock.now()
    if not plan.given["watch"]:
        if runtime.output.json:
            runtime.output.emit(Submitted(tuple(job_row(job, now) for job in jobs)))
        else:
            for job in jobs:
                runtime.output.line(job.id)
        return
    runtime.interrupted = lambda: detached(jobs)
    for job in jobs:
        runtime.output.note(f"submitted {job.name} to {job.platform}; results: {job.results_dir or 'nowhere durable'}")
    from tao_run.cli.watching import watch_jobs

    leave(watch_jobs(runtime, jobs, plan.given["interval"] * 60.0))
