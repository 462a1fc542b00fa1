"""A counterexample in the format of `tests/scenarios`: a script of single steps, and below it what the right machines do.

With the fault planted the story breaks (an invariant at its last step, or no rest); with the machines as they are it is told to
its end, word for word. A step that only the fault makes possible says so.
"""

from __future__ import annotations

from .explorer import Found, Outcome
from .play import Play, line_of
from .world import World
from .world_file import WorldFile


def script_of(world: World, found: Found) -> list[str]:
    """The lines of the steps to what is wrong."""
    return [line_of(world.cast, label[0], state[world.fixed :]) for state, label in found.path if label[0]]


def scenario(file: WorldFile, script: list[str], found: Found, mutant: str) -> str:
    """The whole text. Without a mutant what is wrong is wrong in the machines themselves: its last step has no output yet."""
    command = f"pinfold check --world {file.name}" + (f" --mutant {mutant}" if mutant else "")
    blocks = [[f"# Found by `{command}`.", f"# {found.outcome.name}: {found.what.splitlines()[0]}."]]
    play = Play(file)
    blocks.append([f"explore {file.name}"])
    told = script if mutant or found.outcome is not Outcome.SAFETY else script[:-1]
    silent: list[str] = []
    for line in told:
        play.do(line.split())
        silent.append(line)
        if play.lines:
            blocks.append([*silent, "----", *play.lines])
            silent, play.lines = [], []
    blocks.append([*silent, *script[len(told) :], "rest", "----", "at rest"])
    return "\n\n".join("\n".join(line.rstrip() for line in block) for block in blocks) + "\n"
