"""The metadata, the constraints, the wheel and the commands agree with the checkout."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement

from jfuse.base.last_resort import NEXT

ROOT = Path(__file__).parent.parent.parent
ROOMS = {"jfuse": "jfuse", "jfuse.lowering": "lowering", "jfuse.kernels": "kernels"}  # package: folder
PYTHONS = ("3.11", "3.12", "3.13")


def pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def requirements() -> list[Requirement]:
    """All dependencies, those of the extras too, without jfuse's own extras."""
    project = pyproject()["project"]
    texts = [*project["dependencies"], *(text for extra in project["optional-dependencies"].values() for text in extra)]
    return [r for r in map(Requirement, texts) if r.name != "jfuse"]


def constraints(python: str) -> dict[str, str]:
    """Name -> version, of the lines of constraints.txt that hold for this Python."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [Requirement(line) for line in lines if line and not line.startswith("#")]
    chosen = [p for p in pins if p.marker is None or p.marker.evaluate({"python_version": python})]
    versions = {p.name: str(p.specifier).removeprefix("==") for p in chosen}
    assert len(versions) == len(chosen), "a name has two versions"
    return versions


def module_files(package: str, folder: str) -> set[str]:
    """The paths in a wheel of all modules of a room."""
    base = ROOT / folder
    paths = (path.relative_to(base).as_posix() for path in base.rglob("*.py"))
    return {f"{package.replace('.', '/')}/{p}" for p in paths if not (ROOT / folder / p.split("/")[0]).is_symlink()}


def data_files() -> set[str]:
    """The paths in a wheel of what is installed beside the modules."""
    reports = ROOT / "jfuse" / "reports"
    page = {path.relative_to(ROOT).as_posix() for path in (reports / "page").iterdir()}
    tables = {p.relative_to(ROOT).as_posix() for p in (ROOT / "jfuse" / "tflite" / "targets" / "tables").iterdir()}
    files = (
        *("py.typed", "refusals.md", "reports/spelled.txt"),
        *("tf_nodes/messages.proto", "tf_nodes/op_defs.txtpb", "passes/scans/to_loops/measured_forms.json"),
    )
    return page | tables | {f"jfuse/{name}" for name in files}


def run(*command: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)


def test_all_packages_are_listed() -> None:
    files = set[str]().union(*(module_files(package, folder) for package, folder in ROOMS.items()))
    packages = {f.removesuffix("/__init__.py").replace("/", ".") for f in files if f.endswith("/__init__.py")}
    folders = {f.rpartition("/")[0].replace("/", ".") for f in files}
    assert set(pyproject()["tool"]["setuptools"]["packages"]) == packages
    assert folders == packages, "a folder with modules has no __init__.py"


@pytest.mark.parametrize("link", ["lowering", "kernels"])
def test_links_are_relative(link: str) -> None:
    assert (ROOT / "jfuse" / link).readlink() == Path("..", link)


@pytest.mark.parametrize("room", ["lowering", "kernels"])
def test_bare_names_are_refused(room: str) -> None:
    result = run(sys.executable, "-c", f"from {room} import core")
    assert result.returncode != 0
    assert f"jfuse.{room}" in result.stderr.splitlines()[-1]
    assert result.stderr.splitlines()[-1].startswith("ImportError: ")


def test_who_looks_for_another_package_of_the_name_finds_no_version() -> None:
    """As transformers looks for its `kernels`, and jfuse's are in the folder in which its tests run."""
    code = (
        "import kernels, pkgutil; print(hasattr(kernels, '__version__'), list(pkgutil.iter_modules(kernels.__path__)))"
    )
    assert run(sys.executable, "-c", code).stdout.split() == ["False", "[]"]


@pytest.mark.parametrize("python", PYTHONS)
def test_constraints_pin_all_dependencies(python: str) -> None:
    """Every line is `name==version`, so there is no option and no index in the file."""
    pins = constraints(python)
    assert all(version.replace(".", "").isalnum() for version in pins.values())
    for requirement in requirements():
        assert requirement.specifier.contains(pins[requirement.name.replace("_", "-")]), requirement


def test_errors_name_the_versions_that_are_out_of_bounds() -> None:
    bounds = {r.name: [s.version for s in r.specifier if s.operator == "<"] for r in requirements()}
    assert {name: [version] for name, version in NEXT.items()} == {name: bounds[name] for name in NEXT}
    assert {name for name, versions in bounds.items() if versions} - {"jaxlib"} == set(NEXT)
    assert bounds["jaxlib"] == bounds["jax"]


