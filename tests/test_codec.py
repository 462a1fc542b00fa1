"""The wire form: every message survives it, and nothing else gets through."""

import array
import sys
import threading
import time
from enum import IntEnum
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import attrs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinfold.core import orders, requests
from pinfold.core.errors import PeerError
from pinfold.core.events import Message
from pinfold.core.ids import CopyId, Peer, Tier
from pinfold.core.plain import INT_MAX, fields_of
from pinfold.transport import base, codec, envelope
from pinfold.transport.base import KIB, MIB, BadBytes, Limits, MisuseError, Oversize, UnknownType, WrongVersion
from pinfold.transport.codec import decode, decode_envelope, encode, open_head
from pinfold.transport.envelope import MESSAGE_TYPES, PAYLOAD_FIELDS, PREFIX, TYPES, Hello
from pinfold.transport.landing import land

SMALL = Limits(
    head_bytes_max=4 * KIB, frame_bytes_max=16 * KIB, message_bytes_max=64 * KIB, outbox_bytes_max=64 * KIB,
    assembly_bytes_max=64 * KIB, frame_bytes=1 * KIB, small_block_bytes=512, blocks_max=100, name_chars_max=20,
)  # fmt: skip
COPY = CopyId(0, 7, 1)


# ---- strategies made from the attrs types, so that a new message is tested without a word -------------------


def values(hint: Any) -> st.SearchStrategy[Any]:
    while hasattr(hint, "__supertype__"):
        hint = hint.__supertype__
    plain: dict[Any, st.SearchStrategy[Any]] = {
        int: st.integers(-INT_MAX, INT_MAX), str: st.text(max_size=8), bytes: st.binary(max_size=20),
        bool: st.booleans(), float: st.floats(allow_nan=False), type(None): st.none(),
    }  # fmt: skip
    if hint in plain:
        return plain[hint]
    if get_origin(hint) in (Union, UnionType):
        return st.one_of([values(member) for member in get_args(hint)])
    if isinstance(hint, type) and issubclass(hint, IntEnum):
        return st.sampled_from(list(hint))
    if isinstance(hint, type) and issubclass(hint, tuple):
        return st.builds(hint, *[values(part) for part in get_type_hints(hint).values()])
    if get_origin(hint) is tuple:
        parts = get_args(hint)
        if parts[1:] == (...,):
            return st.lists(values(parts[0]), max_size=3).map(tuple)
        return st.tuples(*map(values, parts))
    return messages(hint)


def messages(kind: type) -> st.SearchStrategy[Any]:
    fields = {name: values(hint) for name, hint in fields_of(kind)}
    if PAYLOAD_FIELDS.get(kind):
        blocks = st.lists(st.binary(max_size=1200), max_size=6).map(tuple)
        fields[PAYLOAD_FIELDS[kind]] = blocks
    return st.builds(kind, **{name.lstrip("_"): strategy for name, strategy in fields.items()})


any_message = st.one_of([messages(kind) for kind in TYPES.values()])


def as_bytes(message: Any) -> Any:
    """The message with its payload as bytes, for comparison."""
    name = PAYLOAD_FIELDS[type(message)]
    return attrs.evolve(message, **{name: tuple(map(bytes, getattr(message, name)))}) if name else message


# ---- round trips ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", TYPES.values(), ids=TYPES)
def test_every_message_comes_back_as_it_was_sent(kind: type) -> None:
    @given(messages(kind), st.text(max_size=20), st.text(max_size=20))
    def round_trip(message: Any, source: str, store: str) -> None:
        frames = [bytes(frame) for frame in encode(message, source, store=store, limits=SMALL)]
        got = decode_envelope(frames, limits=SMALL)
        assert (got.source, got.store, as_bytes(got.message)) == (source, store, message)

    round_trip()


def test_the_registry_is_everything_that_can_travel() -> None:
    assert set(MESSAGE_TYPES.values()) == set(get_args(Message))
    assert [kind.__name__ for kind, name in PAYLOAD_FIELDS.items() if name] == ["Write", "Blocks"]


def write(*data: Any) -> requests.Write:
    return requests.Write(Peer("client/a"), "t", COPY, tuple(range(len(data))), (0,) * len(data), data)


def test_small_blocks_share_frames_and_large_ones_travel_alone() -> None:
    blocks = [bytes([i]) * (64 * KIB) for i in range(40)]
    frames = encode(write(*blocks, b"x" * (3 * MIB), b"y" * 100), "client/a")
    assert [len(frame) for frame in frames[1:]] == [MIB, MIB, 512 * KIB, 3 * MIB, 100]
    _, message = decode(frames)
    assert message == write(*blocks, b"x" * (3 * MIB), b"y" * 100)


