"""Every row of the table is reached through the directory's door, from a story that leads to its state (not by construction)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pinfold.chaos.coverage import watched
from pinfold.core import commands as c
from pinfold.core import reports
from pinfold.core.ids import CopyId, HoldId, NodeName, Reason, Role, State
from pinfold.core.table import READABLE, ROWS, On, Row

from .directory_world import N1, N2, N3, STORE, World, id_of

N4, N5, N6 = NodeName("n4"), NodeName("n5"), NodeName("n6")


class Scene:
    """Group A in a wished state, with other copies beside it: a replica at n3, a pinned retiring one at n4, a freeing one, and a
    replica in the making at n5."""

    def __init__(self, state: State) -> None:
        self.world = world = World(N1, N2, N3, N4, N5, N6, stores=50)
        self.state = state
        self.first = world.put("A", N1)
        self.retiring, self.pin = self._retire(pinned=True)
        self.freeing, _ = self._retire(pinned=False)
        self.replica = self.making = CopyId(0, 0, 0)
        self.move = CopyId(0, 0, 0)
        {
            State.EVICTED: self._evicted,
            State.EVICTING: self._evicting,
            State.WRITING: self._writing,
        }.get(state, self._readable)()
        assert world.group("A").state is state

    def _retire(self, pinned: bool) -> tuple[CopyId, HoldId]:
        """A replica at n4 that was dropped; what is not pinned is freeing after its grace."""
        world = self.world
        copy = world.replica("A", N4 if pinned else N3)
        hold = world.do(c.Pin(id_of("A"), copy)).hold
        world.do(c.DropReplica(id_of("A"), copy))
        if not pinned:
            world.do(c.Unpin(hold))
            world.advance(600)
        assert world.role(copy) is (Role.RETIRING if pinned else Role.FREEING)
        return copy, hold

    def _readable(self) -> None:
        world = self.world
        if self.state in (State.REMOTE, State.MIGRATING_IN):
            self.first, old = world.moved("A", STORE, allow_pinned=True), self.first
            world.advance(600)
            world.freed(old)
        self.replica = world.replica("A", N3)
        self.making = world.do(c.Replicate(id_of("A"), N5)).copy
        if self.state in (State.MIGRATING_OUT, State.MIGRATING_IN):
            self.move = world.move("A", N2, allow_pinned=True)

    def _evicting(self) -> None:
        self.world.do(c.Evict(id_of("A")))
        self.world.freed(self.first)

    def _evicted(self) -> None:
        self._evicting()
        self.world.do(c.Unpin(self.pin))
        self.world.tick(1)
        self.world.freed(self.retiring)
        self.world.freed(self.freeing)

    def _writing(self) -> None:
        self._evicting()
        self.move = self.world.create("A", N2).copy

    # ---- what happens ----------------------------------------------------------------------------------------

    def of(self, role: Role | None) -> CopyId:
        return {Role.REPLICA: self.replica, Role.RETIRING: self.retiring, Role.FREEING: self.freeing}.get(role, self.first)

    def incoming(self, role: Role | None) -> CopyId:
        """For COPY_DONE and ENDED a row of REPLICA is about a replica in the making."""
        return self.making if role is Role.REPLICA else self.move

    def lapse(self, row: Row) -> None:
        self.world.lapse(self.world.copy(self.of(row.role)).node)

    def come_back(self, row: Row) -> None:
        self.lapse(row)
        self.world.register(self.world.copy(self.of(row.role)).node)

    def create(self, row: Row) -> None:
        if row.state in READABLE:
            for name in (N1, N3):
                self.world.lapse(name)
        self.world.create("A", N2)

    def forget(self, row: Row) -> None:
        self.world.tick()

    def due(self, row: Row) -> None:
        self.world.do(c.Unpin(self.pin))
        self.world.advance(600)

    def gone(self, row: Row) -> None:
        copy = self.of(row.role)
        node = N1 if self.world.copy(copy).store else self.world.copy(copy).node
        fact = reports.Freed(copy) if row.role is Role.FREEING else reports.CopyLost(copy, Reason.LOST)
        self.world.report(node, fact)

    def leave(self, row: Row) -> None:
        self.world.ref("A")
        assert self.world.do(c.Evict(id_of("A"), wait=True)).waiting


HAPPEN: dict[On, Callable[[Scene, Row], object]] = {
    On.CREATE: Scene.create,
    On.SEALED: lambda scene, row: scene.world.sealed(scene.move),
    On.PIN: lambda scene, row: scene.world.pin("A"),
    On.REF: lambda scene, row: scene.world.ref("A"),
    On.MOVE: lambda scene, row: scene.world.move("A", N2, allow_pinned=True),
    On.ADOPT: lambda scene, row: scene.world.do(c.Move(id_of("A"), N3, allow_pinned=True)),
    On.COPY_DONE: lambda scene, row: scene.world.done(scene.incoming(row.role)),
    On.ENDED: lambda scene, row: scene.world.failed(scene.incoming(row.role)),
    On.LEAVE: Scene.leave,
    On.EVICT: lambda scene, row: scene.world.do(c.Evict(id_of("A"))),
    On.DUE: Scene.due,
    On.GONE: Scene.gone,
    On.LAPSE: Scene.lapse,
    On.RETURN: Scene.come_back,
    On.REPLICATE: lambda scene, row: scene.world.do(c.Replicate(id_of("A"), N6)),
    On.DROP_REPLICA: lambda scene, row: scene.world.do(c.DropReplica(id_of("A"), scene.replica)),
    On.DELETE: Scene.forget,
}
"""How each event comes about in the world, from commands, reports and time."""


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_the_row_is_reached_through_the_door(row: Row) -> None:
    scene = Scene(row.state)
    with watched() as coverage:
        HAPPEN[row.on](scene, row)
    assert row.name in coverage.taken, f"not reached: {row.name}; reached were {sorted(coverage.taken)}"
