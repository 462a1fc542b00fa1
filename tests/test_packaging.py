"""What is built from the tree is what is in the tree, and its bare installation needs attrs alone."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import attr
import attrs
import pytest

import pinfold

ROOT = Path(__file__).resolve().parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
FOLDERS: dict[str, str] = PYPROJECT["tool"]["setuptools"]["package-dir"]


def modules() -> set[str]:
    """Each module of each package, as the path it has once it is installed."""
    return {
        f"{package.replace('.', '/')}/{path.name}"
        for package, folder in FOLDERS.items()
        for path in (ROOT / folder).glob("*.py")
    }


def build(hook: str, source: Path, out: Path) -> Path:
    """Run one build hook of setuptools in `source`, without a network, and return the file that it made."""
    out.mkdir()
    call = f"from setuptools.build_meta import {hook} as hook; hook({str(out)!r})"
    run = subprocess.run(
        [sys.executable, "-c", call], cwd=source, capture_output=True, text=True, timeout=120, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
    (made,) = out.iterdir()
    return made


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel made from the sdist of a clean copy of the tree: the way that most users get it."""
    tmp = tmp_path_factory.mktemp("packaging")
    tree = tmp / "tree"
    tree.mkdir()
    for file in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / file, tree)
    for folder in FOLDERS.values():
        shutil.copytree(
            ROOT / folder, tree / folder, symlinks=True, ignore=shutil.ignore_patterns("__pycache__")
        )
    sdist = build("build_sdist", tree, tmp / "sdist")
    with tarfile.open(sdist) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # absent before Python 3.11.4
        archive.extractall(tmp / "unpacked")
    (unpacked,) = (tmp / "unpacked").iterdir()
    return build("build_wheel", unpacked, tmp / "wheel")


def test_packages_are_the_folders_and_the_links_resolve() -> None:
    packages = PYPROJECT["tool"]["setuptools"]["packages"]
    assert packages == list(FOLDERS)
    assert set(FOLDERS.values()) == {path.parent.name for path in ROOT.glob("*/__init__.py")}
    links = {path.name: os.readlink(path) for path in (ROOT / "pinfold").iterdir() if path.is_symlink()}
    assert links == {folder: f"../{folder}" for folder in FOLDERS.values() if folder != "pinfold"}
    for name in links:
        assert (ROOT / "pinfold" / name).resolve() == ROOT / name


def test_pyright_looks_behind_each_link() -> None:
    assert PYPROJECT["tool"]["pyright"]["include"] == [package.replace(".", "/") for package in FOLDERS]


def test_packages_are_flat() -> None:
    nested = [
        path
        for folder in FOLDERS.values()
        for path in (ROOT / folder).rglob("*.py")
        if path.parent != ROOT / folder
    ]
    assert nested == []


def test_the_wheel_has_each_module_once_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if ".dist-info/" not in name]
    assert sorted(names) == sorted(modules() | {"pinfold/py.typed"})


def test_the_core_of_the_wheel_imports_with_attrs_and_nothing_else(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    for package in (attr, attrs):
        (tmp_path / package.__name__).symlink_to(Path(package.__file__).parent)
    core = sorted(path for path in modules() if path.startswith("pinfold/core/"))
    names = [path.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for path in core]
    code = "import sys\nsys.path.append(sys.argv[1])\nfor name in sys.argv[2:]: __import__(name)"
    run = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, str(tmp_path), *names],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == 0, run.stderr


def test_the_version_is_said_once() -> None:
    assert pinfold.__version__ == PYPROJECT["project"]["version"]


def test_each_extra_is_in_all_and_in_the_readme() -> None:
    extras = PYPROJECT["project"]["optional-dependencies"]

    def reach(name: str) -> set[str]:
        inner = {
            part
            for line in extras[name]
            for found in re.findall(r"^pinfold\[(.+)]$", line)
            for part in found.split(",")
        }
        return {name}.union(*map(reach, inner))

    assert reach("all") == set(extras)
    rows = set(re.findall(r"^\| `(\w+)` \|", (ROOT / "README.md").read_text(), re.MULTILINE))
    assert rows == set(extras) - {"all"}
