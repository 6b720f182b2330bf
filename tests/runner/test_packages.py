"""How the runner comes by an object client: from the image, a staged wheel, an index, or not at all."""

from __future__ import annotations

import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from tao_run.runner.packages import Packages
from tests.runner.conftest import Container
from tests.services.s3 import S3Service

NO_INDEX = "http://127.0.0.1:1/simple"


def make_wheel(folder: Path, name: str, source: str = "VALUE = 1\n", requires: str = "") -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}-1.0-py3-none-any.whl"
    info = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"{name}.py", source)
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{requires}")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    return path


def test_what_the_image_has_is_used() -> None:
    packages = Packages({})
    assert packages.find("json", "json")
    assert packages.failures == []


def test_a_staged_wheel_is_used_and_removed_again(tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    make_wheel(wheels, "tao_test_needed", "DEPTH = 3\n")
    make_wheel(wheels, "tao_test_staged", "from tao_test_needed import DEPTH\n")
    packages = Packages({"TAO_RUN_WHEELS": str(wheels)})
    before = list(sys.path)
    assert packages.find("tao_test_staged", "tao_test_staged")
    added = [Path(entry) for entry in sys.path if entry not in before]
    assert len(added) == 1 and (added[0] / "tao_test_staged.py").exists()
    packages.close()
    assert not added[0].exists()
    sys.path[:] = before


def test_all_that_was_tried_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", NO_INDEX)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    make_wheel(tmp_path / "w", "tao_test_broken", "import does_not_exist_anywhere\n")
    packages = Packages({"TAO_RUN_WHEELS": str(tmp_path / "w")})
    assert not packages.find("tao_test_broken", "tao_test_broken")
    packages.close()
    error = packages.error("it needs tao_test_broken")
    assert "tao_test_broken-1.0-py3-none-any.whl does not work with Python" in error.message
    assert "pip install tao_test_broken failed" in error.message
    assert "TAO_RUN_WHEELS" in error.hint


def test_pip_installs_for_the_job_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_wheel(tmp_path / "index", "tao_test_pip")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    packages, before = Packages({}), list(sys.path)
    assert packages.find("tao_test_pip", "tao_test_pip>=1")
    packages.close()
    sys.path[:] = before
    site = subprocess.run([sys.executable, "-c", "import tao_test_pip"], capture_output=True)
    assert site.returncode != 0


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Python that has nothing, not even pip."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, with_pip=False)
    return str(folder / "bin" / "python")


def test_without_any_client_the_error_says_what_to_do(cloud: Container, s3: S3Service, bare_python: str) -> None:
    cloud.python = bare_python
    ran = cloud.run(command="true", inputs={"d": f"s3://{s3.bucket()}/x"})
    assert ran.code == 70
    assert "s3:// needs the Python package obstore or boto3" in ran.log
    assert "fix: put it into the image" in ran.log
    assert "Traceback" not in ran.log


def test_a_job_without_objects_needs_no_client(container: Container, bare_python: str) -> None:
    container.python = bare_python
    assert container.run(command="cat {config_path}", spec={"a": 1}).out == '"a": 1\n'


def test_a_wheel_on_the_mount_serves_a_bare_image(cloud: Container, s3: S3Service, bare_python: str) -> None:
    import obstore

    package = Path(obstore.__file__).parent
    wheels = cloud.root / "mount" / ".tao-run" / "wheels"
    wheels.mkdir(parents=True)
    with zipfile.ZipFile(wheels / "obstore-9.9-cp311-abi3-linux.whl", "w") as wheel:
        for path in package.rglob("*"):
            if path.is_file() and path.suffix in (".py", ".so"):
                wheel.write(path, path.relative_to(package.parent))
    typing_extensions = package.parent / "typing_extensions.py"
    if typing_extensions.exists():
        with zipfile.ZipFile(wheels / "typing_extensions-9-py3-none-any.whl", "w") as wheel:
            wheel.write(typing_extensions, "typing_extensions.py")
    bucket = s3.bucket()
    s3.put(bucket, {"x": b"from the store"})
    cloud.python = bare_python
    ran = cloud.run(command="cat {d}", inputs={"d": f"s3://{bucket}/x"}, mount=str(cloud.root / "mount"))
    assert ran.out == "from the store", ran.log
    assert "from the staged wheel obstore-9.9" in ran.log
    assert list((cloud.root / "tmp").glob("tao-run*")) == []
