"""The SSD tier: its format, and what crashes, damage, full disks and other processes do to it."""

import errno
import hashlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from attrs import evolve

from pinfold.backends import blockfile
from pinfold.backends.files import Files
from pinfold.backends.filetier import parse_name, published_name
from pinfold.backends.ssd import SsdTier
from pinfold.backends.tier import TierCorrupt, TierFull, TierIo, TierLost, TierRefused
from pinfold.core.ids import CopyId, manifest_hash
from pinfold.testing_bad_file_tiers import SsdTierKit
from pinfold.testing_samples import make_sample
from pinfold.testing_tiers import TierConformance, expect

put, write, assert_readable = TierConformance.put, TierConformance.write, TierConformance.assert_readable


class TestSsdTier(SsdTierKit):
    """The SSD tier obeys every law."""


class TestSsdTierWithXxh3(SsdTierKit):
    checksum = "xxh3"


# ---- the format ----------------------------------------------------------------------------------------------


def test_the_format_is_the_one_that_version_1_names() -> None:
    """If this fails, a file written yesterday can't be read today: raise VERSION, and say what becomes of old files."""
    one = make_sample(7)
    header = blockfile.encode(one.copy, one.spec, one.checksums, one.manifest)
    assert len(header) == 4096
    assert header.startswith(b"pinfold\n\x01\x00")
    assert hashlib.sha256(header).hexdigest() == "0d8cb277883c4c7a7bd5f1b693602c4b5568e1e2a55d5dc865482d1466f3b671"


def test_a_header_comes_back_as_it_was(tmp_path: Path) -> None:
    one = make_sample(7, (5,) * 3000)
    tier = SsdTier(tmp_path / "t")
    put(tier, one)
    where = blockfile.geometry(one.copy, one.spec)
    assert where.data_offset > 4096
    assert where.data_offset % 4096 == 0
    raw = (tmp_path / "t" / published_name(one.copy)).read_bytes()
    assert len(raw) == where.file_bytes == tier.used_bytes
    assert raw[where.data_offset :] == b"".join(one.data)
    header = blockfile.decode("f", raw[: where.data_offset], len(raw))
    assert header == blockfile.Header(one.copy, one.spec, one.checksums, one.manifest, where)
    tier.close()


def test_names_are_copy_ids_and_nothing_else() -> None:
    assert parse_name("c0.12.3.blocks") == (CopyId(0, 12, 3), True)
    assert parse_name("c0.12.3.part") == (CopyId(0, 12, 3), False)
    for stranger in ("c0.12.3", "c0.12.blocks", "c00.12.3.blocks", "c0.12.3.blocks~", "xc0.1.1.part", "c-1.-1.-1.part"):
        assert parse_name(stranger) is None


def test_every_turned_bit_of_a_file_is_found(tmp_path: Path) -> None:
    one = make_sample(1)
    tier = SsdTier(tmp_path / "t")
    put(tier, one)
    path = tmp_path / "t" / published_name(one.copy)
    whole = path.read_bytes()
    padding = range(whole.rindex(b"}") + 1, blockfile.geometry(one.copy, one.spec).data_offset)
    for at in [at for at in range(len(whole)) if at not in padding or at % 16 == 0]:
        broken = bytearray(whole)
        broken[at] ^= 1 << at % 8
        path.write_bytes(broken)
        report = tier.scan()
        assert report.found == (), f"byte {at}"
        assert len(report.damaged) + len(report.refused) == 1
        assert bool(report.refused) == (at in (8, 9)), f"byte {at}"  # the version
    path.write_bytes(whole)
    assert len(tier.scan().found) == 1
    tier.close()


def test_every_length_but_the_right_one_is_found(tmp_path: Path) -> None:
    one = make_sample(1)
    tier = SsdTier(tmp_path / "t")
    put(tier, one)
    path = tmp_path / "t" / published_name(one.copy)
    whole = path.read_bytes()
    for length in (0, 1, 31, 32, 33, 4095, 4096, 4097, len(whole) - 1, len(whole) + 1):
        path.write_bytes(whole.ljust(length, b"\0")[:length])
        report = tier.scan()
        assert (report.found, len(report.damaged)) == ((), 1), length
    tier.close()
    assert SsdTier(tmp_path / "t").copies() == (one.copy,)  # opening does not need whole files


