"""What can be configured: one schema for the processes, the client, logs and stores.

    Settings
    |-- blocks       size of a block
    |-- directory    DirectorySettings + every limit of `core.state.DirectoryConfig`
    |-- node         NodeSettings + every limit of `core.node_state.NodeConfig`
    |-- client       ClientSettings + every limit of `core.client_state.ClientConfig`
    |-- logging      LoggingSettings
    `-- stores       any number of StoreSettings, by name

The limits of the machines are not listed again here: `keys_of` reads their classes, so that no limit can be forgotten. A field
`node_lease_ms` is the key `directory.node_lease`, and its value has a unit (`"3s"`): names in code end in a unit because values
don't, and in files it is the other way round.
"""

from __future__ import annotations

from enum import Enum, IntEnum
from pathlib import Path
from typing import Any, Final

import attrs
from attrs import define, field

from .core.client_state import ClientConfig, Degradation
from .core.eviction import POLICIES as EVICTION
from .core.ids import NodeName, Peer, Tier
from .core.node_state import NodeConfig, TierRoom
from .core.placement import PLACEMENTS as PLACEMENT
from .core.state import DirectoryConfig, StoreSpec

MANY: Final = 2**40
DAY_MS: Final = 86_400_000


class Kind(Enum):
    """How a value is written, and what it becomes."""

    TEXT = "a text"
    PATH = "a path"
    COUNT = "a whole number"
    DURATION = "a duration"
    SIZE = "a size"
    FLAG = "true or false"
    CHOICE = "one of a few words"
    LIST = "a list of texts"


@define(frozen=True)
class Key:
    """One key of one section. `low` and `high` bound counts, milliseconds or bytes. `field`: the name in the code."""

    section: str
    name: str
    field: str
    kind: Kind
    default: Any
    low: int = 0
    high: int = MANY
    choices: tuple[str, ...] = ()
    help: str = ""

    @property
    def path(self) -> str:
        return f"{self.section}.{self.name}"

    @property
    def variable(self) -> str:
        """The name of its environment variable."""
        return f"PINFOLD_{self.section}_{self.name}".upper()


def _key(kind: Kind, default: Any, help: str, *, low: int = 0, high: int = MANY, choices: tuple[str, ...] = ()) -> Any:
    declared = {"kind": kind, "low": low, "high": high, "choices": choices, "help": help}
    return field(default=default, metadata={"pinfold": declared})


# ---- the sections --------------------------------------------------------------------------------------------


@define(frozen=True)
class BlockSettings:
    bytes: int = _key(Kind.SIZE, 4096, "the largest block; a slot of a tier or store has this size", low=1, high=2**26)


@define(frozen=True)
class DirectorySettings:
    """The process around the directory machine."""

    bind: str = _key(Kind.TEXT, "tcp://127.0.0.1:7400", "where it listens; port 0 chooses a free one")
    advertise: str = _key(Kind.TEXT, "", "the address that others use, where it differs from bind")
    data: Path = _key(Kind.PATH, Path("pinfold-data/directory"), "the folder of its metadata store")
    shard: int = _key(Kind.COUNT, 0, "which shard it serves", high=4_095)
    shards: int = _key(Kind.COUNT, 1, "how many shards there are; fixed when the store is made", low=1, high=4_096)
    inbox_max: int = _key(Kind.COUNT, 4_096, "messages that wait; above, only what gives back is taken", low=1, high=1_000_000)
    batch_max: int = _key(Kind.COUNT, 256, "steps in one commit", low=1, high=100_000)
    restarts_max: int = _key(Kind.COUNT, 3, "terms in a row that may end by a failed commit before the process ends", high=100)
    store_max_bytes: int = _key(Kind.SIZE, 64 * 2**30, "how large the metadata store may grow", low=2**20)


@define(frozen=True)
class NodeSettings:
    """The process around the node machine."""

    name: str = _key(Kind.TEXT, "n1", "its name, unique in the cluster")
    bind: str = _key(Kind.TEXT, "tcp://127.0.0.1:0", "where it listens; port 0 chooses a free one")
    advertise: str = _key(Kind.TEXT, "", "the address that others use, where it differs from bind")
    directories: tuple[str, ...] = _key(Kind.LIST, ("tcp://127.0.0.1:7400",), "one endpoint per shard, in shard order")
    data: Path = _key(Kind.PATH, Path("pinfold-data/node"), "the folder of its SSD tier")
    dram_bytes: int = _key(Kind.SIZE, 64 * 2**20, "its DRAM tier; 0 for none")
    ssd_bytes: int = _key(Kind.SIZE, 256 * 2**20, "its SSD tier; 0 for none")
    high_percent: int = _key(Kind.COUNT, 90, "fill of a tier above which the coldest copies go down a tier", low=1, high=100)
    low_percent: int = _key(Kind.COUNT, 75, "fill down to which they go", low=0, high=100)
    workers: int = _key(Kind.COUNT, 2, "threads for disk and store work", low=1, high=256)
    work_max: int = _key(Kind.COUNT, 1_024, "pieces of byte work that wait or run", low=1, high=1_000_000)


@define(frozen=True)
class ClientSettings:
    endpoints: tuple[str, ...] = _key(Kind.LIST, ("tcp://127.0.0.1:7400",), "addresses of the directory")


@define(frozen=True)
class LoggingSettings:
    level: str = _key(Kind.CHOICE, "info", "the least that is told", choices=("debug", "info", "warning", "error"))
    form: str = _key(Kind.CHOICE, "human", "one JSON object a line, or text", choices=("human", "json"))


