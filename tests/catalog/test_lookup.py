"""Names, images and their errors: unknown, ambiguous and unresolved names list the choices."""

from __future__ import annotations

from pathlib import Path

import pytest

from tao_run import catalog
from tao_run.catalog import Catalog
from tao_run.errors import UsageError

PYT = "nvcr.io/nvidia/tao/tao-toolkit:7.0.0-pyt"
DEPLOY = "nvcr.io/nvidia/tao/tao-toolkit:7.0.0-deploy"
DIGEST = "sha256:" + "0" * 64


@pytest.mark.parametrize("name", ["docker", "local-docker", "LOCAL-DOCKER"])
def test_platform_aliases(packaged: Catalog, name: str) -> None:
    assert packaged.platform(name).name == "docker"


@pytest.mark.parametrize(
    ("alias", "name"),
    [("dgx-cloud", "lepton"), ("cluster", "slurm"), ("k8s", "kubernetes"), ("local-k8s", "kubernetes")],
)
def test_the_fields_aliases(packaged: Catalog, alias: str, name: str) -> None:
    assert packaged.platform(alias).name == name


def test_unknown_platform_lists_all(packaged: Catalog) -> None:
    with pytest.raises(UsageError) as raised:
        packaged.platform("slrum")
    assert all(facts.name in raised.value.hint for facts in packaged.platforms())


def test_required_credentials_are_those_really_needed(packaged: Catalog) -> None:
    required = {facts.name: [entry.name for entry in facts.required_credentials] for facts in packaged.platforms()}
    assert required == {
        "local": [],
        "docker": [],
        "kubernetes": [],
        "slurm": ["SLURM_USER", "SLURM_HOSTNAME"],
        "lepton": ["LEPTON_WORKSPACE_ID", "LEPTON_AUTH_TOKEN"],
        "brev": [],
    }


def test_every_credential_says_what_it_is_and_where_to_get_it(packaged: Catalog) -> None:
    for facts in packaged.platforms():
        for entry in (*facts.required_credentials, *facts.optional_credentials):
            assert entry.description, (facts.name, entry.name)
            assert entry.how_to_get, (facts.name, entry.name)


def test_no_site_is_a_default(packaged: Catalog) -> None:
    text = str([facts.resource_defaults for facts in packaged.platforms()]) + str(packaged.platform("slurm"))
    assert "polar" not in text
    assert "grizzly" not in text
    assert "portfolios" not in text


def test_a_bank_without_platform_manifest_leaves_the_packaged_platforms(august: Catalog) -> None:
    assert august.platform("lepton").required_credentials[0].name == "LEPTON_WORKSPACE_ID"


@pytest.mark.parametrize("name", ["dino", "DINO", "tao-train-dino", " dino "])
def test_model_by_any_of_its_names(packaged: Catalog, name: str) -> None:
    assert packaged.model(name).model == "tao-train-dino"


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("visual_changenet", "tao-train-visual-changenet"),
        ("foundation-stereo", "tao-train-foundation-stereo"),
        ("cosmos_rl", "tao-finetune-cosmos-reason"),
    ],
)
def test_hyphen_underscore_and_prefix_do_not_matter(packaged: Catalog, name: str, model: str) -> None:
    assert packaged.model(name).model == model


@pytest.mark.parametrize("name", ["Cosmos Reason 3", "nvidia/cosmos3-nano", "cosmos-framework"])
def test_aliases_and_hugging_face_ids_of_august(august: Catalog, name: str) -> None:
    assert august.model(name).model == "tao-finetune-cosmos-reason"


def test_ambiguous_model_lists_both(packaged: Catalog) -> None:
    with pytest.raises(UsageError) as raised:
        packaged.resolve_image("depth_net_stereo", "train")
    assert "tao-train-foundation-stereo" in raised.value.hint
    assert "tao-train-fast-foundation-stereo" in raised.value.hint


@pytest.mark.parametrize(("name", "said"), [("dinoo", "dino"), ("zzz", "segformer")])
def test_unknown_model_names_choices(packaged: Catalog, name: str, said: str) -> None:
    with pytest.raises(UsageError) as raised:
        packaged.model(name)
    assert said in raised.value.hint


def test_unknown_action_lists_actions(packaged: Catalog) -> None:
    with pytest.raises(UsageError) as raised:
        packaged.resolve_image("dino", "trian")
    assert "gen_trt_engine" in raised.value.hint
    assert "deploy_evaluate" in raised.value.hint


