"""Named slices of the model: who takes part, and how much of what may happen. One source for TLC and for the machines."""

from __future__ import annotations

from attrs import define, field

BUDGETS = ("create", "move", "replicate", "close", "restart", "lapse", "crash", "register", "twist", "tell", "hear")
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
            "tiny", "one node, one session, one copy: create, write, seal, pin, refer, evict, free",
            1, 1, 1, {"create": 1, "twist": 1}, edges=True, ci=True,
        ),
        Slice(
            "write", "the same with a second copy, and the session may end",
            1, 1, 2, {"create": 2, "close": 1, "twist": 1}, edges=True,
        ),
        Slice(
            "share", "one node, two sessions: both pin and refer, either ends",
            1, 2, 1, {"create": 1, "close": 2, "twist": 1}, pins=2,
        ),
        Slice(
            "move", "two nodes: a move with commit, abort and cancel, under pins and readers",
            2, 1, 2, {"create": 1, "move": 1, "twist": 2}, edges=True,
        ),
        Slice(
            "back", "two nodes: a move there, and back onto what retires",
            2, 1, 2, {"create": 1, "move": 2}, touch=0,
        ),
        Slice(
            "restart", "two nodes: a move, and the directory starts again at any point of it",
            2, 1, 2, {"create": 1, "move": 1, "restart": 1}, pins=0, touch=0,
        ),
        Slice(
            "repair", "one node: the directory starts again, inventories are late",
            1, 1, 1, {"create": 1, "restart": 1, "twist": 1, "tell": 1, "hear": 2}, edges=True,
        ),
        Slice(
            "lapse", "one node: its lease ends, it returns in the same boot",
            1, 1, 1, {"create": 1, "lapse": 1, "register": 1, "twist": 1, "tell": 1, "hear": 2},
        ),
        Slice(
            "boots", "one node: its process dies, and a late registration of the old boot arrives",
            1, 1, 1, {"create": 1, "crash": 1, "lapse": 1, "register": 2, "hear": 1}, touch=0,
        ),
        Slice(
            "heirs", "two nodes: a replica, and the owner is away for good",
            2, 1, 2, {"create": 1, "replicate": 1, "lapse": 1}, pins=0, touch=0,
        ),
        Slice(
            "spares", "two nodes: a move, and the new owner is away for good while the old one's bytes retire",
            2, 1, 2, {"create": 1, "move": 1, "lapse": 1}, pins=0, touch=0,
        ),
    )
}  # fmt: skip

WALKS = (
    Slice(
        "quiet_walks", "two nodes, two sessions: moves and replicas, nobody dies",
        2, 2, 4, {"create": 2, "move": 3, "replicate": 1, "close": 1, "twist": 2, "tell": 1, "hear": 2}, touch=2,
    ),
    Slice(
        "wild_walks", "three nodes, two sessions, some of everything",
        3, 2, 5,
        {
            "create": 3, "move": 3, "replicate": 2, "close": 1, "restart": 1, "lapse": 2, "crash": 1, "register": 3, "twist": 2,
            "tell": 2, "hear": 4,
        },
    ),
)  # fmt: skip
"""What TLC walks through at random: far more than can be enumerated."""