@define(frozen=True)
class StoreSettings:
    """A remote store: a directory that all nodes share."""

    path: Path = _key(Kind.PATH, Path(), "the shared directory")
    capacity_bytes: int = _key(Kind.SIZE, 2**30, "what may be reserved in it", low=1)


@define(frozen=True)
class Settings:
    """All of it, as the processes use it. `stores`: by name, in the order in which they were declared."""

    blocks: BlockSettings
    directory: DirectorySettings
    node: NodeSettings
    client: ClientSettings
    logging: LoggingSettings
    stores: dict[str, StoreSettings]
    directory_limits: dict[str, Any]
    node_limits: dict[str, Any]
    client_limits: dict[str, Any]

    def directory_config(self) -> DirectoryConfig:
        """The directory machine's configuration; store capacities in slots of one block."""
        stores = tuple(
            StoreSpec(NodeName(name), store.capacity_bytes // self.blocks.bytes) for name, store in self.stores.items()
        )
        return DirectoryConfig(stores=stores, **self.directory_limits)

    def node_config(self, address: Peer) -> NodeConfig:
        """The node machine's, for a node that others reach at `address`. DRAM first, then SSD."""
        node = self.node
        rooms = tuple(
            TierRoom(tier, size // self.blocks.bytes, slab, node.high_percent, node.low_percent)
            for tier, size, slab in ((Tier.DRAM, node.dram_bytes, True), (Tier.SSD, node.ssd_bytes, False))
            if size >= self.blocks.bytes
        )
        directories = tuple(Peer(endpoint) for endpoint in node.directories)
        stores = tuple(NodeName(name) for name in self.stores)
        limits = {"block_bytes": self.blocks.bytes, **self.node_limits}
        return NodeConfig(NodeName(node.name), address, directories, rooms, stores, **limits)

    def client_config(self, client: Peer, boot: str, **changes: Any) -> ClientConfig:
        """The client machine's; `changes` win (a session's name, a lease)."""
        directories = tuple(Peer(endpoint) for endpoint in self.client.endpoints)
        values = {"client": client, "directories": directories, "boot": boot, **self.client_limits, **changes}
        return ClientConfig(**values)


# ---- keys ----------------------------------------------------------------------------------------------------

SECTIONS: Final[dict[str, type]] = {
    "blocks": BlockSettings,
    "directory": DirectorySettings,
    "node": NodeSettings,
    "client": ClientSettings,
    "logging": LoggingSettings,
}

LIMITS: Final[dict[str, type]] = {"directory": DirectoryConfig, "node": NodeConfig, "client": ClientConfig}
"""The machines' own configuration, of which every field is a key, but for those that the process fills in."""

FILLED_IN: Final = frozenset({
    "stores", "name", "address", "directories", "tiers", "block_bytes",
    "client", "boot", "breaker", "session_name", "keep_session",
})  # fmt: skip

ZERO_MEANS_SOMETHING: Final = frozenset({
    "grace_ms", "retry_after_ms", "check_all_every", "seed", "calls_per_s", "failed_spills_max", "low", "local_moves_max",
})  # fmt: skip

CHOICES: Final[dict[str, tuple[str, ...]]] = {
    "eviction": tuple(EVICTION),
    "placement": tuple(PLACEMENT),
    "degradation": tuple(each.name.lower() for each in Degradation),
}

HIGHEST: Final[dict[str, int]] = {"high": 1_000, "low": 1_000, "session_lease_ms_max": 86_400_000}
"""Watermarks are in per mille."""


def plain_name(name: str) -> str:
    """A key's name: a field's without its unit."""
    return name.replace("_ms", "").removesuffix("_bytes") if name != "bytes" else name


def _declared(section: str, attribute: Any) -> Key:
    return Key(section, plain_name(attribute.name), attribute.name, default=attribute.default, **attribute.metadata["pinfold"])


def _limit(section: str, attribute: Any) -> Key:
    name, default = attribute.name, attribute.default
    low = 0 if name in ZERO_MEANS_SOMETHING else 1
    high = HIGHEST.get(name, MANY)
    kind, choices = Kind.COUNT, CHOICES.get(name, ())
    if choices:
        kind = Kind.CHOICE
        default = default.name.lower() if isinstance(default, IntEnum) else default
    elif isinstance(default, bool):
        kind = Kind.FLAG
    elif isinstance(default, str):
        kind = Kind.TEXT
    elif "_ms" in name:
        kind, high = Kind.DURATION, min(high, DAY_MS)
    elif name.endswith("_bytes"):
        kind = Kind.SIZE
    return Key(section, plain_name(name), name, kind, default, low, high, choices, "a limit of the machine")


def keys_of(section: str) -> dict[str, Key]:
    """Every key of a section, by name."""
    keys = [_declared(section, attribute) for attribute in attrs.fields(SECTIONS[section])]
    limits = LIMITS.get(section)
    if limits is not None:
        keys += [_limit(section, attribute) for attribute in attrs.fields(limits) if attribute.name not in FILLED_IN]
    return {key.name: key for key in keys}


KEYS: Final[dict[str, dict[str, Key]]] = {section: keys_of(section) for section in SECTIONS}
STORE_KEYS: Final[dict[str, Key]] = {
    plain_name(attribute.name): _declared("stores", attribute) for attribute in attrs.fields(StoreSettings)
}
