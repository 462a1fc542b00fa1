"""Worlds as data: one file `specs/worlds/NAME.toml` each.

    about = "What it is for, in a sentence."
    kills = ["mutant", ...]              # mutants that this world must find
    setup = ["create g at n1", ...]      # played in order, without faults, before anything is explored

    [nodes.n1]                           # slots per tier; an SSD outlives its node's process
    dram = 1
    [stores]                             # remote stores and their slots
    s1 = 2
    [groups.g]
    blocks = 1
    [clients]                            # each a session and a script; see `actor.py` for the words
    a = ["create g at n1", "write g", "unpin g", "die"]
    [faults]                             # budgets; what is not named does not happen
    drop = 1

The faults: `drop` and `duplicate` a message; `crash_node`, `crash_directory` (at any point, also between a commit and what it
lets out, and with a commit of which nobody knows), `crash_client`; `expire` the session of a living client; `lapse` the lease of
a living node; `early`: a deadline or retry comes while something is still under way; `beat`: a heartbeat or inventory at a
moment of its own choosing (those that repair needs come by themselves, when nothing else is under way); `fail`: byte work fails;
`rot`: byte work finds or makes wrong bytes; `depose`: a new directory takes over while the old one goes on sending.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Final

from attrs import define

from ..core.errors import WorldError
from ..core.ids import Tier

FAULTS: Final = (
    "drop", "duplicate", "crash_node", "crash_directory", "crash_client", "expire", "lapse", "early", "beat", "fail", "rot",
    "depose",
)  # fmt: skip

TIERS: Final = {"hbm": Tier.HBM, "dram": Tier.DRAM, "ssd": Tier.SSD}
BLOCK_BYTES: Final = 16


class WorldFileError(WorldError):
    """Raised when a world file says something that no world has."""

    exit_code = 2


@define(frozen=True)
class NodeShape:
    """`tiers`: `(tier, slots)`, fastest first."""

    name: str
    tiers: tuple[tuple[Tier, int], ...]
    high_percent: int
    low_percent: int


@define(frozen=True)
class GroupShape:
    name: str
    blocks: int
    parent: str


@define(frozen=True)
class WorldFile:
    """One world as it was written."""

    name: str
    about: str
    kills: tuple[str, ...]
    setup: tuple[str, ...]
    nodes: tuple[NodeShape, ...]
    stores: tuple[tuple[str, int], ...]
    groups: tuple[GroupShape, ...]
    clients: tuple[tuple[str, tuple[str, ...]], ...]
    faults: tuple[tuple[str, int], ...]
    pipelined: bool
    """Steps of the directory are committed together: what one lets out may wait while more are taken."""
    repair: bool
    """Heartbeats, retries and deadlines come when nothing else is under way. Off only to show what happens without."""
    spill: bool
    fetch_tries: int
    tier: str
    """`fast` (every change), or `deep`."""
    restarts: bool
    """Whether a dead node may come back (a dead directory always does)."""

    def budget(self, fault: str) -> int:
        return dict(self.faults).get(fault, 0)


_WORDS: Final = {
    "about", "kills", "setup", "nodes", "stores", "groups", "clients", "faults", "pipelined", "repair", "spill", "fetch_tries",
    "tier", "restarts",
}  # fmt: skip


def parse_world(name: str, text: str) -> WorldFile:
    """Read one world. Raises `WorldFileError`."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise WorldFileError(f"world {name}: {error}") from None
    unknown = sorted(set(data) - _WORDS)
    strange = sorted(set(data.get("faults", {})) - set(FAULTS))
    if unknown or strange:
        raise WorldFileError(f"world {name}: nobody knows {', '.join(unknown + strange)}")
    if not data.get("about") or not data.get("nodes") or not data.get("groups"):
        raise WorldFileError(f"world {name}: it needs `about`, nodes and groups")
    return WorldFile(
        name=name,
        about=" ".join(data["about"].split()),
        kills=tuple(data.get("kills", ())),
        setup=tuple(data.get("setup", ())),
        nodes=tuple(_node(name, node, shape) for node, shape in data["nodes"].items()),
        stores=tuple((store, int(slots)) for store, slots in data.get("stores", {}).items()),
        groups=tuple(
            GroupShape(group, int(shape.get("blocks", 1)), shape.get("parent", "")) for group, shape in data["groups"].items()
        ),
        clients=tuple((client, tuple(script)) for client, script in data.get("clients", {}).items()),
        faults=tuple((fault, int(data.get("faults", {}).get(fault, 0))) for fault in FAULTS),
        pipelined=bool(data.get("pipelined", False)),
        repair=bool(data.get("repair", True)),
        spill=bool(data.get("spill", False)),
        fetch_tries=int(data.get("fetch_tries", 2)),
        tier=str(data.get("tier", "fast")),
        restarts=bool(data.get("restarts", True)),
    )


def _node(world: str, name: str, shape: dict[str, Any]) -> NodeShape:
    tiers = tuple((TIERS[key], int(value)) for key, value in shape.items() if key in TIERS)
    strange = sorted(set(shape) - set(TIERS) - {"high_percent", "low_percent"})
    if not tiers or strange:
        raise WorldFileError(f"world {world}: node {name} needs a tier; nobody knows {', '.join(strange) or 'more'}")
    return NodeShape(name, tiers, int(shape.get("high_percent", 100)), int(shape.get("low_percent", 100)))


def worlds_folder() -> Path:
    """`specs/worlds` of the tree that this package lies in."""
    return Path(__file__).resolve().parent.parent / "specs" / "worlds"


def load_world(name: str, folder: Path | None = None) -> WorldFile:
    """The world of that name. Raises `WorldFileError` with the names that there are."""
    where = folder or worlds_folder()
    path = where / f"{name}.toml"
    if not path.is_file():
        known = ", ".join(sorted(other.stem for other in where.glob("*.toml"))) or "none"
        raise WorldFileError(f"there is no world {name!r}; there are: {known}")
    return parse_world(name, path.read_text())


def world_names(folder: Path | None = None) -> list[str]:
    return sorted(path.stem for path in (folder or worlds_folder()).glob("*.toml"))
