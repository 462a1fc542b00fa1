"""The mover of a job, as a process: it moves groups between nodes and store while clients read them, and breaks some moves off.

    stdin    {"endpoint": ..., "nodes": ["n1", "n2"], "stores": ["shared"], "seed": 7}     once; then  {"moves": 2}
    stdout   {"ready": "mover"}    {"moved": 2, "tally": {...}}

What it moves and where is drawn from its seed among the groups that it finds; when, the job's progress decides.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from .core.answers import GroupLine, Listed, MoveAccepted
from .core.calls import Ask, Do
from .core.commands import CancelMove, ListGroups, Move, Replicate
from .core.ids import Cause, GroupId, NodeName, Peer, State
from .job_calls import Caller, Outcome
from .job_client import EXPLAINED
from .job_pipe import lines, say
from .report import Tally
from .workload import Draw

CALL_MS: Final = 3_000
LOOK: Final = 8
"""Groups looked at, from a random id on, for each move."""

EXPECTED: Final = EXPLAINED | {
    "Pinned", "Referenced", "AlreadyThere", "AlreadyEvicting", "StaleMove", "UnknownNode", "StaleEpoch",
}  # fmt: skip
"""Refusals that a move meets where others use, move and evict the same groups."""


class Mover:
    """See the module."""

    def __init__(self, nodes: Sequence[str], stores: Sequence[str], seed: int, caller: Caller) -> None:
        self.nodes = [NodeName(node) for node in nodes]
        self.places = [*self.nodes, *(NodeName(store) for store in stores)]
        self.caller = caller
        self.draw = Draw(seed)
        self.tally = Tally()
        self.problems: list[str] = []

    def move(self) -> None:
        """One move, if a group can be found that may move."""
        line = self._find()
        if line is None:
            return
        targets = [place for place in self.places if place != line.node]
        target = targets[self.draw.below(len(targets))]
        kind = self.draw.below(10)
        if kind == 0 and target in self.nodes:
            self._call("replicate", Do(Replicate(line.group, target)))
            return
        deadline_ms = self.draw.between(1, 20) if kind in (1, 2) else 0
        outcome = self._call("move", Do(Move(line.group, target, deadline_ms=deadline_ms, cause=Cause.BALANCE)))
        if kind in (3, 4) and isinstance(outcome.value, MoveAccepted) and not outcome.value.done:
            self._call("cancel_move", Do(CancelMove(line.group, outcome.value.move)))

    def _find(self) -> GroupLine | None:
        """Some group that lies still."""
        after = GroupId(self.draw.below(1 << 62).to_bytes(8, "big") + bytes(8))
        outcome = self._call("list", Ask(ListGroups(Peer(""), "", after, LOOK)))
        if not isinstance(outcome.value, Listed):
            return None
        still = [line for line in outcome.value.groups if line.state in (State.LOCAL, State.REMOTE) and not line.pins]
        return still[self.draw.below(len(still))] if still else None

    def _call(self, operation: str, op: Ask | Do) -> Outcome:
        outcome = self.caller.call(op, CALL_MS)
        self.tally.record(operation, outcome.ns)
        if outcome.refusal is not None:
            self.tally.refused(outcome.reason)
            if outcome.reason not in EXPECTED:
                self.problems.append(f"{operation} was refused, and nothing explains it: {outcome.refusal}")
        return outcome


def main() -> int:
    """Move when told to, until the lines end."""
    said = lines()
    job = next(said)
    with Caller(job["endpoint"], "mover", seed=job["seed"]) as caller:
        mover = Mover(job["nodes"], job["stores"], job["seed"], caller)
        say({"ready": "mover"})
        for line in said:
            for _ in range(line["moves"]):
                mover.move()
            say({"moved": line["moves"], "tally": mover.tally.to_plain(), "problems": mover.problems})
            mover.tally, mover.problems = Tally(), []
    return 0


if __name__ == "__main__":
    sys.exit(main())
