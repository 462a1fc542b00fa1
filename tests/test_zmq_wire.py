"""The ZeroMQ wire over real sockets on the loopback: nothing hangs, and nothing is lost without a word."""

import errno
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from pinfold.core import requests
from pinfold.core.ids import Peer
from pinfold.transport.base import KIB, MIB, CannotBind, MisuseError, is_endpoint
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
    run,
    server_fixture,
    stat,
    wires_fixture,
)

ROOT = Path(__file__).resolve().parent.parent


# ---- the good days -------------------------------------------------------------------------------------------


def test_a_question_and_its_answer(server: ServerWire, client: ClientWire) -> None:
    client.send(server.address, stat(7))
    assert run(client, server, until=arrived(1)) == [("client/a", stat(7))]
    server.send("client/a", let_go(7))
    assert run(server, client, until=arrived(1)) == [(server.address, let_go(7))]
    assert client.take_problems() == server.take_problems() == []
    assert client.unreachable() == server.unreachable() == []


def test_servers_talk_to_each_other_and_to_themselves_by_address(wires: Callable[..., Any]) -> None:
    one, other = wires(ServerWire), wires(ServerWire)
    assert is_endpoint(one.address)
    one.send(other.address, stat(1))
    assert run(one, other, until=arrived(1)) == [(one.address, stat(1))]
    other.send(one.address, stat(2))
    one.send(one.address, stat(3))
    assert sorted(str(got) for got in run(one, other, until=arrived(2))) == sorted(
        [str((other.address, stat(2))), str((one.address, stat(3)))]
    )


def test_unix_sockets_serve_as_well(wires: Callable[..., Any], tmp_path: Path) -> None:
    server = wires(ServerWire, f"ipc://{tmp_path}/s")
    client = wires(ClientWire, "client/a")
    client.send(server.address, stat(1))
    run(client, server, until=arrived(1))
    with pytest.raises(CannotBind, match="another server listens"):
        ServerWire(f"ipc://{tmp_path}/s")
    server.close()
    wires(ServerWire, f"ipc://{tmp_path}/s")


def test_payloads_arrive_whole_as_views_and_messages_keep_their_order(server: ServerWire, client: ClientWire) -> None:
    large = [os.urandom(MIB) for _ in range(4)]
    small = [os.urandom(3 * KIB) for _ in range(500)]
    write = requests.Write(Peer("client/a"), "t", COPY, (), (), (*large, *small, b""))
    client.send(server.address, stat(1))
    client.send(server.address, write)
    client.send(server.address, stat(2))
    (_, first), (_, second), (source, third) = run(client, server, until=arrived(3))
    assert (first, third, source) == (stat(1), stat(2), "client/a")
    assert list(second.data) == [*large, *small, b""]
    assert all(isinstance(view, memoryview) and view.readonly for view in second.data)
    assert client.counters.bytes_sent >= 4 * MIB


def test_a_poll_comes_back_for_fds_and_for_a_wake_and_when_its_time_is_over(server: ServerWire) -> None:
    reading, writing = os.pipe()
    try:
        started = time.monotonic()
        assert server.poll(60, fds=[reading]) == []
        assert 0.05 < time.monotonic() - started < 1
        assert server.ready_fds == ()
        os.write(writing, b"x")
        assert server.poll(60_000, fds=[reading]) == []
        assert server.ready_fds == (reading,)
        assert server.poll(0) == []
        assert server.ready_fds == ()
        for _ in range(20):  # a knock just before, or while, the loop goes to sleep is not lost
            thread = threading.Thread(target=server.wake)
            thread.start()
            assert server.poll(60_000) == []
            thread.join()
        assert time.monotonic() - started < 5
    finally:
        os.close(reading)
        os.close(writing)


def test_what_arrives_while_we_send_is_read_without_another_word(server: ServerWire, client: ClientWire) -> None:
    client.send(server.address, stat(0))
    run(client, server, until=arrived(1))
    for number in range(100):
        client.send(server.address, stat(number))
        server.send("client/a", let_go(number))  # sends of our own must not swallow the sign that something waits
    time.sleep(0.1)
    assert len(run(server, until=arrived(100))) == 100
    assert len(run(client, until=arrived(100))) == 100


