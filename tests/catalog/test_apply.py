"""A request that names a model and action becomes one that says everything, and keeps what the user said."""

from __future__ import annotations

from typing import Any

import pytest

from tao_run.catalog import Catalog
from tao_run.catalog.apply import complete, unset_inputs
from tao_run.credentials import Credentials
from tao_run.entrypoint import entry_for
from tao_run.errors import UsageError
from tao_run.jobs.request import JobRequest, parse_request
from tao_run.jobs.speckeys import get_value
from tao_run.platforms.lifecycle import build_job
from tao_run.platforms.registry import make

IMAGE_DIR = "dataset.train_data_sources[0].image_dir"


def request(**fields: Any) -> JobRequest:
    return parse_request({"model": "dino", "action": "train", **fields}, "test")


def spec_of(catalog: Catalog, settings: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    spec = complete(request(**fields), catalog, settings).request.spec
    assert spec is not None
    return spec


def test_every_action_of_both_banks_completes(bank: Catalog) -> None:
    count = 0
    for summary in bank.models():
        facts = bank.model(summary.model)
        for action in facts.actions.values():
            asked = next(iter(action.templates), action.name)
            wanted = parse_request({"model": facts.model, "action": asked, "gpus": 2, "image": "x:1"}, "test")
            done = complete(wanted, bank)
            assert done.request.command == action.command
            assert done.request.config_format == action.config_format
            assert done.request.image == "x:1"
            assert set(done.request.outputs) == set(action.outputs)
            assert set(done.request.secrets) == set(facts.required_credentials)
            assert done.request.gpus == 2
            count += 1
    assert count == sum(len(summary.actions) for summary in bank.models())


def test_every_completed_request_becomes_a_command(bank: Catalog) -> None:
    """Template, declarations and inputs of every action are what the container's side understands."""
    platform = make("docker", credentials=Credentials({}))
    for summary in bank.models():
        facts = bank.model(summary.model)
        for action in facts.actions.values():
            asked = next(iter(action.templates), action.name)
            data = {"platform": "docker", "model": facts.model, "action": asked, "image": "x:1"}
            done = complete(parse_request({**data, "results": "s3://bucket/results"}, "test"), bank)
            entry = entry_for(build_job(platform, done.request))
            assert entry.script
            assert len(entry.script) + len(entry.payload or b"") < 100 * 1024


def test_image_command_outputs_and_excludes_come_from_the_catalog(packaged: Catalog) -> None:
    done = complete(request(gpus=1), packaged)
    assert done.request.image == "nvcr.io/nvidia/tao/tao-toolkit:7.0.0-pyt"
    assert done.request.command == "dino train -e {config_path}"
    assert done.request.outputs["results_dir"].type == "folder"
    assert done.request.upload_excludes == ["inputs/"]
    assert done.image is not None
    assert done.image.declared_image == "tao_toolkit.pyt"


def test_template_then_spec_then_settings(packaged: Catalog) -> None:
    template = packaged.model("dino").specs["spec_template_train.yaml"]
    user = {"train": {"num_epochs": 3}, "model": {"num_queries": 77}}
    spec = spec_of(packaged, {"num_epochs": 9, "train.optim.lr": 1e-5}, spec=user)
    assert spec["train"]["num_epochs"] == 9
    assert spec["model"]["num_queries"] == 77
    assert spec["train"]["optim"]["lr"] == 1e-5
    assert spec["model"]["backbone"] == template["model"]["backbone"]
    assert template["train"]["num_epochs"] != 9


def test_shorthands_at_the_top_of_a_spec_are_spelled_out(packaged: Catalog) -> None:
    spec = spec_of(packaged, spec={"num_epochs": 3, "train": {"optim": {"lr": 0.5}}})
    assert spec["train"]["num_epochs"] == 3
    assert spec["train"]["optim"]["lr"] == 0.5
    assert "num_epochs" not in spec


def test_the_packaged_template_is_not_changed_by_use(packaged: Catalog) -> None:
    first = spec_of(packaged, gpus=1)
    first["train"]["num_epochs"] = -1
    assert spec_of(packaged, gpus=1)["train"]["num_epochs"] != -1


def test_gpus_and_nodes_reach_the_spec(packaged: Catalog) -> None:
    spec = spec_of(packaged, gpus=8, nodes=4)
    assert (spec["train"]["num_gpus"], spec["train"]["num_nodes"]) == (8, 4)
    assert spec["train"]["gpu_ids"] == list(range(8))


def test_gpus_reach_the_section_the_action_reads(packaged: Catalog) -> None:
    spec = spec_of(packaged, action="evaluate", gpus=2)
    assert spec["evaluate"]["num_gpus"] == 2


def test_gpu_and_node_keys_of_a_model_with_its_own(packaged: Catalog) -> None:
    spec = spec_of(packaged, model="cosmos-rl", gpus=8, nodes=2)
    assert spec["policy"]["parallelism"]["dp_shard_size"] == 8
    assert spec["policy"]["parallelism"]["dp_replicate_size"] == 2


def test_counts_in_the_users_spec_make_the_request_when_no_option_says_otherwise(packaged: Catalog) -> None:
    done = complete(request(spec={"train": {"num_gpus": 4, "num_nodes": 2}}), packaged)
    assert (done.request.gpus, done.request.nodes) == (4, 2)
    assert any("train.num_gpus" in note for note in done.notes)
    assert any("train.num_nodes" in note for note in done.notes)


def test_a_count_that_differs_is_kept_and_said(packaged: Catalog) -> None:
    done = complete(request(spec={"train": {"num_gpus": 4}}, gpus=8), packaged)
    assert done.request.spec is not None
    assert done.request.spec["train"]["num_gpus"] == 4
    assert done.request.gpus == 8
    assert any("train.num_gpus is 4" in note and "--gpus is 8" in note for note in done.notes)


def test_inputs_stand_in_the_spec_and_carry_their_declaration(packaged: Catalog) -> None:
    done = complete(request(gpus=1, inputs={IMAGE_DIR: "s3://b/images.tar.gz", "/extra": "s3://b/x"}), packaged)
    assert get_value(done.request.spec, IMAGE_DIR) == "s3://b/images.tar.gz"
    assert done.request.inputs[IMAGE_DIR].type == "file"
    assert done.request.inputs["/extra"].uri == "s3://b/x"


def test_inputs_given_in_the_spec_are_declared_too(packaged: Catalog) -> None:
    done = complete(request(gpus=1), packaged, {IMAGE_DIR: "s3://b/images"})
    assert done.request.inputs[IMAGE_DIR].uri == "s3://b/images"


def test_selective_and_extract_to_parent_survive(august: Catalog) -> None:
    kept = set()
    for summary in august.models():
        facts = august.model(summary.model)
        for action in facts.actions.values():
            for key, declared in action.inputs.items():
                extra = {name: declared[name] for name in ("selective", "extract_to_parent") if name in declared}
                if not extra:
                    continue
                wanted = {"model": facts.model, "action": action.name, "image": "x:1", "inputs": {key: "s3://b/x"}}
                source = complete(parse_request(wanted, "test"), august).request.inputs[key]
                assert all(source.model_dump(exclude_unset=True)[name] == value for name, value in extra.items())
                kept |= set(extra)
    assert kept == {"selective", "extract_to_parent"}


def test_inputs_without_a_value_are_named(packaged: Catalog) -> None:
    facts, action = packaged.action("dino", "train")
    spec = spec_of(packaged, {IMAGE_DIR: "s3://b/x"}, gpus=1)
    missing = unset_inputs(action, spec)
    assert IMAGE_DIR not in missing
    assert "dataset.train_data_sources[0].json_file" in missing
    assert facts.model == "tao-train-dino"


def test_what_the_user_said_wins(packaged: Catalog) -> None:
    done = complete(
        request(command="echo hi", image="mine:1", config_format="json", upload_excludes=["x"], gpus=1), packaged
    )
    assert done.request.command == "echo hi"
    assert done.request.image == "mine:1"
    assert done.request.config_format == "json"
    assert done.request.upload_excludes == ["x"]


def test_model_credentials_travel_by_name(packaged: Catalog) -> None:
    done = complete(request(model="cosmos-embed", gpus=1), packaged)
    assert done.request.secrets == {"HF_TOKEN": "HF_TOKEN"}
    renamed = complete(request(model="cosmos-embed", gpus=1, secrets={"HF_TOKEN": "MY_TOKEN"}), packaged)
    assert renamed.request.secrets == {"HF_TOKEN": "MY_TOKEN"}


def test_a_variant_starts_from_its_template(packaged: Catalog) -> None:
    facts = packaged.model("cosmos-embed")
    spec = spec_of(packaged, model="cosmos-embed", action="export_onnx", gpus=1)
    assert spec.keys() == facts.specs["spec_template_export_onnx.yaml"].keys()
    with pytest.raises(UsageError) as raised:
        complete(request(model="cosmos-embed", action="export"), packaged)
    assert "export_onnx" in raised.value.hint


def test_no_action_lists_the_actions(packaged: Catalog) -> None:
    with pytest.raises(UsageError) as raised:
        complete(parse_request({"model": "dino"}, "test"), packaged)
    assert "gen_trt_engine" in raised.value.hint


def test_dotted_keys_in_a_spec_are_refused(packaged: Catalog) -> None:
    with pytest.raises(UsageError, match=r"train\.num_epochs"):
        complete(request(spec={"train.num_epochs": 3}), packaged)


def test_without_a_model_only_the_image_key_and_the_settings_are_applied(packaged: Catalog) -> None:
    plain = parse_request({"command": "x", "image": "tao_toolkit.deploy", "spec": {"a": 1}}, "test")
    done = complete(plain, packaged, {"b.c": 2})
    assert done.request.image == "nvcr.io/nvidia/tao/tao-toolkit:7.0.0-deploy"
    assert done.request.spec == {"a": 1, "b": {"c": 2}}
    untouched = parse_request({"command": "x"}, "test")
    assert complete(untouched, packaged).request is untouched
