"""What tests with real processes share: a small fast cluster, and the command line called in this process."""

import json
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from attrs import define

from pinfold.cli import main
from pinfold.cluster import ClusterOptions, LocalCluster

WAIT_S = 20.0
"""Only a failure waits so long."""

FAST = {
    "node.dram": "256KiB", "node.ssd": "1MiB", "node.heartbeat": "200ms", "node.inventory": "1s", "node.register": "100ms",
    "directory.node_lease": "2s", "directory.repair": "500ms", "directory.grace": "100ms", "client.timeout": "15s",
    "logging.form": "json",
}  # fmt: skip


def small(*nodes: str, **more: str) -> LocalCluster:
    """Not started yet."""
    values = FAST | {name.replace("__", "."): value for name, value in more.items()}
    return LocalCluster(ClusterOptions(nodes=nodes or ("n1", "n2"), values=values))


@define
class Said:
    """What one command line has said and how it ended."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        return json.loads(self.out)


Cli = Callable[..., Said]


def in_process(capfd: pytest.CaptureFixture[str], before: Sequence[str] = ()) -> Cli:
    """`cli("ls", "--json")` runs the command line in this process."""

    def cli(*arguments: str, code: int | None = 0) -> Said:
        capfd.readouterr()
        ended = main([*before, *arguments])
        out, err = capfd.readouterr()
        said = Said(ended, out, err)
        assert code is None or ended == code, said
        assert "Traceback" not in err
        return said

    return cli


def until(what: Callable[[], Any], why: str) -> Any:
    """What `what` gives as soon as it gives something true."""
    end = time.monotonic() + WAIT_S
    while True:
        found = what()
        if found:
            return found
        assert time.monotonic() < end, f"waited in vain until {why}"
        time.sleep(0.05)