# ---- peers that are away -------------------------------------------------------------------------------------


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_a_server_that_is_not_there_is_unreachable_until_it_comes(wires: Callable[..., Any], client: ClientWire) -> None:
    address = f"tcp://127.0.0.1:{free_port()}"
    client.send(address, stat(1))
    started = time.monotonic()
    assert client.poll(5_000) == []
    assert time.monotonic() - started < 2
    assert [event.peer for event in client.unreachable()] == [address]
    assert client.counters.abandoned == 1
    client.send(address, stat(2))  # refused at once: nothing is kept for a peer that is away
    assert [event.peer for event in client.unreachable()] == [address]
    assert client.counters.refused_unreachable == 1
    server = wires(ServerWire, address)
    got: list[Any] = []
    while not got:
        client.send(address, stat(3))
        client.poll(10)
        got += server.poll(10)
    assert got[0] == ("client/a", stat(3))


def test_clients_that_are_unknown_or_have_left_are_unreachable(server: ServerWire, wires: Callable[..., Any]) -> None:
    server.send("client/never", let_go(1))
    assert [event.peer for event in server.unreachable()] == ["client/never"]
    client = wires(ClientWire, "client/a")
    client.send("client/b", stat(1))  # a client can't reach a client
    assert [event.peer for event in client.unreachable()] == ["client/b"]
    client.send(server.address, stat(1))
    run(client, server, until=arrived(1))
    client.close()
    end = time.monotonic() + WAIT_S
    while not (events := server.unreachable()):
        assert time.monotonic() < end
        server.send("client/a", let_go(1))
        server.poll(5)
    assert [event.peer for event in events] == ["client/a"]


def test_a_server_that_comes_back_at_its_address_is_found_again(wires: Callable[..., Any], client: ClientWire) -> None:
    first = wires(ServerWire)
    client.send(first.address, stat(1))
    run(client, first, until=arrived(1))
    first.close()
    client.poll(2_000)
    assert [event.peer for event in client.unreachable()] == [first.address]
    second = wires(ServerWire, first.address)
    end = time.monotonic() + WAIT_S
    got: list[Any] = []
    while not got:
        assert time.monotonic() < end
        client.send(second.address, stat(2))
        client.poll(5)
        got += second.poll(5)
    second.send("client/a", let_go(2))
    assert (second.address, let_go(2)) in run(client, second, until=lambda got: (second.address, let_go(2)) in got)


def test_a_slow_client_costs_others_nothing_and_nothing_accepted_is_lost(wires: Callable[..., Any]) -> None:
    limits = attrs.evolve(PATIENT, socket_frames=4, outbox_messages_max=20)
    server = wires(ServerWire, limits=limits)
    slow, quick = wires(ClientWire, "client/slow", limits=limits), wires(ClientWire, "client/quick", limits=limits)
    for wire in (slow, quick):
        wire.send(server.address, stat())
    run(slow, quick, server, until=arrived(2))
    data = bytes(MIB)
    accepted: list[str] = []
    started = time.monotonic()
    for number in range(100):  # nobody reads at the other end
        before = server.counters.accepted
        server.send("client/slow", blocks(number, data))
        if server.counters.accepted > before:
            accepted.append(str(number))
        server.poll(0)
    assert time.monotonic() - started < 3
    assert 20 <= len(accepted) < 100
    assert server.counters.refused_full == 100 - len(accepted)
    assert [event.peer for event in server.unreachable()] == ["client/slow"]
    server.send("client/quick", let_go(5))
    assert run(server, quick, until=arrived(1)) == [(server.address, let_go(5))]
    got = run(server, slow, until=arrived(len(accepted)))
    assert [message.token for _, message in got] == accepted
    assert all(message.data[0] == data for _, message in got)


