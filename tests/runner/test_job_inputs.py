"""Inputs from a real store, through whole jobs."""

from __future__ import annotations

import io
import json
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.runner.conftest import Container, Ran
from tests.services.s3 import S3Service

SHOW_SPEC = "cat {config_path}"


def spec_of(ran: Ran) -> Any:
    assert ran.code == 0, ran.log
    return yaml.safe_load(ran.out)


def tar_of(files: dict[str, bytes], mode: str = "w:gz") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as tar:
        for name, data in files.items():
            item = tarfile.TarInfo(name)
            item.size = len(data)
            tar.addfile(item, io.BytesIO(data))
    return buffer.getvalue()


@pytest.fixture(params=["obstore", "boto3"])
def any_client(request: pytest.FixtureRequest, cloud: Container) -> Container:
    cloud.env["TAO_RUN_OBJECT_CLIENT"] = request.param
    return cloud


def test_a_file_and_a_folder_by_what_is_there(any_client: Container, s3: S3Service) -> None:
    bucket = s3.bucket()
    s3.put(bucket, {"a/x.json": b"{}", "d/1.jpg": b"1", "d/sub/2.jpg": b"22", "dog": b"no"})
    spec = {
        "data": [{"json": f"s3://{bucket}/a/x.json", "images": f"s3://{bucket}/d"}],
        "undeclared": f"s3://{bucket}/d",
    }
    ran = any_client.run(
        command=SHOW_SPEC,
        spec=spec,
        # the skill bank says `file` for image folders: what is there decides
        inputs={"data[0].json": {"type": "file"}, "data[0].images": {"type": "file"}},
    )
    found = spec_of(ran)
    assert Path(found["data"][0]["json"]).read_bytes() == b"{}"
    images = Path(found["data"][0]["images"])
    assert {str(p.relative_to(images)): p.read_bytes() for p in images.rglob("*") if p.is_file()} == {
        "1.jpg": b"1",
        "sub/2.jpg": b"22",
    }
    assert found["undeclared"] == spec["undeclared"]
    entry = ran.record["inputs"][1]
    assert (entry["files"], entry["bytes"], entry["fetched_files"]) == (2, 3, 2)


def test_many_files_and_one_in_parts(any_client: Container, s3: S3Service, tmp_path: Path) -> None:
    bucket = s3.bucket()
    block = bytes(range(256)) * 4096
    s3.put(bucket, {f"m/{i:03}": bytes([i % 256]) * i for i in range(200)})
    s3.client().put_object(Bucket=bucket, Key="big", Body=block * 33 + b"end")
    ran = any_client.run(
        command="cd {many} && ls | wc -l && cat * | md5sum && md5sum < {big}",
        inputs={"many": f"s3://{bucket}/m/", "big": f"s3://{bucket}/big"},
    )
    import hashlib

    many = hashlib.md5(b"".join(bytes([i % 256]) * i for i in range(200))).hexdigest()
    assert ran.out == f"200\n{many}  -\n{hashlib.md5(block * 33 + b'end').hexdigest()}  -\n"


def test_inputs_with_their_own_uri_and_lists(cloud: Container, s3: S3Service) -> None:
    bucket = s3.bucket()
    s3.put(bucket, {"a": b"A", "b c": b"B", "z": b"Z"})
    ran = cloud.run(
        command=SHOW_SPEC,
        spec={"x": None},
        inputs={
            "list": [f"s3://{bucket}/a", f"s3://{bucket}/b c", "plain text"],
            "x.y[1].z-w": {"uri": f"s3://{bucket}/z"},
        },
    )
    found = spec_of(ran)
    assert [Path(found["list"][0]).read_bytes(), Path(found["list"][1]).read_bytes()] == [b"A", b"B"]
    assert found["list"][2] == "plain text"
    assert Path(found["x"]["y"][1]["z-w"]).read_bytes() == b"Z"