def test_another_format_version_is_refused_with_a_sentence_and_kept(tmp_path: Path) -> None:
    one = make_sample(1)
    tier = SsdTier(tmp_path / "t")
    put(tier, one)
    tier.close()
    path = tmp_path / "t" / published_name(one.copy)
    raw = bytearray(path.read_bytes())
    raw[8] = 9
    path.write_bytes(raw)
    tier = SsdTier(tmp_path / "t")
    report = tier.scan()
    assert [each.sentence for each in report.refused] == ["c0.1.0.blocks has format version 9; this pinfold reads version 1"]
    assert (report.found, report.damaged) == ((), ())
    expect(TierRefused, tier.load, one.instance, one.spec, (0,))
    assert path.read_bytes() == raw
    assert tier.used_bytes == len(raw)
    tier.close()


def test_another_copys_file_under_this_name_is_not_read(tmp_path: Path) -> None:
    one, two = make_sample(1, (50, 50)), make_sample(2, (50, 50))
    tier = SsdTier(tmp_path / "t")
    put(tier, one)
    tier.close()
    (tmp_path / "t" / published_name(one.copy)).rename(tmp_path / "t" / published_name(two.copy))
    tier = SsdTier(tmp_path / "t")
    expect(TierCorrupt, tier.load, two.instance, two.spec, (0,))
    assert "has the bytes of c0.1.0" in tier.scan().damaged[0].sentence
    tier.close()


# ---- room and failures ---------------------------------------------------------------------------------------


def test_room_is_counted_over_the_life_of_the_directory(tmp_path: Path) -> None:
    one, two = make_sample(1), make_sample(2)
    each = blockfile.geometry(one.copy, one.spec).file_bytes
    tier = SsdTier(tmp_path / "t", capacity_bytes=each + 100)
    write(tier, one, (0,))
    assert tier.used_bytes == each
    expect(TierFull, write, tier, two)
    put(tier, one)
    tier.close()
    tier = SsdTier(tmp_path / "t", capacity_bytes=each + 100)
    assert tier.used_bytes == each
    expect(TierFull, write, tier, two)
    tier.release(one.instance)
    tier.release(one.instance)
    assert tier.used_bytes == 0
    put(tier, two)
    tier.close()


