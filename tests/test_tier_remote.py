"""The remote store: one directory, several processes, nobody in charge but the steward."""

import subprocess
import sys
from pathlib import Path

import pytest

from pinfold.backends.remote import RemoteDirectoryStore
from pinfold.backends.ssd import SsdTier
from pinfold.backends.tier import ByteTier, TierFull, TierLost, TierRefused
from pinfold.core.effects import Instance
from pinfold.core.ids import CopyId, Tier
from pinfold.testing_disk import RecordingFiles
from pinfold.testing_file_tiers import FileTierConformance
from pinfold.testing_samples import make_sample
from pinfold.testing_tiers import TierConformance, expect

put, write, assert_readable = TierConformance.put, TierConformance.write, TierConformance.assert_readable


class TestRemoteDirectoryStore(FileTierConformance):
    """The store obeys every law; its directory is shared."""

    tier = Tier.REMOTE_SSD

    def open_in(self, directory: Path, files: RecordingFiles | None = None) -> ByteTier:
        return RemoteDirectoryStore(directory, files=files)

    def open_small_tier(self) -> ByteTier | None:
        return RemoteDirectoryStore(self.folder / "small", capacity_bytes=6000)


def test_what_one_node_publishes_another_reads_and_a_third_deletes(tmp_path: Path) -> None:
    writer, reader, steward = (RemoteDirectoryStore(tmp_path / "store") for _ in range(3))
    one = make_sample(1)
    write(writer, one)
    expect(TierLost, reader.load, one.instance, one.spec, (0,))
    assert reader.scan().found == ()
    writer.verify(one.instance, one.spec, one.manifest)
    assert_readable(reader, one)
    assert reader.scan().found[0].manifest == one.manifest
    steward.release(one.instance)
    steward.release(one.instance)
    expect(TierLost, reader.load, one.instance, one.spec, (0,))
    expect(TierLost, writer.load, one.instance, one.spec, (0,))


def test_what_a_dead_writer_left_is_named_and_can_be_released(tmp_path: Path) -> None:
    writer, steward = RemoteDirectoryStore(tmp_path / "store"), RemoteDirectoryStore(tmp_path / "store")
    one = make_sample(1)
    write(writer, one, (0,))
    writer.close()
    assert RemoteDirectoryStore(tmp_path / "store").copies() == (one.copy,)  # opening deletes nothing
    assert steward.scan().found == ()
    steward.release(one.instance)
    assert steward.copies() == ()


def test_a_writer_whose_object_was_deleted_cannot_publish_it(tmp_path: Path) -> None:
    writer, steward = RemoteDirectoryStore(tmp_path / "store"), RemoteDirectoryStore(tmp_path / "store")
    one = make_sample(1)
    write(writer, one)
    steward.release(one.instance)
    expect(TierLost, writer.verify, one.instance, one.spec, one.manifest)
    assert steward.copies() == ()
    writer.release(one.instance)


def test_a_second_writer_of_one_object_is_refused(tmp_path: Path) -> None:
    one, two = RemoteDirectoryStore(tmp_path / "store"), RemoteDirectoryStore(tmp_path / "store")
    sample = make_sample(1)
    write(one, sample, (0,))
    expect(TierRefused, write, two, sample)
    put(one, sample)
    expect(TierRefused, write, two, sample)
    assert_readable(two, sample)


def test_the_limit_counts_what_all_nodes_wrote(tmp_path: Path) -> None:
    one, two = (RemoteDirectoryStore(tmp_path / "store", capacity_bytes=10_000) for _ in range(2))
    put(one, make_sample(1))
    put(two, make_sample(2))
    assert one.used_bytes == two.used_bytes > 8192
    expect(TierFull, put, one, make_sample(3))
    two.release(make_sample(1).instance)
    put(one, make_sample(3))


def test_a_store_and_an_ssd_tier_have_the_same_files(tmp_path: Path) -> None:
    one = make_sample(1)
    tier = SsdTier(tmp_path / "ssd")
    put(tier, one)
    tier.close()
    store = RemoteDirectoryStore(tmp_path / "ssd")
    assert_readable(store, one)
    assert store.scan().foreign == ("lock",)


CHILD = """
import sys
from pathlib import Path
from pinfold.backends.remote import RemoteDirectoryStore
from pinfold.backends.tier import TierLost
from pinfold.testing_samples import make_sample
from pinfold.testing_tiers import TierConformance

store, first = RemoteDirectoryStore(Path(sys.argv[1])), int(sys.argv[2])
read = 0
for number in range(first, first + 30):
    TierConformance.put(store, make_sample(number))
    if number % 3 == 0:
        store.release(make_sample(number).instance)
    for copy in store.copies():
        other = make_sample(copy.revision)
        try:
            TierConformance.assert_readable(store, other)
            read += 1
        except TierLost:
            pass  # not published yet, or released since it was listed
    store.scan()
print(read)
"""


@pytest.mark.processes
def test_several_processes_write_read_list_and_delete_at_once(tmp_path: Path) -> None:
    RemoteDirectoryStore(tmp_path / "store").close()
    children = [
        subprocess.Popen(
            [sys.executable, "-c", CHILD, str(tmp_path / "store"), str(first)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for first in (100, 200, 300)
    ]
    for child in children:
        out, err = child.communicate(timeout=60)
        assert child.returncode == 0, err
        assert int(out) >= 20
    store = RemoteDirectoryStore(tmp_path / "store")
    expected = [number for first in (100, 200, 300) for number in range(first, first + 30) if number % 3]
    assert [found.copy.revision for found in store.scan().found] == expected
    for number in expected:
        store.release(Instance(CopyId(0, number, 0), Tier.REMOTE_SSD))
    assert list((tmp_path / "store").iterdir()) == []
