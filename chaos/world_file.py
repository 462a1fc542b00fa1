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

`states_max` is where the explorer stops if it has not seen all; a world says it where that is beyond what others need.

The faults: `drop` and `duplicate` a message; `crash_node`, `crash_directory` (at any point, also between a commit and what it
lets out, and with a commit of which nobody knows), `crash_client`; `expire` the session of a living client; `lapse` the lease of
a living node; `early`: a deadline or retry comes while something is still under way; `beat`: a heartbeat or inventory at a
moment of its own choosing (those that repair needs come by themselves, when nothing else is under way); `fail`: byte work fails;
`rot`: byte work finds or makes wrong bytes; `depose`: a new directory takes over while the old one goes on sending.
"""

from __future__ import annotations

import tomllib
from difflib import get_close_matches
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
STATES_MAX: Final = 4_000_000


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
    states_max: int

    def budget(self, fault: str) -> int:
        return dict(self.faults).get(fault, 0)


_WORDS: Final = {
    "about", "kills", "setup", "nodes", "stores", "groups", "clients", "faults", "pipelined", "repair", "spill", "fetch_tries",
    "tier", "restarts", "states_max",
}  # fmt: skip


def parse_world(name: str, text: str) -> WorldFile:
    """Read one world. Raises `WorldFileError`."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise WorldFileError(f"world {name}: {error}") from None
    faults = _table(name, data, "faults")
    unknown = sorted(set(data) - _WORDS)
    strange = sorted(set(faults) - set(FAULTS))
    if unknown or strange:
        raise WorldFileError(f"world {name}: nobody knows {', '.join(unknown + strange)}")
    if not data.get("about") or not data.get("nodes") or not data.get("groups"):
        raise WorldFileError(f"world {name}: it needs `about`, nodes and groups")
    tier = data.get("tier", "fast")
    if tier not in ("fast", "deep"):
        raise WorldFileError(f"world {name}: its tier is fast or deep, not {tier!r}")
    groups: list[GroupShape] = []
    for group in _table(name, data, "groups"):
        groups.append(_group(name, group, _table(name, data["groups"], group), [one.name for one in groups]))
    return WorldFile(
        name=name,
        about=" ".join(str(data["about"]).split()),
        kills=_lines(name, data, "kills"),
        setup=_lines(name, data, "setup"),
        nodes=tuple(_node(name, node, _table(name, data["nodes"], node)) for node in _table(name, data, "nodes")),
        stores=tuple((store, _number(name, data["stores"], store, 1)) for store in _table(name, data, "stores")),
        groups=tuple(groups),
        clients=tuple((client, _lines(name, data["clients"], client)) for client in _table(name, data, "clients")),
        faults=tuple((fault, _number(name, faults, fault, 0)) for fault in FAULTS),
        pipelined=_switch(name, data, "pipelined", False),
        repair=_switch(name, data, "repair", True),
        spill=_switch(name, data, "spill", False),
        fetch_tries=_number(name, data, "fetch_tries", 1, 2),
        tier=tier,
        restarts=_switch(name, data, "restarts", True),
        states_max=_number(name, data, "states_max", 1, STATES_MAX),
    )


def _table(world: str, data: dict[str, Any], key: str) -> dict[str, Any]:
    value = data.get(key, {})
    if not isinstance(value, dict):
        raise WorldFileError(f"world {world}: {key} is a table, not {value!r}")
    return value


def _number(world: str, data: dict[str, Any], key: str, least: int, default: int = 0) -> int:
    value = data.get(key, default)
    if type(value) is not int or value < least:
        raise WorldFileError(f"world {world}: {key} is a whole number, {least} or more, not {value!r}")
    return value


def _switch(world: str, data: dict[str, Any], key: str, default: bool) -> bool:
    value = data.get(key, default)
    if not isinstance(value, bool):
        raise WorldFileError(f"world {world}: {key} is true or false, not {value!r}")
    return value


def _lines(world: str, data: dict[str, Any], key: str) -> tuple[str, ...]:
    value = data.get(key, [])
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise WorldFileError(f"world {world}: {key} is a list of texts, not {value!r}")
    return tuple(value)


def _node(world: str, name: str, shape: dict[str, Any]) -> NodeShape:
    strange = sorted(set(shape) - set(TIERS) - {"high_percent", "low_percent"})
    tiers = tuple((TIERS[key], _number(world, shape, key, 1)) for key in shape if key in TIERS)
    if not tiers or strange:
        raise WorldFileError(f"world {world}: node {name} needs a tier; nobody knows {', '.join(strange) or 'more'}")
    high, low = (_number(world, shape, key, 1, 100) for key in ("high_percent", "low_percent"))
    return NodeShape(name, tiers, high, low)


def _group(world: str, name: str, shape: dict[str, Any], before: list[str]) -> GroupShape:
    strange = sorted(set(shape) - {"blocks", "parent"})
    parent = shape.get("parent", "")
    if strange:
        raise WorldFileError(f"world {world}: of group {name} nobody knows {', '.join(strange)}")
    if parent and parent not in before:
        raise WorldFileError(f"world {world}: group {name} comes after its parent, and {parent!r} is not before it")
    return GroupShape(name, _number(world, shape, "blocks", 1, 1), parent)


def worlds_folder() -> Path:
    """`specs/worlds` of the tree that this package lies in."""
    return Path(__file__).resolve().parent.parent / "specs" / "worlds"


def load_world(name: str, folder: Path | None = None) -> WorldFile:
    """The world of that name. Raises `WorldFileError` where there is none, or where it can't be read."""
    where = folder or worlds_folder()
    path = where / f"{name}.toml"
    known = world_names(where)
    if name not in known:
        near = get_close_matches(name, known, 1, 0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"{where} has {len(known)} others"
        raise WorldFileError(f"there is no world {name!r}; {hint}")
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise WorldFileError(f"world {name} can't be read: {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise WorldFileError(f"world {name} can't be read: {path} is no text in UTF-8") from None
    return parse_world(name, text)


def world_names(folder: Path | None = None) -> list[str]:
    return sorted(path.stem for path in (folder or worlds_folder()).glob("*.toml"))
