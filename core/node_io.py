"""Writing and reading: `Write`, `EndWrite`, `AbortWrite`, `Read`, `NodeStat`, and the completions of their byte work.

A write ends here, with a manifest: the node reads back what is really there and only then calls the copy verified (finding
8). A read gives bytes whose checksums it has compared, or an error (BYTES-1).
"""

from __future__ import annotations

from .effects import LoadBlocks, StoreBlocks, VerifyInstance
from .errors import InvariantViolation
from .events import BlocksLoaded, InstanceVerified, WorkFailed
from .freeing import place_is_bad, settle
from .guards import guard_lines, stores_running, why_unreadable, why_unwritable, writer_guard
from .ids import Peer, Reason, manifest_hash
from .local_moves import promote
from .node_state import Copy, Ending, Kind, Stage, Work, fills, mask_of, place_of, readable_place
from .node_turn import Turn
from .records import evolve
from .reports import Condition, CopyFailed, Sealed
from .requests import AbortWrite, Blocks, EndWrite, NodeStat, NodeStatus, Read, Write, WriteAborted, WriteEnded, Written


def bad_blocks(blocks: tuple[int, ...], count: int) -> bool:
    """Whether these are not distinct indices of a group of `count` blocks, at least one of them."""
    return not blocks or min(blocks) < 0 or max(blocks) >= count or mask_of(blocks).bit_count() != len(blocks)


def too_many(turn: Turn, kind: Kind, limit: int) -> bool:
    """Whether `limit` works of this kind run. All work is counted first: that alone answers nearly always."""
    works = turn.state.works
    return len(works) >= limit and sum(1 for work in works.values() if work.kind is kind) >= limit


# ---- writing -------------------------------------------------------------------------------------------------


def write(turn: Turn, request: Write) -> None:
    """Store blocks of a reserved copy; the running store is the write guard."""
    copy = turn.state.copies.get(request.copy)
    reason, check = why_unwritable(copy, request.client)
    if reason or copy is None:
        turn.deny(request, reason, guard=check)
        return
    count = len(request.blocks)
    if count > turn.config.request_blocks_max:
        turn.deny(request, "TooLarge", guard="request_blocks_max")
    elif bad_blocks(request.blocks, len(copy.spec.sizes)):
        turn.deny(request, "BadRequest", "blocks are distinct indices into the group's sizes", guard="blocks_in_range")
    elif len(request.checksums) != count or len(request.data) not in (0, count):
        turn.deny(request, "BadRequest", "one checksum and one buffer per block", guard="lengths_equal")
    elif too_many(turn, Kind.STORE, turn.config.writes_max):
        turn.deny(request, "Overloaded", guard="writes_max")
    else:
        mask = mask_of(request.blocks)
        for running, client, token in stores_running(turn.state, copy.copy):
            if (client, token) == (request.client, request.token):
                turn.drop()  # repeated while it runs: its answer is on the way
                return
            if running & mask:
                # which of two stores to one block is the later one is for nobody to say
                turn.deny(request, "Overloaded", "a block of these is being stored", guard="one_store_per_block")
                return
        instance = copy.places[0].instance
        job = turn.begin(
            Kind.STORE, copy.copy, instance.tier, ((copy.copy, instance.tier),),
            client=request.client, token=request.token, blocks=request.blocks, checksums=request.checksums,
        )  # fmt: skip
        turn.transfer(StoreBlocks(job, instance, copy.spec, request.blocks, request.checksums, request.data))


def note_stored(copy: Copy, blocks: tuple[int, ...], checksums: tuple[int, ...]) -> Copy:
    """The copy with these blocks there and their checksums known."""
    known = list(copy.checksums or (0,) * len(copy.spec.sizes))
    for block, checksum in zip(blocks, checksums, strict=True):
        known[block] = checksum
    return evolve(copy, stored=copy.stored | mask_of(blocks), checksums=tuple(known))


