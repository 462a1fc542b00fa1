"""The reference store: it passes the kit, and does on command what disks do."""

import pytest

from pinfold.backends.base import StoreClosed, StoreFull, StoreUncertain
from pinfold.backends.memory import Fault, MemoryStore
from pinfold.core.driver import Driver, Outcome, TermEnded
from pinfold.core.effects import Ready, Send
from pinfold.core.ids import Peer
from pinfold.testing import KIT_SCHEMA, MemoryStoreKit
from pinfold.testing_records import Small


class TestMemoryStore(MemoryStoreKit):
    """The kit over the store that the bad ones are made from."""


def small(*numbers: int) -> list[tuple[str, int, Small]]:
    return [("small", number, Small(number)) for number in numbers]


def keys(store: MemoryStore) -> list[int]:
    return list(store.load()["small"])


@pytest.mark.parametrize("lost", range(5))
def test_a_crash_loses_unsynced_commits_from_the_end_and_each_as_a_whole(lost: int) -> None:
    store = MemoryStore(KIT_SCHEMA, sync=False)
    store.commit(small(0))
    store.sync()
    for n in range(4):
        store.commit(small(10 * n + 1, 10 * n + 2))
    assert store.unsynced == 4
    store.crash(lost)
    assert keys(store) == [0, *(10 * n + d for n in range(4 - lost) for d in (1, 2))]
    assert store.unsynced == 0


def test_a_crash_loses_everything_unsynced_if_it_is_not_told_how_much() -> None:
    store = MemoryStore(KIT_SCHEMA, sync=False)
    store.commit(small(1))
    store.sync()
    store.commit([("small", 1, None), *small(2)])
    store.crash()
    assert keys(store) == [1]
    store.crash()
    assert keys(store) == [1]


def test_no_crash_can_lose_what_is_durable() -> None:
    store = MemoryStore(KIT_SCHEMA)
    store.commit(small(1))
    with pytest.raises(ValueError, match="0 are not durable"):
        store.crash(1)
    store.crash()
    assert keys(store) == [1]


def test_a_full_store_refuses_and_takes_the_same_writes_when_there_is_room() -> None:
    store = MemoryStore(KIT_SCHEMA)
    store.full = True
    assert store.commit(small(1)) is Outcome.NOT_DONE
    assert isinstance(store.failure, StoreFull)
    assert keys(store) == []
    store.full = False
    assert store.commit(small(1)) is Outcome.DONE
    assert store.failure is None


@pytest.mark.parametrize(("fault", "there"), [(Fault.UNKNOWN_DONE, [1]), (Fault.UNKNOWN_LOST, [])])
def test_an_unknown_outcome_shows_itself_after_opening_again(fault: Fault, there: list[int]) -> None:
    store = MemoryStore(KIT_SCHEMA)
    store.inject(fault)
    assert store.commit(small(1)) is Outcome.UNKNOWN
    with pytest.raises(StoreUncertain) as refusal:
        store.load()
    assert not refusal.value.definite
    assert refusal.value.exit_code == 3
    store.reopen()
    assert keys(store) == there


def test_faults_are_met_in_order_one_each() -> None:
    store = MemoryStore(KIT_SCHEMA)
    store.inject(Fault.REFUSED, Fault.REFUSED)
    assert [store.commit(small(1)) for _ in range(3)] == [Outcome.NOT_DONE, Outcome.NOT_DONE, Outcome.DONE]


def test_copies_go_their_own_ways() -> None:
    store = MemoryStore(KIT_SCHEMA)
    store.fence(3)
    store.commit(small(1, 2))
    twin = store.copy()
    assert twin.frozen() == store.frozen()
    assert hash(twin.frozen()) == hash(store.frozen())
    store.commit([("small", 1, None)])
    twin.commit(small(5))
    third = twin.copy()
    third.commit([("small", 2, None), ("others", 1, Small(1))])
    assert (keys(store), keys(twin), keys(third)) == ([2], [1, 2, 5], [1, 5])
    assert twin.term == 3
    assert twin.commit(small(6)) is Outcome.DONE


def test_a_copy_keeps_what_is_not_durable_apart() -> None:
    store = MemoryStore(KIT_SCHEMA, sync=False)
    store.commit(small(1))
    store.sync()
    store.commit(small(2))
    twin = store.copy()
    twin.commit(small(3))
    twin.crash(1)
    store.crash()
    assert (keys(store), keys(twin)) == ([1], [1, 2])


def test_a_copy_keeps_faults_and_a_closed_handle() -> None:
    store = MemoryStore(KIT_SCHEMA)
    store.inject(Fault.REFUSED)
    twin = store.copy()
    assert twin.commit(small(1)) is store.commit(small(1)) is Outcome.NOT_DONE
    store.close()
    with pytest.raises(StoreClosed):
        store.copy().load()


class OneWrite:
    """A machine that persists a record and says so."""

    def step(self, event: int, now: int) -> Ready:
        return Ready(persist=(("small", event, Small(event)),), send=(Send(Peer("client/c"), event),))


class Wire:
    def __init__(self) -> None:
        self.sent: list[int] = []

    def send(self, target: str, message: int) -> None:
        self.sent.append(message)


def test_the_driver_lets_nothing_leave_that_is_not_durable() -> None:
    """Rule 10 and DUR-1: a commit that surely did not happen is tried again; one that may have happened ends the term."""
    store, wire = MemoryStore(KIT_SCHEMA), Wire()
    driver = Driver(OneWrite(), store=store, wire=wire)
    store.inject(Fault.REFUSED)
    driver.handle(1, 0)
    driver.flush()
    assert wire.sent == [1]
    store.inject(Fault.UNKNOWN_DONE)
    driver.handle(2, 0)
    with pytest.raises(TermEnded):
        driver.flush()
    assert wire.sent == [1]
    store.reopen()
    assert keys(store) == [1, 2]
