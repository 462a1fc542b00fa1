"""The audit sees what it is there for: each thing that must not be, planted by hand, is found; and nothing else is."""

from pathlib import Path

import pytest
from attrs import evolve

from pinfold.backends.base import StoreMissing
from pinfold.backends.checksums import checksums
from pinfold.backends.remote import RemoteDirectoryStore
from pinfold.core.answers import Located, PrefixPinned
from pinfold.core.audit import Finding, audit
from pinfold.core.calls import Ask, Do, Done, PutGroup
from pinfold.core.client_state import ClientConfig
from pinfold.core.commands import Locate, PinPrefix, Spec
from pinfold.core.effects import Instance
from pinfold.core.errors import InvariantViolation
from pinfold.core.ids import CopyId, GroupId, NodeName, Peer, Tier, manifest_hash
from pinfold.core.reports import Condition, InventoryEntry
from pinfold.core.state import DirectoryState
from pinfold.demo_audit import objects, restless, stored_state
from pinfold.embedded import DIRECTORY, EmbeddedCluster, EmbeddedConfig
from pinfold.workload import Family, generate, members, payload

CLIENT = Peer("client/a")
N1 = NodeName("n1")
FAMILY = Family()


def cluster_with_groups() -> tuple[EmbeddedCluster, list[GroupId]]:
    """One node, three groups, nobody holds anything."""
    cluster = EmbeddedCluster(EmbeddedConfig())
    cluster.settle()
    cluster.add_client(ClientConfig(CLIENT, (DIRECTORY,), "a"))
    found = next(found for request in generate(1, 50) if len(found := members(request, 2, FAMILY)) >= 3)[:3]
    for member in found:
        spec = Spec(member.group, member.key, member.sizes)
        assert isinstance(cluster.call(CLIENT, PutGroup(spec, member.hash_ids)), Done)
    cluster.advance(2_000)
    return cluster, [member.group for member in found]


def inventory(cluster: EmbeddedCluster) -> list[InventoryEntry]:
    return list(cluster.node("n1").inventory())


def kinds(state: DirectoryState, entries: list[InventoryEntry], cluster: EmbeddedCluster) -> list[str]:
    found: list[Finding] = audit(state, {N1: entries}, cluster.config.directory)
    return [finding.kind for finding in found]


def test_at_rest_there_is_nothing_to_find() -> None:
    cluster, _ = cluster_with_groups()
    assert kinds(cluster.state, inventory(cluster), cluster) == []


def test_a_copy_that_no_record_has_is_an_orphan() -> None:
    cluster, _ = cluster_with_groups()
    entries = inventory(cluster)
    orphan = evolve(entries[0], copy=CopyId(0, 999, 0))
    assert kinds(cluster.state, [*entries, orphan], cluster) == ["orphan_copy"]


def test_a_copy_that_its_node_lacks_is_missing() -> None:
    cluster, _ = cluster_with_groups()
    assert kinds(cluster.state, inventory(cluster)[1:], cluster) == ["missing_copy"]


@pytest.mark.parametrize("change", [{"manifest": b"x" * 16}, {"condition": Condition.RESERVED}, {"slots": 1}])
def test_other_bytes_than_the_record_says_are_a_violation(change: dict[str, object]) -> None:
    cluster, _ = cluster_with_groups()
    first, *rest = inventory(cluster)
    assert kinds(cluster.state, [evolve(first, **change), *rest], cluster) == ["violation"]


def test_a_hold_at_the_end_is_a_leak() -> None:
    cluster, groups = cluster_with_groups()
    pinned = cluster.call(CLIENT, Do(PinPrefix(tuple(groups), "r")))
    assert isinstance(pinned, Done)
    assert isinstance(pinned.value, PrefixPinned)
    assert kinds(cluster.state, inventory(cluster), cluster) == ["leaked_hold"] * 3


def test_a_record_that_breaks_an_invariant_ends_the_audit() -> None:
    cluster, groups = cluster_with_groups()
    state = cluster.state.copy()
    state.groups[groups[0]] = evolve(state.groups[groups[0]], manifest=b"")
    with pytest.raises(InvariantViolation):
        audit(state, {N1: inventory(cluster)}, cluster.config.directory)


# ---- at rest -------------------------------------------------------------------------------------------------


def test_a_cluster_is_at_rest_when_nobody_has_a_session_and_nothing_is_under_way(tmp_path: Path) -> None:
    cluster, groups = cluster_with_groups()
    assert any("session" in line for line in restless(cluster.state, {}))
    cluster.remove_client(CLIENT)
    cluster.advance(30_000)
    assert restless(cluster.state, {}) == []
    cluster.crash_node("n1")
    cluster.advance(10_000)
    assert [line.rpartition(" is ")[2] for line in restless(cluster.state, {})] == ["absent"] * len(groups)


def test_a_reader_of_records_makes_no_store_where_there_is_none(tmp_path: Path) -> None:
    with pytest.raises(StoreMissing):
        stored_state(tmp_path / "none")
    assert not (tmp_path / "none").exists()


# ---- shared stores -------------------------------------------------------------------------------------------


def put_object(folder: Path, copy: CopyId, *, publish: bool = True) -> None:
    member = members(next(generate(1, 1)), 2, FAMILY)[0]
    spec = Spec(member.group, member.key, member.sizes)
    data = tuple(payload(member.group, block, 4_096) for block in range(member.key.blocks))
    sums = checksums("crc32", data)
    store = RemoteDirectoryStore(folder)
    instance = Instance(copy, Tier.REMOTE_SSD, (), NodeName("shared"))
    store.write(instance, spec, tuple(range(len(data))), sums, data)
    if publish:
        store.verify(instance, spec, manifest_hash(member.key.layout, member.sizes, sums))
    store.close()


def test_objects_of_a_store_are_read_and_what_is_damaged_is_a_violation(tmp_path: Path) -> None:
    put_object(tmp_path, CopyId(0, 5, 0))
    put_object(tmp_path, CopyId(0, 6, 0), publish=False)
    entries, bad = objects(tmp_path)
    assert [(entry.copy.revision, entry.condition) for entry in entries] == [(5, Condition.VERIFIED), (6, Condition.RESERVED)]
    assert bad == []
    [file] = [file for file in tmp_path.iterdir() if ".5." in file.name]
    damaged = bytearray(file.read_bytes())
    damaged[-1] ^= 1
    file.write_bytes(damaged)
    _, bad = objects(tmp_path)
    assert [finding.kind for finding in bad] == ["violation"]


def test_an_object_that_no_record_has_is_not_rest(tmp_path: Path) -> None:
    cluster, _ = cluster_with_groups()
    cluster.remove_client(CLIENT)
    cluster.advance(30_000)
    put_object(tmp_path, CopyId(0, 999, 0))
    assert restless(cluster.state, {"shared": tmp_path}) == ["object c0.999.0 in shared is in no record"]


def test_locate_and_records_agree() -> None:
    cluster, groups = cluster_with_groups()
    located = cluster.call(CLIENT, Ask(Locate(Peer(""), "", tuple(groups))))
    assert isinstance(located, Done)
    assert isinstance(located.value, Located)
    assert [route.copy for route in located.value.routes] == [entry.copy for entry in inventory(cluster)]
