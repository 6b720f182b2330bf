"""What will be done for one job: the instance it gets and the script that starts it there. Pure, but for the search."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tao_run.errors import UsageError
from tao_run.jobs.model import Job
from tao_run.jobs.request import JobRequest
from tao_run.platforms.brev import scripts
from tao_run.platforms.brev.inventory import InstanceType, choose_type
from tao_run.platforms.brev.options import BrevOptions
from tao_run.platforms.references import NGC_REGISTRY, split_reference
from tao_run.storage import parse_location

MASTER_PORT = 29500
Search = Callable[[Sequence[str]], list[InstanceType]]


@dataclass(frozen=True)
class Plan:
    """`instance` is a name; `rent` is the type to rent it as, None for one that exists."""

    instance: str
    rent: InstanceType | None
    container: scripts.Container
    options: BrevOptions

    def native(self) -> dict[str, Any]:
        """What will be sent, as plain data: commands, files (secrets by reference) and the start script."""
        steps = [self.create_command(self.rent)] if self.rent else []
        steps.append(["brev", "copy", "<these files>", f"{self.instance}:{scripts.ROOT}/{self.container.name}"])
        steps.append(["brev", "exec", self.instance, "<run start.sh in the background>"])
        files = ["start.sh", *(["payload"] if self.container.payload else [])]
        files += ["env (0600: values of the secrets)"] if self.container.secrets else []
        files += [f"login (0600: NGC_KEY for {self.container.registry})"] if self.container.registry else []
        return {
            "instance": self.instance,
            "rented": self.rent.describe() if self.rent else "no, it exists",
            "deleted_at_end": bool(self.rent) and not self.options.keep_instance,
            "commands": steps,
            "files": files,
            "start.sh": scripts.start_script(self.container),
        }  # fmt: skip

    def create_command(self, rent: InstanceType) -> list[str]:
        """The command line that rents the instance."""
        return ["brev", "create", self.instance, "--type", rent.type, "--detached"]


def check_request(request: JobRequest, options: BrevOptions) -> None:
    """Raises UsageError for what a Brev instance cannot do; all reasons at once."""
    faults = []
    if request.nodes > 1:
        faults.append("an instance is one node: nodes must be 1")
    if not request.image:
        faults.append("an image is needed")
    if request.mount:
        faults.append("there is no shared mount: an instance has only its own disk")
    if options.rented and not options.gpu_type:
        faults.append("say where to run: -o gpu_type=L40S (an instance of its own) or -o instance=NAME")
    if options.rented and request.gpus == 0:
        faults.append("a rented instance is chosen by its GPUs: --gpus must be 1 or more")
    faults += [
        f"{where} {uri} is a local path, which an instance cannot see: use s3://" for where, uri in local_paths(request)
    ]
    if faults:
        raise UsageError("platform brev: " + "; ".join(faults))


def local_paths(request: JobRequest) -> list[tuple[str, str]]:
    """Inputs, outputs and results that lie on some machine's disk."""
    found = [("results", request.results)] if request.results else []
    for key, source in request.inputs.items():
        uris = source.uri if isinstance(source.uri, list) else [source.uri]
        found += [(f"input {key}", uri) for uri in uris]
    found += [(f"output {key}", target.uri) for key, target in request.outputs.items() if target.uri]
    return [(where, uri) for where, uri in found if parse_location(uri).is_file]


def search_arguments(options: BrevOptions) -> list[str]:
    """`brev search` arguments that narrow the types to what the options allow."""
    given = {"provider": options.provider, "min-vram": options.min_vram, "min-disk": options.min_disk}
    return [
        f"--{flag}={value:g}" if isinstance(value, float) else f"--{flag}={value}"
        for flag, value in given.items()
        if value
    ]


def make_plan(
    job: Job, options: BrevOptions, script: str, env: Mapping[str, str], secrets: Sequence[str], payload: bool,
    search: Search, ngc: bool,
) -> Plan:  # fmt: skip
    """The plan of a job. `search` is asked only when an instance is to be rented; `ngc`: there is an NGC_KEY."""
    request = job.request
    gpus = request.gpus_or(1)
    rent = choose_type(search(search_arguments(options)), options.gpu_type or "", gpus) if options.rented else None
    image = request.image or ""
    container = scripts.Container(
        name=job.name,
        job_id=job.id,
        image=image,
        command=("/bin/bash", "-c", script),
        gpus=gpus,
        env={**rank_environment(gpus), **env},
        secrets=tuple(secrets),
        shm_size=options.shm_size,
        pull_policy=options.pull_policy,
        payload=payload,
        registry=NGC_REGISTRY if ngc and split_reference(image).registry == NGC_REGISTRY else "",
        max_time=request.max_time,
    )
    return Plan(options.instance or job.name, rent, container, options)


def rank_environment(gpus: int) -> dict[str, str]:
    """The variables of distributed training, for the one node there is."""
    return {
        "NNODES": "1",
        "NODE_RANK": "0",
        "WORLD_SIZE": "1",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(MASTER_PORT),
        "NUM_GPU_PER_NODE": str(gpus),
    }