@pytest.mark.parametrize(
    ("call", "number", "error"),
    [
        ("posix_fallocate", errno.ENOSPC, TierFull),
        ("posix_fallocate", errno.EDQUOT, TierFull),
        ("posix_fallocate", errno.EIO, TierIo),
        ("pwritev", errno.ENOSPC, TierFull),
        ("pwritev", errno.EIO, TierIo),
        ("fsync", errno.EIO, TierIo),
        ("fsync", errno.ENOSPC, TierFull),
        ("rename", errno.EACCES, TierIo),
        ("pread", errno.EIO, TierIo),
    ],
)
def test_a_failing_call_is_a_typed_error_and_nothing_is_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, number: int, error: type[TierIo]
) -> None:
    tier, one, two = SsdTier(tmp_path / "t"), make_sample(1), make_sample(2)

    def failing(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(os, call, failing)
        raised = expect(error, put, tier, one)
    assert os.strerror(number) in str(raised)
    assert tier.scan().found == ()
    expect(TierLost, tier.load, one.instance, one.spec, (0,))
    tier.release(one.instance)
    assert (tier.copies(), tier.used_bytes) == ((), 0)
    put(tier, two)
    assert_readable(tier, two)
    tier.close()


def test_after_a_failed_fsync_a_second_one_is_not_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tier, one = SsdTier(tmp_path / "t"), make_sample(1)
    write(tier, one)
    fsync, calls = os.fsync, []

    def failing(fd: int) -> None:
        calls.append(fd)
        if len(calls) == 1:
            raise OSError(errno.EIO, "lost")
        fsync(fd)

    monkeypatch.setattr(os, "fsync", failing)
    assert not expect(TierIo, tier.verify, one.instance, one.spec, one.manifest).definite
    assert "can't be published any more" in str(expect(TierIo, tier.verify, one.instance, one.spec, one.manifest))
    assert len(calls) == 1
    tier.close()


def test_a_name_that_may_not_be_durable_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tier, one = SsdTier(tmp_path / "t"), make_sample(1)
    write(tier, one)

    def failing(_: Files) -> None:
        raise TierIo("the directory can't be synced", definite=False)

    monkeypatch.setattr(Files, "sync_directory", failing)
    expect(TierIo, tier.verify, one.instance, one.spec, one.manifest)
    expect(TierLost, tier.load, one.instance, one.spec, (0,))
    assert os.listdir(tmp_path / "t") == ["lock"]
    tier.close()


def test_short_reads_and_writes_are_carried_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pread, pwritev = os.pread, os.pwritev
    monkeypatch.setattr(os, "pread", lambda fd, count, at: pread(fd, min(count, 37), at))
    monkeypatch.setattr(os, "pwritev", lambda fd, views, at: pwritev(fd, [views[0][:53]], at))
    tier, one = SsdTier(tmp_path / "t"), make_sample(1)
    put(tier, one)
    assert_readable(tier, one)
    tier.close()


def test_a_file_system_without_allocation_is_served_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unsupported(*_: object) -> None:
        raise OSError(errno.EOPNOTSUPP, "no")

    monkeypatch.setattr(os, "posix_fallocate", unsupported)
    tier, one = SsdTier(tmp_path / "t"), make_sample(1)
    put(tier, one)
    assert_readable(tier, one)
    tier.close()


def test_a_directory_that_cannot_be_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    expect(TierRefused, SsdTier, tmp_path / "file")
    expect(TierLost, SsdTier, tmp_path / "no" / "parent")


def test_the_lock_names_its_holder_and_ends_with_it(tmp_path: Path) -> None:
    tier = SsdTier(tmp_path / "t")
    assert str(os.getpid()) in str(expect(TierRefused, SsdTier, tmp_path / "t"))
    tier.close()
    SsdTier(tmp_path / "t").close()


def test_a_quick_scan_reads_headers_only_and_loads_verify(tmp_path: Path) -> None:
    tier, one = SsdTier(tmp_path / "t"), make_sample(1)
    put(tier, one)
    tier.close()
    path = tmp_path / "t" / published_name(one.copy)
    raw = bytearray(path.read_bytes())
    raw[-1] ^= 1
    path.write_bytes(raw)
    tier = SsdTier(tmp_path / "t")
    assert len(tier.scan(verify_bytes=False).found) == 1
    assert tier.scan().found == ()
    expect(TierCorrupt, tier.load, one.instance, one.spec, (3,))
    assert tier.load(one.instance, one.spec, (0,))[0] == one.checksums[:1]
    tier.close()


def test_a_group_of_no_blocks_is_kept_too(tmp_path: Path) -> None:
    one = make_sample(1)
    empty = evolve(one.spec, sizes=())
    manifest = manifest_hash(empty.key.layout, (), ())
    tier = SsdTier(tmp_path / "t")
    tier.write(one.instance, empty, (), (), ())
    assert tier.verify(one.instance, empty, manifest) == manifest
    assert tier.load(one.instance, empty, ()) == ((), ())
    tier.close()


# ---- the process dies ----------------------------------------------------------------------------------------

CHILD = """
import os, signal, sys
from pathlib import Path
from pinfold.backends.files import Files
from pinfold.backends.ssd import SsdTier
from pinfold.testing_samples import make_sample

last, steps = int(sys.argv[2]), 0

def dying(name):
    real = getattr(Files, name)
    def step(self, *args):
        global steps
        if steps == last:
            os.kill(os.getpid(), signal.SIGKILL)
        steps += 1
        return real(self, *args)
    return step

for name in ("create", "write", "read", "sync", "rename", "sync_directory"):
    setattr(Files, name, dying(name))

tier = SsdTier(Path(sys.argv[1]))
one = make_sample(2)
for block in one.blocks:
    tier.write(one.instance, one.spec, (block,), (one.checksums[block],), (one.data[block],))
tier.verify(one.instance, one.spec, one.manifest)
print("sealed", flush=True)
"""


@pytest.mark.processes
def test_a_process_killed_at_any_step_leaves_whole_copies_or_none(tmp_path: Path) -> None:
    earlier, one = make_sample(1), make_sample(2)
    outcomes: list[tuple[int, tuple[str, ...]]] = []
    while True:
        directory = tmp_path / f"t{len(outcomes)}"
        tier = SsdTier(directory)
        put(tier, earlier)
        tier.close()
        command = [sys.executable, "-c", CHILD, str(directory), str(len(outcomes))]
        child = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert child.returncode in (0, -signal.SIGKILL), child.stderr
        tier = SsdTier(directory)  # the lock has ended with its holder
        report = tier.scan()
        assert report.damaged == ()
        assert [each.copy for each in report.found] == list(tier.copies())
        for sample in (earlier, one)[: len(report.found)]:
            assert_readable(tier, sample)
        if child.stdout == "sealed\n":
            assert len(report.found) == 2
            break
        outcomes.append((len(report.found), report.removed))
        tier.close()
    tier.close()
    # create, 4 writes, read back, header, sync, rename: a part file, once it is there; then the sync of the directory
    assert outcomes == [(1, ())] + [(1, ("c0.2.0.part",))] * 8 + [(2, ())]