def test_a_missing_input_stops_the_job_before_it_begins(any_client: Container, s3: S3Service) -> None:
    bucket = s3.bucket()
    s3.put(bucket, {"data-old/x": b"1"})
    ran = any_client.run(command="echo began", inputs={"d": f"s3://{bucket}/data"}, spec={})
    assert (ran.code, ran.out) == (66, "")
    assert f"error: input d: s3://{bucket}/data is not there" in ran.log
    assert ran.record["exit_code"] == 66


def test_an_optional_input_that_is_missing_is_left_out(cloud: Container, s3: S3Service) -> None:
    bucket = s3.bucket()
    s3.put(bucket, {"there": b"1"})
    spec = {"a": f"s3://{bucket}/no", "b": [f"s3://{bucket}/no", f"s3://{bucket}/there"], "c": ""}
    inputs = {key: {"optional": True} for key in ("a", "b", "c", "d")}
    found = spec_of(cloud.run(command=SHOW_SPEC, spec=spec, inputs=inputs))
    assert sorted(found) == ["b", "c"]
    assert [Path(path).read_bytes() for path in found["b"]] == [b"1"]


@pytest.mark.parametrize(
    ("env", "says"),
    [
        ({"AWS_SECRET_ACCESS_KEY": "wrong"}, "does not accept the S3 keys"),
        ({"AWS_ENDPOINT_URL": "http://127.0.0.1:1"}, "does not answer"),
    ],
)
def test_refused_or_unreachable_is_not_absent_even_if_optional(
    cloud: Container, s3: S3Service, env: dict[str, str], says: str
) -> None:
    inputs = {"a": {"uri": f"s3://{s3.bucket()}/x", "optional": True}}
    ran = cloud.run(env, command="true", spec={}, inputs=inputs)
    assert ran.code == 66
    assert says in ran.log
    assert "is not there" not in ran.log
    assert "Traceback" not in ran.log


def test_a_bucket_that_is_not_there_is_named(cloud: Container) -> None:
    ran = cloud.run(command="true", inputs={"/data/x": "s3://no-such-bucket/x"})
    assert ran.code == 66
    assert "there is no bucket no-such-bucket" in ran.log


def test_container_paths(cloud: Container, s3: S3Service) -> None:
    bucket, root = s3.bucket(), cloud.root / "data"
    (root / "there").mkdir(parents=True)
    (root / "there" / "own").write_text("own")
    s3.put(bucket, {"f.json": b"F", "d/1": b"1", "d/e/2": b"2"})
    ran = cloud.run(
        command=f"cd {root}; cat renamed.json dir/f.json folder/e/2 there/1 there/own; echo; cat {{config_path}}",
        spec={"k": f"s3://{bucket}/f.json"},
        inputs={
            f"{root}/renamed.json": f"s3://{bucket}/f.json",
            f"{root}/dir/": f"s3://{bucket}/f.json",
            f"{root}/folder": f"s3://{bucket}/d",
            f"{root}/there": f"s3://{bucket}/d/",
            "k": {"container_path": f"{root}/k/as-file.json"},
        },
    )
    first, _, rest = ran.out.partition("\n")
    assert first == "FF21own", ran.log
    assert yaml.safe_load(rest) == {"k": f"{root}/k/as-file.json"}
    assert (root / "k" / "as-file.json").read_bytes() == b"F"


def test_archives_are_unpacked(cloud: Container, s3: S3Service) -> None:
    bucket = s3.bucket()
    zipped = io.BytesIO()
    with zipfile.ZipFile(zipped, "w") as archive:
        archive.writestr("z/1.txt", "zip")
    s3.put(
        bucket,
        {
            "images.tar.gz": tar_of({"images/1.jpg": b"1"}),
            "flat.tgz": tar_of({"2.jpg": b"2"}),
            "old.tar": tar_of({"./3.jpg": b"3"}, "w"),
            "z.zip": zipped.getvalue(),
            "scenes/data.tar.gz": tar_of({"data/s1/p": b"p"}),
            "scenes/notes.txt": b"n",
        },
    )
    spec = {
        name: f"s3://{bucket}/{file}"
        for name, file in (("a", "images.tar.gz"), ("b", "flat.tgz"), ("c", "old.tar"), ("d", "z.zip"), ("e", "scenes"))
    }
    inputs = {**{name: {} for name in "abcd"}, "e": {"type": "folder", "extract_to_parent": True}}
    found = {name: Path(path) for name, path in spec_of(cloud.run(command=SHOW_SPEC, spec=spec, inputs=inputs)).items()}
    assert (found["a"] / "1.jpg").read_bytes() == b"1"
    assert (found["b"] / "2.jpg").read_bytes() == b"2"
    assert (found["c"] / "3.jpg").read_bytes() == b"3"
    assert (found["d"] / "1.txt").read_bytes() == b"zip"
    assert (found["e"] / "data" / "s1" / "p").read_bytes() == b"p"
    assert found["e"].name == "scenes"


