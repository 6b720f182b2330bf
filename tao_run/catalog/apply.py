"""Completes a request that names a TAO model and action: image, command, spec, inputs and outputs."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tao_run.catalog import specs
from tao_run.catalog.facts import ActionFacts, ModelFacts
from tao_run.catalog.images import ImageResolution
from tao_run.errors import UsageError
from tao_run.jobs.request import JobRequest, parse_request
from tao_run.jobs.speckeys import MANDATORY, MISSING, get_value, set_value

if TYPE_CHECKING:
    from tao_run.catalog.catalog import Catalog

_SOURCE_KEYS = ("type", "optional", "selective", "extract_to_parent", "container_path")


@dataclass(frozen=True)
class Completion:
    """A request with nothing left to look up, the notes to tell the user, and what it was made from.

    `image`, `model` and `action` are None for a request that names no model.
    """

    request: JobRequest
    notes: tuple[str, ...] = ()
    image: ImageResolution | None = None
    model: ModelFacts | None = None
    action: ActionFacts | None = None


def complete(
    request: JobRequest,
    catalog: Catalog,
    settings: Mapping[str, Any] | None = None,
    backend: str | None = None,
) -> Completion:
    """Fill in what the catalog knows and the user did not say. What the user said is never changed.

    The spec is the packaged template, then `request.spec`, then `settings` (paths or the model's shorthand
    keys -> values). Without a model only an image key is resolved and `settings` are put into the spec.

    Raises:
        UsageError: unknown model, action or image key; a path that does not fit the spec; no action named.
    """
    settings = dict(settings or {})
    if request.model is None:
        return Completion(_plain(request, catalog, settings))
    if request.action is None:
        facts = catalog.model(request.model)
        raise UsageError(
            f"{request.model} needs an action", f"say it with --action: {', '.join(sorted(facts.actions))}"
        )
    facts, action = catalog.action(request.model, request.action)
    image = catalog.resolve_image(request.model, request.action, request.image, backend)
    said = _said(request, facts, settings)
    spec = specs.merge(_template(facts, action, request.action), said)
    for path, value in _uris(request, action).items():
        spec = set_value(spec, path, value)
    scale = _Scale(facts, action, spec, said)
    gpus, nodes = scale.gpus(request.gpus), scale.nodes(request)
    data = request.model_dump(mode="python", exclude_unset=True)
    data.update(
        image=image.image,
        command=request.command or action.command,
        config_format=request.config_format if _was_said(request, "config_format") else action.config_format,
        spec=scale.written(gpus, nodes),
        gpus=gpus,
        nodes=nodes,
        inputs=_inputs(request, action, spec),
        outputs=_outputs(request, action),
        upload_excludes=request.upload_excludes or list(action.upload_excludes),
        secrets={**{name: name for name in facts.required_credentials}, **request.secrets},
    )
    return Completion(parse_request(data, "the completed job"), tuple(scale.notes), image, facts, action)


def _was_said(request: JobRequest, field: str) -> bool:
    return field in request.model_fields_set


def _plain(request: JobRequest, catalog: Catalog, settings: Mapping[str, Any]) -> JobRequest:
    """A request without a model: its image key resolved, its settings in its spec."""
    changes: dict[str, Any] = {}
    if request.image:
        changes["image"] = catalog.resolve_reference(request.image)
    if settings:
        spec = dict(request.spec or {})
        for path, value in settings.items():
            spec = set_value(spec, path, value)
        changes["spec"] = spec
    data = request.model_dump(mode="python", exclude_unset=True)
    return parse_request({**data, **changes}, "the job") if changes else request


def _template(facts: ModelFacts, action: ActionFacts, asked: str) -> dict[str, Any]:
    """The packaged spec of the variant asked for, of the action, or nothing. Raises UsageError for a choice."""
    file = action.templates.get(asked.strip().lower()) or action.templates.get(action.name)
    if file is None and action.templates:
        raise UsageError(
            f"{facts.model} {action.name} has several forms", f"choose one with --action: {', '.join(action.templates)}"
        )
    spec = copy.deepcopy(facts.specs[file]) if file else {}
    return specs.without_nulls(spec) if action.config_format == "toml" else spec


def _said(request: JobRequest, facts: ModelFacts, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The part of the spec that comes from the user: spec, then settings, both with shorthands spelled out."""
    said = dict(request.spec or {})
    flat = specs.dotted_keys(said)
    if flat:
        raise UsageError(
            f"the spec has dotted keys ({', '.join(flat)}), which the container would not read",
            "nest them, or give them with --set",
        )
    short = {key: said.pop(key) for key in list(said) if key in facts.spec_shorthand_keys}
    for key, value in {**short, **settings}.items():
        said = set_value(said, facts.spec_shorthand_keys.get(key, key), value)
    return said


