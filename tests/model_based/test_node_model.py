"""One node against a dictionary: byte work ends in any order, or fails, or finds damage; orders and requests come as they like.

The dictionary knows what was sealed under each copy id, and who was promised what. It says: bytes that are given are the
sealed ones (BYTES-1); a copy that is whole and wanted can be read (COPY-1); memory under a guard stays as it was (USE-1);
each request is answered once (ANSWER-1); and when everything is let go, nothing is left (CAP-1). The node's own invariants
are checked by `NodeWorld.step`.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition

from pinfold.core import events, orders, reports, requests
from pinfold.core.commands import Spec
from pinfold.core.effects import CloneInstance, Instance, LoadBlocks, ReleaseInstance, StoreBlocks, VerifyInstance
from pinfold.core.ids import CopyId, Peer, Reason, Tier
from pinfold.core.node_state import NodeConfig

from ..node_world import (
    N2,
    NODE2,
    READER,
    STORE,
    WRITER,
    NodeWorld,
    checksums_of,
    config_of,
    content,
    copy_id,
    manifest_of,
    spec_of,
    write_of,
)  # fmt: skip
from .told import Told, rule

PICK = st.integers(0, 1_000)
LOCAL = st.sampled_from([Tier.DRAM, Tier.SSD])
FAILURES = st.sampled_from([Reason.FAILED, Reason.CORRUPT, Reason.LOST, Reason.NO_SPACE])


class KeepingWorld(NodeWorld):
    """A world that knows which files are published, so that it can lose the rest."""

    def __init__(self, config: NodeConfig, boot: str) -> None:
        super().__init__(config, boot)
        self.published: dict[CopyId, tuple[Spec, bytes]] = {}

    def perform(self, work: Any) -> Any:
        event = super().perform(work)
        target = getattr(work, "target", getattr(work, "instance", None))
        if isinstance(target, Instance) and target.tier is Tier.SSD:
            if isinstance(work, VerifyInstance | CloneInstance) and getattr(event, "manifest", b"") == work.manifest:
                self.published[target.copy] = (work.spec, work.manifest)
            elif isinstance(work, ReleaseInstance):
                self.published.pop(target.copy, None)
        return event


class NodeAgainstDictionary(Told):
    NAME = "node"
    COMMAND = "python -m pytest tests/model_based/test_node_model.py"

    def __init__(self) -> None:
        super().__init__()
        self.boots = 0
        self.copies = 0
        self.tokens = 0
        self.names: dict[CopyId, tuple[str, int]] = {}
        """What was ordered under each copy id: the only content that it may ever show."""
        self.whole: dict[CopyId, None] = {}
        """Told to be sealed or done."""
        self.doubtful: dict[CopyId, None] = {}
        """Freed, failed or damaged, by us: the node may say no."""
        self.reads: dict[str, CopyId] = {}
        self.heard = 0
        self.objects: dict[CopyId, CopyId] = {}
        """Spilled copies -> their source."""
        self.asked: dict[str, int] = {}
        self.mapped: dict[int, tuple[CopyId, list[tuple[Any, bytes]]]] = {}
        """Guards of processes -> copy, and the memory that they saw when they got them."""
        self.start({}, {})

    def start(self, kept: dict[Any, bytes], published: dict[CopyId, tuple[Spec, bytes]]) -> None:
        self.boots += 1
        self.world = KeepingWorld(config_of(dram=10, ssd=8, fetch_chunk=2), f"b{self.boots}")
        self.world.bytes, self.world.published = kept, published
        self.world.incarnation = self.boots
        for copy, (spec, manifest) in published.items():
            self.world.step(events.InstanceFound(copy, spec, manifest, Tier.SSD))
        self.world.register()
        self.asked = {}
        self.mapped = {}
        self.heard = 0

    def token(self) -> str:
        self.tokens += 1
        return f"t{self.tokens}"

    def new_copy(self) -> CopyId:
        self.copies += 1
        return copy_id(self.copies)

    def request(self, request: Any) -> None:
        self.asked[request.token] = self.asked.get(request.token, 0) + 1
        self.world.step(request)

    def request_done(self, request: Any) -> None:
        self.asked[request.token] = 1
        self.world.do(request)

    def wanted(self) -> list[CopyId]:
        return [copy for copy in self.whole if copy not in self.doubtful]

    def pick(self, number: int) -> CopyId:
        return list(self.names)[number % len(self.names)]

    # ---- orders --------------------------------------------------------------------------------------------------

    @rule(blocks=st.integers(1, 4), tier=LOCAL)
    def reserve(self, blocks: int, tier: Tier) -> None:
        copy = self.new_copy()
        self.names[copy] = (f"content {copy}", blocks)
        self.world.reserve(copy, f"content {copy}", blocks, tier)

    @rule(blocks=st.integers(1, 4), tier=LOCAL)
    def put(self, blocks: int, tier: Tier) -> None:
        """A whole write at once, so that there is something to read, move and lose; other byte work waits on."""
        self.reserve(blocks, tier)
        copy = copy_id(self.copies)
        if self.world.node.state.copies[copy].places:
            self.request_done(write_of(copy, f"content {copy}", range(blocks), self.token()))
            self.request_done(requests.EndWrite(WRITER, self.token(), copy, manifest_of(f"content {copy}", blocks)))

    @precondition(lambda self: self.wanted())
    @rule(number=PICK)
    def read_wanted(self, number: int) -> None:
        wanted = self.wanted()
        self.read_blocks(wanted[number % len(wanted)], 0)

    @rule(blocks=st.integers(1, 4), tier=LOCAL)
    def fetch(self, blocks: int, tier: Tier) -> None:
        copy = self.new_copy()
        name = f"content {copy}"
        self.names[copy] = (name, blocks)
        source = copy_id(copy.revision, 5)
        spec, manifest = spec_of(name, blocks), manifest_of(name, blocks)
        self.world.order(orders.Fetch(copy, spec, manifest, source, N2, NODE2, tier, 20_000))

    @precondition(lambda self: self.world.messages(requests.Read))
    @rule(number=PICK, right=st.integers(0, 9))
    def peer_answers(self, number: int, right: int) -> None:
        """Any `Read` that was ever sent is answered, perhaps again, once in a while with other bytes."""
        asks = self.world.messages(requests.Read)
        ask = asks[-1 - number % min(len(asks), 4)]
        name, blocks = self.names[copy_id(ask.copy.revision)]
        if right == 0:
            name = "wrong"
        sums = checksums_of(name, blocks)
        given = tuple(sums[block] for block in ask.blocks)
        data = tuple(content(name, block) for block in ask.blocks)
        self.world.step(requests.Blocks(N2, ask.token, ask.copy, ask.blocks, given, Tier.DRAM, data))

    @precondition(lambda self: self.names)
    @rule(number=PICK)
    def spill(self, number: int) -> None:
        source, copy = self.pick(number), self.new_copy()
        name, blocks = self.names[source]
        self.objects[copy] = source
        self.world.order(orders.Spill(copy, spec_of(name, blocks), manifest_of(name, blocks), source, STORE, 20_000))

    @precondition(lambda self: self.objects)
    @rule(number=PICK, tier=LOCAL)
    def fetch_from_store(self, number: int, tier: Tier) -> None:
        item = list(self.objects)[number % len(self.objects)]
        copy = self.new_copy()
        name, blocks = self.names[copy] = self.names[self.objects[item]]
        spec, manifest = spec_of(name, blocks), manifest_of(name, blocks)
        self.world.order(orders.Fetch(copy, spec, manifest, item, STORE, Peer(""), tier, 20_000))

    @precondition(lambda self: self.names)
    @rule(number=PICK)
    def free(self, number: int) -> None:
        copy = self.pick(number)
        self.doubtful[copy] = None
        self.world.order(orders.Free(copy))

    @precondition(lambda self: self.objects)
    @rule(number=PICK)
    def free_object(self, number: int) -> None:
        self.world.order(orders.FreeObject(list(self.objects)[number % len(self.objects)], STORE))

    @precondition(lambda self: self.names and self.world.numbers)
    @rule(number=PICK, incarnation=st.integers(-1, 1))
    def late_order(self, number: int, incarnation: int) -> None:
        world = self.world
        stale = world.numbers if incarnation == 0 else world.numbers + 5
        body = orders.Free(self.pick(number))
        world.changes_nothing(orders.Order(0, world.term, world.incarnation + incarnation, stale, body))

    # ---- requests ------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.names)
    @rule(number=PICK, wrong=st.integers(0, 9), first=st.integers(0, 1))
    def write(self, number: int, wrong: int, first: int) -> None:
        copy = self.pick(number)
        name, blocks = self.names[copy]
        numbers = range(first if blocks > 1 else 0, blocks)
        self.request(write_of(copy, name if wrong else "wrong", numbers, self.token()))

    @precondition(lambda self: self.names)
    @rule(number=PICK)
    def end_write(self, number: int) -> None:
        copy = self.pick(number)
        self.request(requests.EndWrite(WRITER, self.token(), copy, manifest_of(*self.names[copy])))

    @precondition(lambda self: self.names)
    @rule(number=PICK)
    def abort_write(self, number: int) -> None:
        self.request(requests.AbortWrite(WRITER, self.token(), self.pick(number)))

    @precondition(lambda self: self.names)
    @rule(number=PICK, block=st.integers(0, 3))
    def read(self, number: int, block: int) -> None:
        self.read_blocks(self.pick(number), block)

    def read_blocks(self, copy: CopyId, block: int) -> None:
        count = self.names[copy][1]
        blocks = (block % count,) if block else tuple(range(count))
        token = self.token()
        self.reads[token] = copy
        self.request(requests.Read(READER, token, copy, blocks))

    @precondition(lambda self: self.names)
    @rule(number=PICK, stay=st.booleans())
    def acquire(self, number: int, stay: bool) -> None:
        token = self.token()
        self.request(requests.Acquire(READER, token, "process:1/1", self.pick(number), False, stay))
        answer = self.world.replies[-1][1]
        if isinstance(answer, requests.Guarded):
            instance = Instance(answer.copy, answer.tier, answer.slots)
            keys = self.world.keys(instance, self.names[answer.copy][1])
            self.mapped[answer.guard] = (answer.copy, [(key, self.world.bytes.get(key, b"")) for key in keys])

    @precondition(lambda self: self.mapped)
    @rule(number=PICK)
    def let(self, number: int) -> None:
        guard = list(self.mapped)[number % len(self.mapped)]
        del self.mapped[guard]
        self.request(requests.Let(READER, self.token(), guard))

    @rule()
    def process_exits(self) -> None:
        self.mapped.clear()
        self.world.step(events.ProcessExited("process:1/1"))

    # ---- the world -----------------------------------------------------------------------------------------------

    @precondition(lambda self: self.world.works)
    @rule(number=PICK)
    def complete(self, number: int) -> None:
        works = list(self.world.works.values())
        self.world.complete(works[number % len(works)])

    @precondition(lambda self: self.world.works)
    @rule()
    def complete_all(self) -> None:
        self.world.complete_all()

    @precondition(lambda self: self.world.works)
    @rule(number=PICK, reason=FAILURES)
    def fail(self, number: int, reason: Reason) -> None:
        works = list(self.world.works.values())
        work = works[number % len(works)]
        if isinstance(work, CloneInstance):
            self.doubtful[work.source.copy] = None
            self.doubtful[work.target.copy] = None
        elif isinstance(work, LoadBlocks | VerifyInstance | StoreBlocks):
            self.doubtful[work.instance.copy] = None
        self.world.fail(work, reason)

    @precondition(lambda self: self.world.bytes)
    @rule(number=PICK)
    def damage(self, number: int) -> None:
        """Bits rot in a verified place that nobody has mapped."""
        watched = [key for _, seen in self.mapped.values() for key, _ in seen]
        for copy in list(self.world.node.state.copies.values()):
            for place in copy.places:
                keys = self.world.keys(place.instance, 4)
                if copy.copy.revision == number % (self.copies or 1) + 1 and not any(k in watched for k in keys):
                    self.doubtful[copy.copy] = None
                    self.world.scribble(place.instance)
                    if copy.copy in self.names:
                        self.read_blocks(copy.copy, 0)

    @precondition(lambda self: self.names)
    @rule(number=PICK)
    def writer_is_uncertain(self, number: int) -> None:
        self.world.step(events.WriterUncertain(self.pick(number)))

    @precondition(lambda self: self.names)
    @rule(number=PICK)
    def quarantine_is_lifted(self, number: int) -> None:
        self.world.step(events.QuarantineLifted(self.pick(number)))

    @rule(after_ms=st.sampled_from([0, 50, 1_000, 25_000]))
    def tick(self, after_ms: int) -> None:
        self.world.tick(after_ms)

    @rule()
    def lapse_and_return(self) -> None:
        world = self.world
        world.step(orders.RegisterAgain(0, world.term, world.incarnation))
        world.term += 1
        world.numbers = 0
        world.step(orders.Registered(0, world.term, world.node.config.name, world.node.boot, world.incarnation, 10_000))

    @precondition(lambda self: self.world.node.state.copies)
    @rule(sure=st.integers(0, 3))
    def restart(self, sure: int) -> None:
        """A new boot: volatile tiers and half-made files are gone."""
        if sure:
            return
        published = dict(self.world.published)
        kept = {
            key: data
            for key, data in self.world.bytes.items()
            if key[0] is Tier.REMOTE_SSD or (key[0] is Tier.SSD and key[2] in published)
        }
        for copy in self.names:
            self.doubtful[copy] = None
        self.start(kept, published)

    # ---- what must be true ---------------------------------------------------------------------------------------

    @invariant()
    def facts_are_true(self) -> None:
        """A copy that is told to be whole, and was not given up by us meanwhile, is readable from then on."""
        for message in self.world.messages(reports.Report):
            for fact in message.facts:
                if isinstance(fact, reports.Sealed | reports.CopyDone) and fact.copy in self.names:
                    assert fact.manifest == manifest_of(*self.names[fact.copy])
                    self.whole[fact.copy] = None
                if isinstance(fact, reports.Freed):
                    held = [copy for copy, _ in self.mapped.values()]
                    assert fact.copy not in held, "Freed was told under a guard"
        self.world.sent = [sent for sent in self.world.sent if isinstance(sent[1], requests.Read)]

    @invariant()
    def bytes_are_the_sealed_ones(self) -> None:
        for answer in self.world.answers(requests.Blocks):
            name, _ = self.names[answer.copy]
            assert answer.data == tuple(content(name, block) for block in answer.blocks)

    @invariant()
    def what_is_whole_and_wanted_can_be_read(self) -> None:
        new, self.heard = self.world.replies[self.heard :], len(self.world.replies)
        for _, answer in new:
            copy = self.reads.get(answer.token)
            if isinstance(answer, requests.NodeRefused) and copy in self.whole:
                assert copy in self.doubtful, f"{copy} is whole and wanted, and refused: {answer.refusal}"

    @invariant()
    def memory_under_a_guard_stays_as_it_was(self) -> None:
        for copy, seen in self.mapped.values():
            for key, data in seen:
                assert self.world.bytes.get(key) == data, f"{copy} was changed under a guard at {key}"

    @invariant()
    def what_the_inventory_calls_verified_can_be_read(self) -> None:
        for copy in self.world.node.state.copies.values():
            if copy.condition is reports.Condition.VERIFIED and not copy.failed:
                assert copy.manifest == manifest_of(*self.names[copy.copy])

    def end(self) -> None:
        """Faults stop, everybody lets go: each request has one answer and nothing is left."""
        world = self.world
        self.process_exits()
        world.complete_all()
        for copy in list(world.node.state.copies):
            world.order(orders.Free(copy))
        for _ in range(20):
            world.complete_all()
            world.tick(10_000)
        state = world.node.state
        assert not state.copies
        assert not world.works
        for tier, slots in state.slots.items():
            assert slots.used == slots.quarantined, f"{tier.name} leaks"
        answered: dict[str, int] = {}
        for _, answer in world.replies:
            answered[answer.token] = answered.get(answer.token, 0) + 1
        assert answered == self.asked


TestNodeAgainstDictionary = NodeAgainstDictionary.TestCase
