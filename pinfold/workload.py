"""What a run does: a seeded generator of traces, how a request's blocks become groups, and the bytes of each
block.

Everything here is a function of its arguments. Numbers come from splitmix64 and integer arithmetic alone, so
that a seed means the same workload on every machine, Python and hash seed (DET-1).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from hashlib import shake_128
from typing import Any

from attrs import define, field

from .core.ids import GroupId, Key, Layout, group_id
from .core.placement import splitmix64
from .trace import BLOCK_TOKENS, TraceRequest

# ---- requests ------------------------------------------------------------------------------------------------

_GAMMA = 0x9E3779B97F4A7C15


class Draw:
    """A stream of numbers from a seed: splitmix64 over a counter."""

    def __init__(self, seed: int) -> None:
        self._state = splitmix64(seed)

    def below(self, bound: int) -> int:
        """A number in `range(bound)`, `bound` > 0. Biased by less than `bound / 2**64`, which no run can
        see."""
        self._state += _GAMMA
        return splitmix64(self._state) * bound >> 64

    def between(self, low: int, high: int) -> int:
        """A number from `low` to `high`, both included."""
        return low + self.below(high - low + 1)

    def skewed(self, low: int, high: int) -> int:
        """As `between`, but small ones are likelier: the smaller of two draws."""
        return min(self.between(low, high), self.between(low, high))


def _at_least_one(instance: object, attribute: object, value: int) -> None:
    if value < 1:
        raise ValueError(f"{getattr(attribute, 'name', 'a number')} must be at least 1, got {value}")


@define(frozen=True)
class Shape:
    """What the built-in workload is like: conversations that begin with one of a few system prompts and grow.

    `sessions` are open at a time; one that reaches `turns_max` turns or `context_max` tokens ends, and a new
    one takes its place. Lengths in tokens, drawn with a leaning to the small. `gap_ms_max` is the most
    between two requests.
    """

    sessions: int = field(default=24, validator=_at_least_one)
    system_prompts: int = field(default=6, validator=_at_least_one)
    system_tokens_max: int = field(default=8 * BLOCK_TOKENS, validator=_at_least_one)
    user_tokens_max: int = field(default=16 * BLOCK_TOKENS, validator=_at_least_one)
    output_tokens_max: int = field(default=2 * BLOCK_TOKENS, validator=_at_least_one)
    turns_max: int = field(default=8, validator=_at_least_one)
    context_max: int = field(default=64 * BLOCK_TOKENS, validator=_at_least_one)
    gap_ms_max: int = field(default=400, validator=_at_least_one)


@define
class _Session:
    """`ids` name the full blocks of the `tokens` of context so far."""

    ids: list[int]
    tokens: int
    turns_left: int


def generate(seed: int, requests: int, shape: Shape | None = None) -> Iterator[TraceRequest]:
    """`requests` requests in the shape of real conversations: each turn repeats the whole context before it.

    A block gets its id when it is full; the last block of a prompt, if not full, has an id of its own that no
    later prompt repeats, as in real traces. Ids rise in order of first appearance.
    """
    shape = shape or Shape()
    draw = Draw(seed)
    ids = _Ids()
    # System prompts are named when first used, so that ids rise through the trace.
    prompts: list[tuple[int, list[int]]] = [
        (draw.between(1, shape.system_tokens_max), []) for _ in range(shape.system_prompts)
    ]
    open_sessions: list[_Session | None] = [None] * shape.sessions
    now_ms = 0
    for _ in range(requests):
        place = draw.below(shape.sessions)
        session = open_sessions[place]
        if session is None:
            tokens, named = prompts[draw.skewed(0, shape.system_prompts - 1)]
            ids.fill(named, tokens)
            session = _Session(list(named), tokens, draw.between(1, shape.turns_max))
        user = draw.skewed(1, shape.user_tokens_max)
        output = draw.skewed(1, shape.output_tokens_max)
        session.tokens += user
        ids.fill(session.ids, session.tokens)
        tail = [ids.new()] if session.tokens % BLOCK_TOKENS else []
        yield TraceRequest(now_ms, session.tokens, output, (*session.ids, *tail))
        session.tokens += output
        session.turns_left -= 1
        over = session.turns_left == 0 or session.tokens >= shape.context_max
        open_sessions[place] = None if over else session
        now_ms += draw.below(shape.gap_ms_max + 1)


class _Ids:
    """Gives each block its id, counting up."""

    def __init__(self) -> None:
        self._next = 0

    def new(self) -> int:
        self._next += 1
        return self._next - 1

    def fill(self, named: list[int], tokens: int) -> None:
        """Name the full blocks of `tokens` that have no name yet."""
        named.extend(self.new() for _ in range(tokens // BLOCK_TOKENS - len(named)))


# ---- groups --------------------------------------------------------------------------------------------------


@define(frozen=True)
class Chunk:
    """A run of consecutive blocks of one request that will be one group. `first` is the place of its first
    block."""

    hash_ids: tuple[int, ...]
    first: int = 0

    @property
    def blocks(self) -> int:
        return len(self.hash_ids)

    @property
    def prefix(self) -> tuple[int, int]:
        """`(last hash id, number of blocks)`: what it is known by, since the last id says all before it
        too."""
        return (self.hash_ids[-1], len(self.hash_ids))


def chunks(hash_ids: tuple[int, ...], group_blocks: int) -> list[Chunk]:
    """Groups of `group_blocks` consecutive blocks from the front; the tail, if shorter, is its own group. In
    order, so the parent of each is the one before it."""
    if group_blocks < 1:
        raise ValueError(f"a group has at least one block, got {group_blocks}")
    return [Chunk(hash_ids[first : first + group_blocks], first) for first in range(0, len(hash_ids), group_blocks)]


@define(frozen=True)
class Family:
    """What all groups of a run have in common: whose they are, of which model, in which layout."""

    tenant: str = "demo"
    model: str = "trace"
    model_revision: str = "1"
    layout: Layout = field(factory=Layout)

    def key(self, chunk: Chunk) -> Key:
        """The key of a group: its prefix is the last hash id in decimal, its token range that of its
        blocks."""
        last, blocks = chunk.prefix
        tokens = (chunk.first * BLOCK_TOKENS, (chunk.first + blocks) * BLOCK_TOKENS)
        return Key(self.tenant, self.model, self.model_revision, self.layout, str(last), blocks, tokens=tokens)


@define(frozen=True)
class Member:
    """A group of a request, with all that a `Spec` needs of it. `parent` None: the root of its chain."""

    group: GroupId
    key: Key
    parent: GroupId | None
    hash_ids: tuple[int, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Bytes per block."""
        return (self.key.layout.block_bytes,) * self.key.blocks