@pytest.mark.parametrize("links", [True, False], ids=["links", "no_links"])
def test_wheel_holds_only_jfuse(links: bool, tmp_path: Path) -> None:
    """Built in a copy: setuptools writes beside its sources, and would pack what an earlier build left there."""
    checkout, wheels = tmp_path / "checkout", tmp_path / "wheels"
    wheels.mkdir()
    for folder in (*ROOMS.values(), "tests"):
        shutil.copytree(ROOT / folder, checkout / folder, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, checkout)
    if not links:  # as in a checkout where git turns them into text files: package-dir alone finds the rooms
        (checkout / "jfuse" / "lowering").unlink()
        (checkout / "jfuse" / "kernels").unlink()
    build = f"from setuptools import build_meta; build_meta.build_wheel({str(wheels)!r})"
    result = run(sys.executable, "-c", build, cwd=checkout)
    assert result.returncode == 0, result.stderr

    (wheel,) = wheels.iterdir()
    names = set(ZipFile(wheel).namelist())
    metadata = f"jfuse-{pyproject()['project']['version']}.dist-info/"
    files = set[str]().union(*(module_files(package, folder) for package, folder in ROOMS.items()))
    assert {name for name in names if not name.startswith(metadata)} == files | data_files()
    assert f"{metadata}licenses/LICENSE" in names


@pytest.mark.slow
def test_an_sdist_without_git_builds_the_same_wheel(tmp_path: Path) -> None:
    """From a copy of the tree as an archive has it: a wheel of the sdist holds what the checkout's wheel holds."""
    tree, made = tmp_path / "tree", tmp_path / "made"
    made.mkdir()
    for folder in (*ROOMS.values(), "tests", "docs", "examples", "bench"):
        shutil.copytree(ROOT / folder, tree / folder, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    for path in ROOT.iterdir():
        if path.is_file() and not path.name.startswith("."):
            shutil.copy(path, tree)
    assert not (tree / ".git").exists()
    build = "from setuptools import build_meta; build_meta.build_{}({!r})"
    result = run(sys.executable, "-c", build.format("sdist", str(made)), cwd=tree)
    assert result.returncode == 0, result.stderr
    (sdist,) = made.iterdir()
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    result = run(sys.executable, "-c", build.format("wheel", str(made)), cwd=unpacked)
    assert result.returncode == 0, result.stderr
    (wheel,) = made.glob("*.whl")
    files = set[str]().union(*(module_files(package, folder) for package, folder in ROOMS.items()))
    assert {n for n in ZipFile(wheel).namelist() if ".dist-info/" not in n} == files | data_files()


def readme_block(marker: str) -> str:
    """The fenced block right after the line `<!-- marker -->`."""
    _, _, rest = (ROOT / "README.md").read_text(encoding="utf-8").partition(f"<!-- {marker} -->\n")
    opening, _, body = rest.partition("\n")
    assert opening.startswith("```"), f"no code block after <!-- {marker} -->"
    return body.partition("\n```")[0]


def test_readme_has_the_main_job() -> None:
    assert readme_block("main job").strip()


def test_ci_runs_the_readme_command() -> None:
    assert "-m pytest" in readme_block("tests")
    assert run("bash", ".ci/run", "--show").stdout == readme_block("tests") + "\n"


_WITHOUT_TENSORFLOW = """
import sys
for name in ("tensorflow", "keras", "tf_keras"):
    sys.modules[name] = None  # as where it is not installed
import jax, numpy, jfuse
from jfuse import lite
converted = jfuse.convert(jax.numpy.tanh, [jax.ShapeDtypeStruct((4, 3), numpy.float32)])
converted.save("model.tflite")
assert jfuse.quantize("model.tflite", "int8", calibration="random").report.quantized
assert jfuse.verify("model.tflite", converted).differences
assert lite.Interpreter("model.tflite").get_input_details()
try:
    open("model.keras", "w").close()
    jfuse.load("model.keras")
except jfuse.ImportFailed as error:
    print(error)
"""


@pytest.mark.slow
def test_files_and_jax_functions_need_no_tensorflow(tmp_path: Path) -> None:
    """TensorFlow is an extra: what it is needed for is one clear error without it."""
    result = run(sys.executable, "-c", _WITHOUT_TENSORFLOW, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert 'pip install "jfuse[tensorflow]"' in result.stdout
