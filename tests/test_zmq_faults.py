"""The ZeroMQ wire under hostile peers, two of one name, foreign threads, forks and shutdown: nobody steals, nothing crashes."""

import os
import pickle
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import attrs
import pytest
import zmq

from pinfold.core import requests
from pinfold.core.ids import Peer
from pinfold.transport.base import MIB, IdentityTaken, MisuseError, WireBusy, WireClosed
from pinfold.transport.codec import decode, encode
from pinfold.transport.envelope import VERSION, Hello, Reject, Welcome
from pinfold.transport.queues import pack_part
from pinfold.transport.zmq import ClientWire, ServerWire
from tests.wiring import (  # noqa: F401  # pytest looks for them here
    COPY,
    FAST,
    PATIENT,
    WAIT_S,
    arrived,
    blocks,
    client_fixture,
    let_go,
    raw_dealer,
    run,
    server_fixture,
    stat,
    wires_fixture,
)

ROOT = Path(__file__).resolve().parent.parent


# ---- who is who ----------------------------------------------------------------------------------------------


def test_a_second_client_of_one_identity_is_refused_and_the_first_goes_on(server: ServerWire, wires: Callable[..., Any]) -> None:
    first, second = wires(ClientWire, "client/a"), wires(ClientWire, "client/a")
    first.send(server.address, stat(1))
    run(first, server, until=arrived(1))
    second.send(server.address, stat(2))
    with pytest.raises(IdentityTaken, match="another client is connected as client/a"):
        run(first, server, second, until=lambda got: any(message == stat(2) for _, message in got))
    for number in range(20):
        server.send("client/a", let_go(number))
    assert len(run(server, first, until=arrived(20))) == 20
    first.send(server.address, stat(3))
    assert run(first, server, until=arrived(1)) == [("client/a", stat(3))]


def test_the_identity_of_a_client_that_has_gone_is_free_again(server: ServerWire, wires: Callable[..., Any]) -> None:
    first = wires(ClientWire, "client/a")
    first.send(server.address, stat(1))
    run(first, server, until=arrived(1))
    first.close()
    second = wires(ClientWire, "client/a")
    second.send(server.address, stat(2))
    assert run(second, server, until=arrived(1)) == [("client/a", stat(2))]


def test_a_peer_of_another_store_is_refused_and_told_so(wires: Callable[..., Any]) -> None:
    server = wires(ServerWire, store_id="store-1")
    stranger, newcomer = wires(ClientWire, "client/s", store_id="store-2"), wires(ClientWire, "client/n")
    stranger.send(server.address, stat(1))
    run(server, stranger, until=lambda _: stranger.counters.problems)
    assert [problem.kind for problem in stranger.take_problems()] == ["WrongStore"]
    assert [event.peer for event in stranger.unreachable()] == [server.address]
    assert server.counters.problems == {"WrongStore": 1}
    newcomer.send(server.address, stat(2))
    assert run(server, newcomer, until=arrived(1)) == [("client/n", stat(2))]
    assert newcomer.store_id == "store-1"  # from the welcome, so that a swap of stores is noticed later


def test_a_connection_speaks_for_the_identity_it_greeted_with_and_no_other(server: ServerWire) -> None:
    with ExitStack() as stack:
        dealer = raw_dealer(stack, server.address)
        dealer.send(encode(Hello("client/x", "1"), "client/x")[0])
        dealer.send(encode(stat(1), "client/y")[0])
        dealer.send(encode(Hello("client/z", "2"), "client/x")[0])
        dealer.send(encode(stat(2), "client/x")[0])
        assert run(server, until=arrived(1)) == [("client/x", stat(2))]
        assert server.counters.problems == {"WrongSource": 2}
        assert decode([dealer.recv()])[1] == Welcome("1")
        rejection = decode([dealer.recv()])[1]
        assert isinstance(rejection, Reject)
        assert rejection.reason == "WrongSource"


