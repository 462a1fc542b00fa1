"""A simulated cluster in a transcript: one action of callers or faults a line, as the model and the simulator tell what failed.

    simulate 17 mixed                                   the cluster of that seed and profile
    put client=1 group=2 place=0 flag=1 timeout=3       an action of `sim_actions.py` or `sim_trouble.py`
    rest                                                faults stop; everything must come to rest with nothing left over

Everything else (delays, losses, the order of byte work) follows from the seed, so the same lines are the same run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from attrs import evolve

from ..core.errors import PinfoldError
from .sim_actions import arguments
from .sim_end import finish
from .sim_model import Run
from .sim_profiles import PROFILES
from .sim_run import Step
from .sim_shape import shape_of
from .sim_trouble import ACTIONS


class BadLine(PinfoldError):
    """Raised for a line that is no action of a simulated cluster. Nothing has been done."""

    exit_code = 2


def line_of(step: Step) -> str:
    """The line that stands for an action."""
    name, numbers = step
    return " ".join([name, *(f"{key}={number}" for key, number in zip(arguments(ACTIONS[name]), numbers, strict=True))])


def step_of(words: Sequence[str]) -> Step:
    """The action that a line stands for. Raises `BadLine`."""
    action = ACTIONS.get(words[0])
    if action is None:
        raise BadLine(f"a simulated cluster knows no {words[0]!r}")
    pools = arguments(action)
    given = dict(word.split("=", 1) for word in words[1:] if "=" in word)
    if len(given) != len(words) - 1 or given.keys() != pools.keys():
        raise BadLine(f"{words[0]} takes {' '.join(f'{key}=N' for key in pools) or 'nothing'}, not {' '.join(words[1:])}")
    for key, pool in pools.items():
        if not given[key].isdecimal() or int(given[key]) not in pool:
            raise BadLine(f"{words[0]}: {key} is {pool.start} to {pool.stop - 1}, not {given[key]}")
    return words[0], tuple(int(given[key]) for key in pools)


class SimPlay:
    """One run, line by line. `lines`: what it has said since somebody took them away. A broken invariant is raised.

    Nothing is told but the rest: every event is checked, and what callers hear is compared with what they may rely on.
    """

    def __init__(self, seed: int, profile: str) -> None:
        if profile not in PROFILES:
            raise BadLine(f"there is no profile {profile!r}; there are {', '.join(PROFILES)}")
        self.lines: list[str] = []
        self.run = Run(evolve(shape_of(seed), **PROFILES[profile].shape))
        self.run.start()

    def do(self, words: Sequence[str]) -> None:
        """One line: an action, or `rest`."""
        if list(words) == ["rest"]:
            finish(self.run)
            self.lines.append("at rest")
            return
        name, numbers = step_of(words)
        ACTIONS[name](self.run, *numbers)


def scenario(seed: int, profile: str, steps: Iterable[Step], found: Sequence[str]) -> str:
    """A run as a transcript; it breaks where the run did, or is told to its end. `found` says what was wrong; of each text
    the first line becomes a comment."""
    about = [f"# {text.splitlines()[0]}" for text in found]
    blocks = [about, [f"simulate {seed} {profile}"], [*map(line_of, steps), "rest", "----", "at rest"]]
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"
