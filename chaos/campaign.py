"""The deep run of the explorer (`make check-full`): all worlds, one process each, told as it goes, taken up where it ended.

The verdict on a world is kept in a folder as soon as it is there, one file each, under a digest of the world's file, of the
code of machines and explorer, and of the Python that ran it. A later run takes what is kept under the same digest for said, and
explores only the rest.
"""

from __future__ import annotations

import json
import multiprocessing
import platform
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

from attrs import asdict, define, fields

from ..core.errors import WorldError
from .check import Checked, check_world
from .world_file import WorldFile

FORMAT: Final = "pinfold check 1"
FOLDER: Final = Path("pinfold-report-check")
TELL_S: Final = 5.0


class KeptError(WorldError):
    """Raised when a kept verdict can't be read or written."""

    exit_code = 2


def code_digest() -> str:
    """Of everything that a verdict rests on but the world's own file."""
    here = Path(__file__).resolve().parent.parent
    digest = blake2b(platform.python_version().encode(), digest_size=16)
    for folder in ("core", "chaos"):
        for path in sorted((here / folder).glob("*.py")):
            digest.update(f"{folder}/{path.name}\n".encode() + path.read_bytes())
    return digest.hexdigest()


def key_of(file: WorldFile, states_max: int, code: str) -> str:
    """The digest under which a verdict is kept."""
    return blake2b(repr((file, states_max, code)).encode(), digest_size=16).hexdigest()


@define
class Kept:
    """A folder of verdicts."""

    folder: Path

    def begin(self, fresh: bool) -> None:
        """Make the folder; `fresh`: empty it first. Raises `KeptError`."""
        try:
            if fresh and self.folder.exists():
                shutil.rmtree(self.folder)
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise KeptError(f"the folder of kept verdicts {self.folder} can't be used: {error.strerror}") from None

    def put(self, key: str, checked: Checked) -> None:
        """Keep a verdict, all of it or nothing. Raises `KeptError`."""
        path = self.folder / f"{checked.world}.json"
        half = path.with_suffix(".half")
        try:
            half.write_text(json.dumps({"format": FORMAT, "key": key, "checked": asdict(checked)}), encoding="utf-8")
            half.replace(path)
        except OSError as error:
            raise KeptError(f"the verdict {path} can't be kept: {error.strerror}") from None

    def get(self, world: str, key: str) -> Checked | None:
        """The verdict on a world, if one is kept under this digest. Raises `KeptError`."""
        path = self.folder / f"{world}.json"
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError):
            raise KeptError(f"the kept verdict {path} is damaged: take it away, or say --fresh") from None
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise KeptError(f"{path} is no verdict of this program: take it away, or say --fresh")
        if data.get("key") != key:
            return None
        return _read(path, data.get("checked"))


def _read(path: Path, data: Any) -> Checked:
    names = {one.name for one in fields(Checked)}
    if not isinstance(data, dict) or set(data) != names or data["world"] != path.stem:
        raise KeptError(f"the kept verdict {path} is damaged: take it away, or say --fresh")
    return Checked(**data)


def _explore(file: WorldFile, states_max: int, tell_s: float) -> Checked:
    """In a process of its own."""
    begun = time.perf_counter()
    last = begun

    def progress(states: int, frontier: int, depth: int) -> None:
        nonlocal last
        now = time.perf_counter()
        if now - last >= tell_s:
            last = now
            rate = int(states / (now - begun))
            sys.stderr.write(f"{file.name}: {states:,} states, {frontier:,} to go on from, depth {depth}, {rate:,} states/s\n")
            sys.stderr.flush()

    return check_world(file, states_max=states_max, progress=progress)


def run(
    files: Sequence[WorldFile], *, states_max: int | None, jobs: int, kept: Kept, fresh: bool = False, tell_s: float = TELL_S,
    tell: Callable[[Checked, bool], None] | None = None,
) -> list[Checked]:  # fmt: skip
    """Explore what no verdict is kept of, the largest first, and keep the verdicts. `tell(verdict, was it kept)`."""
    kept.begin(fresh)
    code = code_digest()
    limits = {file.name: file.states_max if states_max is None else states_max for file in files}
    keys = {file.name: key_of(file, limits[file.name], code) for file in files}
    done: dict[str, Checked] = {}
    for file in files:
        old = kept.get(file.name, keys[file.name])
        if old is not None:
            done[file.name] = old
            if tell is not None:
                tell(old, True)
    left = [file for file in files if file.name not in done]
    left.sort(key=lambda file: (-limits[file.name], file.tier == "fast"))
    # A world's memory goes with its process.
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), max_tasks_per_child=1) as pool:
        waiting = [pool.submit(_explore, file, limits[file.name], tell_s) for file in left]
        try:
            for future in as_completed(waiting):
                checked = future.result()
                kept.put(keys[checked.world], checked)
                done[checked.world] = checked
                if tell is not None:
                    tell(checked, False)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [done[file.name] for file in files]

