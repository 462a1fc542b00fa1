"""Bytes from strangers."""

import ast
import pickle
import socket
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import attrs
import pytest

from pinfold.core import requests
from pinfold.core.errors import PeerError
from pinfold.core.ids import CopyId, Peer
from pinfold.settings import DirectorySettings, NodeSettings
from pinfold.transport.base import MIB
from pinfold.transport.codec import decode, encode
from pinfold.transport.envelope import Hello
from pinfold.transport.zmq import ClientWire, ServerWire
from tests.cases import zmq_world
from tests.wiring import PATIENT, raw_dealer, stat

ROOT = Path(__file__).resolve().parent.parent.parent

WORDS = ("pickle", "marshal", "shelve", "dill", "yaml", "joblib", "load", "eval", "exec", "compile", "__import__")
EXECUTES = {
    "pickle", "marshal", "shelve", "dill", "cloudpickle", "jsonpickle", "yaml", "joblib", "torch.load", "numpy.load",
    "eval", "exec", "compile", "__import__",
}  # fmt: skip


class Marker:
    """Whoever unpickles it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (Path.touch, (self.path,))


def hostile(marker: Path) -> list[list[bytes]]:
    """Messages that nobody should be able to make anything of."""
    write = encode(requests.Write(Peer("x"), "t", CopyId(0, 1, 0), (0,), (0,), (b"abc",)), "client/x")
    head = bytes(encode(stat(1), "client/x")[0])
    return [
        [pickle.dumps(Marker(marker))],
        [b"PF\x01\x00" + pickle.dumps(Marker(marker))],
        [b""], [b"\x00" * 1_000], [head[:-3]], [head, b"more"], [head] * 6,
        [b"PF\x01\x00" + b"\x91" * 100_000],
        [b"PF\x01\x00" + b"\xdd\xff\xff\xff\xff"],
        [b"PF\x01\x00" + b"\xc6\xff\xff\xff\xff"],
        [bytes(write[0])],
        [head.replace(b"NodeStat", b"NodeStot")],
    ]  # fmt: skip


def test_c103_security_bytes_from_the_network_are_data(tmp_path: Path) -> None:
    """vLLM #17192. A transfer socket listened on every interface and unpickled what it got: whoever could reach the port could
    run code. The same was found later in several other serving projects.

    Here a closed schema decides what bytes mean, and what does not fit is counted and dropped; frames above a limit cost their
    sender the connection. Nothing listens beyond the loopback unless it is told to, strangers leave no state behind, and
    nothing on any path of ours can execute what it reads.
    """
    marker = tmp_path / "marker"
    limits = attrs.evolve(PATIENT, frame_bytes_max=2 * MIB, head_bytes_max=MIB)
    with ExitStack() as stack:
        server = stack.enter_context(ServerWire(limits=limits, store_id="ours"))
        client = stack.enter_context(ClientWire("client/a", limits=PATIENT))
        dealer = raw_dealer(stack, server.address)
        messages = hostile(marker)
        for frames in messages:
            dealer.send_multipart(frames)
        zmq_world.run(server, until=lambda _: sum(server.counters.problems.values()) >= len(messages))
        assert not marker.exists()
        assert len(server._seats.all()) == 0
        stranger = raw_dealer(stack, server.address)
        stranger.send(encode(Hello("client/s", "1"), "client/s", store="another store")[0])
        zmq_world.run(server, until=lambda _: server.counters.problems.get("WrongStore"))
        assert len(server._seats.all()) == 0
        greedy = raw_dealer(stack, server.address)
        greedy.send(bytes(3 * MIB))
        host, port = server.address.removeprefix("tcp://").split(":")
        loud = stack.enter_context(socket.create_connection((host, int(port))))
        loud.sendall(b"GET / HTTP/1.1\r\n\r\n" * 50)
        client.send(server.address, stat(7))
        assert zmq_world.run(server, client, until=lambda got: got) == [("client/a", stat(7))]
        assert server.counters.bytes_received < 2 * MIB
        assert server._assembler._partials == {}
        assert host == "127.0.0.1"

    for settings in (DirectorySettings(), NodeSettings()):
        assert settings.bind.startswith("tcp://127.0.0.1:")
    for frames in hostile(marker):
        with pytest.raises(PeerError):
            decode(frames)
    assert not marker.exists()


def names_in(tree: ast.AST) -> list[str]:
    """What a module imports and calls, as far as it says so by name."""
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names.append(node.module or "")
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            names.append(node.func.id)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name):
            names.append(f"{node.func.value.id}.{node.func.attr}")
    return names


def test_c103_security_nothing_of_ours_can_execute_what_it_reads() -> None:
    """The static half: no module of the packages that bytes pass through imports or calls what turns bytes into code."""
    wrong = []
    for folder in ("core", "backends", "transport", "pinfold"):
        for path in sorted((ROOT / folder).glob("*.py")):
            text = path.read_text()
            if any(word in text for word in WORDS):
                found = EXECUTES & {*names_in(ast.parse(text))}
                wrong += [f"{path.name}: {name}" for name in found]
    assert wrong == []
