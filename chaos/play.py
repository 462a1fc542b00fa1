"""A world played by hand: one step a line, as counterexamples are told and played again.

    deliver TARGET MESSAGE      a message that is under way arrives; `deposed MESSAGE`: at the deposed directory
    drop TARGET MESSAGE         it is lost; `repeat TARGET MESSAGE`: it arrives, and is still under way
    finish NODE WORK JOB        byte work completes; `fail ...`, `rot ...`: it fails, or leaves wrong bytes
    due PARTY WHAT              something has become due; `tick PARTY`: a Tick with nothing newly due
    crash PARTY, start PARTY, end PARTY, depose directory, commit, exit NODE CLIENT
    CLIENT VERB ...             a client goes on; `CLIENT again NUMBER`, `CLIENT gives up VERB`
    rest                        what is left happens, without faults, until the world is at rest

What a step may have beside its words stands in brackets, as the step of which nobody hears: `(dies before it speaks)`. Two
messages with the same text are told apart by `(2)`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from ..core.errors import InvariantViolation
from .cast import Cast
from .keys import message_key
from .parties import Words
from .pool import digest_of
from .words import is_message, message
from .world import DIR, NODES, State, World
from .world_file import WorldFile

VERBS: Final = (
    "deliver", "deposed", "drop", "repeat", "finish", "fail", "rot", "due", "tick", "crash", "start", "end", "depose", "commit",
    "exit", "rest",
)  # fmt: skip
"""First words of a line. Any other first word is a client."""

IMPOSSIBLE: Final = "(this can't happen here)"
REST_STATES_MAX: Final = 200_000

_MESSAGES: Final = {
    "deliver": "deliver", "nobody is there": "deliver", "deliver to the deposed": "deposed", "duplicate": "repeat",
    "drop": "drop", "crash in a commit that did not happen": "deliver",
}  # fmt: skip
_BESIDE: Final = {
    "crash in a commit that did not happen": "dies before the commit",
    "and it dies after the commit, before it speaks": "dies before it speaks",
    "its last byte work lands": "its last byte work lands",
    "crash after the commit": "after the commit",
}
_LOST: Final = "and the answer is lost:"
_LIVES: Final = {"restart": "start", "ends": "end"}
_WAYS: Final = {"": "finish", "fails": "fail", "rots": "rot"}


# ---- a step as a line ----------------------------------------------------------------------------------------


def line_of(cast: Cast, words: Words, net: Sequence[int]) -> str:
    """The line that stands for a step; `net`: the messages that are under way before it."""
    beside = [_BESIDE[word] for word in words if isinstance(word, str) and word in _BESIDE]
    if _LOST in words:
        lost = words.index(_LOST)
        beside.append(f"lost: {message(cast, cast.messages.items[words[lost + 1]].body)}")
        words = words[:lost]
    plain = " ".join(_plain(cast, words, net).split())
    return " ".join([plain, *(f"({one})" for one in beside)])


def _plain(cast: Cast, words: Words, net: Sequence[int]) -> str:
    if words[0] in _MESSAGES and is_message(words, 1):
        return f"{_MESSAGES[words[0]]} {_letter(cast, words[1], net)}"
    match words:
        case ("work", node, kind, job, way):
            return f"{_WAYS[way]} {node} {kind} {job}"
        case ("due", party, *what):
            return " ".join(map(str, ("due", *(() if party in cast.nodes else ("directory",)), party, *what)))
        case ("again" | "gives up", client, what):
            return f"{client} {words[0]} {what}"
        case ("tick",) | ("tick of the deposed",):
            return "tick deposed" if words[0] != "tick" else "tick directory"
        case ("the deposed directory ends",):
            return "end deposed"
        case ("crash" | "crash after the commit" | "client dies" | "restart" | "ends", party, *_):
            return f"{_LIVES.get(words[0], 'crash')} {party}"
    return " ".join(map(str, words))


def _letter(cast: Cast, number: int, net: Sequence[int]) -> str:
    """Target and text of a message, with its place among those under way that read alike."""

    def text(one: int) -> str:
        letter = cast.messages.items[one]
        return f"{short(letter.target)} {message(cast, letter.body)}"

    def digest(one: int) -> bytes:
        letter = cast.messages.items[one]
        return digest_of(message_key(letter.target, letter.body))

    mine = text(number)
    alike = sorted({one for one in net if one != number and text(one) == mine} | {number}, key=digest)
    place = alike.index(number) + 1
    return mine if place == 1 else f"{mine} ({place})"


def _bare(line: str) -> str:
    """A line without its numbers; names keep theirs."""
    return re.sub(r"(?<![a-zA-Z\d])\d+", "N", line)


def short(peer: str) -> str:
    return "directory" if peer == "directory/0" else peer.partition("/")[2]


# ---- playing -------------------------------------------------------------------------------------------------


class Play:
    """One world, step by step. `lines`: what has come of the steps since somebody took them away.

    Every step is checked as the explorer checks it: a broken invariant is raised, never told.
    """

    def __init__(self, file: WorldFile) -> None:
        self.world = World(file)
        self.state: State = self.world.initial()
        self.lines: list[str] = []

    def do(self, words: Sequence[str]) -> None:
        """One line. A step that can't happen in this state changes nothing, and says so; if there is just one that differs in
        nothing but its numbers, it happens instead, and is named."""
        if list(words) == ["rest"]:
            self.rest()
            return
        line, world = " ".join(words), self.world
        net = self.state[world.fixed :]
        steps: dict[str, tuple[State, Any]] = {}
        for after, _, label in world.successors(self.state):
            steps.setdefault(line_of(world.cast, label[0], net), (after, label))
        if line not in steps:
            alike = [other for other in steps if _bare(other) == _bare(line)]
            if len(alike) != 1:
                self.lines.append(IMPOSSIBLE)
                return
            line = alike[0]
            self.lines.append(f"({line})")
        after, label = steps[line]
        world.trying = label
        world.check(after)
        self._tell(after, label[1])
        self.state = after

    def rest(self) -> None:
        """LIVE-1: rest can be reached from here without faults; the first way that is found is gone."""
        world = self.world
        seen, work = {self.state}, [self.state]
        while work and len(seen) <= REST_STATES_MAX:
            state = work.pop()
            if not world.why_not_quiescent(state):
                self.state = state
                self.lines.append("at rest")
                return
            for after, fault, label in reversed(world.successors(state)):
                if not fault and after not in seen:
                    seen.add(after)
                    world.trying = label
                    world.check(after)
                    work.append(after)
        why = world.why_not_quiescent(self.state)
        raise InvariantViolation("LIVE-1", f"rest can't be reached in {len(seen):,} states from here: {why}")

    # ---- what came of it -------------------------------------------------------------------------------------

    def _tell(self, after: State, out: Any) -> None:
        """In the order of a `Ready`: records, what is under way, byte work, what clients hear."""
        cast = self.world.cast
        sent, heard = out
        self.lines += self._records(after)
        letters = [("send", number) for number in sent] + [("reply", number) for _, number in heard]
        shown = [(way, cast.messages.items[number]) for way, number in letters]
        told = [f"  {way} {short(one.target)}: {message(cast, one.body)}" for way, one in shown]
        self.lines += told[: len(sent)] + self._works(after) + told[len(sent) :]

    def _records(self, after: State) -> list[str]:
        """Records of groups that differ."""
        directories = self.world.parties.directories.items
        before, now = directories[self.state[DIR]].machine, directories[after[DIR]].machine
        if before is None or now is None:
            return []
        cast, lines = self.world.cast, []
        for at, spec in enumerate(cast.specs):
            was = (before.state.groups.get(spec.group), before.state.copies.get(spec.group, ()))
            group, copies = now.state.groups.get(spec.group), now.state.copies.get(spec.group, ())
            if group is not None and (group, copies) != was:
                listed = ", ".join(f"{one.id} {one.role.name}{' absent' * one.absent} at {one.node}" for one in copies)
                lines.append(f"  record {cast.groups[at]} {group.state.name} e{group.epoch} [{listed}]")
            elif group is None and was[0] is not None:
                lines.append(f"  record {cast.groups[at]} deleted")
        return lines

    def _works(self, after: State) -> list[str]:
        """Byte work that has begun."""
        nodes, lines = self.world.parties.nodes.items, []
        for place in range(NODES, self.world.clients):
            known = {work.job for work in nodes[self.state[place]].works}
            for work in nodes[after[place]].works:
                if work.job not in known:
                    target = getattr(work, "target", None) or getattr(work, "instance", None)
                    what = "" if target is None else f" {target.copy} in {target.place or target.tier.name}"
                    lines.append(f"  work {self.world.cast.nodes[place - NODES]}: {type(work).__name__} {work.job}{what}")
        return lines