def write_stored(turn: Turn, work: Work) -> None:
    """The store of a `Write` is done. If the write has ended meanwhile the blocks went nowhere, and the writer is told so."""
    copy = turn.state.copies[work.copy]
    if copy.condition is Condition.FREEING:
        turn.refuse(work.client, work.token, copy.copy, "Freeing", guard="not_freeing")
    elif copy.failed:
        turn.refuse(work.client, work.token, copy.copy, "Cancelled", guard="not_failed")
    else:
        copy = turn.put(note_stored(copy, work.blocks, work.checksums))
        turn.reply(work.client, Written(turn.config.name, work.token, copy.copy, work.blocks), copy.copy)
        go_on_ending(turn, copy)
    settle(turn, work.copy)


def write_failed(turn: Turn, work: Work, event: WorkFailed) -> None:
    """The blocks may be half there: they don't count as stored until they are written again."""
    reason = "NoSpace" if event.reason is Reason.NO_SPACE else "TierFailed"
    turn.refuse(work.client, work.token, work.copy, reason, event.detail)
    copy = turn.state.copies[work.copy]
    if copy.condition is Condition.RESERVED:
        copy = turn.put(evolve(copy, stored=copy.stored & ~mask_of(work.blocks)))
        go_on_ending(turn, copy)
    settle(turn, work.copy)


def end_write(turn: Turn, request: EndWrite) -> None:
    """Verify what is there against the writer's manifest. Repeated for a verified copy it says, and reports, the same again."""
    copy = turn.state.copies.get(request.copy)
    if copy is not None and copy.condition is Condition.VERIFIED and not copy.store:
        if copy.manifest == request.manifest:
            turn.tell(Sealed(copy.copy, copy.manifest), copy.copy.shard)
            turn.reply(request.client, WriteEnded(turn.config.name, request.token, copy.copy, copy.manifest))
        else:
            turn.deny(request, "ManifestMismatch", guard="manifest_equal")
        return
    if copy is not None and copy.ending == Ending(request.client, request.token, request.manifest):
        turn.drop()  # repeated while it waits: its answer is on the way
        return
    reason, check = why_unwritable(copy, request.client)
    holder = None if copy is None else writer_guard(turn.state, copy.copy)
    if reason or copy is None:
        turn.deny(request, reason, guard=check)
    elif holder is not None:
        # who may still change bytes can't have ended: what is verified now would not be what is read later
        turn.deny(request, "Incomplete", "a write guard is held", guard="no_write_guard", holder=holder.owner)
    elif not stores_running(turn.state, copy.copy) and _why_not_whole(copy, request.manifest):
        turn.deny(request, _why_not_whole(copy, request.manifest), guard="blocks_all_stored")
    else:
        ending = Ending(request.client, request.token, request.manifest)
        go_on_ending(turn, turn.put(evolve(copy, ending=ending)))


def _why_not_whole(copy: Copy, manifest: bytes) -> str:
    """The refusal that the stored blocks alone justify, or "". A mapped copy's blocks are known by reading them only."""
    count = len(copy.spec.sizes)
    if copy.mapped:
        return ""
    if copy.stored.bit_count() != count:
        return "Incomplete"
    if manifest_hash(copy.spec.key.layout, copy.spec.sizes, copy.checksums) != manifest:
        return "ManifestMismatch"
    return ""


def go_on_ending(turn: Turn, copy: Copy) -> None:
    """A pending `EndWrite` goes on when no store runs any more."""
    ending = copy.ending
    if ending is None or stores_running(turn.state, copy.copy):
        return
    reason = _why_not_whole(copy, ending.manifest)
    if reason:
        turn.put(evolve(copy, ending=None))
        turn.refuse(ending.client, ending.token, copy.copy, reason, guard="blocks_all_stored")
        return
    verify(turn, copy, ending.manifest)


