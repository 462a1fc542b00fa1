"""One process of a simulated cluster: a machine, its driver, its place at the wire, its clock, and the fuse on what it says."""

from __future__ import annotations

from typing import Any

from attrs import define, field

from ..core.driver import Driver
from ..core.ids import Tier
from ..transport.inproc import Port
from .sim_bytework import SlowByteWork
from .sim_faults import Clock, Fuse, Outlet, SimTier


@define
class Member:
    """See the module. `death` is what to do when the fuse has burned down."""

    address: str
    machine: Any
    driver: Driver
    port: Port
    clock: Clock
    fuse: Fuse
    work: SlowByteWork | None = None
    tiers: dict[Tier, SimTier] = field(factory=dict)
    paused_at: int | None = None
    inbox: list[Any] = field(factory=list)
    flush_at: int | None = None
    death: Any = None

    @property
    def alarm_at(self) -> int | None:
        """Virtual time of the Tick that the machine wants."""
        return None if self.driver.alarm is None else self.clock.when(self.driver.alarm)


def new_member(
    address: str,
    machine: Any,
    port: Port,
    clock: Clock,
    *,
    store: Any = None,
    work: SlowByteWork | None = None,
    replies: Any = None,
    tiers: dict[Tier, SimTier] | None = None,
) -> Member:
    """A process with all its outputs behind one fuse."""
    fuse = Fuse()
    outlet = Outlet(fuse, wire=port, work=work, replies=replies)
    driver = Driver(
        machine,
        store=store,
        wire=outlet,
        bytework=None if work is None else outlet,
        replies=None if replies is None else outlet,
    )
    return Member(address, machine, driver, port, clock, fuse, work, tiers or {})
