"""Byte work: every effect and how it ends, failures, delay, bugs; in the caller's thread and on workers alike."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from pinfold.backends import bytework
from pinfold.backends.bytework import InlineByteWork, ThreadedByteWork
from pinfold.backends.dram import DramTier
from pinfold.backends.memory_tier import MemoryTier, PhantomTier
from pinfold.backends.remote import RemoteDirectoryStore
from pinfold.backends.ssd import SsdTier
from pinfold.backends.tier import TierCorrupt, TierError, TierFull, TierIo, TierLost, TierRefused
from pinfold.core.commands import Spec
from pinfold.core.driver import Driver
from pinfold.core.effects import (
    CloneInstance,
    Instance,
    ListStore,
    LoadBlocks,
    Ready,
    ReleaseInstance,
    StoreBlocks,
    VerifyInstance,
)
from pinfold.core.errors import InvariantViolation
from pinfold.core.events import (
    BlocksLoaded,
    BlocksStored,
    Completion,
    InstanceCloned,
    InstanceReleased,
    InstanceVerified,
    StoreListed,
    WorkFailed,
)
from pinfold.core.ids import NO_COPY, CopyId, NodeName, Reason, Tier
from pinfold.core.requests import Payload
from pinfold.testing_samples import make_sample
from pinfold.testing_tiers import TierConformance, expect
from tests.bytework_world import STORE, Work, at, clone, do, dram, settle, ssd_store

put, assert_readable = TierConformance.put, TierConformance.assert_readable


@pytest.fixture(params=["inline", "threaded"])
def make(request: pytest.FixtureRequest) -> Iterator[Callable[..., Work]]:
    made: list[Work] = []

    def build(tiers: dict[Tier, Any], stores: dict[NodeName, Any] | None = None) -> Work:
        kind = InlineByteWork if request.param == "inline" else ThreadedByteWork
        made.append(kind(tiers, stores))
        return made[-1]

    yield build
    for work in made:
        work.close()


def test_a_group_goes_through_all_tiers_and_comes_back(make: Callable[..., Work], tmp_path: Path) -> None:
    ssd, store = SsdTier(tmp_path / "ssd"), RemoteDirectoryStore(tmp_path / "store")
    work = make({Tier.DRAM: DramTier(8, 128), Tier.SSD: ssd}, {STORE: store})
    one = dram(1)
    c, spec = one.copy, one.spec
    away = CopyId(0, 2, 0)
    assert do(work, StoreBlocks(1, one.instance, spec, (1,), one.checksums[1:], one.data[1:])) == BlocksStored(1, c)
    do(work, StoreBlocks(2, one.instance, spec, (0,), one.checksums[:1], one.data[:1]))
    assert do(work, VerifyInstance(3, one.instance, spec, one.manifest)) == InstanceVerified(3, c, one.manifest)
    demote = CloneInstance(4, one.instance, at(c, Tier.SSD), spec, one.manifest)
    assert do(work, demote) == InstanceCloned(4, c, one.manifest)
    assert do(work, ReleaseInstance(5, one.instance)) == InstanceReleased(5, c)
    assert do(work, ReleaseInstance(6, one.instance)) == InstanceReleased(6, c)
    spill = CloneInstance(7, at(c, Tier.SSD), at(away, Tier.REMOTE_SSD), spec, one.manifest)
    assert do(work, spill) == InstanceCloned(7, away, one.manifest)
    assert do(work, ListStore(8, STORE)) == StoreListed(8, STORE, (away,))
    fetch = CloneInstance(9, at(away, Tier.REMOTE_SSD), at(c, Tier.DRAM, (5, 3)), spec, one.manifest)
    assert do(work, fetch) == InstanceCloned(9, c, one.manifest)
    loaded = do(work, LoadBlocks(10, at(c, Tier.DRAM, (5, 3)), spec, (1, 0)))
    assert isinstance(loaded, BlocksLoaded)
    assert (loaded.job, loaded.copy, loaded.checksums) == (10, c, (one.checksums[1], one.checksums[0]))
    assert [bytes(buffer) for buffer in loaded.data] == [one.data[1], one.data[0]]
    ssd.close()
    store.close()


def test_without_bytes_the_same_work_ends_in_the_same_manifests() -> None:
    work = InlineByteWork.without_bytes([Tier.DRAM, Tier.SSD], [STORE])
    one = dram(1)
    away = CopyId(0, 2, 0)
    do(work, StoreBlocks(1, one.instance, one.spec, one.blocks, one.checksums))
    assert do(work, VerifyInstance(2, one.instance, one.spec, one.manifest)) == InstanceVerified(2, one.copy, one.manifest)
    spill = CloneInstance(3, one.instance, at(away, Tier.REMOTE_SSD), one.spec, one.manifest)
    assert do(work, spill) == InstanceCloned(3, away, one.manifest)
    loaded = do(work, LoadBlocks(4, at(away, Tier.REMOTE_SSD), one.spec, (1,)))
    assert loaded == BlocksLoaded(4, away, one.checksums[1:], ())
    assert do(work, ListStore(5, STORE)) == StoreListed(5, STORE, (away,))
    shared = {STORE: PhantomTier()}
    do(InlineByteWork.without_bytes([], shared), StoreBlocks(1, at(away, Tier.REMOTE_SSD), one.spec, (), ()))
    assert do(InlineByteWork.without_bytes([], shared), ListStore(2, STORE)) == StoreListed(2, STORE, (away,))


# ---- failures ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (TierFull("full"), Reason.NO_SPACE),
        (TierCorrupt("corrupt"), Reason.CORRUPT),
        (TierLost("lost"), Reason.LOST),
        (TierIo("io"), Reason.FAILED),
        (TierRefused("refused"), Reason.FAILED),
    ],
)
def test_what_a_tier_raises_is_an_event_with_its_reason(make: Callable[..., Work], error: Any, reason: Reason) -> None:
    tier, one = MemoryTier(), dram(1)
    work = make({Tier.DRAM: tier})
    put(tier, one)
    tier.fail("load", error)
    assert do(work, LoadBlocks(1, one.instance, one.spec, (0,))) == WorkFailed(1, one.copy, reason, str(error))
    assert isinstance(do(work, LoadBlocks(2, one.instance, one.spec, (0,))), BlocksLoaded)


def told_or_raised(work: Work, effect: Any) -> Completion | TierError:
    """How work ends: the completion, or the error that came out in its place."""
    try:
        return do(work, effect)
    except TierError as error:
        return error


@pytest.mark.parametrize("operation", ["write", "verify", "load", "release"])
def test_a_tier_that_fails_ends_its_work_and_the_next_work_is_done(make: Callable[..., Work], operation: str) -> None:
    """A tier's error is how one job ends, in words of the protocol; it never reaches whoever asked, and the rest goes on."""
    tier, one, two = MemoryTier(), dram(1), dram(2, 2)
    work = make({Tier.DRAM: tier})
    put(tier, two)
    effects: dict[str, Any] = {
        "write": StoreBlocks(1, one.instance, one.spec, one.blocks, one.checksums, one.data),
        "verify": VerifyInstance(1, two.instance, two.spec, two.manifest),
        "load": LoadBlocks(1, two.instance, two.spec, (0,)),
        "release": ReleaseInstance(1, two.instance),
    }
    copy = (one if operation == "write" else two).copy
    tier.fail(operation, TierIo("the disk does not answer"))
    assert told_or_raised(work, effects[operation]) == WorkFailed(1, copy, Reason.FAILED, "the disk does not answer")
    loaded = told_or_raised(work, LoadBlocks(2, two.instance, two.spec, (0, 1)))
    assert isinstance(loaded, BlocksLoaded)
    assert tuple(bytes(block) for block in loaded.data) == two.data


