"""A directory that was deposed and does not know it: a second process has started on its store, and it still hears and speaks.

Its first commit is refused by the store's fence, and ends it (failure model: directory, deposed). Until then what needs no commit
leaves it: answers to queries, repeated answers, words to nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ..backends.base import StoreError
from ..core.driver import TermEnded
from ..core.events import Tick
from ..core.invariants import check_progress
from .sim_shape import DIRECTORY

if TYPE_CHECKING:
    from .sim_member import Member
    from .sim_world import World

SHARE: Final = 4
"""One in so many messages for the directory goes to the deposed one."""


def depose(world: World) -> None:
    """Whoever is the directory goes on without its place; another starts from what the store has."""
    old = world.members.pop(DIRECTORY)
    world.wire.remove(DIRECTORY)
    old.fuse.left = None
    world.deposed = old
    world.store = world.store.rival_of()
    world.start_directory()


def hears(world: World) -> bool:
    """Does the deposed one get the next message for the directory?"""
    return world.deposed is not None and world.chance.below(SHARE) == 0


def step(world: World, event: Any) -> None:
    """One event at the deposed directory; its end, if it tries to commit."""
    old = world.deposed
    if old is None or old.paused_at is not None:
        return
    world.steps += 1
    before = old.machine.state.copy()
    ready = old.driver.handle(event, old.clock.at(world.now))
    world.trace.event(world.now, f"{DIRECTORY} (deposed)", event, ready)
    check_progress(before, old.machine.state)
    try:
        old.driver.flush()
    except (StoreError, TermEnded):
        world.counts.note("deposed directories stopped by the store")
        world.deposed = None
        return
    if ready.send or ready.reply:
        world.counts.note("words of a deposed directory")


def due_at(old: Member | None) -> int | None:
    """When it wants a Tick."""
    return None if old is None or old.paused_at is not None else old.alarm_at


def tick(world: World) -> bool:
    """Its Tick, if it is due."""
    at = due_at(world.deposed)
    if at is None or at > world.now:
        return False
    step(world, Tick())
    return True
