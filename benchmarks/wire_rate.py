"""How fast is the ZeroMQ wire? Small messages a second, and groups of 16 blocks of 1 MiB beside raw TCP in the same run.

    python benchmarks/wire_rate.py [--json] [--rounds 5] [--groups 40] [--messages 20000]

Two processes on one machine. Raw TCP and the wire move the same bytes from the same memory into the same kind of landing place,
two groups in flight, an answer per group, in alternating rounds; medians of the rounds. The receiver keeps freed frames on its
heap (`keep_frames_on_heap`). `group_ratio` is wire over raw. No checksums on either side: those belong to the tiers.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import socket
import statistics
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from pinfold.core.ids import CopyId, NodeName, Peer
from pinfold.core.requests import LetGo, NodeStat, Write, Written
from pinfold.transport.landing import keep_frames_on_heap, land
from pinfold.transport.zmq import ClientWire, ServerWire

MIB = 1 << 20
BLOCKS = 16
GROUPS_IN_FLIGHT = 2
MESSAGES_IN_FLIGHT = 64
COPY = CopyId(0, 1, 0)


# ---- the serving process -------------------------------------------------------------------------------------


def touched(size: int) -> bytearray:
    """Memory whose pages exist: the first touch costs more than the copy."""
    return bytearray(b"\1") * size


def serve_raw(listener: socket.socket, target: bytearray) -> None:
    connection, _ = listener.accept()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    view = memoryview(target)
    with connection:
        while True:
            filled = 0
            while filled < len(target):
                count = connection.recv_into(view[filled : filled + MIB])
                if not count:
                    return
                filled += count
            connection.sendall(b"1")


def serve(pipe: Connection) -> None:
    """Serve the wire, and raw TCP when told to, until told to end."""
    keep_frames_on_heap()
    target = touched(BLOCKS * MIB)
    with socket.create_server(("127.0.0.1", 0)) as listener, ServerWire() as wire:
        pipe.send((wire.address, listener.getsockname()))
        while True:
            for source, message in wire.poll(1_000, fds=[pipe.fileno()]):
                if isinstance(message, Write):
                    land(message.data, target)
                    wire.send(source, Written(NodeName("n"), message.token, COPY, message.blocks))
                else:
                    wire.send(source, LetGo(NodeName("n"), message.token, 0))
            if wire.ready_fds:
                if pipe.recv() == "end":
                    return
                serve_raw(listener, target)


# ---- the asking process --------------------------------------------------------------------------------------


def window(wire: ClientWire, ask: Callable[[int], None], count: int, in_flight: int) -> float:
    """Seconds for `count` questions with `in_flight` of them unanswered."""
    started = time.perf_counter()
    asked = answered = 0
    while answered < count:
        while asked < count and asked - answered < in_flight:
            ask(asked)
            asked += 1
        answered += len(wire.poll(1_000))
    return time.perf_counter() - started


def raw_groups(address: Any, blocks: list[bytes], count: int) -> float:
    with socket.create_connection(address) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        started = time.perf_counter()
        for number in range(count + GROUPS_IN_FLIGHT):
            if number < count:
                for block in blocks:
                    connection.sendall(block)
            if number >= GROUPS_IN_FLIGHT:
                connection.recv(1)
        return time.perf_counter() - started


def measure(rounds: int, groups: int, messages: int) -> dict[str, Any]:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=serve, args=(theirs,))
    process.start()
    server, raw_address = ours.recv()
    blocks = [os.urandom(MIB) for _ in range(BLOCKS)]
    indices, checksums = tuple(range(BLOCKS)), (0,) * BLOCKS
    raw, wired, piped, single = [], [], [], []
    with ClientWire("client/bench") as wire:

        def stat(number: int) -> None:
            wire.send(server, NodeStat(Peer("client/bench"), str(number)))

        def group(number: int) -> None:
            wire.send(server, Write(Peer("client/bench"), str(number), COPY, indices, checksums, tuple(blocks)))

        window(wire, group, 2, 1)  # connect, greet, touch memory
        for _ in range(rounds):
            ours.send("raw")
            raw.append(groups * BLOCKS * MIB / raw_groups(raw_address, blocks, groups) / 1e9)
            wired.append(groups * BLOCKS * MIB / window(wire, group, groups, GROUPS_IN_FLIGHT) / 1e9)
            piped.append(messages / window(wire, stat, messages, MESSAGES_IN_FLIGHT))
            single.append(window(wire, stat, messages // 10, 1) / (messages // 10) * 1e6)
    ours.send("end")
    process.join()
    median = statistics.median
    return {
        "group_raw_gb_per_s": round(median(raw), 2),
        "group_wire_gb_per_s": round(median(wired), 2),
        "group_ratio": round(median(w / r for w, r in zip(wired, raw, strict=True)), 2),
        "messages_per_s_x64": round(median(piped)),
        "round_trip_us_x1": round(median(single), 1),
        "rounds": rounds,
        "congestion_control": Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text().strip(),
        "python": platform.python_version(),
        "cores": os.cpu_count(),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--groups", type=int, default=40, help="groups of 16 MiB in a round")
    parser.add_argument("--messages", type=int, default=20_000, help="small messages in a round")
    options = parser.parse_args()
    result = measure(options.rounds, options.groups, options.messages)
    if options.json:
        print(json.dumps(result))
    else:
        for name, value in result.items():
            print(f"{name:24} {value}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