def test_a_congested_server_delays_its_own_messages_only(wires: Callable[..., Any]) -> None:
    limits = attrs.evolve(PATIENT, socket_frames=4, outbox_messages_max=20)
    slow, quick, client = wires(ServerWire, limits=limits), wires(ServerWire), wires(ClientWire, "client/a", limits=limits)
    client.send(slow.address, stat())
    run(client, slow, until=arrived(1))
    for number in range(60):
        client.send(slow.address, blocks(number, bytes(MIB)))
    accepted = client.counters.accepted - 1
    assert accepted + client.counters.refused_full == 60
    assert client.counters.refused_full > 0
    client.send(quick.address, stat(1))
    assert run(client, quick, until=arrived(1)) == [("client/a", stat(1))]
    got = run(client, slow, until=arrived(accepted))
    assert [int(message.token) for _, message in got] == list(range(accepted))


SERVER_PROCESS = """
import sys
from pinfold.core.requests import LetGo
from pinfold.transport.zmq import ServerWire
with ServerWire(sys.argv[1]) as wire:
    print(wire.address, flush=True)
    while True:
        for source, message in wire.poll(1000):
            wire.send(source, LetGo("n", message.token, 1))
"""


@pytest.mark.processes
def test_a_paused_or_killed_server_process_is_noticed_and_its_return_too(wires: Callable[..., Any]) -> None:
    client = wires(ClientWire, "client/a", limits=FAST)

    def start(bind: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", SERVER_PROCESS, bind]
        env = os.environ | {"PYTHONPATH": str(ROOT)}
        return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)

    def ask_until_answered() -> None:
        end = time.monotonic() + WAIT_S
        while not client.poll(20):
            assert time.monotonic() < end
            client.send(address, stat(1))

    def wait_until_unreachable() -> None:
        run(client, until=lambda _: any(event.peer == address for event in client.unreachable()))

    process = start("tcp://127.0.0.1:0")
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        ask_until_answered()
        process.send_signal(signal.SIGSTOP)  # the kernel goes on accepting for it: only heartbeats can tell
        client.unreachable()
        wait_until_unreachable()
        process.send_signal(signal.SIGCONT)
        ask_until_answered()
        client.unreachable()
        process.kill()
        process.wait()
        wait_until_unreachable()
        process.stdout.close()
        process = start(address)
        ask_until_answered()
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


# ---- addresses and bounds ------------------------------------------------------------------------------------


def test_addresses_that_cannot_be_served_are_refused_with_a_sentence(server: ServerWire) -> None:
    with pytest.raises(CannotBind, match=os.strerror(errno.EADDRINUSE)):
        ServerWire(server.address)
    for bind in ("tcp://127.0.0.1", "nonsense", "tcp://256.1.1.1:0", "ipc:///nowhere/at/all", "inproc://x"):
        with pytest.raises(CannotBind):
            ServerWire(bind)
    with pytest.raises(CannotBind, match="give the one that peers shall use"):
        ServerWire("tcp://0.0.0.0:0")
    for identity in ("", "tcp://127.0.0.1:1"):
        with pytest.raises(MisuseError):
            ClientWire(identity)


def test_an_address_that_is_none_is_unreachable(client: ClientWire) -> None:
    for address in ("tcp://", "tcp://host", "ipc://" + "x" * 200):
        client.send(address, stat())
        assert [event.peer for event in client.unreachable()] == [address]
    assert client.counters.problems == {"CannotConnect": 3}


def test_connections_are_bounded_and_the_longest_idle_one_makes_room(wires: Callable[..., Any]) -> None:
    servers = [wires(ServerWire) for _ in range(3)]
    client = wires(ClientWire, "client/a", limits=attrs.evolve(PATIENT, links_max=2))
    for number in (0, 1, 2, 0):
        client.send(servers[number].address, stat(number))
        assert run(client, servers[number], until=arrived(1)) == [("client/a", stat(number))]
        assert len(client._links) <= 2


def test_idle_connections_are_closed_and_made_again_when_needed(server: ServerWire, wires: Callable[..., Any]) -> None:
    client = wires(ClientWire, "client/a", limits=attrs.evolve(PATIENT, link_idle_ms=50))
    for number in range(2):
        client.send(server.address, stat(number))
        run(client, server, until=arrived(1))
        run(client, server, until=lambda _: not client._links)
    assert client.unreachable() == []
