"""ZeroMQ's own ways of losing things, over real sockets on the loopback."""

import random
import socket
import threading
import time
from contextlib import ExitStack
from typing import Any

import attrs
import pytest
import zmq

from pinfold.core import commands as c
from pinfold.core import orders, requests
from pinfold.core.answers import Answered, Created
from pinfold.core.audit import audit
from pinfold.core.calls import AskNode, Call, Done
from pinfold.core.client import Client
from pinfold.core.client_state import ClientConfig
from pinfold.core.events import PeerUnreachable, Tick
from pinfold.core.ids import CopyId, NodeName, Peer, State, manifest_hash
from pinfold.core.reports import Report
from pinfold.transport.base import MisuseError, WireBusy, WireClosed
from pinfold.transport.zmq import ClientWire, ServerWire
from tests.cases import zmq_world
from tests.cases.embedded_world import put_of
from tests.cases.zmq_world import Party, directory_at, new_store, node_at, turn_all
from tests.wiring import PATIENT, blocks, let_go, stat

pytestmark = pytest.mark.processes

ME = Peer("client/hand")
LOOPBACK = "tcp://127.0.0.1:0"


def opened(directory: Party) -> int:
    told = directory.command(c.OpenSession(ME, "hand", lease_ms=60_000))
    session: int = told.answer.session
    return session


def written(directory: Party, node: Party, session: int, number: int, *, loses: bool = False) -> CopyId:
    """One group, made by hand through both machines; the order goes over the wire."""
    put = put_of(f"g{number}")
    command = c.Command(ME, session, number, number, c.Create(put.spec))  # type: ignore[arg-type]
    created = directory.command(command)
    assert isinstance(created, Created)
    turn_all(directory, node, until=lambda: created.copy in node.machine.state.copies)
    blocks_of = tuple(range(len(put.checksums)))
    node.do(requests.Write(ME, f"w{number}", created.copy, blocks_of, put.checksums, put.data))
    node.loses = (lambda message: isinstance(message, Report)) if loses else (lambda message: False)
    manifest = manifest_hash(put.spec.key.layout, put.spec.sizes, put.checksums)
    node.do(requests.EndWrite(ME, f"e{number}", created.copy, manifest))
    return created.copy


def is_local(directory: Party, copy: CopyId) -> bool:
    state = directory.machine.state
    group = state.groups.get(state.group_of.get(copy))
    return group is not None and group.state is State.LOCAL


def test_c47_zeromq_what_was_said_before_the_connection_worked_is_noticed_as_missing() -> None:
    """kuzzle #2773 (also vLLM #18722 and libzmq #2826). A joiner subscribed on one channel and took a snapshot on another. ZeroMQ
    connects in the background: what was published in between vanished, and the joiner believed that it had everything.

    Here nothing leaves before the two ends have greeted, and what does not leave is told. An order that never arrives, with no
    other after it, is noticed by the number in the next heartbeat, and what it was about is ordered again.
    """
    with ExitStack() as stack:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            address = f"tcp://127.0.0.1:{probe.getsockname()[1]}"
        early = stack.enter_context(ClientWire("client/early", limits=PATIENT))
        for number in range(20):
            early.send(address, stat(number))  # nobody listens there yet
        early.poll(20)
        server = stack.enter_context(zmq_world.server_at(address))
        news: list[PeerUnreachable] = []
        got = zmq_world.run(early, server, until=lambda got: len(got) == 20 or news.extend(early.unreachable()) or news)
        assert [message.token for _, message in got] == [str(number) for number in range(20)] or news

        directory = directory_at(LOOPBACK, new_store())
        stack.enter_context(directory.wire)
        node = node_at(directory.wire.address)
        stack.enter_context(node.wire)
        turn_all(directory, node, until=lambda: _ready(directory))
        session = opened(directory)
        directory.loses = lambda message: isinstance(message, orders.Order) and not directory.lost
        created = directory.command(c.Command(ME, session, 1, 1, c.Create(put_of("G").spec)))  # type: ignore[arg-type]
        assert len(directory.lost) == 1
        assert created.copy not in node.machine.state.copies
        turn_all(directory, node, until=lambda: created.copy in node.machine.state.copies)
        assert node.machine.state.links[0].number > directory.lost[0].number


