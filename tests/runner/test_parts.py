"""The runner's smaller parts: spec keys, names, formats, trees, annotation names, lock, index, progress."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tao_run.runner import keys, lock, selective, template
from tao_run.runner.errors import InputError, PlanError, Stopped, Transient
from tao_run.runner.formats import write_spec
from tao_run.runner.index import Index
from tao_run.runner.log import Progress, size_text, time_text
from tao_run.runner.objects.base import ObjectInfo
from tao_run.runner.outputs import _distinct_names
from tao_run.runner.parallel import Budget, retrying, run_all
from tao_run.runner.plan import decode, encode
from tao_run.runner.resume import resume
from tao_run.runner.stop import Stop
from tao_run.runner.trees import Tree, excluded, walk
from tao_run.runner.uris import confined

# -- spec keys -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "parts"),
    [
        ("a", ("a",)),
        ("a.b[0].c", ("a", "b", 0, "c")),
        ("a[0][1]", ("a", 0, 1)),
        ("my-name.x_y[-1]", ("my-name", "x_y", -1)),
    ],
)
def test_keys_are_parsed(key: str, parts: tuple[Any, ...]) -> None:
    assert keys.parse_key(key) == parts


@pytest.mark.parametrize("key", ["", ".", "a.", ".a", "a..b", "[0]", "a[x]", "a[0]b", "a[", "a]"])
def test_what_is_no_key_is_refused(key: str) -> None:
    with pytest.raises(PlanError, match="is not a spec key"):
        keys.parse_key(key)


def test_values_are_set_read_and_removed() -> None:
    data: dict[str, Any] = {"a": None, "l": [1, 2]}
    keys.put(data, "a.b[1].c", 5)
    assert data == {"a": {"b": [{}, {"c": 5}]}, "l": [1, 2]}
    assert keys.get(data, "a.b[-1].c") == 5
    assert keys.get(data, "a.b[7].c", "none") == "none"
    assert keys.get(data, "l.x") is None
    keys.remove(data, "a.b[1].c")
    keys.remove(data, "not.there[0]")
    assert data["a"] == {"b": [{}, {}]}


@pytest.mark.parametrize("key", ["l.x", "n.x", "l[200000]", "n[0]"])
def test_a_key_that_does_not_fit_is_an_error(key: str) -> None:
    with pytest.raises(PlanError, match="does not fit the spec"):
        keys.put({"l": [1], "n": 3}, key, 1)


# -- names and formats -----------------------------------------------------------------------------

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
PLAIN = st.recursive(
    st.one_of(st.booleans(), st.integers(-(2**53), 2**53), st.floats(allow_nan=False, allow_infinity=False), TEXT),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXT, inner, max_size=4)),
    max_leaves=12,
)


@settings(max_examples=60, deadline=None)
@given(TEXT)
def test_a_value_arrives_in_bash_as_one_piece(value: str) -> None:
    text = "printf '%s\\0' {v} '{v}' \"{v}\" a{v}b '${v}' {w}"
    done = subprocess.run(["/bin/bash", "-c", template.fill_bash(text, {"v": value})], capture_output=True)
    assert done.stdout.decode().split("\0") == [value, value, value, f"a{value}b", "${v}", "{w}", ""]


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(TEXT, PLAIN, max_size=5))
def test_readers_read_what_was_written(spec: dict[str, Any]) -> None:
    assert yaml.safe_load(write_spec(spec, "yaml")) == spec
    assert json.loads(write_spec(spec, "json")) == spec
    assert pytest.importorskip("tomllib").loads(write_spec(spec, "toml")) == spec


def test_yaml_holds_what_others_cannot() -> None:
    read = yaml.safe_load(write_spec({"n": None, "inf": -math.inf, "nan": math.nan, 0: {}, "l": [[], {}]}, "yaml"))
    assert math.isnan(read.pop("nan"))
    assert read == {"n": None, "inf": -math.inf, 0: {}, "l": [[], {}]}


@given(st.recursive(st.integers(), lambda inner: st.dictionaries(st.one_of(st.integers(), TEXT), inner, max_size=3)))
def test_plans_keep_keys_that_are_no_text(data: Any) -> None:
    assert decode(json.loads(json.dumps(encode(data)))) == data


# -- trees and names -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "pattern", "is_excluded"),
    [
        ("inputs/", "inputs/", True),
        ("a/inputs/", "inputs/", True),
        ("inputs", "inputs/", False),
        ("a/b.log", "*.log", True),
        ("a/b.log", "a/*.log", True),
        ("x/a/b.log", "a/*.log", False),
        ("b.login", "*.log", False),
        ("train/checkpoints/", "train/checkpoints/", True),
    ],
)
def test_excludes(path: str, pattern: str, is_excluded: bool) -> None:
    assert excluded(path, [pattern]) is is_excluded


def test_a_tree_leaves_out_what_is_none_of_its_business(tmp_path: Path) -> None:
    for name in ("a/1", "inputs/2", ".tao-run/3", "b/inputs/4"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    tree = Tree(str(tmp_path), "s3://b/k", (str(tmp_path / "inputs"),))
    assert [found.relative for found in walk(tree, [])] == ["a/1", "b/inputs/4"]


def test_names_of_paths_are_distinct() -> None:
    found = _distinct_names(["/a/out/", "/b/out", "/c", "/x/a/out"])
    assert len(set(found.values())) == 4
    assert (found["/c"], found["/b/out"]) == ("c", "b/out")


@pytest.mark.parametrize("name", ["../x", "a/../../b", "/abs", "a\0b"])
def test_names_are_confined(name: str) -> None:
    with pytest.raises(InputError, match="lead out"):
        confined(name)


def test_annotation_names_may_be_relative_keys_or_uris() -> None:
    names = ["x.mp4", "./d//y.mp4", "data/media/z.mp4", "s3://b/data/media/u.mp4", "/local/data/media/v.mp4"]
    wanted = selective.keys_below("data/media", names, "/local/data/media")
    assert sorted(wanted) == [f"data/media/{name}" for name in ("d/y.mp4", "u.mp4", "v.mp4", "x.mp4", "z.mp4")]
    with pytest.raises(InputError, match="not below"):
        selective.keys_below("data/media", ["s3://b/other/u.mp4"], "/local")


# -- lock ------------------------------------------------------------------------------------------


def test_only_one_holds_the_lock(tmp_path: Path) -> None:
    path, order = str(tmp_path / "l" / "x.lock"), []

    def work(number: int) -> None:
        with lock.hold(path, Stop(), lambda: None):
            order.append((number, "in"))
            time.sleep(0.05)
            order.append((number, "out"))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [what for _, what in order] == ["in", "out"] * 4
    assert all(order[i][0] == order[i + 1][0] for i in range(0, 8, 2))
    assert list((tmp_path / "l").iterdir()) == []


def test_a_dead_holder_of_this_machine_is_broken_at_once(tmp_path: Path) -> None:
    path = tmp_path / "x.lock"
    code = (
        "import os, sys\nfrom tao_run.runner import lock\nfrom tao_run.runner.stop import Stop\n"
        "with lock.hold(sys.argv[1], Stop(), print): os.kill(os.getpid(), 9)"
    )
    root = str(Path(__file__).parents[2])
    subprocess.run([sys.executable, "-c", code, str(path)], env={**os.environ, "PYTHONPATH": root})
    assert path.exists()
    waits: list[int] = []
    started = time.monotonic()
    with lock.hold(str(path), Stop(), lambda: waits.append(1)):
        assert waits == [1]
    assert time.monotonic() - started < lock.STALE_SECONDS / 2


def test_a_holder_of_another_machine_is_broken_when_it_is_silent(tmp_path: Path) -> None:
    path = tmp_path / "x.lock"
    path.write_text(json.dumps({"machine": "another", "pid": 1, "start": "1", "token": "t"}))
    with lock.hold(str(path), Stop(), lambda: None, stale=0.2):
        assert json.loads(path.read_text())["pid"] == os.getpid()


def test_a_holder_that_gives_signs_of_life_is_not_broken(tmp_path: Path) -> None:
    path, stop = tmp_path / "x.lock", Stop()
    path.write_text(json.dumps({"machine": "another", "token": "t"}))
    ended = threading.Event()

    def touch() -> None:
        for _ in range(15):
            os.utime(path)
            time.sleep(0.1)
        stop.number = 15
        ended.set()

    thread = threading.Thread(target=touch)
    thread.start()
    with pytest.raises(Stopped), lock.hold(str(path), stop, lambda: None, stale=1.0):
        pass
    thread.join()
    assert ended.is_set() and path.exists()


def test_a_garbled_lock_does_not_last(tmp_path: Path) -> None:
    path = tmp_path / "x.lock"
    path.write_text("half a li")
    with lock.hold(str(path), Stop(), lambda: None, stale=0.1):
        assert json.loads(path.read_text())["pid"] == os.getpid()


# -- index -----------------------------------------------------------------------------------------


def test_the_index_ignores_lines_that_are_garbled(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_text("data")
    index = Index(str(tmp_path))
    index.record("b", "d/f", str(file), "etag-1")
    index.flush()
    journal = next((tmp_path / ".tao-run" / "index").iterdir())
    with journal.open("a") as out:
        out.write('["f", 4, "et')
    again = Index(str(tmp_path))
    assert again.fresh("b", ObjectInfo("d/f", 4, "etag-1"), str(file))
    assert not again.fresh("b", ObjectInfo("d/f", 4, "etag-2"), str(file))
    again.record("b", "d/f", str(file), "etag-2")
    again.flush()
    assert Index(str(tmp_path)).fresh("b", ObjectInfo("d/f", 4, "etag-2"), str(file))


# -- parallel --------------------------------------------------------------------------------------


def test_the_first_failure_ends_the_rest() -> None:
    done: list[int] = []

    def task(number: int) -> None:
        if number == 5:
            raise Transient("no")
        done.append(number)

    with pytest.raises(Transient):
        run_all((partial(task, number) for number in range(100_000)), 4, Stop(), lambda: None)
    assert len(done) < 50_000


def test_what_may_pass_is_tried_again() -> None:
    answers: list[Any] = [Transient("a"), Transient("b"), "fine"]

    def action() -> str:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return str(answer)

    assert retrying(action, Stop(), (0, 0, 0)) == "fine"
    answers[:] = [Transient(str(i)) for i in range(4)]
    with pytest.raises(Transient, match="3"):
        retrying(action, Stop(), (0, 0, 0))


def test_memory_is_bounded_and_a_large_part_still_gets_through() -> None:
    budget, held, most = Budget(10), [0], [0]
    guard = threading.Lock()

    def take(size: int) -> None:
        with budget.hold(size):
            with guard:
                held[0] += min(size, 10)
                most[0] = max(most[0], held[0])
            time.sleep(0.002)
            with guard:
                held[0] -= min(size, 10)

    threads = [threading.Thread(target=take, args=(size,)) for size in [3, 4, 99, 5, 1, 10] * 5]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert held == [0] and 0 < most[0] <= 10


# -- what people read ------------------------------------------------------------------------------


def test_sizes_times_and_progress_read_well() -> None:
    assert [size_text(n) for n in (0, 999, 12_345, 10**9)] == ["0 B", "999 B", "12.3 kB", "1.0 GB"]
    assert [time_text(s) for s in (0, 59, 61, 3723)] == ["0s", "59s", "1m 01s", "1h 02m"]
    progress = Progress("fetched x", 2000, 10_000_000)
    progress.started -= 10
    progress.add(1000, 5_000_000)
    assert (
        progress.line(progress.started + 10)
        == "fetched x: 1,000 of 2,000 files, 5.0 MB of 10.0 MB, 500.0 kB/s, 10s left"
    )


def test_a_restarted_training_goes_on_from_the_newest_checkpoint(tmp_path: Path) -> None:
    for number, name in enumerate(["train/a.pth", "train/b.pth", "inputs/c.pth", "train/empty.pth"]):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("" if "empty" in name else "w")
        os.utime(tmp_path / name, (number, number))
    spec = {"train": [{"resume_training_checkpoint_path": None}, {"resume_training_checkpoint_path": "mine"}]}
    found = resume(spec, str(tmp_path), str(tmp_path / "inputs"), {})
    assert found == str(tmp_path / "train" / "b.pth")
    assert [item["resume_training_checkpoint_path"] for item in spec["train"]] == [found, "mine"]
    again = {"resume_training_checkpoint_path": ""}
    assert resume(again, str(tmp_path), "", {"TAO_AUTO_RESUME": "0"}) is None