def test_large_blocks_and_single_ones_are_not_copied_on_either_side() -> None:
    large, single = bytearray(MIB), bytearray(b"abc")
    frames = encode(write(large, single), "client/a")
    assert isinstance(frames[1], memoryview)
    assert isinstance(frames[2], memoryview)
    _, message = decode(frames)
    large[0] = single[0] = ord("z")  # seen through every view, so there is one piece of memory
    assert message.data[0][0] == message.data[1][0] == ord("z")
    assert all(view.readonly for view in message.data)


def test_a_payload_may_be_any_contiguous_buffer_and_no_other() -> None:
    numbers = array.array("i", range(10))
    _, message = decode(encode(write(numbers, memoryview(b"").cast("B"), b""), "client/a"))
    assert [bytes(view) for view in message.data] == [numbers.tobytes(), b"", b""]
    with pytest.raises(MisuseError, match="contiguous"):
        encode(write(memoryview(b"abcdef")[::2]), "client/a")
    with pytest.raises(MisuseError, match="contiguous"):
        encode(write("text"), "client/a")


def test_a_message_without_payload_has_none_on_the_other_side() -> None:
    frames = encode(write(), "client/a")
    assert len(frames) == 1
    assert decode(frames)[1].data == ()


# ---- what is refused -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(object(), id="no-message"),
        pytest.param(Tier.SSD, id="enum"),
        pytest.param(attrs.evolve(write(), token="\ud800"), id="lone-surrogate"),
        pytest.param(attrs.evolve(write(), blocks=(2**70,)), id="huge-integer"),
        pytest.param(attrs.evolve(write(), copy=None), id="wrong-type"),
    ],
)
def test_a_value_that_cannot_travel_is_the_senders_own_error(value: Any) -> None:
    with pytest.raises(MisuseError):
        encode(value, "client/a")


def head_of(*fields: Any) -> bytes:
    return PREFIX + msgspec.msgpack.encode(fields)


GOOD = encode(write(b"abc"), "client/a")
PLAIN = msgspec.msgpack.decode(GOOD[0][len(PREFIX) :])[4]


@pytest.mark.parametrize(
    ("frames", "error"),
    [
        ([], BadBytes),
        ([b""], BadBytes),
        ([b"PF"], BadBytes),
        ([b"GET / HTTP/1.1"], BadBytes),
        ([b"PF\x02\x00" + bytes(GOOD[0][4:])], WrongVersion),
        ([b"PF\x01\x07" + bytes(GOOD[0][4:])], BadBytes),
        ([GOOD[0]], BadBytes),
        ([*GOOD, b""], BadBytes),
        ([GOOD[0], b"abcd"], BadBytes),
        ([bytes(GOOD[0]) + b"\x00"], BadBytes),
        ([head_of("Nobody", "a", "", [], [])], UnknownType),
        ([head_of("Tick", "a", "", [], [])], UnknownType),
        ([head_of("Write", "a", "", [], [], 1)], BadBytes),
        ([head_of("Write", "a", "", [], [])], BadBytes),
        ([head_of("Write", "a", "", [], {"client": "x"})], BadBytes),
        ([head_of("Write", "a", "", [], [*PLAIN[:2], [0, 7], *PLAIN[3:]])], BadBytes),
        ([head_of("Let", "a", "", [[1]], ["c", "t", 1]), b"x"], BadBytes),
        ([head_of("Write", "a", "", [[]], PLAIN), b""], BadBytes),
        ([head_of("Write", "a", "", [[-1, 2]], PLAIN), b"x"], BadBytes),
        ([head_of("Write", "a" * 300, "", [], PLAIN)], Oversize),
        ([head_of("Write", "a", "", [[2**40]], PLAIN)], Oversize),
        ([head_of("Write", "a", "", [[60 * MIB]] * 5, PLAIN)], Oversize),
        ([head_of("Write", "a", "", [[0] * 70_000], PLAIN)], Oversize),
        ([PREFIX + b"\x91" * 200_000], BadBytes),
        ([head_of("Write", "a", "", [], msgspec.Raw(b"\x91" * 900 + b"\x90"))], BadBytes),
        ([PREFIX + b"\xdd\xff\xff\xff\xff"], BadBytes),
        ([PREFIX + b"\x95\xa5Write\xa1a\xa0\x90\xc6\xff\xff\xff\xff"], BadBytes),
        ([b"PF\x01\x00" + bytes(5 * MIB)], Oversize),
    ],
)  # fmt: skip
def test_foreign_frames_are_refused_by_name(frames: list[Any], error: type[PeerError]) -> None:
    with pytest.raises(error):
        decode(frames)


def test_announced_sizes_are_refused_before_the_payload_is_there() -> None:
    with pytest.raises(Oversize):
        open_head(head_of("Write", "a", "", [[60 * MIB]] * 5, PLAIN))


