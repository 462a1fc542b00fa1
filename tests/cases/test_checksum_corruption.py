"""Bytes that are not those that were written."""

from pathlib import Path

from pinfold.backends.bytework import InlineByteWork
from pinfold.backends.filetier import published_name
from pinfold.backends.ssd import SsdTier
from pinfold.core import events, orders, reports
from pinfold.core.effects import Instance, LoadBlocks
from pinfold.core.ids import CopyId, Reason, Tier, manifest_hash
from pinfold.testing import Sample, make_sample
from tests.cases.story import fetched, small_node
from tests.node_world import NodeWorld, copy_id, fetch_of, manifest_of, read_of

C1, C2 = copy_id(1), copy_id(2)


def kept(tier: SsdTier, one: Sample) -> None:
    tier.write(one.instance, one.spec, one.blocks, one.checksums, one.data)
    tier.verify(one.instance, one.spec, one.manifest)


def same_group_other_bytes(one: Sample, number: int) -> Sample:
    """Another copy of the same group, made after the first had gone, with other bytes."""
    import zlib

    data = tuple(bytes(len(block)) for block in one.data)
    sums = tuple(zlib.crc32(block) for block in data)
    copy = CopyId(0, number, 0)
    return Sample(Instance(copy, Tier.SSD), one.spec, data, sums, manifest_hash(one.spec.key.layout, one.spec.sizes, sums))


def flipped(path: Path, _: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def cut_short(path: Path, _: Path) -> None:
    path.write_bytes(path.read_bytes()[:-10])


def zeroed(path: Path, _: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def emptied(path: Path, _: Path) -> None:
    path.write_bytes(b"")


def of_another_version(path: Path, _: Path) -> None:
    data = bytearray(path.read_bytes())
    data[8] += 1
    path.write_bytes(data)


def swapped(path: Path, other: Path) -> None:
    spare = path.with_name("spare")
    path.rename(spare)
    other.rename(path)
    spare.rename(other)


FAULTS = (flipped, cut_short, zeroed, emptied, of_another_version, swapped)


def test_c74_corruption_what_is_on_disk_is_read_as_what_it_is_or_not_at_all(tmp_path: Path) -> None:
    """LMCache #4558. Added a checksum per chunk, a fingerprint of the key and a format version to what is stored, and takes any
    difference for a miss.

    Here every bit of a file is under a checksum, and its header says whose it is, by copy id: the files of two copies of one
    group, changed about, are both refused, although each is whole. Whatever the fault, the read is an error, in a running tier
    and after a restart; what was not touched is read; and what is bad gives its room back.
    """
    for number, fault in enumerate(FAULTS):
        folder = tmp_path / f"{number}"
        one = make_sample(5)
        other = same_group_other_bytes(one, 6)
        good = make_sample(7)
        tier = SsdTier(folder)
        for sample in (one, other, good):
            kept(tier, sample)
        room = tier.used_bytes
        work = InlineByteWork({Tier.SSD: tier})
        fault(folder / published_name(one.copy), folder / published_name(other.copy))
        for restarted in (False, True):
            if restarted:
                tier.close()
                tier = SsdTier(folder)
                work = InlineByteWork({Tier.SSD: tier})
                report = tier.scan()
                assert one.copy not in [found.copy for found in report.found]
                assert good.copy in [found.copy for found in report.found]
            if restarted or (fault is not of_another_version and fault is not swapped):
                work.submit(LoadBlocks(1, one.instance, one.spec, one.blocks))
                (ended,) = work.poll()
                assert isinstance(ended, events.WorkFailed), fault
            work.submit(LoadBlocks(2, good.instance, good.spec, good.blocks))
            (loaded,) = work.poll()
            assert isinstance(loaded, events.BlocksLoaded)
        for sample in (one, other, good):
            tier.release(sample.instance)
        assert tier.used_bytes == 0 < room
        kept(tier, one)
        assert tuple(bytes(block) for block in tier.load(one.instance, one.spec, one.blocks)[1]) == one.data
        tier.close()

    node = NodeWorld()
    node.register()
    node.put(C1, "G", tier=Tier.SSD)
    node.scribble(node.node.state.copies[C1].places[0].instance)
    node.do(read_of(C1))
    assert node.facts()[-1] == reports.CopyLost(C1, Reason.CORRUPT)
    node.complete_all()
    assert node.used(Tier.SSD) == 0
    node.put(C2, "G", tier=Tier.SSD)
    assert node.read(C2).tier is Tier.SSD

    target = small_node(4)
    target.order(fetch_of("G", C1))
    target.step(fetched(target, "other"))
    target.complete_all()
    assert target.facts() == [reports.CopyFailed(C1, Reason.CORRUPT)]
    target.order(orders.Free(C1))
    target.complete_all()
    target.order(fetch_of("G", C2))
    target.step(fetched(target, "G"))
    target.complete_all()
    assert target.facts()[-1] == reports.CopyDone(C2, manifest_of("G"))
