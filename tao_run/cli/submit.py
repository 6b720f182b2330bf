"""`tao-run submit`: a command, a TAO model and action, or a job file becomes a job."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand

from tao_run.cli import platform_options as own
from tao_run.cli import submit_options as opt
from tao_run.cli.runtime import FormatOption, runtime_of
from tao_run.cli.submitting import run_submit

app = typer.Typer(add_completion=False)


class CommandAfterDashes(TyperCommand):
    """Takes everything after the first `--` as the job's command, every argument exactly as it is."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        cut = args.index("--") if "--" in args else len(args)
        ctx.obj.command = args[cut + 1 :] if cut < len(args) else None
        # an option with an optional value: `--dry-run` alone means here, `--dry-run=server` there
        return super().parse_args(ctx, ["--dry-run=here" if a == "--dry-run" else a for a in args[:cut]])


_HELP = """Submit a job: a command after `--`, a TAO model and action, or a job file.

Example: tao-run submit --platform local -- python3 -c 'print("hello")'
"""


@app.command(cls=CommandAfterDashes, help=_HELP)
def submit(
    ctx: typer.Context,
    jobfile: opt.JobFilePath = None,
    command: opt.Command = None,
    platform: opt.PlatformName = None,
    name: opt.Name = None,
    image: opt.Image = None,
    nodes: opt.Nodes = None,
    gpus: opt.Gpus = None,
    env: opt.Env = None,
    env_file: opt.EnvFile = None,
    secret: opt.Secret = None,
    max_time: opt.MaxTime = None,
    label: opt.Label = None,
    option: opt.Option = None,
    watch: opt.WatchFlag = None,
    interval: opt.Interval = None,
    dry_run: opt.DryRunFlag = None,
    no_preflight: opt.NoPreflight = False,
    yes: opt.Yes = False,
    model: opt.Model = None,
    action: opt.Action = None,
    spec: opt.Spec = None,
    set_: opt.Set = None,
    automl_policy: opt.AutomlPolicy = None,
    skill_bank: opt.SkillBank = None,
    input_: opt.Input = None,
    output_: opt.OutputPath = None,
    mount: opt.Mount = None,
    no_mount: opt.NoMount = False,
    results: opt.Results = None,
    resume: opt.Resume = None,
    refresh: opt.Refresh = False,
    split: opt.Split = None,
    splits: opt.Splits = None,
    retries: opt.Retries = None,
    resource_shape: own.ResourceShape = None,
    node_group: own.NodeGroup = None,
    reservation: own.Reservation = None,
    priority: own.Priority = None,
    partition: own.Partition = None,
    account: own.AccountName = None,
    qos: own.Qos = None,
    container_mounts: own.ContainerMounts = None,
    namespace: own.Namespace = None,
    context: own.Context = None,
    node_selector: own.NodeSelector = None,
    queue: own.Queue = None,
    pvc: own.Pvc = None,
    gpu_ids: own.GpuIds = None,
    shm_size: own.ShmSize = None,
    network: own.Network = None,
    pull_policy: own.PullPolicy = None,
    instance: own.Instance = None,
    gpu_type: own.GpuType = None,
    keep_instance: own.KeepInstance = None,
    output: FormatOption = None,
) -> None:
    """Everything the command line can say of a job. Older typers leave paths in `params` as text."""
    run_submit(runtime_of(ctx, output), {**ctx.params, "spec": spec, "env_file": env_file, "skill_bank": skill_bank})