def test_what_is_too_large_is_not_sent_either() -> None:
    block, whole, count = write(bytes(17 * KIB)), write(*[bytes(15 * KIB)] * 5), write(*[b"x"] * 101)
    for message in (block, whole, count, attrs.evolve(write(), token="x" * 5000)):
        with pytest.raises(Oversize):
            encode(message, "client/a", limits=SMALL)


WRONG_LIMITS = (("frame_bytes_max", 1), ("assembly_bytes_max", MIB), ("head_bytes_max", 99 * MIB), ("small_block_bytes", 2 * MIB))


def test_limits_that_contradict_each_other_are_refused() -> None:
    for name, value in WRONG_LIMITS:
        with pytest.raises(ValueError, match="must"):
            Limits(**{name: value})


def test_a_deep_or_greedy_head_costs_no_more_than_its_bytes() -> None:
    before = sys.getallocatedblocks()
    for size in (0xFFFF, 0xFFFFFFFF):
        with pytest.raises(BadBytes):
            decode([PREFIX + b"\x95\xa5Write\xa1a\xa0\x90\xdd" + size.to_bytes(4, "big")])
    assert sys.getallocatedblocks() - before < 1_000


@given(st.lists(st.binary(max_size=200), max_size=4))
def test_random_frames_are_a_typed_error(frames: list[bytes]) -> None:
    with pytest.raises(PeerError):
        decode(frames)
    with pytest.raises(PeerError):
        decode([PREFIX + b"".join(frames)])


@given(any_message, st.data())
def test_a_mutated_message_is_decoded_or_refused_and_never_crashes(message: Any, data: st.DataObject) -> None:
    frames = [bytearray(frame) for frame in encode(message, "client/a")]
    frame = data.draw(st.sampled_from(frames))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(frame)))
        frame[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    try:
        source, got = decode(frames)
    except PeerError:
        return
    assert type(got) in TYPES.values()
    assert isinstance(source, str)
    encode(got, source)  # whatever was let in is whole


leaves = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text() | st.binary()


@given(st.recursive(leaves, st.lists), st.sampled_from(list(TYPES)))
def test_well_formed_nonsense_under_a_known_tag_is_a_typed_error(nonsense: Any, tag: str) -> None:
    try:
        _, got = decode([head_of(tag, "a", "", [], nonsense)])
    except PeerError:
        return
    assert type(got).__name__ == tag


def test_nothing_on_the_receiving_path_can_execute() -> None:
    for module in (codec, envelope, base):
        names = set(vars(module))
        assert not names & {"pickle", "marshal", "eval", "exec", "importlib", "yaml", "cloudpickle"}
    with pytest.raises(BadBytes):
        decode([b"cos\nsystem\n(S'touch marker'\ntR."])


def test_a_control_word_travels_like_a_message_but_is_none() -> None:
    assert decode(encode(Hello("client/a", "1"), "client/a"))[1] == Hello("client/a", "1")
    assert "Hello" not in MESSAGE_TYPES


def test_an_order_keeps_the_class_of_its_body() -> None:
    order = orders.Order(0, 1, 2, 3, orders.Free(COPY))
    assert decode(encode(order, "directory/0")) == ("directory/0", order)


# ---- landing -------------------------------------------------------------------------------------------------


def test_landing_copies_blocks_one_after_the_other() -> None:
    target = bytearray(10)
    assert land([b"ab", memoryview(b"xcdx")[1:3], b""], target, 3) == 4
    assert target == b"\0\0\0abcd\0\0\0"


@pytest.mark.parametrize(("target", "offset"), [(bytearray(3), 0), (bytearray(9), 6), (bytearray(9), -1), (b"readonly.", 0)])
def test_landing_out_of_bounds_is_refused_and_writes_nothing(target: Any, offset: int) -> None:
    before = bytes(target)
    with pytest.raises(MisuseError):
        land([b"abcd"], target, offset)
    assert bytes(target) == before


def test_landing_lets_other_threads_run() -> None:
    block, target = bytearray(64 * MIB), bytearray(64 * MIB)
    ticks, stop = [0], threading.Event()

    def tick() -> None:
        while not stop.is_set():
            time.sleep(0.0002)
            ticks[0] += 1

    interval = sys.getswitchinterval()
    thread = threading.Thread(target=tick)
    thread.start()
    sys.setswitchinterval(10)  # the lock is handed over where it is given up, and nowhere else
    try:
        before = ticks[0]
        for _ in range(5):
            land([block], target)
        ticked = ticks[0] - before
    finally:
        sys.setswitchinterval(interval)
        stop.set()
        thread.join()
    assert ticked > 0