def members(request: TraceRequest, group_blocks: int, family: Family) -> list[Member]:
    """The groups of a request's prompt, from the front."""
    found: list[Member] = []
    parent: GroupId | None = None
    for chunk in chunks(request.hash_ids, group_blocks):
        key = family.key(chunk)
        group = group_id(key)
        found.append(Member(group, key, parent, chunk.hash_ids))
        parent = group
    return found


# ---- bytes ---------------------------------------------------------------------------------------------------

_PIECE_BYTES = 1024
_COUNTER_BYTES = 8
_BODY_BYTES = _PIECE_BYTES - _COUNTER_BYTES


def payload(group: GroupId, block: int, block_bytes: int) -> bytes:
    """The `block_bytes` bytes of one block, keyed by its group's id and its place in the group.

    Pieces of a kilobyte, each the same random bytes and then a counter: another group, another block, two
    pieces exchanged or any shift all give other bytes, at a fraction of the cost of a keystream over
    everything.
    """
    if block < 0 or block_bytes < 0:
        raise ValueError(f"a block has a place and a size, got {block} and {block_bytes}")
    seed = shake_128(b"pinfold-bytes-1" + block.to_bytes(8, "big") + group)
    if block_bytes <= _BODY_BYTES:
        return seed.digest(block_bytes)
    return seed.digest(_BODY_BYTES).join(_counters(-(-block_bytes // _PIECE_BYTES)))[:block_bytes]


@lru_cache(maxsize=16)
def _counters(pieces: int) -> list[bytes]:
    """What stands between the bodies: nothing before the first, and a counter after each."""
    return [b"", *(number.to_bytes(_COUNTER_BYTES, "little") for number in range(pieces))]


def verify(group: GroupId, block: int, block_bytes: int, data: Any) -> bool:
    """Whether `data`, any contiguous buffer, is what `payload` gives for this block: every byte of it, and no
    byte more."""
    if not isinstance(data, bytes):
        # Comparing a memoryview goes item by item, several times the cost of this copy.
        data = bytes(memoryview(data))
    return bool(data == payload(group, block, block_bytes))
