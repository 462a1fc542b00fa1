"""Named slices of the model: who takes part, and how much of what may happen. One source for TLC and for the machines."""

from __future__ import annotations

from attrs import define, field

BUDGETS = ("create", "move", "replicate", "close", "restart", "lapse", "crash", "register", "tell", "hear")
"""What a step may use up, in a stated order; the model's `left`."""


@define(frozen=True)
class Slice:
    """`edges`: labelled edges are compared too, not only states. `ci`: small enough for every change."""

    name: str
    about: str
    nodes: int
    sessions: int
    copies: int
    budget: dict[str, int] = field(factory=dict)
    pins: int = 1
    touch: int = 1
    edges: bool = False
    ci: bool = False

    def left(self) -> tuple[int, ...]:
        return tuple([self.budget.get(name, 0) for name in BUDGETS])

    def module(self) -> str:
        """The TLA+ module that gives the constants their values."""
        budget = ", ".join(f"{name} |-> {count}" for name, count in zip(BUDGETS, self.left(), strict=True))
        return (
            f"---- MODULE {self.name} ----\nEXTENDS pinfold\n"
            f"SliceNode == 1..{self.nodes}\nSliceSession == 1..{self.sessions}\nSliceBudget == [{budget}]\n====\n"
        )

    def settings(self, *checks: str) -> str:
        """The configuration file beside it."""
        constants = (
            "CONSTANTS Node <- SliceNode Session <- SliceSession Budget <- SliceBudget None = None\n"
            f"MaxCopies = {self.copies} MaxPins = {self.pins} MaxTouch = {self.touch}\n"
        )
        return constants + "SPECIFICATION Spec\n" + "".join(check + "\n" for check in checks)


SLICES = {
    one.name: one
    for one in (
        Slice(
            "write", "one node, one session: create, write, seal, pin, refer, evict, free, and again",
            1, 1, 2, {"create": 2, "close": 1}, edges=True, ci=True,
        ),
        Slice(
            "share", "one node, two sessions: both pin and refer, either ends",
            1, 2, 2, {"create": 2, "close": 2},
        ),
        Slice(
            "move", "two nodes: a move with commit, abort and cancel, under pins and readers",
            2, 1, 2, {"create": 1, "move": 1}, edges=True,
        ),
        Slice(
            "restart", "two nodes: a move, and the directory starts again at any point of it",
            2, 1, 2, {"create": 1, "move": 1, "restart": 1},
        ),
        Slice(
            "repair", "one node: the directory starts again, inventories are late",
            1, 1, 1, {"create": 1, "restart": 1, "tell": 1, "hear": 1}, edges=True,
        ),
        Slice(
            "lapse", "one node: its lease ends, it returns in the same boot",
            1, 1, 1, {"create": 1, "lapse": 1, "register": 1, "tell": 1, "hear": 2},
        ),
        Slice(
            "boots", "one node: its process dies, and a late registration of the old boot arrives",
            1, 1, 1, {"create": 1, "crash": 1, "lapse": 1, "register": 2, "hear": 1},
        ),
        Slice(
            "heirs", "two nodes: a replica, and the owner is away for good",
            2, 1, 2, {"create": 1, "replicate": 1, "lapse": 1},
        ),
    )
}  # fmt: skip

WIDE = Slice(
    "wide", "what is walked at random: three nodes, two sessions, some of everything",
    3, 2, 5,
    {
        "create": 2, "move": 2, "replicate": 1, "close": 1, "restart": 1, "lapse": 2, "crash": 1, "register": 3,
        "tell": 3, "hear": 5,
    },
)  # fmt: skip