def test_a_write_that_the_medium_has_no_room_for_is_never_told_as_done(make: Callable[..., Work]) -> None:
    """`BlocksStored` is a promise that the bytes are there (COPY-1): the medium's no is `NO_SPACE`, and nothing can be read."""
    one, two = dram(1), dram(2, 2)
    tier = MemoryTier(capacity_bytes=sum(one.spec.sizes))
    work = make({Tier.DRAM: tier})
    ends = [
        do(work, StoreBlocks(job, each.instance, each.spec, each.blocks, each.checksums, each.data))
        for job, each in enumerate((one, two))
    ]
    assert ends[0] == BlocksStored(0, one.copy)
    assert isinstance(ends[1], WorkFailed)
    assert (ends[1].copy, ends[1].reason) == (two.copy, Reason.NO_SPACE)
    assert isinstance(do(work, VerifyInstance(2, two.instance, two.spec, two.manifest)), WorkFailed)
    assert do(work, VerifyInstance(3, one.instance, one.spec, one.manifest)) == InstanceVerified(3, one.copy, one.manifest)


def test_bytes_that_were_given_to_be_stored_are_only_read(make: Callable[..., Work]) -> None:
    """They are their owner's memory: nobody writes into it, before the work has ended or after (USE-1)."""
    one = make_sample(1)
    work = make({Tier.SSD: MemoryTier()})
    given = tuple(bytearray(block) for block in one.data)
    assert do(work, StoreBlocks(1, one.instance, one.spec, one.blocks, one.checksums, given)) == BlocksStored(1, one.copy)
    assert tuple(bytes(block) for block in given) == one.data


