"""Tiers against a dictionary: seeded walks of writes, seals, reads, releases, damage, restarts and power losses.

A walk knows which bytes of which instance were written, sealed, damaged or let go. Buffers that it gave are spoilt afterwards,
and those that it was given are looked at again at the end. Some steps are done in another thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from attrs import define, field

from pinfold.backends.checksums import checksums
from pinfold.backends.tier import ByteTier, TierCorrupt, TierError, TierFull, TierLost, TierRefused
from pinfold.chaos.sim_shape import Chance
from pinfold.core.effects import Instance
from pinfold.testing_bad_file_tiers import SsdTierKit
from pinfold.testing_bad_tiers import MemoryTierKit
from pinfold.testing_disk import RecordingFiles, crash_images
from pinfold.testing_samples import Sample
from pinfold.testing_tiers import TierConformance

STEPS = 160
COPIES = range(1, 7)
BLOCKS = 4
STRANGER = "README"


@define
class Kept:
    """One instance: its blocks as they were written, and what became of them. `damaged`: blocks of which a bit was turned."""

    sample: Sample
    blocks: dict[int, bytes] = field(factory=dict)
    sealed: bool = False
    damaged: set[int] = field(factory=set)


class Walk:
    """One tier and what must be in it."""

    def __init__(self, seed: int, kit: TierConformance) -> None:
        self.chance = Chance(seed)
        self.kit = kit
        self.tier: ByteTier = kit.fresh()
        self.kept: dict[int, Kept] = {}
        self.gone: list[Sample] = []
        self.given: list[tuple[bytes, Any]] = []
        self.on_disk = isinstance(kit, SsdTierKit)
        if self.on_disk:
            (kit.folder / "tier" / STRANGER).write_text("not ours")

    # ---- names and bytes -------------------------------------------------------------------------------------

    def sample(self, number: int) -> Sample:
        """Copy `number`; with slots that no other has, where the tier has slots."""
        taken = {slot for one in self.kept.values() for slot in one.sample.instance.slots}
        free = [slot for slot in range(self.kit.slots) if slot not in taken]
        at = self.chance.below(max(1, len(free) - BLOCKS))
        sizes = (100, 50, 0, 70) if number % 2 else ()
        return self.kit.sample(number, sizes, slots=tuple(free[at : at + BLOCKS]))

    def any(self) -> Kept | None:
        return self.chance.pick(list(self.kept.values())) if self.kept else None

    def some_blocks(self) -> tuple[int, ...]:
        return tuple(self.chance.below(BLOCKS) for _ in range(self.chance.below(BLOCKS + 2)))

    # ---- steps -----------------------------------------------------------------------------------------------

    def write(self) -> None:
        number = self.chance.pick(COPIES)
        one = self.kept.get(number) or Kept(self.sample(number))
        blocks = tuple(dict.fromkeys(self.some_blocks()))
        good = self.chance.below(4) > 0
        data = [one.sample.data[block] if good else bytes(len(one.sample.data[block])) for block in blocks]
        sums = [one.sample.checksums[block] for block in blocks]
        if not good and self.chance.below(2):
            sums = list(checksums(self.kit.checksum, data))
        lent = tuple(bytearray(each) for each in data)
        if one.sealed:
            with pytest.raises(TierError):
                self.tier.write(one.sample.instance, one.sample.spec, blocks or (0,), tuple(sums) or (0,), lent or (b"",))
            return
        if not blocks:
            return
        self.tier.write(one.sample.instance, one.sample.spec, blocks, tuple(sums), lent)
        for buffer in lent:
            buffer[:] = b"\xee" * len(buffer)
        self.kept[number] = one
        one.blocks.update(zip(blocks, data, strict=True))
        one.damaged -= set(blocks)

    def put(self) -> None:
        """Write all of it, over whatever was written before, and seal it."""
        number = self.chance.pick(COPIES)
        one = self.kept.get(number) or Kept(self.sample(number))
        if not one.sealed:
            self.kit.put(self.tier, one.sample)
            self.kept[number] = Kept(one.sample, dict(enumerate(one.sample.data)), True)

    def malformed(self) -> None:
        one = self.any()
        if one is None or one.sealed:
            return
        sample, data = one.sample, one.sample.data[0]
        for blocks, buffers in (((0,), (data + b"x",)), ((0,), (data[:-1],)), ((BLOCKS,), (data,)), ((0,), ())):
            with pytest.raises(TierRefused):
                self.tier.write(sample.instance, sample.spec, blocks, sample.checksums[:1], buffers)

    def verify(self) -> None:
        one = self.any()
        if one is None:
            return
        sample = one.sample
        right = self.chance.below(4) > 0
        manifest = sample.manifest if right else bytes(reversed(sample.manifest))
        intact = not one.damaged and all(one.blocks.get(block) == sample.data[block] for block in range(BLOCKS))
        if len(one.blocks) < BLOCKS:
            with pytest.raises(TierLost):
                self.tier.verify(sample.instance, sample.spec, manifest)
        elif right and intact:
            assert self.tier.verify(sample.instance, sample.spec, manifest) == manifest
            one.sealed = True
        else:
            with pytest.raises(TierCorrupt):
                self.tier.verify(sample.instance, sample.spec, manifest)

    def load(self) -> None:
        one = self.any()
        if one is None:
            return
        sample, blocks = one.sample, self.some_blocks()
        if not one.sealed:
            with pytest.raises(TierLost):
                self.tier.load(sample.instance, sample.spec, blocks or (0,))
        elif one.damaged & set(blocks):
            with pytest.raises(TierCorrupt):
                self.tier.load(sample.instance, sample.spec, blocks)
        else:
            sums, data = self.tier.load(sample.instance, sample.spec, blocks)
            assert tuple(sums) == tuple(sample.checksums[block] for block in blocks)
            assert [bytes(each) for each in data] == [sample.data[block] for block in blocks]
            self.given += [(bytes(each), each) for each in data]

    def release(self) -> None:
        number = self.chance.pick(COPIES)
        one = self.kept.pop(number, None)
        sample = one.sample if one is not None else self.sample(number)
        self.tier.release(sample.instance)
        self.gone.append(sample)
        with pytest.raises(TierLost):
            self.tier.load(sample.instance, sample.spec, (0,))

    def release_late(self) -> None:
        """Once more, what was released: by its own slots, so that a newer instance does not notice."""
        held = [one.sample.instance for one in self.kept.values()]
        for sample in self.gone[-3:]:
            if sample.instance not in held:
                self.tier.release(sample.instance)

    def damage(self) -> None:
        one = self.any()
        if one is None:
            return
        block = self.chance.pick([block for block in range(BLOCKS) if one.sample.data[block]])
        if one.blocks.get(block) == one.sample.data[block] and block not in one.damaged:
            self.kit.turn_a_bit(self.tier, one.sample, block)
            one.damaged.add(block)

    def tell(self) -> None:
        found = [each.copy.revision for each in self.tier.scan().found]
        looks = self.on_disk  # a scan of files reads them; one of memory tells what is known of it
        assert found == [number for number, one in sorted(self.kept.items()) if one.sealed and not (looks and one.damaged)]
        assert [copy.revision for copy in self.tier.copies()] == sorted(self.kept)
        if self.on_disk:
            assert (self.kit.folder / "tier" / STRANGER).read_text() == "not ours"

    def again(self) -> None:
        """Closed, and opened again: memory is empty, a disk has what was sealed."""
        if self.on_disk:
            with pytest.raises(TierRefused):
                self.kit.open_tier()
        self.tier.close()
        for call in (self.tier.scan, self.tier.copies, lambda: self.tier.release(Instance(self.sample(1).copy, self.kit.tier))):
            with pytest.raises(TierRefused):
                call()
        self.tier = self.kit.fresh()
        self.kept = {number: one for number, one in self.kept.items() if self.on_disk and one.sealed}
        self.tell()

    def step(self) -> None:
        steps: list[Callable[[], None]] = [self.write] * 5 + [self.put] * 3 + [self.verify] * 3 + [self.load] * 4
        steps += [self.release, self.release_late, self.damage, self.damage, self.damage, self.tell, self.tell, self.malformed]
        if self.chance.below(40) == 0:
            self.again()
        step = self.chance.pick(steps)
        try:
            if self.chance.below(8) == 0:
                with ThreadPoolExecutor(1) as other:
                    other.submit(step).result()
            else:
                step()
        except TierError as error:
            raise AssertionError(f"a good tier does what {step.__name__} asks of it: {error}") from error


@contextmanager
def opened(kit: type[TierConformance]) -> Iterator[TierConformance]:
    case = kit()
    case.setup_method()
    try:
        yield case
    finally:
        case.teardown_method()


@pytest.mark.parametrize("kit", [MemoryTierKit, SsdTierKit])
@pytest.mark.parametrize("seed", range(4))
def test_a_tier_does_what_a_dictionary_does(kit: type[TierConformance], seed: int) -> None:
    with opened(kit) as case:
        walk = Walk(seed, case)
        for _ in range(STEPS):
            walk.step()
        walk.tell()
        assert [bytes(each) for _, each in walk.given] == [seen for seen, _ in walk.given]


@pytest.mark.parametrize("kit", [MemoryTierKit, SsdTierKit])
def test_a_tier_that_is_full_has_room_for_as_much_as_before(kit: type[TierConformance]) -> None:
    with opened(kit) as case:
        tier = case.open_small_tier()
        assert tier is not None
        case.keep(tier)
        chance = Chance(5)
        for _ in range(12):
            first, second = case.sample(1, slots=(0, 1, 2, 3)), case.sample(2, slots=(4, 5, 6, 7))
            try:
                case.put(tier, first)
            except TierFull as error:
                raise AssertionError("it is empty, and has no room") from error
            for _ in range(chance.below(3)):
                with pytest.raises(TierFull):
                    case.write(tier, second)
            case.assert_readable(tier, first)
            tier.release(first.instance)
            assert tier.copies() == ()


@pytest.mark.parametrize("seed", range(2))
def test_after_a_power_loss_what_was_sealed_is_there_and_nothing_else(seed: int) -> None:
    """Copies are written, sealed and released in any order; the power fails at points all along it."""
    chance = Chance(seed)
    with opened(SsdTierKit) as case:
        assert isinstance(case, SsdTierKit)
        files = RecordingFiles(case.folder / "tier")
        tier = case.keep(case.open_in(case.folder / "tier", files))
        samples = {number: case.sample(number, (40, 0, 30, 20)) for number in COPIES}
        sealed: set[int] = set()
        for _ in range(14):
            number = chance.pick(COPIES)
            if number in sealed:
                files.mark(f"-{number}")
                sealed.remove(number)
                tier.release(samples[number].instance)
            else:
                case.write(tier, samples[number])
                if chance.below(4):
                    tier.verify(samples[number].instance, samples[number].spec, samples[number].manifest)
                    files.mark(f"+{number}")
                    sealed.add(number)
                else:
                    tier.release(samples[number].instance)
        tier.close()
        for at, image in enumerate(crash_images(files.log)):
            if chance.below(3):
                continue
            image.write_to(case.folder / f"image-{at}")
            after = case.keep(case.open_in(case.folder / f"image-{at}"))
            report = after.scan()
            last = {int(mark[1:]): mark[0] for mark in image.marks}
            told = {found.copy.revision for found in report.found}
            assert told >= {number for number, sign in last.items() if sign == "+"}, image.story
            assert report.damaged == (), image.story
            for found in report.found:
                case.assert_readable(after, samples[found.copy.revision])
            after.close()
