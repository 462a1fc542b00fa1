"""Disks and stores that fail."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pinfold.backends.filetier import published_name
from pinfold.backends.memory_tier import MemoryTier
from pinfold.backends.ssd import SsdTier
from pinfold.backends.tier import TierIo
from pinfold.core import answers as a
from pinfold.core import commands as c
from pinfold.core import requests
from pinfold.core.breaker import BreakerLimits
from pinfold.core.calls import Failed, GetGroup, ReadRoute
from pinfold.core.ids import Role, State, Tier
from tests.cases.embedded_world import LAYOUT, Cluster, put_of
from tests.cases.embedded_world import id_of as key_of
from tests.cases.story import free_all, settle
from tests.client_world import Script, blocks_of, pinned, route_of
from tests.client_world import put_of as client_put
from tests.directory_world import N1, STORE, World, id_of

TWO_TIERS = ((Tier.DRAM, 32), (Tier.SSD, 32))


def test_c79_tier_failure_a_file_that_vanished_is_a_miss_and_not_the_end(tmp_path: Path) -> None:
    """LMCache #1313 (#3622). A cache file vanished from the disk, and the error of reading it went up and stopped the engine.

    Here it ends as the loss of one copy: told, counted, its room given back. The others are served, also while a whole tier
    fails, which costs nobody a copy; and what comes back from a disk is what was verified.
    """
    folder = tmp_path / "ssd"
    tiers: dict[Tier, Any] = {}

    def tiers_of(_: str) -> Mapping[Tier, Any]:
        tiers.update({Tier.DRAM: MemoryTier(), Tier.SSD: SsdTier(folder)})
        return tiers

    cluster = Cluster("n1", tiers=TWO_TIERS, tiers_of=tiers_of)
    copies = {name: cluster.put(name, tier=Tier.SSD).copy for name in ("F", "G", "H")}
    cluster.put("M", tier=Tier.DRAM)
    (folder / published_name(copies["G"])).unlink()
    outcomes = {}
    for name in ("F", "G", "H", "M"):
        cluster.begin("client/a", name, GetGroup(key_of(name), layout=LAYOUT))
    cluster.advance(2_000)
    for name in ("F", "G", "H", "M"):
        reply = cluster.reply("client/a", name)
        assert reply is not None
        outcomes[name] = cluster.judge(name, reply)
    assert outcomes.pop("G") in ("Unreadable", "UnknownGroup")
    assert set(outcomes.values()) == {""}
    cluster.rest()
    assert cluster.used() == 6
    assert cluster.get("G") == "UnknownGroup"
    tiers[Tier.SSD].close()

    cluster = Cluster("n1", tiers=TWO_TIERS)
    for name, tier in (("F", Tier.SSD), ("M", Tier.DRAM)):
        cluster.put(name, tier=tier)
    cluster.tier("n1", Tier.SSD).fail("load", TierIo("the disk does not answer"), times=1_000)
    assert cluster.get("F", timeout_ms=2_000) in ("AttemptsUsed", "DeadlineReached", "TierFailed")
    assert cluster.get("M") == ""
    cluster.tier("n1", Tier.SSD)._faults.clear()
    assert cluster.get("F") == ""  # no copy was given up for it
    cluster.rest()

    found = SsdTier(folder).scan()
    assert {each.copy for each in found.found} <= {copies["F"], copies["H"]}
    assert found.damaged == found.foreign == ()


def test_c81_tier_failure_who_does_not_answer_is_asked_less_and_less() -> None:
    """LMCache #764. With the remote store down each request tried it and paid the whole time of all retries. A probe now switches
    the tier off and on.

    Here a peer that fails is let alone for a growing pause: calls to it are answered at once. One probe decides; what it says
    later is believed by copy id only. A store that fails is asked again under a back-off that grows.
    """
    limits = BreakerLimits(failures=3, pause_ms=1_000, pause_max_ms=8_000)
    put = client_put("g")
    script = Script(breaker=limits, node_attempt_ms=200, node_attempts=2, route_attempts=2)
    opened = 0
    for number in range(200):
        script.call(number, ReadRoute(route_of(put)), 5_000)
        if number in script.replies:  # refused at the door, in the same step, with nothing sent
            assert script.failed(number) == "BreakerOpen"
            assert script.none_sent(requests.Read)
            opened += 1
        script.sent.clear()
        script.pass_ms(300)
    assert opened > 100
    assert 1 <= script.client.state.counters["breakers_opened"] <= 20

    script.pass_ms(10_000)
    script.call("probe", ReadRoute(route_of(put)))
    probe = script.take(requests.Read)
    script.call("behind", ReadRoute(route_of(put)))
    assert script.failed("behind") == "BreakerOpen"
    script.deny(probe, "StaleCopy")  # it is alive, empty, and says so
    assert isinstance(script.replies["probe"], Failed)
    assert script.failed("probe") == "StaleCopy"
    script.call("after", GetGroup(put.spec.group))
    script.open()
    pin = script.body(c.Pin)
    script.answer(pin, pinned(pin, put))
    script.step(blocks_of(script.take(requests.Read), put))
    assert not isinstance(script.replies["after"], Failed)
    unpin = script.body(c.Unpin)
    script.answer(unpin, a.Released(put.spec.group, unpin.body.hold, 9))
    assert script.client.state.holds == {}
    assert script.client.state.breakers == {}

    world = World(N1, stores=10)
    world.put("G")
    world.moved("G", STORE)
    settle(world, 3_000)
    assert world.is_in("G", State.REMOTE)
    tries = refused = 0
    for _ in range(240):
        answer = world.do(c.Move(id_of("G"), N1))
        if isinstance(answer, a.MoveAccepted):
            tries += 1
            world.failed(answer.move)
            free_all(world)
        else:
            refused += answer.refusal.reason == "MoveTooSoon"
        world.advance(500)
    assert 4 <= tries <= 14
    assert refused > 200
    assert world.is_in("G", State.REMOTE)
    assert world.role(world.state.copies[id_of("G")][0].id) is Role.AUTHORITATIVE


def test_c82_tier_failure_a_medium_that_is_smaller_than_it_was_said_to_be_gives_one_error() -> None:
    """DingoCache #83. Eviction was started by the logical budget. The disk was full before that (others wrote there as well), so
    every write failed for ever and eviction never began.

    Here a write that the medium refuses is one typed refusal, in bounded time; books, holds and other groups are as before. The
    node tells what is short, which counts against its capacity: eviction begins by itself as soon as something may go, and the
    next write succeeds. When the medium has room again, writes find out, and the shortfall is lifted.
    """
    tier = MemoryTier(capacity_bytes=5 * 32)
    cluster = Cluster("n1", slots=32, tiers_of=lambda _: {Tier.DRAM: tier})
    held = [cluster.put(f"g{number}", keep_pin=True).hold for number in range(5)]
    before = cluster.used()
    # the medium says no; then the directory knows, and the caller waits for room as long as it likes
    for reason, at_most in (("NoSpace", 5_000), ("DeadlineReached", 10_000), ("DeadlineReached", 10_000)):
        began = cluster.now
        reply = cluster.call("client/a", put_of("one more"))
        assert isinstance(reply, Failed)
        assert reply.refusal.reason == reason
        assert cluster.now - began <= at_most
        cluster.advance(1_000)
        assert cluster.used() == before
        assert len(cluster.state.holds) == 5
    for number in range(5):
        assert cluster.get(f"g{number}") == ""
    for hold in held:
        assert hold is not None
        cluster.do(c.Unpin(hold))
    cluster.advance(1_000)
    assert cluster.used() < before
    cluster.put("one more")
    assert cluster.get("one more") == ""
    assert short_of(cluster) > 0
    tier.capacity_bytes = 32 * 32
    for number in range(5, 40):
        cluster.put(f"g{number}")
    assert short_of(cluster) == 0
    assert cluster.used() > 20
    cluster.rest()


def short_of(cluster: Cluster) -> int:
    """As the directory has been told."""
    cluster.advance(1_500)
    return sum(fill.short for fill in cluster.state.links[N1].tiers)