def test_seats_are_bounded_and_those_of_clients_that_left_are_given_away(wires: Callable[..., Any]) -> None:
    server = wires(ServerWire, limits=attrs.evolve(PATIENT, clients_max=2))
    one, two, three = (wires(ClientWire, f"client/{n}") for n in (1, 2, 3))
    for wire in (one, two):
        wire.send(server.address, stat())
    run(server, one, two, until=arrived(2))
    three.send(server.address, stat(3))
    run(server, three, until=lambda _: three.counters.problems.get("WireBusy"))
    one.close()
    end = time.monotonic() + WAIT_S
    got: list[Any] = []
    while not got:
        assert time.monotonic() < end
        three.send(server.address, stat(3))
        three.poll(10)
        got += server.poll(10)
    assert got[0] == ("client/3", stat(3))


def test_the_same_life_of_a_client_takes_over_from_its_own_older_connection(server: ServerWire) -> None:
    with ExitStack() as stack:
        context = stack.enter_context(zmq.Context())
        dealers = []
        for number in range(2):  # the older connection looks alive for as long as nobody has noticed that it is cut
            dealer = stack.enter_context(context.socket(zmq.DEALER))
            dealer.setsockopt(zmq.LINGER, 0)
            dealer.setsockopt(zmq.RCVTIMEO, 2_000)
            dealer.setsockopt(zmq.ROUTING_ID, b"one and the same life")
            dealer.connect(server.address)
            dealer.send(encode(stat(number), "client/a")[0])
            assert run(server, until=arrived(1)) == [("client/a", stat(number))]
            dealers.append(dealer)
        server.send("client/a", let_go(1))
        server.poll(10)
        assert decode([dealers[1].recv()]) == (server.address, let_go(1))
        assert dealers[0].poll(50) == 0
    assert server.counters.rejections == 0


# ---- broken and hostile peers --------------------------------------------------------------------------------


