"""The tables behind the wires, without sockets: outboxes, seats, assemblies, and the states of a connection."""

from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinfold.core import requests
from pinfold.core.ids import CopyId, Peer
from pinfold.transport.base import KIB, BadBytes, Counters, Limits, Oversize
from pinfold.transport.codec import encode, open_head
from pinfold.transport.envelope import Hello, Reject
from pinfold.transport.links import Link, LinkState
from pinfold.transport.queues import Assembler, Outbox, Seats, Shot, pack_part, shots_of, unpack_part

LIMITS = Limits(
    head_bytes_max=4 * KIB, frame_bytes_max=16 * KIB, message_bytes_max=64 * KIB, outbox_bytes_max=64 * KIB,
    assembly_bytes_max=64 * KIB, frame_bytes=1 * KIB, small_block_bytes=512, outbox_messages_max=5, clients_max=3,
    assembly_ms=100, connect_ms=100, greet_again_ms=10, clash_patience_ms=50,
)  # fmt: skip


# ---- outboxes ------------------------------------------------------------------------------------------------


@given(st.lists(st.one_of(st.integers(1, 20_000), st.just("send"), st.just("clear")), max_size=40), st.integers(1, 3))
def test_an_outbox_counts_right_keeps_order_and_stays_within_its_limits(script: list[Any], parts: int) -> None:
    box, waiting, sent, number = Outbox(LIMITS), [], [], 0
    for word in script:
        if word == "clear":
            unfinished = len({shot[0] for shot in waiting})
            assert box.clear() == unfinished
            waiting = []
        elif word == "send":
            room = [2]

            def send(shot: Shot, room: list[int] = room) -> bool:
                room[0] -= 1
                if room[0] >= 0:
                    sent.append(shot)
                return room[0] >= 0

            before = len(sent)
            box.pump(send)
            assert sent[before:] == waiting[: len(sent) - before]
            waiting = waiting[len(sent) - before :]
        else:
            number += 1
            shots: list[Shot] = [(bytes([number]), bytes([part])) for part in range(parts)]
            room_left = box.messages < 5 and box.bytes + word <= 64 * KIB
            assert box.put(shots, word) == room_left
            waiting += shots if room_left else []
        assert box.messages == len({shot[0] for shot in waiting})
        assert 0 <= box.bytes <= 64 * KIB
        assert (box.bytes == 0) == (box.messages == 0)


def test_a_part_label_is_recognised_and_nothing_else_is() -> None:
    assert unpack_part(pack_part(3, 2**40)) == (3, 2**40)
    for foreign in (b"", pack_part(1, 1)[:-1], b"XX" + pack_part(1, 1)[2:], b"PP\x09" + pack_part(1, 1)[3:]):
        assert unpack_part(foreign) is None


# ---- seats ---------------------------------------------------------------------------------------------------


def test_an_identity_has_one_connection_and_a_connection_one_identity() -> None:
    seats, alive = Seats(LIMITS), {b"1", b"2", b"3"}
    admit = lambda identity, route: seats.admit(identity, route, alive.__contains__)[0]  # noqa: E731
    assert admit("a", b"1") == ""
    assert admit("a", b"1") == ""
    assert admit("a", b"2") == "IdentityTaken"
    assert admit("b", b"1") == "WrongSource"
    alive.discard(b"1")
    assert admit("a", b"2") == ""
    seat = seats.of("a")
    assert seat is not None
    assert seat.route == b"2"
    assert seats.at(b"1") is None
    seat.outbox.put([(b"x",)], 1)
    assert seats.leave(seat) == 1
    assert seats.leave(seat) == 0
    assert len(seats) == 0


def test_seats_are_given_away_only_when_their_connection_is_gone() -> None:
    seats, alive = Seats(LIMITS), {b"1", b"2", b"3", b"4"}
    for route in (b"1", b"2", b"3"):
        assert seats.admit(route.decode(), route, alive.__contains__)[0] == ""
    assert seats.admit("4", b"4", alive.__contains__)[0] == "WireBusy"
    alive.discard(b"2")
    assert seats.admit("4", b"4", alive.__contains__)[0] == ""
    assert seats.of("2") is None
    assert len(seats) == 3


# ---- assemblies ----------------------------------------------------------------------------------------------


def framed(*data: bytes) -> list[Shot]:
    message = requests.Write(Peer("a"), "t", CopyId(0, 1, 0), (), (), data)
    return shots_of(encode(message, "a", limits=LIMITS), 9)