def _ready(directory: Party, name: str = "n1") -> bool:
    link = directory.machine.state.links.get(NodeName(name))
    return link is not None and link.ready


def test_c48_zeromq_a_view_that_has_missed_something_is_made_whole_again() -> None:
    """llm-d router #1737. A subscriber read a sequence number from each batch of events and never compared it. A blip, or a full
    high-water mark, lost batches in silence, and the index of places drifted away.

    Here most of what a node tells is lost on the way, and the directory dies and comes back in another term while the node
    loses a copy: each time the next inventory, which says in which term and after which order it was made, makes both equal.
    """
    chance = random.Random(1)
    with ExitStack() as stack:
        store = new_store()
        directory = directory_at(LOOPBACK, store)
        stack.callback(directory.wire.close)
        node = node_at(directory.wire.address, inventory_ms=300)
        stack.enter_context(node.wire)
        turn_all(directory, node, until=lambda: _ready(directory))
        session = opened(directory)
        copies = [written(directory, node, session, number, loses=chance.random() < 0.7) for number in range(1, 13)]
        assert len(node.lost) >= 4
        node.loses = lambda message: False
        turn_all(directory, node, until=lambda: all(is_local(directory, copy) for copy in copies))
        assert findings(directory, node) == []

        address = directory.wire.address
        directory.wire.close()
        gone = copies[3]
        tier = next(iter(node.bytework._set.tiers.values()))
        tier.lose(gone)
        node.do(requests.Read(ME, "r", gone, (0,)))  # found out, and told to nobody
        assert gone not in node.machine.state.copies or not node.machine.state.copies[gone].places
        again = directory_at(address, store)
        stack.enter_context(again.wire)
        assert is_local(again, gone)
        turn_all(again, node, until=lambda: not is_local(again, gone))
        turn_all(again, node, until=lambda: findings(again, node) == [])
        assert all(is_local(again, copy) for copy in copies if copy != gone)


def findings(directory: Party, node: Party) -> list[str]:
    there = {NodeName("n1"): node.machine.inventory()}
    found = audit(directory.machine.state, there, directory.machine.config, holds_expected=True)
    return [finding.kind for finding in found]


def test_c94_zeromq_a_full_pipe_is_no_success() -> None:
    """PrimeIntellect verifiers #951 (also libzmq #2037). A ROUTER whose pipe to a peer is full throws the message away and says
    that all is well; the other side waited ten hours for an answer.

    Here each of a thousand answers to a peer that does not read is one of: arrived, refused as full and told, given up and told.
    A question asked twice is answered twice alike, and has one effect. A peer that has gone is told as unreachable.
    """
    limits = attrs.evolve(PATIENT, socket_frames=8, outbox_messages_max=100)
    with ExitStack() as stack:
        server = stack.enter_context(ServerWire(limits=limits))
        client = stack.enter_context(ClientWire("client/a", limits=limits))
        client.send(server.address, stat(0))
        zmq_world.run(client, server, until=lambda got: got)
        data = bytes(20_000)
        for number in range(1_000):
            server.send("client/a", blocks(number, data))
        counters = server.counters
        assert counters.accepted + counters.refused_full == 1_000
        assert counters.refused_full > 0
        assert [event.peer for event in server.unreachable()] == ["client/a"]
        got = zmq_world.run(client, server, until=lambda got: len(got) == counters.accepted - counters.abandoned)
        assert len({message.token for _, message in got}) == len(got)

        directory = directory_at(LOOPBACK, new_store())
        stack.enter_context(directory.wire)
        directory.driver._replies = None  # answers leave over the wire
        asking = c.OpenSession(Peer("client/a"), "once")
        for _ in range(2):
            client.send(directory.wire.address, asking)
        answers: list[Any] = []
        turn_all(directory, until=lambda: answers.extend(client.poll(2)) or len(answers) == 2)
        assert len({message.answer.session for _, message in answers}) == 1
        session = answers[0][1].answer.session
        command = c.Command(Peer("client/a"), session, 1, 1, c.ReleaseRequest("r"))
        for _ in range(2):
            client.send(directory.wire.address, command)
        turn_all(directory, until=lambda: answers.extend(client.poll(2)) or len(answers) == 4)
        assert answers[2] == answers[3]
        assert isinstance(answers[2][1], Answered)

        client.close()
        end = time.monotonic() + zmq_world.PATIENCE_S
        news: list[Any] = []
        while not news:
            assert time.monotonic() < end
            server.send("client/a", let_go(1))
            server.poll(10)
            news = server.unreachable()