def test_an_archive_that_is_wanted_by_its_name_stays_one(cloud: Container, s3: S3Service) -> None:
    bucket = s3.bucket()
    s3.put(bucket, {"a.tar": tar_of({"a/x": b"x"}, "w")})
    wanted, unpacked = cloud.root / "data" / "kept.tar", cloud.root / "data" / "unpacked"
    inputs = {str(wanted): f"s3://{bucket}/a.tar", str(unpacked): f"s3://{bucket}/a.tar"}
    ran = cloud.run(command=f"tar tf {wanted}; cat {unpacked}/x", inputs=inputs)
    assert ran.out == "a/x\nx", ran.log


def test_an_archive_that_would_write_elsewhere_stops_the_job(cloud: Container, s3: S3Service) -> None:
    bucket = s3.bucket()
    s3.put(bucket, {"bad.tar": tar_of({"../../escaped": b"x"}, "w"), "broken.tar.gz": b"\x1f\x8b nonsense"})
    ran = cloud.run(command="true", spec={"a": f"s3://{bucket}/bad.tar"}, inputs={"a": {}})
    assert (ran.code, "would lead out of its directory" in ran.log) == (66, True)
    assert not list(cloud.root.rglob("escaped"))
    ran = cloud.run(command="true", spec={"a": f"s3://{bucket}/broken.tar.gz"}, inputs={"a": {}})
    assert (ran.code, "is not a sound archive" in ran.log) == (66, True)


@pytest.mark.parametrize("name", ["ann.json", "ann.jsonl", "ann.csv"])
def test_selective_fetches_what_the_annotation_names(any_client: Container, s3: S3Service, name: str) -> None:
    bucket = s3.bucket()
    rows = [
        {"video": "v/1.mp4", "mask": "m/1.png"},
        {"video": "2.mp4", "mask": "m/1.png"},
        {"video": "dir", "mask": "m/1.png"},
    ]
    text = {
        "ann.json": json.dumps({"clips": {"train": rows}}),
        "ann.jsonl": "\n".join(map(json.dumps, rows)) + "\n\n",
        "ann.csv": "video,mask\n" + "".join(f"{row['video']},{row['mask']}\n" for row in rows),
    }[name]
    media = {"v/1.mp4": b"1", "2.mp4": b"2", "3.mp4": b"3", "m/1.png": b"m", "m/2.png": b"n", "dir/frame": b"f"}
    s3.put(bucket, {name: text.encode(), **{f"media/{key}": body for key, body in media.items()}})
    ran = any_client.run(
        command=SHOW_SPEC,
        spec={"media": f"s3://{bucket}/media", "ann": f"s3://{bucket}/{name}"},
        inputs={"media": {"selective": {"annotation": "ann", "keys": ["video", "mask"]}}, "ann": {"type": "file"}},
    )
    folder = Path(spec_of(ran)["media"])
    assert sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()) == [
        "2.mp4",
        "dir/frame",
        "m/1.png",
        "v/1.mp4",
    ]