def begin(assembler: Assembler, shots: list[Shot], now_ms: int = 0, connection: str = "c") -> None:
    assembler.begin(connection, "a", open_head(shots[0][0], limits=LIMITS), bytes(shots[0][1]), now_ms)


def test_a_message_is_assembled_from_its_frames_in_order() -> None:
    assembler = Assembler(LIMITS, Counters())
    shots = framed(b"a" * 2_000, b"b" * 600, b"c" * 10)
    begin(assembler, shots)
    assert [assembler.add("c", bytes(part), memoryview(frame)) for part, frame in shots[1:-1]] == [None, None]
    done = assembler.add("c", bytes(shots[-1][0]), memoryview(shots[-1][1]))
    assert done is not None
    assert done[0] == "a"
    assert [bytes(view) for view in done[1].message.data] == [b"a" * 2_000, b"b" * 600, b"c" * 10]


def test_gaps_repetitions_wrong_sizes_and_strays_drop_the_message_and_are_counted() -> None:
    shots = framed(b"a" * 2_000, b"b" * 600)
    for part, frame in (shots[2], (pack_part(0, 8), shots[1][1])):
        counters = Counters()
        assembler = Assembler(LIMITS, counters)
        begin(assembler, shots)
        assert assembler.add("c", bytes(part), memoryview(frame)) is None
        assert (counters.stray_parts, counters.incomplete) == (1, 1)
    counters = Counters()
    assembler = Assembler(LIMITS, counters)
    begin(assembler, shots)
    with pytest.raises(BadBytes):
        assembler.add("c", bytes(shots[1][0]), memoryview(b"another size"))
    assert assembler.add("other", bytes(shots[1][0]), memoryview(shots[1][1])) is None
    begin(assembler, shots)
    begin(assembler, shots)
    assert (counters.stray_parts, counters.incomplete) == (1, 2)


def test_incomplete_messages_are_bounded_in_bytes_and_in_time() -> None:
    counters = Counters()
    assembler = Assembler(LIMITS, counters)
    large = framed(*[b"x" * 15_000] * 4)
    begin(assembler, large)
    with pytest.raises(Oversize, match="assembly_bytes_max"):
        begin(assembler, large, connection="d")
    assembler.sweep(99)
    assert counters.incomplete == 0
    assembler.sweep(100)
    assert counters.incomplete == 1
    begin(assembler, large, connection="d")


# ---- connections ---------------------------------------------------------------------------------------------


def link() -> Link:
    return Link(Peer("tcp://x"), LIMITS, 0)


def test_a_link_greets_until_it_is_welcomed_and_believes_only_the_answer_to_its_last_greeting() -> None:
    it = link()
    assert it.usable
    assert it.hello("me", 0) is None
    it.made("1", 5)
    assert it.hello("me", 5) == Hello("me", "1")
    assert it.hello("me", 14) is None
    assert it.hello("me", 15) == Hello("me", "1")
    it.made("2", 20)
    assert not it.welcomed("1")
    assert not it.welcomed("")
    assert it.welcomed("2")
    assert it.state is LinkState.UP
    assert it.hello("me", 1_000) is None
    assert it.overdue(1_000) is None


@pytest.mark.parametrize(("greeted", "state"), [(False, LinkState.DOWN), (True, LinkState.SILENT)])
def test_a_link_that_hears_nothing_is_given_up_and_may_come_back(greeted: bool, state: LinkState) -> None:
    it = link()
    if greeted:
        it.made("1", 0)
    it.outbox.put([(b"x",)], 1)
    assert it.overdue(99) is None
    assert it.overdue(100) is state
    assert it.lose(state) == (1, True)
    assert not it.usable
    assert it.lose(state) == (0, False)
    assert (it.hello("me", 100) is not None) == greeted
    it.made("2", 200)
    assert it.welcomed("2")


def test_a_taken_identity_is_borne_for_a_while_and_other_rejections_are_not() -> None:
    it = link()
    it.made("1", 0)
    taken = Reject("1", "IdentityTaken", "")
    assert it.rejected(attrs.evolve(taken, nonce="0"), 1_000) is None  # an answer to something older
    assert it.rejected(taken, 10) is None
    assert it.usable
    assert it.overdue(150) is None
    assert it.rejected(taken, 59) is None
    assert it.rejected(taken, 60) is LinkState.REJECTED
    assert it.welcomed("1")
    assert it.rejected(taken, 1_000) is None  # patience starts anew
    assert it.rejected(Reject("", "WrongStore", ""), 1_001) is LinkState.REJECTED
