"""`tao-run preflight`: every launch check, without submitting anything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

from tao_run.cli import preflight_options as opt
from tao_run.cli.catalog_options import SkillBank, catalog_of
from tao_run.cli.runtime import FormatOption, Runtime, leave, runtime_of
from tao_run.errors import PreflightFailed, UsageError

if TYPE_CHECKING:
    from tao_run.catalog import Catalog
    from tao_run.jobs.request import JobRequest
    from tao_run.preflight import Wanted

app = typer.Typer(add_completion=False)


@app.command()
def preflight(
    ctx: typer.Context,
    jobfile: opt.JobFile = None,
    platform: opt.Platform = None,
    model: opt.Model = None,
    action: opt.Action = None,
    image: opt.Image = None,
    nodes: opt.Nodes = None,
    gpus: opt.Gpus = None,
    option: opt.Option = None,
    docker_host: opt.DockerHost = None,
    path: opt.DataPath = None,
    results: opt.Results = None,
    json_required_field: opt.JsonField = None,
    json_sample_limit: opt.SampleLimit = 20,
    effective_batch_limit: opt.BatchLimit = None,
    min_free_disk_gb: opt.FreeDisk = 1.0,
    gpu_arch_allowlist: opt.ArchAllowlist = None,
    image_supported_sm: opt.ImageSms = None,
    gpu_arch: opt.GpuArch = None,
    gpu_min_count: opt.MinCount = None,
    gpu_min_memory_gb: opt.MinMemory = None,
    gpu_min_total_memory_gb: opt.MinTotalMemory = None,
    target_gpu_count: opt.TargetCount = None,
    target_gpu_memory_gb: opt.TargetMemory = None,
    low_vram_threshold_gb: opt.LowVram = 50.0,
    skip_platform_access: opt.SkipAccess = False,
    skip: opt.Skip = None,
    timeout: opt.Timeout = 30.0,
    skill_bank: SkillBank = None,
    output: FormatOption = None,
) -> None:
    """Run every launch check, all of them even when one fails. Exit 4 if one failed. Submits nothing.

    Example: tao-run preflight --platform local --path train=/tmp --gpu-arch-allowlist dino=sm_80,sm_90 --gpu-arch 9.0
    """
    _run(runtime_of(ctx, output), dict(locals()))


def _run(runtime: Runtime, given: Mapping[str, Any]) -> None:
    from dataclasses import replace

    from tao_run.preflight import run

    catalog = catalog_of(runtime, given["skill_bank"])
    wanted = _wanted(given)
    request, complete = _request(given, catalog)
    target = runtime.platform(str(request.platform))
    report = run(request, target, runtime.credentials, replace(wanted, check_inputs=complete), catalog)
    runtime.output.emit(report)
    leave(0 if report.passed else PreflightFailed.exit_code)


def _request(given: Mapping[str, Any], catalog: Catalog) -> tuple[JobRequest, bool]:
    """The request to check, completed from the catalog, and whether it says all its inputs."""
    from tao_run.catalog.apply import complete
    from tao_run.cli.platform_options import collect
    from tao_run.jobs import jobfile
    from tao_run.platforms.registry import canonical

    file = given["jobfile"]
    data = jobfile.lay_over(jobfile.read_job_file(file) if file else {}, _said(given))
    if not data.get("platform"):
        raise UsageError("no platform given", "add --platform; `tao-run platforms` describes them")
    platform = canonical(str(data["platform"]))
    options = [*(given["option"] or []), *([f"host={given['docker_host']}"] if given["docker_host"] else [])]
    if options:
        blocks = dict(data.get("options") or {})
        data["options"] = {**blocks, platform: {**blocks.get(platform, {}), **collect(platform, options, {})}}
    if data.get("model") and not data.get("action"):
        data["action"] = "train"
    request, _ = jobfile.to_request({**data, "platform": platform}, str(file or "the command line"))
    return complete(request, catalog).request, file is not None


def _said(given: Mapping[str, Any]) -> dict[str, Any]:
    """The command line as the plain data of a job file."""
    from tao_run.preflight.wanted import labelled

    plain = ("platform", "model", "action", "image", "nodes", "gpus", "results")
    data = {key: given[key] for key in plain if given[key] is not None}
    paths = labelled(given["path"] or [], "--path")
    return {**data, **({"inputs": paths} if paths else {})}


def _wanted(given: Mapping[str, Any]) -> Wanted:
    from tao_run.jobs.commas import comma_parts
    from tao_run.preflight.wanted import Wanted, batch_limits, labelled_lists

    sms = [part for text in given["image_supported_sm"] or [] for part in comma_parts(text)]
    same = (
        "json_sample_limit",
        "gpu_min_count",
        "gpu_min_memory_gb",
        "gpu_min_total_memory_gb",
        "target_gpu_count",
        "low_vram_threshold_gb",
        "min_free_disk_gb",
        "skip_platform_access",
        "timeout",
    )
    return Wanted(
        json_required_fields=labelled_lists(
            given["json_required_field"] or [], "--json-required-field", "LABEL=FIELD[,FIELD...]"
        ),
        effective_batch_limits=batch_limits(given["effective_batch_limit"] or [], "--effective-batch-limit"),
        gpu_arch_allowlist=labelled_lists(
            given["gpu_arch_allowlist"] or [], "--gpu-arch-allowlist", "LABEL=SM[,SM...]"
        ),
        image_supported_sms=tuple(sms),
        gpu_archs=tuple(given["gpu_arch"] or ()),
        target_gpu_memory_gb=tuple(given["target_gpu_memory_gb"] or ()),
        skip=tuple(given["skip"] or ()),
        **{key: given[key] for key in same},
    )