def _uris(request: JobRequest, action: ActionFacts) -> dict[str, Any]:
    """What the user gave for declared inputs and outputs, to stand in the spec under the same keys."""
    given = {key: source.uri for key, source in request.inputs.items() if key in action.inputs}
    targets = {key: target.uri for key, target in request.outputs.items() if key in action.outputs and target.uri}
    return {**given, **targets}


def _inputs(request: JobRequest, action: ActionFacts, spec: Mapping[str, Any]) -> dict[str, Any]:
    """Declared inputs that have a value, with their declarations; the user's own inputs on top."""
    inputs: dict[str, Any] = {}
    for key, declared in action.inputs.items():
        value = get_value(spec, key)
        if has_value(value) and key not in action.outputs:
            facts = {name: declared[name] for name in _SOURCE_KEYS if name in declared}
            inputs[key] = {"uri": value, **facts}
    for key, source in request.inputs.items():
        inputs[key] = {**inputs.get(key, {}), **source.model_dump(mode="python", exclude_unset=True)}
    return inputs


def _outputs(request: JobRequest, action: ActionFacts) -> dict[str, Any]:
    outputs: dict[str, Any] = {key: dict(declared) for key, declared in action.outputs.items()}
    for key, target in request.outputs.items():
        outputs[key] = {**outputs.get(key, {}), **target.model_dump(mode="python", exclude_unset=True)}
    return outputs


def has_value(value: Any) -> bool:
    """Whether an input's spec entry says where the data is."""
    if isinstance(value, list):
        return bool(value) and all(has_value(item) for item in value)
    return isinstance(value, str) and value.strip() not in ("", MANDATORY)


def unset_inputs(action: ActionFacts, spec: Mapping[str, Any]) -> list[str]:
    """Declared inputs that are not optional and have no value in the spec."""
    return [
        key
        for key, declared in action.inputs.items()
        if not declared.get("optional") and key not in action.outputs and not has_value(get_value(spec, key))
    ]


class _Scale:
    """GPU and node counts: the job's and the spec's agree, and what the user said in either place wins."""

    def __init__(self, facts: ModelFacts, action: ActionFacts, spec: dict[str, Any], said: Mapping[str, Any]) -> None:
        self._spec, self._said = spec, said
        self._gpu_key = _gpu_key(facts.gpu_spec_key, action.name, spec)
        self._node_key = _node_key(facts.node_spec_key, self._gpu_key, action.name, spec)
        self.notes: list[str] = []

    def gpus(self, wanted: int | None) -> int:
        """GPUs per node: as asked for, else as the spec says, else one."""
        stated = self._number(self._said, self._gpu_key)
        if wanted is None:
            found = stated or self._number(self._spec, self._gpu_key) or 1
            if found > 1:
                self.notes.append(f"{found} GPUs per node, as {self._gpu_key} says")
            return found
        self._differ(self._gpu_key, stated, wanted, "--gpus")
        return wanted

    def nodes(self, request: JobRequest) -> int:
        """Nodes: as asked for, else as the user's spec says, else one."""
        stated = self._number(self._said, self._node_key)
        if not _was_said(request, "nodes"):
            if stated and stated > 1:
                self.notes.append(f"{stated} nodes, as {self._node_key} says")
            return stated or request.nodes
        self._differ(self._node_key, stated, request.nodes, "--nodes")
        return request.nodes

    def written(self, gpus: int, nodes: int) -> dict[str, Any]:
        """The spec with both counts where the user has not said them."""
        spec = self._put(self._put(self._spec, self._gpu_key, gpus), self._node_key, nodes)
        ids = f"{self._gpu_key.rpartition('.')[0]}.gpu_ids" if self._gpu_key.endswith(".num_gpus") else ""
        has_ids = bool(ids) and get_value(spec, ids) is not MISSING
        return self._put(spec, ids, list(range(gpus))) if has_ids else spec

    def _put(self, spec: dict[str, Any], key: str, value: Any) -> dict[str, Any]:
        return set_value(spec, key, value) if key and get_value(self._said, key) is MISSING else spec

    def _differ(self, key: str, stated: int | None, wanted: int, option: str) -> None:
        if stated is not None and stated != wanted:
            self.notes.append(f"{key} is {stated} in your spec, {option} is {wanted}: the spec is left as it is")

    @staticmethod
    def _number(spec: Mapping[str, Any], key: str) -> int | None:
        value = get_value(spec, key) if key else None
        return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _gpu_key(declared: str, action: str, spec: Mapping[str, Any]) -> str:
    """Where the action reads its GPU count: its own section if that has one, else the declared key if it exists."""
    section = action.removeprefix("deploy_")
    for key in (f"{section}.num_gpus", f"{section.rpartition('_')[2]}.num_gpus", declared):
        if key and get_value(spec, key) is not MISSING:
            return key
    return ""


def _node_key(declared: str, gpu_key: str, action: str, spec: Mapping[str, Any]) -> str:
    section = gpu_key.rpartition(".")[0] or action.rpartition("_")[2]
    for key in (f"{section}.num_nodes", declared):
        if key and get_value(spec, key) is not MISSING:
            return key
    return ""