class Marker:
    """Unpickling it would make a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (Path.touch, (self.path,))


def test_malformed_frames_are_counted_and_the_server_serves_on(server: ServerWire, client: ClientWire, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    head, *payload = encode(requests.Write(Peer("x"), "t", COPY, (0,), (0,), (bytes(MIB),)), "client/x")
    bad: list[list[bytes]] = [
        [b""], [b"\x00" * 100], [b"PF"], [pickle.dumps(Marker(marker))], [b"PF\x01\x00" + b"\x91" * 50_000],
        [bytes(head)],  # payload is announced, but the frame that says how many parts come is missing
        [bytes(head), b"x" * 16], [bytes(head), pack_part(7, 1)], [bytes(head)[:-3], pack_part(1, 1)],
        [b"a", b"b", b"c", b"d", b"e", b"f"],
        [bytes(encode(stat(1), "client/x")[0]), b"more"],
    ]  # fmt: skip
    with ExitStack() as stack:
        dealer = raw_dealer(stack, server.address)
        for frames in bad:
            dealer.send_multipart(frames)
        run(server, until=lambda _: sum(server.counters.problems.values()) == len(bad))
        assert set(server.counters.problems) == {"BadBytes"}
        # parts that belong to nothing, a part of a wrong size, a message broken off by another, and one with a word in between
        dealer.send_multipart([pack_part(0, 9), b"x"])
        dealer.send_multipart([bytes(head), pack_part(1, 1)])
        dealer.send_multipart([pack_part(0, 1), b"too short"])
        dealer.send_multipart([bytes(head), pack_part(1, 2)])
        dealer.send_multipart([bytes(head), pack_part(1, 3)])
        dealer.send(encode(stat(5), "client/x")[0])
        dealer.send_multipart([pack_part(0, 3), bytes(payload[0])])
        dealer.send_multipart([pack_part(0, 3), bytes(payload[0])])
        client.send(server.address, stat(6))
        got = run(server, client, until=lambda got: len(got) == 3 and server.counters.stray_parts == 2)
    assert sorted(message.token for _, message in got) == ["5", "6", "t"]
    assert server.counters.incomplete == 2
    assert not marker.exists()
    assert {problem.kind for problem in server.take_problems()} == {"BadBytes"}


def test_another_version_is_refused_with_a_sentence_on_both_sides(server: ServerWire) -> None:
    with ExitStack() as stack:
        dealer = raw_dealer(stack, server.address)
        head = bytearray(encode(stat(1), "client/x")[0])
        head[2] = VERSION + 1
        dealer.send(bytes(head))
        run(server, until=lambda _: server.counters.problems)
        (problem,) = server.take_problems()
        assert problem.kind == "WrongVersion"
        assert f"version {VERSION + 1}" in problem.detail
        assert decode([dealer.recv()])[1].reason == "WrongVersion"


def test_a_frame_above_the_limit_costs_its_sender_the_connection_and_nobody_else(wires: Callable[..., Any]) -> None:
    limits = attrs.evolve(PATIENT, frame_bytes_max=2 * MIB, head_bytes_max=MIB)
    server, client = wires(ServerWire, limits=limits), wires(ClientWire, "client/a")
    with ExitStack() as stack:
        dealer = raw_dealer(stack, server.address)
        dealer.send(bytes(3 * MIB))
        dealer.send(bytes(MIB + 1))
        client.send(server.address, stat(1))
        run(server, client, until=arrived(1))
        run(server, until=lambda _: server.counters.problems.get("Oversize"))
    assert server.counters.bytes_received < 2 * MIB


def test_strangers_that_speak_no_zeromq_are_ignored(server: ServerWire, client: ClientWire) -> None:
    host, port = server.address.removeprefix("tcp://").split(":")
    with socket.create_connection((host, int(port))) as stranger, socket.create_connection((host, int(port))):
        stranger.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 100)
        client.send(server.address, stat(1))
        assert run(server, client, until=arrived(1)) == [("client/a", stat(1))]


def test_a_server_that_never_answers_the_greeting_is_unreachable(wires: Callable[..., Any]) -> None:
    client = wires(ClientWire, "client/a", limits=FAST)
    with zmq.Context() as context, context.socket(zmq.ROUTER) as mute:
        mute.setsockopt(zmq.LINGER, 0)
        port = mute.bind_to_random_port("tcp://127.0.0.1")
        client.send(f"tcp://127.0.0.1:{port}", stat(1))
        run(client, until=lambda _: client.unreachable())
        assert client.counters.abandoned == 1


def test_an_answer_that_is_too_large_is_a_problem_and_not_the_end_of_the_server(wires: Callable[..., Any]) -> None:
    server = wires(ServerWire, limits=attrs.evolve(PATIENT, message_bytes_max=64 * MIB))
    server.send("client/a", blocks(1, *[bytes(16 * MIB)] * 5))
    assert server.counters.refused_oversize == 1
    assert [problem.kind for problem in server.take_problems()] == ["Oversize"]
    with pytest.raises(MisuseError):
        server.send("client/a", object())


# ---- threads, forks, ends ------------------------------------------------------------------------------------


def test_only_the_owner_touches_the_sockets_and_others_post(server: ServerWire, client: ClientWire) -> None:
    failures: list[str] = []

    def poster(name: str) -> None:
        try:
            client.send(server.address, stat())
        except MisuseError as error:
            failures.append(str(error))
        for number in range(200):
            client.post(server.address, requests.NodeStat(Peer(name), str(number)))

    threads = [threading.Thread(target=poster, args=(f"client/{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    got = run(client, server, until=arrived(800))
    for thread in threads:
        thread.join()
    assert len(failures) == 4
    for n in range(4):
        assert [int(message.token) for _, message in got if message.client == f"client/{n}"] == list(range(200))


def test_posts_are_bounded_and_a_bad_one_is_the_posters_problem(wires: Callable[..., Any]) -> None:
    client = wires(ClientWire, "client/a", limits=attrs.evolve(PATIENT, posts_max=2))
    client.post("client/b", object())
    client.post("client/b", stat())
    with pytest.raises(WireBusy):
        client.post("client/b", stat())
    client.poll(10)
    assert [problem.kind for problem in client.take_problems()] == ["MisuseError"]
    client.close()
    client.wake()
    with pytest.raises(WireClosed):
        client.post("client/b", stat())


def test_every_socket_has_a_bounded_linger_from_the_start(server: ServerWire) -> None:
    server.send(server.address, stat())
    ((_, dealer),) = server._links.values()
    for ours in (server._router.socket, dealer.socket):
        assert ours.getsockopt(zmq.LINGER) == PATIENT.linger_ms
        assert 0 < ours.getsockopt(zmq.SNDHWM) <= PATIENT.socket_frames
        assert ours.getsockopt(zmq.MAXMSGSIZE) == PATIENT.frame_bytes_max
        assert ours.getsockopt(zmq.HEARTBEAT_IVL) == PATIENT.heartbeat_ms
    assert dealer.socket.getsockopt(zmq.IMMEDIATE) == 1  # nothing stale reaches a server that comes back


def test_close_ends_in_time_whatever_is_queued_and_tells_what_did_not_leave(wires: Callable[..., Any]) -> None:
    with socket.socket() as hole, socket.socket() as other:
        for listener in (hole, other):
            listener.bind(("127.0.0.1", 0))
            listener.listen()  # connects, and never says a word
        client = wires(ClientWire, "client/a", limits=attrs.evolve(PATIENT, connect_ms=60_000))
        for listener in (hole, other):
            for number in range(10):
                client.send(f"tcp://127.0.0.1:{listener.getsockname()[1]}", stat(number))
        client.poll(20)
        started = time.monotonic()
        assert client.close() == 20
        assert time.monotonic() - started < 1.5
        assert client.close() == 0
        for call in (lambda: client.send("client/b", stat()), lambda: client.poll(0)):
            with pytest.raises(WireClosed):
                call()


def test_close_lets_queued_messages_leave_first(server: ServerWire) -> None:
    left: list[int] = []

    def ask_and_go() -> None:
        client = ClientWire("client/a", limits=attrs.evolve(PATIENT, linger_ms=5_000))
        client.send(server.address, blocks(1, *[bytes(MIB)] * 8))
        client.send(server.address, stat(2))
        left.append(client.close())

    thread = threading.Thread(target=ask_and_go)
    thread.start()
    got = run(server, until=arrived(2))
    thread.join()
    assert [message.token for _, message in got] == ["1", "2"]
    assert left == [0]


def test_another_thread_can_close_a_wire_that_waits(server: ServerWire) -> None:
    timer = threading.Timer(0.05, server.close)
    timer.start()
    started = time.monotonic()
    with pytest.raises(WireClosed, match="by another thread"):
        server.poll(60_000)
    assert time.monotonic() - started < 3
    timer.join()


FORK = """
import os, sys
from pinfold.core.requests import NodeStat
from pinfold.transport.base import MisuseError
from pinfold.transport.zmq import ClientWire, ServerWire
server = ServerWire()
client = ClientWire("client/parent")
client.send(server.address, NodeStat("x", "1"))
while not server.poll(5): client.poll(5)
child = os.fork()
if child == 0:
    for call in (lambda: server.poll(0), lambda: client.send(server.address, 1), client.wake, lambda: client.post("a", 1)):
        try: call()
        except MisuseError as error: assert "fork" in str(error)
        else: sys.exit(3)
    client.close(); server.close()
    with ClientWire("client/child") as own:
        own.send(server.name, NodeStat("x", "2"))
        while not own.poll(1000): pass
    sys.exit(0)
got = []
while not got: got = server.poll(1000)
assert got == [("client/child", NodeStat("x", "2"))], got
server.send("client/child", NodeStat("x", "3"))
server.poll(50)
assert os.waitpid(child, 0)[1] == 0
client.send(server.address, NodeStat("x", "4"))
client.poll(5)
got = []
while not got: client.poll(5); got = server.poll(5)
assert got == [("client/parent", NodeStat("x", "4"))], got
client.close(); server.close()
print("whole")
"""


@pytest.mark.processes
def test_a_forked_child_is_refused_and_harms_nobody() -> None:
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    result = subprocess.run([sys.executable, "-c", FORK], env=env, capture_output=True, text=True, timeout=30, check=False)
    assert (result.returncode, result.stdout) == (0, "whole\n"), result.stderr
