"""What a seed stands for: chance that is the same everywhere, and the cluster that a run is made of.

Everything that waits in production waits here as well, but not for long: leases, deadlines and back-off are short.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from attrs import frozen

from ..core.breaker import BreakerLimits
from ..core.client_state import ClientConfig
from ..core.ids import NodeName, Peer, Tier
from ..core.node_state import NodeConfig, TierRoom
from ..core.state import DirectoryConfig, StoreSpec
from ..transport.inproc import PERFECT, Faults

DIRECTORY = Peer("directory/0")
STORE = NodeName("s1")
T = TypeVar("T")


class Chance:
    """Splitmix: the same numbers everywhere, for ever."""

    def __init__(self, seed: int) -> None:
        self._state = seed & 0xFFFFFFFFFFFFFFFF

    def below(self, limit: int) -> int:
        self._state = (self._state + 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
        mixed = self._state
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & 0xFFFFFFFFFFFFFFFF
        return ((mixed ^ (mixed >> 31)) >> 11) % limit

    def pick(self, options: Sequence[T]) -> T:
        return options[self.below(len(options))]


@frozen
class Shape:
    """What one run's cluster is made of. Times in ms."""

    seed: int = 0
    nodes: int = 2
    with_store: bool = True
    spill: bool = False
    dram: int = 8
    ssd: int = 8
    window: int = 8
    optimistic: bool = False
    commit_ms: int = 0
    """A directory's steps are committed together, up to so long after the first of them."""
    work_ms: int = 3
    """Byte work takes up to so long."""
    inventory_ms: int = 2_000
    drift: bool = False
    """Clocks go up to a tenth faster or slower than each other."""
    wire: Faults = PERFECT
    through_codec: bool = False
    eviction: str = "lru"
    placement: str = "least_loaded"

    @property
    def names(self) -> list[str]:
        return [f"n{index + 1}" for index in range(self.nodes)]


STORMS = (
    Faults(delay_ms=(0, 2)),
    Faults(loss=0.05, duplicate=0.05, reorder=0.1, reorder_ms=30, delay_ms=(0, 5)),
    Faults(loss=0.25, duplicate=0.2, reorder=0.3, reorder_ms=400, delay_ms=(0, 20)),
)


def shape_of(seed: int) -> Shape:
    """The cluster that a seed stands for."""
    chance = Chance(seed * 7919 + 1)
    return Shape(
        seed=seed,
        nodes=2 + chance.below(2),
        with_store=chance.below(3) > 0,
        spill=chance.below(2) == 0,
        dram=chance.pick((4, 6, 8)),
        ssd=chance.pick((6, 8, 12)),
        window=chance.pick((1, 4, 32)),
        optimistic=chance.below(4) == 0,
        commit_ms=chance.pick((0, 0, 3, 20)),
        work_ms=chance.pick((0, 3, 30)),
        wire=STORMS[chance.pick((0, 0, 0, 1, 1, 2))],
        through_codec=chance.below(16) == 0,
        eviction=chance.pick(("lru", "lfu", "fifo", "ttl", "cost")),
        placement=chance.pick(("round_robin", "least_loaded", "power_of_two", "locality", "cost")),
    )


def directory_config(shape: Shape) -> DirectoryConfig:
    """Everything that waits in production waits here as well, but not for long."""
    stores = (StoreSpec(STORE, 12),) if shape.with_store else ()
    return DirectoryConfig(
        stores=stores, session_lease_ms_min=100, node_lease_ms=1_000, absent_limit_ms=4_000, grace_ms=100, write_ms=2_000,
        move_ms=2_000, repair_ms=300, scan_ms=700, backoff_ms=50, backoff_ms_max=500, wait_ms_max=3_000, window=32,
        batch_items=8, session_holds_max=40, eviction=shape.eviction, placement=shape.placement, spill=shape.spill,
        high=900, low=600, drain_moves_max=2,
    )  # fmt: skip


def node_config(shape: Shape, name: str, address: str) -> NodeConfig:
    rooms = (
        TierRoom(Tier.DRAM, shape.dram, high_percent=75, low_percent=50),
        TierRoom(Tier.SSD, shape.ssd, slab=False),
    )
    return NodeConfig(
        NodeName(name), Peer(address), (DIRECTORY,), rooms, (STORE,) if shape.with_store else (), group_slots=3,
        heartbeat_ms=200, inventory_ms=shape.inventory_ms, register_ms=100, register_ms_max=500, move_retry_ms=100, fetch_chunk=2,
        fetch_timeout_ms=200, fetch_retry_ms=30, fetch_tries_max=6, job_ms=4_000, release_retry_ms=50,
        release_retry_ms_max=500, guard_stuck_ms=2_000, inventory_part=3,
    )  # fmt: skip


def client_config(shape: Shape, client: str, life: int) -> ClientConfig:
    """`client/b` has a named session, which its next life resumes."""
    named = client == "client/b"
    return ClientConfig(
        Peer(client), (DIRECTORY,), f"{client}-{life}", seed=shape.seed + life, session_name="b" if named else "",
        lease_ms=2_000, attempt_ms=100, node_attempt_ms=200, backoff_ms=10, backoff_max_ms=200, await_slice_ms=300,
        reserve_wait_ms=500, background_ms=3_000, window=shape.window, write_chunk_bytes=32, read_chunk_bytes=32,
        write_window=2, read_window=2, optimistic_reads=shape.optimistic,
        breaker=BreakerLimits(failures=8, pause_ms=50, pause_max_ms=200, probe_ms=200),
    )  # fmt: skip
