"""Free ports on loopback.

They are chosen below the range that the kernel gives to outgoing connections: there, a client that keeps dialling a port while
its server is down may be given that very port, and the server could not come back.
"""

from __future__ import annotations

import random
import socket
from pathlib import Path
from typing import Final

from .core.errors import WorldError

PORT_LOW: Final = 15_000
PORT_HIGH: Final = 32_767
"""Where Linux begins its outgoing ports by default, if this machine does not say."""
PORT_TRIES: Final = 64


class NoPort(WorldError):
    """Raised when no free port was found in a bounded number of tries."""


def free_port() -> int:
    """A TCP port at which nobody listens now. Somebody may before it is used: try again then. Raises NoPort."""
    high, chance = PORT_HIGH, random.SystemRandom()
    try:
        outgoing = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii").split()[0])
        high = outgoing - 1 if outgoing > PORT_LOW + 1_000 else PORT_HIGH
    except (OSError, ValueError, IndexError):
        high = PORT_HIGH
    for _ in range(PORT_TRIES):
        port = chance.randint(PORT_LOW, high)
        if can_bind("127.0.0.1", port):
            return port
    raise NoPort("no free port on loopback")


def can_bind(host: str, port: int) -> bool:
    """Whether a server could listen there now."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
            listener.listen()  # with SO_REUSEADDR two may bind, and only one may listen
        except OSError:
            return False
    return True