def test_verification_of_other_bytes_is_corrupt_and_names_the_block(make: Callable[..., Work]) -> None:
    tier, one = MemoryTier(), dram(1)
    work = make({Tier.DRAM: tier})
    do(work, StoreBlocks(1, one.instance, one.spec, one.blocks, one.checksums, one.data))
    tier.corrupt(one.copy, 1)
    failed = do(work, VerifyInstance(2, one.instance, one.spec, one.manifest))
    assert isinstance(failed, WorkFailed)
    assert failed.reason is Reason.CORRUPT
    assert "block 1" in failed.detail


def test_a_tier_that_is_not_here_is_a_failure(make: Callable[..., Work]) -> None:
    work, one = make({Tier.DRAM: MemoryTier()}), dram(1)
    ssd = do(work, VerifyInstance(1, at(one.copy, Tier.SSD), one.spec, one.manifest))
    assert ssd == WorkFailed(1, one.copy, Reason.FAILED, "this node has no SSD")
    store = do(work, ReleaseInstance(2, at(one.copy, Tier.REMOTE_SSD)))
    assert store == WorkFailed(2, one.copy, Reason.FAILED, "this node has no store")
    listed = do(work, ListStore(3, STORE))
    assert listed == WorkFailed(3, NO_COPY, Reason.FAILED, "this node has no store store")


@pytest.mark.parametrize(
    ("operation", "error", "reason"),
    [
        ("write", TierFull("full"), Reason.NO_SPACE),
        ("write", TierIo("io"), Reason.FAILED),
        ("verify", TierCorrupt("corrupt"), Reason.FAILED),
        ("verify", TierLost("lost"), Reason.FAILED),
    ],
)
def test_a_clone_that_fails_at_its_target_leaves_nothing_there(
    make: Callable[..., Work], operation: str, error: Any, reason: Reason
) -> None:
    source, target, one = MemoryTier(), MemoryTier(), dram(1)
    work = make({Tier.DRAM: source, Tier.SSD: target})
    put(source, one)
    target.fail(operation, error)
    failed = do(work, clone(1, one))
    assert isinstance(failed, WorkFailed)
    assert (failed.copy, failed.reason) == (one.copy, reason)
    assert target.copies() == ()
    assert_readable(source, one)
    assert do(work, clone(2, one)) == InstanceCloned(2, one.copy, one.manifest)


def test_corrupt_and_lost_of_a_clone_speak_of_its_source(make: Callable[..., Work]) -> None:
    source, target, one, two = MemoryTier(), MemoryTier(), dram(1), dram(2, 2)
    work = make({Tier.DRAM: source, Tier.SSD: target})
    put(source, one)
    other = CloneInstance(1, one.instance, at(one.copy, Tier.SSD), one.spec, two.manifest)
    failed = do(work, other)
    assert isinstance(failed, WorkFailed)
    assert (failed.reason, target.copies()) == (Reason.CORRUPT, ())
    source.corrupt(one.copy, 1)
    for effect, reason in [(clone(2, one), Reason.CORRUPT), (clone(3, two), Reason.LOST)]:
        failed = do(work, effect)
        assert isinstance(failed, WorkFailed)
        assert failed.reason is reason
    assert target.copies() == ()


def test_a_clone_does_not_touch_a_target_that_was_sealed_before(make: Callable[..., Work]) -> None:
    source, target, one = MemoryTier(), MemoryTier(), dram(1)
    work = make({Tier.DRAM: source, Tier.SSD: target})
    put(source, one)
    assert isinstance(do(work, clone(1, one)), InstanceCloned)
    again = do(work, clone(2, one))
    assert isinstance(again, WorkFailed)
    assert again.reason is Reason.FAILED
    assert target.scan().found[0].manifest == one.manifest


def test_a_clone_whose_clean_up_fails_says_so(make: Callable[..., Work]) -> None:
    source, target, one = MemoryTier(), MemoryTier(), dram(1)
    work = make({Tier.DRAM: source, Tier.SSD: target})
    put(source, one)
    target.fail("verify", TierIo("no verify"))
    target.fail("release", TierIo("no release"))
    failed = do(work, clone(1, one))
    assert isinstance(failed, WorkFailed)
    assert "no verify" in failed.detail
    assert "no release" in failed.detail