def test_c96_zeromq_a_peer_that_dies_with_a_full_pipe_stops_nobody() -> None:
    """libzmq #2348 (#4665). With the option that reports what can't be delivered a full pipe makes a send block; if its peer then
    dies, the send never returns and the node stands still.

    Here no send waits. The full pipe is told, the others are served, and the peer that comes back has a pipe of its own.
    """
    limits = attrs.evolve(PATIENT, socket_frames=4, outbox_messages_max=50)
    with ExitStack() as stack:
        ours = stack.enter_context(ServerWire(limits=limits))
        other = stack.enter_context(ServerWire(limits=limits))
        dies = ServerWire(limits=limits)
        stack.callback(dies.close)
        ours.send(dies.address, stat(0))
        zmq_world.run(ours, dies, until=lambda got: got)
        ours.send(other.address, stat(0))
        zmq_world.run(ours, other, until=lambda got: got)
        for number in range(400):
            began = time.monotonic()
            ours.send(dies.address, blocks(number, bytes(200_000)))
            assert time.monotonic() - began < 1.0, "a send waits for a peer that does not read"
            if ours.counters.refused_full:
                break
        assert ours.counters.refused_full
        assert [event.peer for event in ours.unreachable()] == [dies.address]
        dies.close()
        ours.send(other.address, stat(1))
        assert zmq_world.run(ours, other, until=lambda got: got)[-1][1] == stat(1)
        news: list[PeerUnreachable] = []
        zmq_world.run(ours, other, until=lambda _: news.extend(ours.unreachable()) or news)
        assert news[0].peer == dies.address
        back = stack.enter_context(zmq_world.server_at(dies.address, limits))
        end = time.monotonic() + zmq_world.PATIENCE_S
        got: list[Any] = []
        while not any(message == stat(9) for _, message in got):
            assert time.monotonic() < end
            ours.send(back.address, stat(9))
            ours.poll(20)
            got += back.poll(20)


def test_c97_zeromq_an_answer_belongs_to_its_question_however_late_it_comes() -> None:
    """libzmq #1695 (fixed by #1862; also pyzmq #1288). After a timeout the next question was sent, and the late answer to the
    first was taken for the answer to the second.

    Here each question has a token of its own that comes back, and tokens carry the boot of who asked. Twenty waiters get their
    own out of shuffled, doubled answers over a real wire; a late one resolves nothing but its own.
    """
    with ExitStack() as stack:
        server = stack.enter_context(ServerWire(limits=PATIENT))
        wire = stack.enter_context(ClientWire("client/a", limits=PATIENT))
        client = Client(ClientConfig(Peer("client/a"), (Peer("directory/0"),), "boot-1", node_attempt_ms=60_000))
        sent: list[Any] = []
        for number in range(20):
            ready = client.step(Call(number, AskNode(server.address, requests.NodeStat(Peer(""), ""))), 1_000)
            sent += [send.message for send in ready.send]
            for send in ready.send:
                wire.send(send.target, send.message)
        asked = [message for _, message in zmq_world.run(wire, server, until=lambda got: len(got) == 20)]
        assert [message.token for message in asked] == [message.token for message in sent]
        first = client.step(Call("late", AskNode(server.address, requests.NodeStat(Peer(""), "")), 10), 1_000)
        timed_out = client.step(Tick(), 1_020)
        assert [reply.target for reply in timed_out.reply] == ["late"]
        answers = [status(message.token) for message in asked] * 2 + [status(first.send[0].message.token), status("boot-0.1")]
        random.Random(3).shuffle(answers)
        for answer in answers:
            server.send("client/a", answer)
        replies: dict[Any, Any] = {}
        for _, message in zmq_world.run(server, wire, until=lambda got: len(got) == len(answers)):
            for reply in client.step(message, 1_030).reply:
                assert reply.target not in replies
                replies[reply.target] = reply.message
        assert len(replies) == 20
        for number in range(20):
            done = replies[number]
            assert isinstance(done, Done)
            assert done.value.boot == f"for {sent[number].token}"


