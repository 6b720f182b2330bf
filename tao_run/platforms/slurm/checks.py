"""Preflight: every login host, SLURM's commands, containers, and whether the request fits the cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tao_run.errors import NotInstalled, TaoRunError
from tao_run.jobs.durations import short_duration
from tao_run.jobs.model import Check
from tao_run.platforms.slurm.cluster import Cluster, shell_path
from tao_run.platforms.slurm.images import parse_image
from tao_run.platforms.slurm.options import Options, limit_seconds, read_options
from tao_run.platforms.slurm.paths import check_path
from tao_run.platforms.slurm.remote import Answer, Remote
from tao_run.platforms.slurm.resources import (
    RESOURCES,
    Association,
    NodeGroup,
    associations,
    node_groups,
)
from tao_run.platforms.slurm.script import mounts
from tao_run.storage.mounts import proof_by_mounts

if TYPE_CHECKING:
    from tao_run.jobs.request import JobRequest

_HOST_SECONDS = 40.0
_COMMANDS = "for c in sbatch srun squeue sacct scancel scontrol sinfo; do command -v $c; done"

_HOST = f"section commands eval '{_COMMANDS}'\n"
_CLUSTER = (
    _HOST
    + """\
section ping scontrol ping
section default scontrol show partition -o
section help srun --help
section runtimes eval 'command -v apptainer; command -v singularity; command -v enroot; true'
section registry eval 'grep -s -o "^ *machine *[^ ]*" ~/.config/enroot/.credentials; true'
writable() {{ mkdir -p {base} && [ -w {base} ] && df -P -k {base} | tail -n 1; }}
section base writable
paths() {{ local p; for p in {paths}; do [ -e "$p" ] && echo "ok $p" || echo "no $p"; done; }}
section paths paths
"""
    + RESOURCES.replace("{", "{{").replace("}", "}}")
)
_LOW_DISK_KB = 1024 * 1024


def check_access(remote: Remote, request: JobRequest | None) -> list[Check]:
    """Every check, also when one fails: a wrong partition and a missing path are told together."""
    checks, answering = _hosts(remote)
    if not answering:
        skipped = ("slurm.controller", "slurm.commands", "slurm.base")
        return [*checks, *(Check(name, "skipped", "no login host answers") for name in skipped)]
    options = read_options(request) if request else Options.model_validate({})
    answer = remote.run_on(answering[0], _script(remote.cluster, options, request))
    checks += [_commands(answer), _controller(answer), _base(answer, remote.cluster)]
    if request is not None:
        checks += list(_of_request(answer, request, options))
    return checks


def prove_path(remote: Remote, path: str, request: JobRequest | None) -> Check:
    """Whether a path is on the cluster and, if the job runs in a container, in one of its mounts."""
    if not check_path(remote, path):
        return Check(
            "path", "failed", f"{path} is not on {remote.cluster.label}", "`tao-run paths ls` shows what is there"
        )
    options = read_options(request) if request else None
    if request is None or options is None or options.container == "none":
        return Check("path", "ok", f"{path} is on the cluster")
    pairs = [mount.split(":") for mount in mounts(request, remote.cluster, options)]
    inside = {pair[1] if len(pair) > 1 else pair[0]: f"{pair[0]} of the cluster" for pair in pairs}
    return proof_by_mounts(path, inside, f"mount it: -o container_mounts={path}")


def _hosts(remote: Remote) -> tuple[list[Check], list[str]]:
    if remote.cluster.direct:
        return [Check("slurm.host", "ok", "this machine is a login node")], [""]
    checks, answering = [], []
    for host in remote.cluster.hosts:
        try:
            remote.run_on(host, _HOST, timeout=_HOST_SECONDS)
        except NotInstalled:
            raise
        except TaoRunError as error:
            checks.append(Check(f"slurm.host.{host}", "failed", error.message, error.hint))
        else:
            detail = f"{remote.cluster.user} is logged in; the host key is known and the key is accepted"
            checks.append(Check(f"slurm.host.{host}", "ok", detail))
            answering.append(host)
    return checks, answering


def _script(cluster: Cluster, options: Options, request: JobRequest | None) -> str:
    paths = [mount.partition(":")[0] for mount in options.container_mounts]
    image = request.image if request else None
    if image and parse_image(image).path:
        paths.append(image)
    if options.sqsh_cache:
        paths.append(options.sqsh_cache)
    base = shell_path(cluster.base)
    return _CLUSTER.format(base=base, paths=" ".join(shell_path(path) for path in paths))


def _commands(answer: Answer) -> Check:
    found = {line.rpartition("/")[2] for line in answer["commands"].out.split()}
    needed = ("sbatch", "srun", "squeue", "scancel", "scontrol", "sinfo")
    missing = [name for name in needed if name not in found]
    if missing:
        return Check(
            "slurm.commands",
            "failed",
            f"not in the PATH of the login shell: {', '.join(missing)}",
            "load SLURM in ~/.bashrc or ask the administrators which host is a login host",
        )
    kept = "sacct too" if "sacct" in found else "no sacct: jobs are forgotten soon after they end"
    return Check("slurm.commands", "ok", f"SLURM's commands are there ({kept})")


def _controller(answer: Answer) -> Check:
    said = answer["ping"]
    words = " ".join((said.out or said.err).split())
    if said.code or "UP" not in said.out:
        return Check("slurm.controller", "failed", f"slurmctld does not answer: {words}", "try again later")
    return Check("slurm.controller", "ok", words)


def _base(answer: Answer, cluster: Cluster) -> Check:
    said = answer["base"]
    if said.code:
        words = " ".join(said.err.split()) or "it is not writable"
        fix = "set SLURM_BASE_RESULTS_DIR to a directory on the shared file system that you may write to"
        return Check("slurm.base", "failed", f"{cluster.base}: {words}", fix)
    free = said.out.split()[3] if len(said.out.split()) > 3 else ""
    if free.isdecimal() and int(free) < _LOW_DISK_KB:
        return Check("slurm.base", "failed", f"{cluster.base} has {int(free) // 1024} MiB free", "make room there")
    return Check("slurm.base", "ok", f"{cluster.base} is writable")


def _of_request(answer: Answer, request: JobRequest, options: Options) -> Iterator[Check]:
    if answer["partitions"].code:
        yield Check("slurm.partition", "skipped", "slurmctld does not answer")
    else:
        yield from _of_partitions(node_groups(answer), _partitions(answer, options), request, options)
    yield _account(associations(answer["accounts"]), options)
    yield _container(answer, request, options)
    yield from _paths(answer)


def _of_partitions(
    groups: Sequence[NodeGroup], chosen: Sequence[str], request: JobRequest, options: Options
) -> Iterator[Check]:
    yield _partition(groups, chosen)
    inside = [group for group in groups if group.partition in chosen]
    if inside:
        yield _time(inside, limit_seconds(request, options))
        yield _gpus(inside, request, options)


def _partitions(answer: Answer, options: Options) -> list[str]:
    if options.partition:
        return options.partition.split(",")
    lines = answer["default"].out.splitlines()
    return [line.split()[0].partition("=")[2] for line in lines if " Default=YES " in line]


def _partition(groups: Sequence[NodeGroup], chosen: Sequence[str]) -> Check:
    known = {group.partition: group.up for group in groups}
    if not chosen:
        fix = f"choose one: -o partition={'|'.join(sorted(known))}"
        return Check("slurm.partition", "failed", "the cluster has no default partition", fix)
    unknown = [name for name in chosen if name not in known]
    if unknown:
        fix = f"the partitions are {', '.join(sorted(known)) or 'not shown to you'}"
        return Check("slurm.partition", "failed", f"there is no partition {', '.join(unknown)}", fix)
    down = [name for name in chosen if not known[name]]
    if down:
        return Check("slurm.partition", "failed", f"partition {', '.join(down)} is down", "choose another partition")
    return Check("slurm.partition", "ok", f"partition {', '.join(chosen)} is up")


def _time(groups: Sequence[NodeGroup], wanted: int | None) -> Check:
    limits = [group.limit for group in groups]
    if wanted is None:
        return Check("slurm.time", "ok", "no time limit asked for: the partition's default holds")
    longest = None if None in limits else max(limit for limit in limits if limit is not None)
    if longest is not None and wanted > longest:
        names = ", ".join(sorted({group.partition for group in groups}))
        detail = f"{short_duration(wanted)} asked for, partition {names} allows {short_duration(longest)}"
        return Check("slurm.time", "failed", detail, f"-o time={short_duration(longest)}, or another partition")
    return Check("slurm.time", "ok", f"{short_duration(wanted)} is within the partition's limit")


def _gpus(groups: Sequence[NodeGroup], request: JobRequest, options: Options) -> Check:
    gpus = request.gpus_or(1)
    if not gpus:
        return Check("slurm.gpus", "ok", "no GPUs asked for")
    kind = f"{options.gpu_type} " if options.gpu_type else ""
    asked = f"{request.nodes} node(s) with {gpus} {kind}GPUs"
    fitting = [
        g for g in groups if g.gpus >= gpus and (not options.gpu_type or options.gpu_type in g.gpu_type.split(","))
    ]
    total, usable = sum(g.nodes for g in fitting), sum(g.nodes for g in fitting if g.usable)
    if total < request.nodes:
        there = sorted({f"{g.gpus} x {g.gpu_type or 'GPU'}" for g in groups if g.gpus})
        fix = f"nodes there have {', '.join(there) or 'no GPUs'}"
        return Check("slurm.gpus", "failed", f"{asked} asked for, {total} such node(s) exist in the partition", fix)
    if usable < request.nodes:
        detail = f"{asked} asked for, {usable} such node(s) are up now"
        return Check("slurm.gpus", "failed", detail, "wait until nodes are back, or choose another partition")
    return Check("slurm.gpus", "ok", f"{total} node(s) of the partition have {gpus} or more {kind}GPUs")


def _account(known: Sequence[Association] | None, options: Options) -> Check:
    if known is None:
        return Check("slurm.account", "skipped", "this cluster keeps no accounts, or does not show them")
    mine = [item for item in known if options.account in (None, item.account)]
    if not mine:
        fix = f"your accounts: {', '.join(sorted({item.account for item in known})) or 'none'}"
        return Check("slurm.account", "failed", f"account {options.account or '(default)'} is not yours", fix)
    allowed = {name for item in mine for name in item.qos}
    if options.qos and options.qos not in allowed:
        detail = f"QOS {options.qos} is not allowed there"
        return Check("slurm.account", "failed", detail, f"allowed: {', '.join(sorted(allowed))}")
    name = options.account or "the default account"
    return Check("slurm.account", "ok", f"{name} may be charged" + (f" with QOS {options.qos}" if options.qos else ""))


def _container(answer: Answer, request: JobRequest, options: Options) -> Check:
    kind = options.container
    if kind == "none":
        return Check("slurm.container", "ok", "runs on the nodes themselves, without a container")
    there = {line.rpartition("/")[2] for line in answer["runtimes"].out.split()}
    there |= {"apptainer"} if "singularity" in there else set()
    pyxis = "--container-image" in answer["help"].out
    if kind == "pyxis" and not pyxis:
        others = [name for name in ("apptainer", "enroot") if name in there]
        detail, fix = "srun has no --container-image: pyxis is not installed", f"-o container={(*others, 'none')[0]}"
        return Check("slurm.container", "failed", detail, fix)
    if kind != "pyxis" and kind not in there:
        # It may be on the compute nodes alone; only the login host was looked at.
        return Check("slurm.container", "skipped", f"{kind} is not on the login host; the nodes were not asked")
    return Check("slurm.container", "ok", _registry_words(answer, request, kind))


def _registry_words(answer: Answer, request: JobRequest, kind: str) -> str:
    image = parse_image(request.image) if request.image else None
    if image is None or kind == "apptainer" or image.registry != "nvcr.io":
        return f"{kind} is there"
    if "nvcr.io" in answer["registry"].out or "authn.nvidia.com" in answer["registry"].out:
        return f"{kind} is there, with credentials for nvcr.io"
    return (
        f"{kind} is there; for private images of nvcr.io put `machine nvcr.io login $oauthtoken password ...` into "
        "~/.config/enroot/.credentials on the cluster"
    )


def _paths(answer: Answer) -> Iterator[Check]:
    for line in answer["paths"].out.splitlines():
        state, _, path = line.partition(" ")
        if state == "ok":
            yield Check(f"slurm.path.{path}", "ok", f"{path} is there")
        else:
            yield Check(f"slurm.path.{path}", "failed", f"{path} is not on the cluster", "correct the path")