def verify(turn: Turn, copy: Copy, manifest: bytes) -> None:
    """Have all bytes of the filling place read back."""
    instance = copy.places[0].instance
    job = turn.begin(Kind.VERIFY, copy.copy, instance.tier, ((copy.copy, instance.tier),))
    turn.transfer(VerifyInstance(job, instance, copy.spec, manifest))


def become_verified(turn: Turn, copy: Copy, manifest: bytes) -> None:
    """All bytes were verified against `manifest`: the copy is readable from now on (COPY-1)."""
    known = () if copy.mapped else copy.checksums
    if known and manifest_hash(copy.spec.key.layout, copy.spec.sizes, known) != manifest:
        known = ()  # a peer told other checksums than those of its bytes; the verified bytes will tell
    copy = evolve(copy, condition=Condition.VERIFIED, manifest=manifest, checksums=known, ending=None)
    turn.set_place(copy, evolve(copy.places[0], stage=Stage.VERIFIED))


def write_verified(turn: Turn, work: Work, event: InstanceVerified) -> None:
    """The verification of an `EndWrite` has seen every block."""
    copy = turn.state.copies[work.copy]
    ending = copy.ending
    if ending is not None and event.manifest == ending.manifest:
        become_verified(turn, copy, event.manifest)
        turn.tell(Sealed(copy.copy, event.manifest), copy.copy.shard)
        answer = WriteEnded(turn.config.name, ending.token, copy.copy, event.manifest)
        turn.reply(ending.client, answer, copy.copy)
    elif ending is not None:
        turn.put(evolve(copy, ending=None))
        turn.refuse(ending.client, ending.token, copy.copy, "ManifestMismatch", guard="manifest_equal")
    settle(turn, work.copy)


def write_not_verified(turn: Turn, work: Work, event: WorkFailed) -> None:
    """Still RESERVED: the writer may write again and end again."""
    copy = turn.state.copies[work.copy]
    ending = copy.ending
    if ending is not None:
        reason = "ManifestMismatch" if event.reason is Reason.CORRUPT else "TierFailed"
        turn.put(evolve(copy, ending=None))
        turn.refuse(ending.client, ending.token, copy.copy, reason, event.detail)
    settle(turn, work.copy)


def abort_write(turn: Turn, request: AbortWrite) -> None:
    """No more writes. The copy keeps its slots until the directory frees it; saying it again says the same."""
    copy = turn.state.copies.get(request.copy)
    reason, check = why_unwritable(copy, request.client)
    if copy is not None and not copy.store and reason in ("Overloaded", "StaleCopy"):
        reason = ""  # a pending end, or a write that has failed already, is no reason not to give up
    if reason or copy is None:
        turn.deny(request, reason, guard=check)
        return
    if copy.ending is not None:
        turn.refuse(copy.ending.client, copy.ending.token, copy.copy, "Cancelled", guard="write_not_aborted")
    copy = turn.put(evolve(copy, ending=None, failed=copy.failed or Reason.CANCELLED))
    turn.tell(CopyFailed(copy.copy, copy.failed), copy.copy.shard)
    turn.reply(request.client, WriteAborted(turn.config.name, request.token, copy.copy), copy.copy)


# ---- reading -------------------------------------------------------------------------------------------------


def read(turn: Turn, request: Read) -> None:
    """Load blocks from the fastest place; the running load is the guard."""
    copy = turn.state.copies.get(request.copy)
    reason, check = why_unreadable(copy)
    if reason or copy is None:
        turn.deny(request, reason, guard=check)
    elif len(request.blocks) > turn.config.request_blocks_max:
        turn.deny(request, "TooLarge", guard="request_blocks_max")
    elif bad_blocks(request.blocks, len(copy.spec.sizes)):
        turn.deny(request, "BadRequest", "blocks are distinct indices into the group's sizes", guard="blocks_in_range")
    elif too_many(turn, Kind.LOAD, turn.config.reads_max):
        turn.deny(request, "Overloaded", guard="reads_max")
    else:
        load(turn, copy, request.client, request.token, request.blocks)


