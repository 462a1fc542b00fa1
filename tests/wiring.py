"""What the tests of the ZeroMQ wire share: fast limits, short messages, a loop over several wires, fixtures that close them."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import attrs
import pytest
import zmq

from pinfold.core import requests
from pinfold.core.ids import CopyId, NodeName, Peer, Tier
from pinfold.transport.base import Limits
from pinfold.transport.zmq import ClientWire, ServerWire

COPY = CopyId(0, 1, 0)
PATIENT = Limits(
    connect_ms=8_000, greet_again_ms=20, clash_patience_ms=200, heartbeat_ms=500, heartbeat_timeout_ms=8_000, linger_ms=200
)  # fmt: skip
"""A machine that stands still for seconds is no dead peer: what most tests want."""
FAST = attrs.evolve(PATIENT, connect_ms=500, heartbeat_ms=100, heartbeat_timeout_ms=400)
"""For tests about peers that are away, or have stopped."""
Wire = ClientWire | ServerWire
WAIT_S = 10.0
"""Only a failure waits so long."""


def stat(number: int = 0) -> requests.NodeStat:
    return requests.NodeStat(Peer("client/a"), str(number))


def let_go(number: int) -> requests.LetGo:
    return requests.LetGo(NodeName("n"), str(number), number)


def blocks(number: int, *data: Any) -> requests.Blocks:
    count = len(data)
    return requests.Blocks(NodeName("n"), str(number), COPY, tuple(range(count)), (0,) * count, Tier.DRAM, data)


def run(*wires: Wire, until: Callable[[list[Any]], Any]) -> list[Any]:
    """Turn the loops of several wires in one thread until a condition on what has arrived; gives `(source, message)` pairs."""
    got: list[Any] = []
    end = time.monotonic() + WAIT_S
    while not until(got):
        assert time.monotonic() < end, f"waited in vain; got {len(got)}; {[(w.take_problems(), w.counters) for w in wires]}"
        for wire in wires:
            got += wire.poll(2)
    return got


def arrived(count: int) -> Callable[[list[Any]], bool]:
    return lambda got: len(got) >= count


@pytest.fixture(name="wires")
def wires_fixture() -> Iterator[Callable[..., Any]]:
    """Makes wires, and closes them whatever happens."""
    with ExitStack() as stack:
        yield lambda kind, *args, **options: stack.enter_context(kind(*args, **{"limits": PATIENT, **options}))


@pytest.fixture(name="server")
def server_fixture(wires: Callable[..., Any]) -> ServerWire:
    return wires(ServerWire)


@pytest.fixture(name="client")
def client_fixture(wires: Callable[..., Any]) -> ClientWire:
    return wires(ClientWire, "client/a")


def raw_dealer(stack: ExitStack, address: str) -> zmq.Socket[bytes]:
    context = stack.enter_context(zmq.Context())
    dealer = stack.enter_context(context.socket(zmq.DEALER))
    dealer.setsockopt(zmq.LINGER, 0)
    dealer.setsockopt(zmq.RCVTIMEO, 2_000)
    dealer.connect(address)
    return dealer
