"""Pins that nobody gives back."""

from pinfold.core import commands as c
from pinfold.core.answers import EvictAccepted, PrefixPinned, Released, RequestReleased
from pinfold.core.commands import Spec
from pinfold.core.ids import HoldId, Key, group_id
from tests.cases.story import end_by_lease
from tests.directory_world import BLOCK, CLIENT, LAYOUT, World, id_of

RUN = ("G1", "G2", "G3", "G4")


def looked_up() -> tuple[World, PrefixPinned]:
    """Four groups, pinned by one look-up for request L1; only the last two are used after it."""
    world = World()
    for name in RUN:
        world.put(name)
    pinned = world.do(c.PinPrefix(tuple(id_of(name) for name in RUN), "L1"))
    assert isinstance(pinned, PrefixPinned)
    assert len(pinned.holds) == 4
    for group in ("G3", "G4"):
        world.ask(c.Locate(CLIENT, "use", (id_of(group),)))
    return world, pinned


def test_c01_pin_leak_a_look_up_gives_back_all_its_pins_and_not_only_those_it_used() -> None:
    """LMCache #1034. A prefix look-up pins every group that matches, and only the groups that were then loaded were unpinned:
    what was local already, or was looked up in vain, stayed pinned until the tier was full of what nobody could evict.

    Here the pins are records filed under the request: one word ends them all, and if it is never said, the session's end does.
    """
    world, pinned = looked_up()
    released = world.do(c.ReleaseRequest("L1"))
    assert isinstance(released, RequestReleased)
    assert released.released == 4
    assert world.state.pinned == {}
    for name in RUN:
        assert isinstance(world.do(c.Evict(id_of(name))), EvictAccepted)

    # The two that were used were given back one by one: the others are still found.
    world, pinned = looked_up()
    for hold in pinned.holds[2:]:
        assert isinstance(world.do(c.Unpin(hold)), Released)
    assert world.do(c.ReleaseRequest("L1")).released == 2
    assert world.state.pinned == {}

    # Nobody ends it: the lease of its session does, of this session alone, and it is counted.
    world, pinned = looked_up()
    other = world.open()
    kept = world.pin("G1", other)
    end_by_lease(world, world.session, other)
    assert list(world.state.holds) == [kept]
    assert world.counter("sessions_ended") == 1
    assert world.counter("holds_expired") == 4  # a leak is said, and how large it was
    world.refused(c.Evict(id_of("G1")), "Pinned", other)
    assert isinstance(world.do(c.Evict(id_of("G2")), other), EvictAccepted)


def test_c03_pin_leak_an_unpin_that_names_nothing_is_refused_loudly() -> None:
    """LMCache #3770 (fixed by #3771). The lock's key was built with the tenant's salt and the unlock's without: the unlock named
    nothing, did nothing, said nothing, and the real entry stayed locked until a timeout.

    Here a release names a hold, not a key. One that never was is refused and changes nothing, in whatever way it is wrong.
    """
    world = World()
    ours, theirs = (spec_of_tenant(tenant) for tenant in ("A", "B"))
    assert ours.group != theirs.group
    for spec in (ours, theirs):
        created = world.do(c.Create(spec))
        world.sealed(created.copy)
        world.do(c.Unpin(created.hold))
    other = world.open()
    h1 = world.do(c.Pin(ours.group)).hold
    h2 = world.do(c.Pin(theirs.group), other).hold

    never = HoldId(h1.session, h1.sequence + 100, 0)
    nobody = HoldId(999_999, 1, 0)
    for wrong in (never, nobody, h2):
        world.refused(c.Unpin(wrong), "UnknownHold")
    world.refused(c.Unref(h1), "BadRequest")
    assert len(world.state.pinned) == 2

    assert isinstance(world.do(c.Unpin(h1)), Released)
    assert list(world.state.holds) == [h2]
    assert isinstance(world.do(c.Evict(ours.group)), EvictAccepted)
    world.refused(c.Evict(theirs.group), "Pinned")


def spec_of_tenant(tenant: str) -> Spec:
    key = Key(tenant, "m", "1", LAYOUT, "k", 1)
    return Spec(group_id(key), key, (BLOCK,))