def load(turn: Turn, copy: Copy, client: Peer, token: str, blocks: tuple[int, ...]) -> None:
    """Begin the load of a readable copy. While its checksums are not known all blocks are read, because only together can they
    be compared with the manifest; after that, one by one."""
    place = readable_place(copy, turn.config)
    if place is None:
        raise InvariantViolation("COPY-2", f"{copy.copy} is verified and has no verified place")
    loaded = blocks if copy.checksums else tuple(range(len(copy.spec.sizes)))
    tier = place.instance.tier
    job = turn.begin(
        Kind.LOAD, copy.copy, tier, ((copy.copy, tier),), client=client, token=token, blocks=blocks, loaded=loaded
    )
    turn.transfer(LoadBlocks(job, place.instance, copy.spec, loaded))


def blocks_loaded(turn: Turn, work: Work, event: BlocksLoaded) -> None:
    """Compare, then answer: bytes with the sealed checksums, or another place, or the truth that they are gone."""
    copy = turn.state.copies[work.copy]
    known = copy.checksums
    if len(event.checksums) != len(work.loaded) or len(event.data) not in (0, len(work.loaded)):
        same = False
    elif known:
        same = all(known[block] == found for block, found in zip(work.loaded, event.checksums, strict=True))
    else:
        same = manifest_hash(copy.spec.key.layout, copy.spec.sizes, event.checksums) == copy.manifest
        if same:
            copy = turn.put(evolve(copy, checksums=event.checksums))
    if not same:
        _read_elsewhere(turn, work, Reason.CORRUPT, "the bytes do not match their checksums")
        return
    at = {block: index for index, block in enumerate(work.loaded)}
    checksums = tuple([event.checksums[at[block]] for block in work.blocks])
    data = tuple([event.data[at[block]] for block in work.blocks]) if event.data else ()
    answer = Blocks(turn.config.name, work.token, copy.copy, work.blocks, checksums, work.tier, data)
    turn.reply(work.client, answer, copy.copy)
    place = place_of(copy, work.tier)
    if place is not None and place.stage is Stage.VERIFIED:
        turn.state.warmth[work.tier].move_to_end(copy.copy)
        promote(turn, copy, work.tier)
    settle(turn, work.copy)


def load_failed(turn: Turn, work: Work, event: WorkFailed) -> None:
    """A read error alone costs no copy; bytes that are not there, or not those that were sealed, do."""
    if event.reason in (Reason.LOST, Reason.CORRUPT):
        _read_elsewhere(turn, work, event.reason, event.detail)
    else:
        retry = turn.config.fetch_retry_ms
        turn.refuse(work.client, work.token, work.copy, "TierFailed", event.detail, retry_after_ms=retry)
        settle(turn, work.copy)


def _read_elsewhere(turn: Turn, work: Work, reason: Reason, detail: str) -> None:
    place_is_bad(turn, work.copy, work.tier, reason)
    copy = turn.state.copies.get(work.copy)
    if copy is not None and copy.condition is Condition.VERIFIED:
        load(turn, copy, work.client, work.token, work.blocks)
    else:
        refusal = "Corrupt" if reason is Reason.CORRUPT else "StaleCopy"
        turn.refuse(work.client, work.token, work.copy, refusal, detail)
    settle(turn, work.copy)


def node_stat(turn: Turn, request: NodeStat) -> None:
    """What people ask. Incarnation, term and number are those of the first shard."""
    state, link = turn.state, turn.state.links[0]
    jobs = tuple(f"{'fetch' if job.token else 'clone'} {job.copy} from {job.source_copy}" for job in state.jobs.values())
    answer = NodeStatus(
        turn.config.name, request.token, turn.boot, link.incarnation, link.term, link.number,
        fills(state), len(state.copies), guard_lines(state), jobs,
    )  # fmt: skip
    turn.reply(request.client, answer)
