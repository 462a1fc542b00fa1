"""What goes wrong in a simulated run, as data: how often each fault comes, what else is different, what must have happened.

A run goes on until every fault of its profile has happened; one in which that does not come about has shown nothing about it, and
is a failed run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from attrs import define, field

from ..transport.inproc import Faults
from . import sim_trouble as t
from .sim_actions import Action
from .sim_shape import STORMS


@define(frozen=True)
class Profile:
    """`faults`: weight of each fault, where those of what callers do are about 150 in all. `shape`: fields of `Shape`
    that are not left to the seed. `by_seed`: how often the weights count depends on the seed; every fourth has no faults
    but the wire's."""

    name: str
    about: str
    faults: Mapping[Action, int] = field(factory=dict)
    shape: Mapping[str, Any] = field(factory=dict)
    by_seed: bool = False

    @property
    def promises(self) -> tuple[str, ...]:
        """What must have happened at the end of a run, as counted; nothing where the seed decides."""
        shown = () if self.by_seed else (name for action in self.faults for name in t.SHOWS[action])
        return tuple(dict.fromkeys(shown))


_QUIET: Final = Faults(delay_ms=(0, 2))
_NETWORK: Final[dict[Action, int]] = {t.storm: 3, t.cut: 6, t.cut_one_way: 6, t.cut_client: 3}
_CRASHES: Final[dict[Action, int]] = {
    t.crash_node: 5, t.crash_directory: 3, t.depose: 4, t.client_dies: 3, t.dies_speaking: 10, t.twin: 8,
}  # fmt: skip
_PAUSES: Final[dict[Action, int]] = {t.pause_node: 6, t.pause_other: 4, t.clock_jumps: 4}
_STORE: Final[dict[Action, int]] = {t.commit_fault: 12, t.store_is_full: 2, t.slow_commits: 3, t.crash_directory: 2}
_TIERS: Final[dict[Action, int]] = {t.tier_fails: 16, t.damage: 8, t.slow_work: 3, t.uncertain: 2, t.crash_node: 2}

PROFILES: Final[dict[str, Profile]] = {
    each.name: each
    for each in (
        Profile("calm", "nothing goes wrong", {}, {"wire": _QUIET}),
        Profile("network", "messages are lost, repeated, overtaken, cut off one way or both", _NETWORK, {"wire": STORMS[1]}),
        Profile("crashes", "processes die, also between two outputs, and return; two have one name", _CRASHES, {"wire": _QUIET}),
        Profile("pauses", "processes stop and return, clocks drift and jump", _PAUSES, {"wire": _QUIET, "drift": True}),
        Profile("store", "commits fail, find no room, are slow or of unknown outcome", _STORE, {"wire": _QUIET}),
        Profile("tiers", "byte work fails, is slow, finds no room, rot or nothing", _TIERS, {"wire": _QUIET}),
        Profile("storm", "all of it", t.FAULTS, {"wire": STORMS[1], "drift": True}),
        Profile("mixed", "as the seed says: nothing but the wire's faults, some of all, or many", t.FAULTS, by_seed=True),
    )
}