@pytest.mark.parametrize(
    ("action", "image"),
    [
        ("train", PYT),
        ("gen_trt_engine", DEPLOY),
        ("deploy_gen_trt_engine", DEPLOY),
        ("evaluate", PYT),
        ("deploy_evaluate", DEPLOY),
    ],
)
def test_deploy_actions_run_in_the_deploy_image(packaged: Catalog, action: str, image: str) -> None:
    assert packaged.resolve_image("dino", action).image == image


def test_variants_belong_to_their_action(packaged: Catalog) -> None:
    _, action = packaged.action("cosmos-embed", "export_onnx")
    assert action.name == "export"
    assert set(action.templates) == {"export_onnx", "export_hf"}
    _, deploy = packaged.action("visual-changenet", "deploy_evaluate_segment")
    assert deploy.templates["deploy_evaluate_segment"] == "spec_template_deploy_segment_evaluate.yaml"


@pytest.mark.parametrize(
    "image",
    [
        "ubuntu",
        "ubuntu:22.04",
        "localhost:5000/team/app",
        "127.0.0.1:5055/mini:1",
        "registry.example.com/a/b@" + DIGEST,
        "app@" + DIGEST,
        "tao_toolkit.pyt:latest",
        "nvcr.io/nvidia/tao/tao-toolkit:7.0.0-pyt",
    ],
)
def test_images_are_not_keys(packaged: Catalog, image: str) -> None:
    found = packaged.resolve_image("dino", "train", override=image)
    assert (found.image, found.resolved_from, found.declared_image) == (image, "override", "tao_toolkit.pyt")


@pytest.mark.parametrize("key", ["tao_toolkit.deploy", "images.tao_toolkit.deploy"])
def test_keys_resolve_also_as_override(packaged: Catalog, key: str) -> None:
    assert packaged.resolve_image("dino", "train", override=key).image == DEPLOY


@pytest.mark.parametrize("wrong", ["tao_toolkit.nope", "tao_tolkit.pyt", "Ubuntu", "a b", "", "x:", "$(id)"])
def test_what_is_neither_key_nor_image_is_an_error(packaged: Catalog, wrong: str) -> None:
    with pytest.raises(UsageError) as raised:
        packaged.resolve_image("dino", "train", override=wrong)
    assert raised.value.hint


def test_an_unresolvable_declared_key_is_an_error(tmp_path: Path) -> None:
    references = tmp_path / "skills/models/tao-train-x/references"
    references.mkdir(parents=True)
    (references / "skill_info.yaml").write_text(
        "network_arch: x\ncontainer_image: tao_toolkit.gone\n"
        "actions:\n  train: {command: 'x {config_path}', inputs: {}, outputs: {}}\n"
    )
    (tmp_path / "versions.yaml").write_text("images: {tao_toolkit: {pyt: 'a/b:1'}}\n")
    with pytest.raises(UsageError) as raised:
        catalog.load(tmp_path).resolve_image("x", "train")
    assert "tao_toolkit.gone" in raised.value.message
    assert "tao_toolkit.pyt" in raised.value.hint


def test_literal_with_versions_key_comment(august: Catalog) -> None:
    _, action = august.action("dino", "train")
    assert action.versions_key == "images.tao_toolkit.pyt"
    assert august.resolve_image("dino", "train").resolved_from == "absolute"
    assert august.resolve_key(action.versions_key) == august.resolve_image("dino", "train").image


def test_backends_follow_the_declared_default_or_the_choice(august: Catalog) -> None:
    assert august.resolve_image("cosmos-reason", "train").backend == "cosmos-rl"
    assert august.resolve_image("cosmos-reason", "train", backend="cosmos-framework").image.startswith(
        "nvcr.io/nvstaging/tao/cosmos-framework:"
    )
    assert august.resolve_image("cosmos-framework", "train").backend == "cosmos-framework"
    with pytest.raises(UsageError, match="no backend 'nope'"):
        august.resolve_image("cosmos-reason", "train", backend="nope")


def test_a_name_with_rules_of_its_own_has_to_say_its_backend(august: Catalog) -> None:
    with pytest.raises(UsageError) as raised:
        august.resolve_image("Cosmos3-Edge", "train")
    assert "--backend" in raised.value.hint