def test_a_large_clone_goes_in_pieces(make: Callable[..., Work], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bytework, "CLONE_BYTES_MAX", 250)
    source, target = MemoryTier(), _Counting()
    one = make_sample(1, (100,) * 7 + (400,), tier=Tier.DRAM)
    put(source, one)
    work = make({Tier.DRAM: source, Tier.SSD: target})
    assert isinstance(do(work, clone(1, one)), InstanceCloned)
    assert target.writes == [(0, 1), (2, 3), (4, 5), (6,), (7,)]


class _Counting(MemoryTier):
    def __init__(self) -> None:
        super().__init__()
        self.writes: list[tuple[int, ...]] = []

    def write(
        self, instance: Instance, spec: Spec, blocks: Sequence[int], checksums: Sequence[int], data: Payload
    ) -> None:
        self.writes.append(tuple(blocks))
        super().write(instance, spec, blocks, checksums, data)


def test_a_bug_is_raised_by_poll_and_nothing_more_is_done(make: Callable[..., Work]) -> None:
    tier = MemoryTier()
    work = make({Tier.DRAM: tier})
    one, two = dram(1), dram(2)  # the same slots
    do(work, StoreBlocks(1, one.instance, one.spec, (0,), one.checksums[:1], one.data[:1]))
    work.submit(StoreBlocks(2, two.instance, two.spec, (0,), two.checksums[:1], two.data[:1]))
    for _ in range(2):
        with pytest.raises(InvariantViolation, match="USE-1"):
            work.poll()


def test_a_tier_that_lies_about_a_manifest_is_not_believed(make: Callable[..., Work]) -> None:
    class Liar(PhantomTier):
        def verify(self, instance: Instance, spec: Spec, manifest: bytes) -> bytes:
            return b"something else"

    one, source = dram(1), PhantomTier()
    put(source, one)
    work = make({Tier.DRAM: source, Tier.SSD: Liar()})
    failed = do(work, VerifyInstance(1, at(one.copy, Tier.SSD), one.spec, one.manifest))
    assert isinstance(failed, WorkFailed)
    assert failed.reason is Reason.CORRUPT
    assert isinstance(do(work, clone(2, one)), WorkFailed)


# ---- delay, and the memory tier's other faults ---------------------------------------------------------------


def test_completions_of_a_delayed_tier_wait_for_resume_and_others_do_not() -> None:
    slow, fast, one = MemoryTier(), MemoryTier(), dram(1)
    work = InlineByteWork({Tier.DRAM: fast, Tier.SSD: slow})
    put(fast, one)
    slow.delay()
    work.submit(clone(1, one))
    work.submit(LoadBlocks(2, one.instance, one.spec, ()))
    assert [completion.job for completion in work.poll()] == [2]
    assert (work.poll(), work.pending) == ([], 1)
    assert slow.copies() == (one.copy,)  # the work is done; only its word is withheld
    slow.resume()
    assert [completion.job for completion in work.poll()] == [1]


def test_a_memory_tier_loses_and_crashes_on_command() -> None:
    durable, volatile = MemoryTier(durable=True), MemoryTier(capacity_bytes=1000)
    one, two = dram(1), dram(2, 2)
    for tier in (durable, volatile):
        put(tier, one)
        TierConformance.write(tier, two)
        tier.fail("load", times=5)
        tier.crash()
    assert (durable.copies(), volatile.copies(), volatile.used_bytes) == ((one.copy,), (), 0)
    assert_readable(durable, one)
    durable.lose(one.copy)
    expect(TierLost, durable.load, one.instance, one.spec, (0,))
    expect(TierRefused, durable.fail, "no-such-operation")


# ---- the port -----------------------------------------------------------------------------------------------


def test_the_driver_takes_either_as_its_port(make: Callable[..., Work]) -> None:
    class Machine:
        def step(self, event: Any, now: int) -> Ready:
            return Ready(transfer=(event,))

    class NoWire:
        def send(self, target: str, message: Any) -> None:
            raise AssertionError("nothing is to be sent")

    work, one = make({Tier.SSD: MemoryTier()}), make_sample(1)
    driver = Driver(Machine(), wire=NoWire(), bytework=work)
    driver.handle(ssd_store(1, 7), 0)
    assert work.poll() == []
    driver.flush()
    assert settle(work, 1) == [BlocksStored(7, one.copy)]
