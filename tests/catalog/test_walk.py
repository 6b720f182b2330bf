"""Every model and action of both skill banks resolves as the bank's own files say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tao_run.catalog import Catalog
from tao_run.catalog.facts import ActionFacts
from tao_run.errors import UsageError

Entry = tuple[str, str, str, dict[str, Any], dict[str, Any], Path]


def declared(bank_dir: Path) -> Iterator[Entry]:
    """Skill, action, name under which we list it, its declaration, the file's content, the file."""
    for folder in sorted((bank_dir / "skills" / "models").iterdir()):
        if not folder.is_dir():
            continue
        own_path = folder / "references" / "skill_info.yaml"
        own = yaml.safe_load(own_path.read_text())
        profiles = list(folder.glob("references/tao-deploy-*.skill_info.yaml"))
        deploy_actions = {name for path in profiles for name in yaml.safe_load(path.read_text())["actions"]}
        for action, entry in own["actions"].items():
            if action == "gen_trt_engine" and action in deploy_actions:
                continue  # TensorRT engines are built in the deploy image
            yield folder.name, action, action, entry, own, own_path
        for path in profiles:
            info = yaml.safe_load(path.read_text())
            for action, entry in info["actions"].items():
                both = action in own["actions"] and action != "gen_trt_engine"
                yield folder.name, action, f"deploy_{action}" if both else action, entry, info, path


def expected_image(bank_dir: Path, action: str, entry: dict[str, Any], info: dict[str, Any]) -> str | None:
    image = entry.get("container_image") or info.get("container_image")
    if image is None and "backend_contracts" in info:
        backend = info["backend_selection"]["defaults"][action]
        image = info["backend_contracts"][backend]["container_image"]
    if image is None or "/" in image:
        return image
    value = yaml.safe_load((bank_dir / "versions.yaml").read_text())["images"]
    for part in image.split("."):
        value = value[part]
    return str(value)


def check_facts(found: ActionFacts, entry: dict[str, Any]) -> None:
    assert found.command == entry["command"]
    assert found.config_format == entry["config_format"]
    assert found.mode == entry.get("mode", "config")
    assert list(found.inputs) == list(entry["inputs"])
    assert list(found.outputs) == list(entry["outputs"])
    if isinstance(entry["inputs"], dict):
        assert found.inputs == entry["inputs"]
        assert found.outputs == entry["outputs"]
    assert list(found.upload_excludes) == entry["upload_excludes"]


def test_every_action_is_found_with_its_facts_and_image(bank: Catalog, bank_dir: Path) -> None:
    count = 0
    for skill, action, listed, entry, info, path in declared(bank_dir):
        _, found = bank.action(skill, listed)
        check_facts(found, entry)
        assert found.metadata_path == path.relative_to(bank_dir).as_posix()
        image = expected_image(bank_dir, action, entry, info)
        if image is None:
            try:
                bank.resolve_image(skill, listed)
                raise AssertionError(f"{skill} {listed} has no image, yet one was found")
            except UsageError as error:
                assert "no published image" in error.message
        else:
            assert bank.resolve_image(skill, listed).image == image, (skill, listed)
        assert listed in next(entry for entry in bank.models() if entry.model == skill).actions
        count += 1
    assert count == {"7.0.0": 211, "7.2.0": 230}[bank_dir.name]
    assert count == sum(len(summary.actions) for summary in bank.models())


def test_every_name_of_every_model_finds_it_or_is_said_to_be_ambiguous(bank: Catalog) -> None:
    holders: dict[str, set[str]] = {}
    for summary in bank.models():
        for name in summary.names:
            holders.setdefault(name.lower(), set()).add(summary.model)
    for name, models in holders.items():
        for spelling in (name, name.upper()):
            if len(models) == 1:
                assert bank.model(spelling).model in models
                continue
            try:
                bank.model(spelling)
                raise AssertionError(f"{spelling} is ambiguous, yet one model was chosen")
            except UsageError as error:
                assert all(model in error.hint for model in models)


def test_model_level_facts(bank: Catalog, bank_dir: Path) -> None:
    for summary in bank.models():
        path = bank_dir / "skills/models" / summary.model / "references" / "skill_info.yaml"
        info = yaml.safe_load(path.read_text())
        facts = bank.model(summary.model)
        assert facts.network_arch == summary.network_arch == info["network_arch"]
        assert facts.gpu_spec_key == info.get("gpu_spec_key", "")
        assert facts.node_spec_key == info.get("node_spec_key", "")
        assert list(facts.required_credentials) == info.get("required_credentials", [])
        assert facts.automl_enabled is info["automl_enabled"]


def test_templates_are_those_the_bank_names(bank: Catalog, bank_dir: Path) -> None:
    seen = 0
    for summary in bank.models():
        facts = bank.model(summary.model)
        for action in facts.actions.values():
            for file in action.templates.values():
                path = bank_dir / "skills/models" / summary.model / "references" / file
                assert set(facts.specs[file]) == set(yaml.safe_load(path.read_text()))
                seen += 1
    assert seen > (200 if bank_dir.name == "7.0.0" else 15)


def test_automl_is_supported_where_the_banks_own_list_says_so(bank: Catalog, bank_dir: Path) -> None:
    listed = yaml.safe_load((bank_dir / "skills/models/automl_support.json").read_text())
    supported = {entry["model"]: entry for entry in listed["supported"]}
    for summary in bank.models():
        if summary.model in supported:
            assert summary.automl_blocked() == ""
            assert set(summary.automl_default_parameters) >= set(supported[summary.model]["automl_default_parameters"])


def test_automl_needs_the_flag_and_a_train_schema_on_disk(bank: Catalog, bank_dir: Path) -> None:
    blocked = 0
    for summary in bank.models():
        folder = bank_dir / "skills/models" / summary.model
        enabled = yaml.safe_load((folder / "references/skill_info.yaml").read_text())["automl_enabled"]
        runnable = enabled and (folder / "schemas/train.schema.json").is_file()
        assert (summary.automl_blocked() == "") is runnable
        blocked += not runnable
    assert blocked == {"7.0.0": 2, "7.2.0": 3}[bank_dir.name]