def status(token: str) -> requests.NodeStatus:
    return requests.NodeStatus(NodeName("n1"), token, f"for {token}", 1, 1, 1, (), 0, (), ())


def test_c98_zeromq_shutdown_ends_in_its_time_and_tells_what_did_not_leave() -> None:
    """pyzmq #102, #837 (also libzmq #2586). Messages that a dead peer never took kept a shutdown waiting without limit; setting
    the linger late, or on the wrong call, did not help.

    Here every socket has its bounded linger from the start, a close ends within two of them, by whatever path, and says how
    many messages did not leave.
    """
    with ExitStack() as stack:
        server = stack.enter_context(ServerWire(limits=PATIENT))
        server.send(server.address, stat())
        ((_, dealer),) = server._links.values()
        for ours in (server._router.socket, dealer.socket):
            assert ours.getsockopt(zmq.LINGER) == PATIENT.linger_ms
            assert ours.getsockopt(zmq.SNDHWM) == PATIENT.socket_frames

        dead = stack.enter_context(socket.socket())
        dead.bind(("127.0.0.1", 0))
        dead.listen()  # it is connected to, and never says a word
        for fails in (False, True):
            began, left = time.monotonic(), -1
            try:
                with ClientWire("client/a", limits=attrs.evolve(PATIENT, connect_ms=60_000)) as client:
                    for number in range(10):
                        client.send(f"tcp://127.0.0.1:{dead.getsockname()[1]}", stat(number))
                    client.poll(20)
                    if fails:
                        raise KeyError("something else")
                    left = client.close()
            except KeyError:
                left = client.counters.abandoned
            assert time.monotonic() - began < 2.0
            assert left == client.counters.abandoned == 10
            with pytest.raises(WireClosed):
                client.send("client/b", stat())


def test_c99_zeromq_only_the_owner_of_a_socket_touches_it() -> None:
    """pyzmq #2043, #2094. Sockets are not thread-safe: sending and receiving from two threads ended the process hours later with
    an assertion inside the library.

    Here a call from another thread is refused before it touches anything. Threads post; what they post leaves in their order,
    none is lost, and a post that comes too late is refused in so many words.
    """
    refused: list[str] = []
    with ExitStack() as stack:
        server = stack.enter_context(ServerWire(limits=PATIENT))
        client = stack.enter_context(ClientWire("client/a", limits=PATIENT))

        def foreign() -> None:
            for call in (lambda: client.send(server.address, stat()), lambda: client.poll(0)):
                try:
                    call()
                except MisuseError as error:
                    refused.append(str(error))

        def poster(name: str) -> None:
            for number in range(200):
                client.post(server.address, requests.NodeStat(Peer(name), str(number)))

        stranger = threading.Thread(target=foreign)
        stranger.start()
        stranger.join()
        assert len(refused) == 2
        posters = [threading.Thread(target=poster, args=(f"client/{n}",)) for n in range(4)]
        for thread in posters:
            thread.start()
        got = zmq_world.run(client, server, until=lambda got: len(got) == 800)
        for thread in posters:
            thread.join()
        for n in range(4):
            assert [message.token for _, message in got if message.client == f"client/{n}"] == [str(i) for i in range(200)]
        client.close()
        late: list[type] = []

        def too_late() -> None:
            try:
                client.post(server.address, stat())
            except (WireClosed, WireBusy) as error:
                late.append(type(error))

        thread = threading.Thread(target=too_late)
        thread.start()
        thread.join()
        assert late == [WireClosed]