@pytest.mark.parametrize(
    ("name", "says"), [("../secret", "not below the input's folder"), ("absent.mp4", "are not there")]
)
def test_selective_names_are_confined_and_must_exist(cloud: Container, s3: S3Service, name: str, says: str) -> None:
    bucket = s3.bucket()
    s3.put(bucket, {"ann.json": json.dumps([{"v": name}]).encode(), "media/x": b"1", "secret": b"s"})
    spec = {"media": f"s3://{bucket}/media/", "ann": f"s3://{bucket}/ann.json"}
    ran = cloud.run(
        command="true", spec=spec, inputs={"ann": {}, "media": {"selective": {"annotation": "ann", "keys": ["v"]}}}
    )
    assert (ran.code, says in ran.log) == (66, True), ran.log


def test_a_glob_keeps_its_pattern(cloud: Container, s3: S3Service) -> None:
    bucket = s3.bucket()
    s3.put(bucket, {"v/1.mp4": b"1", "v/2.mp4": b"2", "v/3.txt": b"3"})
    ran = cloud.run(
        command="cat {config_path}",
        spec={"urls": f"s3://{bucket}/v/*.mp4"},
        inputs={"urls": {"type": "local_glob"}},
    )
    pattern = Path(spec_of(ran)["urls"])
    assert sorted(path.name for path in pattern.parent.glob(pattern.name)) == ["1.mp4", "2.mp4"]
    assert not (pattern.parent / "3.txt").exists()


def test_local_files_are_checked(cloud: Container) -> None:
    (cloud.root / "here").write_text("x")
    spec = {"a": f"file://{cloud.root}/here", "b": "/not/a/uri"}
    assert spec_of(cloud.run(command=SHOW_SPEC, spec=spec, inputs={"a": {}, "b": {}})) == {
        "a": f"{cloud.root}/here",
        "b": "/not/a/uri",
    }
    ran = cloud.run(command="true", spec={"a": "file:///not/here"}, inputs={"a": {}})
    assert (ran.code, "input a: /not/here is not there" in ran.log) == (66, True)


def test_arguments_find_their_inputs(cloud: Container, s3: S3Service) -> None:
    bucket = s3.bucket()
    s3.put(bucket, {"in.jsonl": b"J", "img/1": b"1"})
    ran = cloud.run(
        command="printf '%s\\n'",
        args={"data.jsonl": "{input_jsonl}", "results": "{results_dir}", "image-root": f"s3://{bucket}/img"},
        inputs={
            "input-jsonl": f"s3://{bucket}/in.jsonl",
            "image_root": {"type": "folder"},
            "extra": f"s3://{bucket}/in.jsonl",
        },
    )
    words = dict(zip(*[iter(ran.out.split("\n")[:-1])] * 2, strict=True))
    assert Path(words["--data.jsonl"]).read_bytes() == b"J"
    assert words["--results"] == str(cloud.results)
    assert (Path(words["--image-root"]) / "1").read_bytes() == b"1"
    assert Path(words["--extra"]).read_bytes() == b"J"
    assert "--input-jsonl" not in words


def test_hostile_names_become_files(cloud: Container, s3: S3Service) -> None:
    bucket = s3.bucket()
    names = ["a b [1] %20 #x?&+=.txt", "ünï/日本", "q\"uo'te", "-rf", "$(id)"]
    s3.put(bucket, {f"d/{name}": name.encode() for name in names})
    ran = cloud.run(
        command="cat {data}/'-rf'; echo; cat {one}",
        inputs={"data": f"s3://{bucket}/d", "one": f"s3://{bucket}/d/q\"uo'te"},
    )
    assert ran.out == "-rf\nq\"uo'te", ran.log
    assert {p.read_bytes().decode() for p in (cloud.results / "inputs" / bucket).rglob("*") if p.is_file()} == set(
        names
    )


def test_a_name_that_is_file_and_folder_at_once_is_explained(cloud: Container, s3: S3Service) -> None:
    bucket = s3.bucket()
    s3.put(bucket, {"d/a/b": b"1", "d/marked/": b"", "d/marked/x": b"2"})
    ran = cloud.run(command="ls {d}/marked", inputs={"d": f"s3://{bucket}/d"})
    assert ran.out == "x\n"
