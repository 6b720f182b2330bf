"""Puts the checks of one launch together and runs them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tao_run.catalog import Catalog
from tao_run.catalog.apply import unset_inputs
from tao_run.errors import TaoRunError, UsageError
from tao_run.jobs.model import Check
from tao_run.jobs.request import JobRequest
from tao_run.preflight import credentials as presence
from tao_run.preflight import gpu, paths, records, tools
from tao_run.preflight.disk import check_disk
from tao_run.preflight.engine import Answer, Probe, run_probes
from tao_run.preflight.report import Report
from tao_run.preflight.wanted import Wanted
from tao_run.storage.s3 import S3Store
from tao_run.storage.uris import parse_location

if TYPE_CHECKING:
    from tao_run.credentials import Credentials
    from tao_run.platforms.base import Platform

_PLATFORM_LIMIT = 60.0
_LEFT_OUT = "left out with --skip"


def run(
    request: JobRequest,
    platform: Platform,
    credentials: Credentials,
    wanted: Wanted | None = None,
    catalog: Catalog | None = None,
) -> Report:
    """All checks for launching `request` on `platform`, side by side. Nothing is submitted or left behind.

    `request` is complete (image and command filled in). No check raises: what goes wrong is a failed check.
    """
    return _Launch(request, platform, credentials, wanted or Wanted(), catalog).report()


class _Launch:
    """The parts that the checks of one launch share."""

    def __init__(
        self,
        request: JobRequest,
        platform: Platform,
        credentials: Credentials,
        wanted: Wanted,
        catalog: Catalog | None,
    ) -> None:
        self.request, self.platform, self.credentials, self.wanted = request, platform, credentials, wanted
        self.store = S3Store(credentials, timeout=min(wanted.timeout / 2, 15.0))
        self._catalog = catalog
        self.results_dir = self._results_dir()
        self.uses_s3 = paths.uses_s3(request, self.results_dir)

    def report(self) -> Report:
        """Run everything that is not left out."""
        probes = list(self._probes())
        left_out = [probe for probe in probes if _matches(probe.id, self.wanted.skip)]
        checks = run_probes([probe for probe in probes if probe not in left_out])
        kept = [check for check in checks if not _matches(check.id, self.wanted.skip)]
        return Report.of(self.platform.name, (*kept, *(Check(probe.id, "skipped", _LEFT_OUT) for probe in left_out)))

    @property
    def catalog(self) -> Catalog:
        """The catalog, loaded when a check needs it."""
        if self._catalog is None:
            from tao_run.catalog import load

            self._catalog = load()
        return self._catalog

    def _probe(self, check_id: str, look: Callable[[], Answer]) -> Probe:
        return Probe(check_id, look, self.wanted.timeout)

    def _probes(self) -> Iterator[Probe]:
        yield from self._machine()
        yield from self._credentials()
        if not self.wanted.skip_platform_access:
            limit = max(_PLATFORM_LIMIT, self.wanted.timeout)
            yield Probe("platform", partial(self.platform.check_access, self.request), limit)
        yield from self._size()
        yield from self._data()
        yield from self._annotations()

    def _machine(self) -> Iterator[Probe]:
        name = self.platform.name
        yield self._probe("package", partial(tools.check_packages, name, self.uses_s3))
        yield self._probe("tool", partial(tools.check_tools, name))
        if self.platform.sees_this_machine(self.request):
            directory = Path(self.results_dir) if self.results_dir.startswith("/") else Path.cwd()
            yield self._probe("disk", partial(check_disk, directory, self.wanted.min_free_disk_gb))

    def _credentials(self) -> Iterator[Probe]:
        request, mine = self.request, self.credentials
        yield self._probe("credentials.file", partial(presence.check_file, mine))
        yield self._probe("credentials.platform", partial(self._platform_credentials))
        if self.uses_s3:
            yield self._probe("credentials.storage", partial(presence.check_storage, mine))
        if request.model:
            yield self._probe("credentials.model", partial(self._model_credentials))
        if request.secrets:
            yield self._probe("credentials.job", partial(presence.check_job, request.secrets, mine))
        if request.image and request.image.startswith("nvcr.io/") and self.platform.name != "local":
            yield self._probe("credentials.registry", partial(presence.check_image_pull, request.image, mine))

    def _size(self) -> Iterator[Probe]:
        yield self._probe("nodes", partial(self._nodes))
        if self.request.image:
            yield self._probe("image", partial(self._image))
        yield self._probe("gpu", partial(self._gpus))

    def _data(self) -> Iterator[Probe]:
        request = self.request
        for label, (uri, optional) in paths.input_uris(request).items():
            look = partial(paths.check_input, label, uri, optional, self.store, self.platform, request)
            yield self._probe(f"path.{label}", look)
        for label, uri in {**paths.output_uris(request), "results": self.results_dir}.items():
            look = partial(paths.check_output, label, uri, self.store, self.platform, request)
            yield self._probe("results" if label == "results" else f"output.{label}", look)
        if request.spec:
            yield self._probe("spec.uris", partial(paths.check_spec_uris, request.spec))
        if request.model and request.spec is not None and self.wanted.check_inputs:
            yield self._probe("inputs", partial(self._inputs))

    def _annotations(self) -> Iterator[Probe]:
        for label in {**self.wanted.json_required_fields, **self.wanted.effective_batch_limits}:
            yield self._probe(f"json.{label}", partial(self._annotation, label))

    # -- single checks -----------------------------------------------------------------------------------

    def _results_dir(self) -> str:
        """Where results would go; a fault in it is found again by the platform's own checks."""
        try:
            return self.platform.results_dir(self.platform.complete(self.request), "preflight")
        except TaoRunError:
            return self.request.results or ""

    def _platform_credentials(self) -> Check:
        try:
            facts = self.catalog.platform(self.platform.name)
        except UsageError:
            missing = self.credentials.missing(self.platform.required_credentials)
            state = f"not set: {', '.join(missing)}" if missing else "all are set"
            return Check("credentials.platform", "failed" if missing else "ok", state)
        return presence.check_platform(facts, self.credentials)

    def _model_credentials(self) -> Check:
        facts = self.catalog.model(self.request.model or "")
        return presence.check_model(
            facts.network_arch, facts.required_credentials, facts.conditional_credentials, self.credentials
        )

    def _nodes(self) -> Check:
        nodes, name = self.request.nodes, self.platform.name
        if nodes > 1 and not self.platform.multi_node:
            return Check(
                "nodes", "failed", f"{name} runs on one node, {nodes} are asked for", "choose another platform"
            )
        return Check("nodes", "ok", f"{nodes} nodes" if nodes > 1 else "one node")

    def _image(self) -> Check:
        image = self.catalog.resolve_reference(self.request.image or "")
        return Check("image", "ok", f"{image} (whether the platform can pull it is seen at launch)")

    def _gpus(self) -> list[Check]:
        request = self.request
        asked = (request.gpus or 0) * request.nodes
        target = gpu.gpus_of_options(request.for_platform(), asked) if asked else gpu.Gpus()
        if self.platform.sees_this_machine(self.request) and not target.archs:
            target = gpu.local_gpus()
        target = gpu.stated(self.wanted, target)
        return [*gpu.check_architecture(request.image, self.wanted, target), *gpu.check_size(self.wanted, target)]

    def _inputs(self) -> Check:
        _, action = self.catalog.action(self.request.model or "", self.request.action or "")
        missing = unset_inputs(action, self.request.spec or {})
        if missing:
            fix = f"give each with --input {missing[0]}=URI or in the spec"
            return Check("inputs", "failed", f"no value for {', '.join(missing)}", fix)
        return Check("inputs", "ok", "every input the action declares has a value")

    def _annotation(self, label: str) -> Answer:
        source = self.request.inputs.get(label)
        if source is None or not isinstance(source.uri, str):
            return Check(f"json.{label}", "failed", f"no path has the label {label}", f"add --path {label}=PATH")
        parse_location(source.uri)
        rows = records.read_records(label, source.uri, self.store, self.platform.sees_this_machine(self.request))
        if isinstance(rows, Check):
            return rows
        fields = self.wanted.json_required_fields.get(label, ())
        found = [records.check_fields(label, rows, fields, self.wanted.json_sample_limit)] if fields else []
        limits = self.wanted.effective_batch_limits.get(label, ())
        return [*found, *(records.check_batch(label, len(rows), *limit) for limit in limits)]


def _matches(check_id: str, names: tuple[str, ...]) -> bool:
    """Whether a check's id is one of `names` or begins with one of them and a dot."""
    return any(check_id == name or check_id.startswith(f"{name}.") for name in names)
