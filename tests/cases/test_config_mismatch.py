"""Bytes of one shape taken for bytes of another."""

import os
import subprocess
import sys
from pathlib import Path

import attrs
import pytest

from pinfold.backends.dram import DramTier
from pinfold.backends.tier import TierRefused
from pinfold.core import commands as c
from pinfold.core import reports, requests
from pinfold.core.answers import Exists
from pinfold.core.errors import PeerError
from pinfold.core.ids import CopyId, Key, Layout, Role, State, Tier, group_id, manifest_hash
from pinfold.testing import make_sample
from pinfold.transport.codec import decode, encode
from tests.cases.story import fetched, small_node
from tests.directory_world import MANIFEST, N1, N2, OTHER_MANIFEST, World, id_of, spec_of
from tests.node_world import copy_id, fetch_of

C1 = copy_id(1)
ROOT = Path(__file__).resolve().parent.parent.parent
HALF = Layout("float16", (2, 16, 8, 128), "C", 65_536, "crc32")
KEY = Key("tenant", "llama", "r1", HALF, "prefix", 4, (0, 32), (0, 8), (0, 64))
GOLDEN = {
    "group": "68b36704357250f3f673b52feb6a6380",
    "manifest": "6bd1b14a7ba1d43563f0da40f4ea2853",
}
"""Of `KEY`, and of four blocks with checksums 1 to 4. Change them only together with the format versions that rest on them."""


def others(key: Key) -> dict[str, Key]:
    """The same key with one field changed, for each field of it and of its layout."""
    layouts = {
        "dtype": attrs.evolve(key.layout, dtype="bfloat16"),
        "shape": attrs.evolve(key.layout, shape=(2, 32, 8, 64)),
        "order": attrs.evolve(key.layout, order="F"),
        "block_bytes": attrs.evolve(key.layout, block_bytes=32_768),
        "checksum": attrs.evolve(key.layout, checksum="xxh3"),
    }
    assert set(layouts) == {field.name for field in attrs.fields(Layout)}
    fields = {
        "tenant": attrs.evolve(key, tenant="other"),
        "model": attrs.evolve(key, model="other"),
        "model_revision": attrs.evolve(key, model_revision="r2"),
        "prefix": attrs.evolve(key, prefix="other"),
        "blocks": attrs.evolve(key, blocks=5),
        "layers": attrs.evolve(key, layers=(0, 16)),
        "heads": attrs.evolve(key, heads=(0, 4)),
        "tokens": attrs.evolve(key, tokens=(64, 128)),
    }
    assert {*fields, "layout"} == {field.name for field in attrs.fields(Key)}
    return fields | {f"layout.{name}": attrs.evolve(key, layout=layout) for name, layout in layouts.items()}


def test_c100_mismatch_every_field_of_a_layout_is_part_of_what_a_group_is() -> None:
    """vLLM #42895 (also #49230). The compatibility fingerprint left out things that matter: servers that could not understand
    each other reported healthy, and then each request failed or the long ones crashed.

    Here layout is identity: with any one field changed it is another group, which no move, route or manifest of the first one
    reaches. Where the id is the same and the key is not, or a slab's slots are too small, the refusal comes before a byte does.
    A node tells at the join what its slots hold: nothing is placed where it does not fit, and where it fits nowhere that is said.
    """
    keys = others(KEY)
    ids = {name: group_id(key) for name, key in keys.items()}
    assert len({*ids.values(), group_id(KEY)}) == len(keys) + 1
    hashes = {manifest_hash(key.layout, (8,) * 4, (1, 2, 3, 4)) for key in keys.values() if key.layout != KEY.layout}
    assert len(hashes) == 5
    assert manifest_hash(KEY.layout, (8,) * 4, (1, 2, 3, 4)) not in hashes

    world = World()
    world.put("G")
    for key in keys.values():
        liar = c.Spec(group_id(KEY), key, (8,) * key.blocks)
        refusal = world.refused(c.Create(liar), "BadRequest")
        assert refusal.guard == "group_id"
    move = world.move("G")
    world.report(N2, reports.CopyDone(move, OTHER_MANIFEST))
    assert world.is_in("G", State.LOCAL)
    assert world.role(move) is Role.FREEING

    for name in (N1, N2):
        world.register(name, block_bytes=64 if name == N1 else 4096)
        world.inventory(name)
    created = world.do(c.Create(spec_of("H"), N1))
    assert created.node == N2, "what N1's slots hold is too little"
    world.register(N2, block_bytes=64)
    assert world.refused(c.Create(spec_of("I")), "TooLarge").guard == "block_bytes"

    slab = DramTier(4, 64)
    sample = make_sample(1, (100, 60), slots=(0, 1), tier=Tier.DRAM)
    with pytest.raises(TierRefused, match="a slot has 64"):
        slab.write(sample.instance, sample.spec, (1,), sample.checksums[1:], sample.data[1:])
    assert slab.copies() == ()

    node = small_node(4)
    node.order(fetch_of("G", C1))
    node.step(fetched(node, "other layout"))
    node.complete_all()
    assert not [fact for fact in node.facts() if isinstance(fact, reports.CopyDone)]

    head = encode(requests.NodeStat(requests.Peer("client/a"), "t"), "client/a")[0]
    assert decode([head])[1].token == "t"
    for odd in (bytes(head) + b"\xc0", bytes(head).replace(b"NodeStat", b"NodeStaz")):
        with pytest.raises(PeerError, match=r"not a message|no message"):
            decode([odd])


SCRIPT = """
from pinfold.core.ids import Key, Layout, group_id, manifest_hash
key = {key!r}
print(group_id(key).hex(), manifest_hash(key.layout, (8,) * 4, (1, 2, 3, 4)).hex())
"""


def ids_of_another_process(seed: str) -> list[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": seed}
    script = [sys.executable, "-c", SCRIPT.format(key=KEY)]
    done = subprocess.run(script, capture_output=True, text=True, timeout=60, check=True, env=environment)
    return done.stdout.split()


def test_c102_mismatch_keys_are_the_same_in_every_process_and_for_all_time() -> None:
    """LMCache #1139, #2979 (also vLLM #12621, #51875). Keys rested on a random seed of the process, or on Python's own hash:
    other processes never hit, nor did the same one after a restart. The seed was random so that nobody could plan collisions.

    Here an id is a strong hash of every field, the tenant among them: equal in processes with other seeds, and equal to what is
    written down in this file. Two contents under one key are told apart by their manifest, and the second one is never served.
    """
    ours = [group_id(KEY).hex(), manifest_hash(KEY.layout, (8,) * 4, (1, 2, 3, 4)).hex()]
    assert ours == [GOLDEN["group"], GOLDEN["manifest"]]
    for seed in ("1", "2"):
        assert ids_of_another_process(seed) == ours
    assert group_id(attrs.evolve(KEY, tenant="other")).hex() != ours[0]

    world = World()
    copy = world.put("G")
    again = world.do(c.Create(spec_of("G")))
    assert isinstance(again, Exists)
    assert again.route.manifest == MANIFEST
    world.do(c.Unpin(again.hold))
    world.inventory(world.copy(copy).node, [attrs.evolve(world.entries(world.copy(copy).node)[0], manifest=OTHER_MANIFEST)])
    assert world.state.groups.get(id_of("G")) is None or not world.is_in("G", State.LOCAL)
    assert isinstance(copy, CopyId)