def test_order_of_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bank_dir: Path) -> None:
    environ = {"TAO_SKILL_BANK_PATH": str(bank_dir)}
    assert catalog.load(environ=environ).origin == str(bank_dir)
    assert catalog.load(environ={}).origin == "packaged"
    other = bank_dir.parent / "7.2.0"
    assert catalog.load(other, environ).origin == str(other)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "versions.yaml").write_text("images: {tao_toolkit: {pyt: 'evil/image:1'}}\n")
    assert catalog.load(environ={}).resolve_image("dino", "train").image == PYT


def test_a_directory_that_is_no_skill_bank(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a TAO skill bank"):
        catalog.load(environ={"TAO_SKILL_BANK_PATH": str(tmp_path)})


@pytest.mark.parametrize("text", ["a: [", "- 1\n- 2\n", "a: \xff"])
def test_a_broken_file_is_named(tmp_path: Path, text: str) -> None:
    references = tmp_path / "skills/models/tao-train-x/references"
    references.mkdir(parents=True)
    (references / "skill_info.yaml").write_bytes(text.encode("latin-1"))
    with pytest.raises(UsageError, match=r"skill_info\.yaml"):
        catalog.load(tmp_path).model("x")


GOOD = "actions: {train: {command: 'x train', inputs: [a]}}\n"
ODD_FILES = {
    "skills/models/tao-train-x/references/skill_info.yaml": [
        "actions: [train]\n",
        "actions: {train: null}\n",
        "actions: {train: {mode: config}}\n",
        "actions: {train: {command: x, inputs: 5}}\n",
        "{actions: {train: {command: x}}, network_arch: [1]}\n",
        "{actions: {train: {command: x}}, spec_templates: 7}\n",
        "{actions: {train: {command: x}}, backend_selection: {rules: 3}}\n",
        "x: !!python/object:os.system y\n",
    ],
    "skills/models/tao-train-x/references/tao-deploy-x.skill_info.yaml": ["actions: 5\n", "\t\tbad: yaml"],
    "skills/models/tao-train-x/references/spec_template_train.yaml": [
        "",
        "5",
        "- x\n",
        "x: &a [*a]\n",
        "a: [",
        "{",
        "\t\tbad: yaml",
        "\xff\xfe",
    ],
    "skills/models/schemas.manifest.json": ["[]", "{", '{"models": 5}', '{"models": {"tao-train-x": 5}}'],
    "skills/models/automl_support.json": ['{"supported": [5]}', '{"supported": [{"name": "x"}]}', "5"],
    "skills/platform/platforms.manifest.json": ['{"platforms": 5}', '{"platforms": [{}]}', "{"],
    "versions.yaml": ["- 1\n", "a: ["],
}


@pytest.mark.parametrize(("file", "text"), [(file, text) for file, texts in ODD_FILES.items() for text in texts])
def test_whatever_is_wrong_in_a_bank_its_file_is_named(tmp_path: Path, file: str, text: str) -> None:
    references = tmp_path / "skills/models/tao-train-x/references"
    references.mkdir(parents=True)
    (references / "skill_info.yaml").write_text(GOOD)
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_bytes(text.encode("latin-1"))
    found = catalog.load(tmp_path)
    with pytest.raises(UsageError) as raised:
        _ = found.model("x"), found.platforms(), found.resolve_key("wheels.tao_sdk")
    assert Path(file).name in raised.value.message
    assert "\n" not in raised.value.message


def test_an_invalid_train_schema_is_why_automl_is_blocked(tmp_path: Path) -> None:
    folder = tmp_path / "skills/models/tao-train-x"
    (folder / "references").mkdir(parents=True)
    (folder / "references" / "skill_info.yaml").write_text(GOOD)
    (folder / "schemas").mkdir()
    for text in ("{", "5", '{"automl_default_parameters": 5}'):
        (folder / "schemas/train.schema.json").write_text(text)
        facts = catalog.load(tmp_path).model("x")
        assert not facts.has_train_schema
        assert "is invalid" in facts.train_schema_status


def test_the_choices_name_each_model_once(packaged: Catalog) -> None:
    with pytest.raises(UsageError) as raised:
        packaged.model("zzzz")
    choices = raised.value.hint.removeprefix("choose one of: ").split(", ")
    assert len(choices) == len(set(choices)) == len(packaged.models())
    assert all(packaged.model(choice) for choice in choices)
