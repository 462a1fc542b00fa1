"""What travels: a message in its envelope, and the few words that wires say to each other.

A message is a first frame, the *head*, and any number of payload frames:

    head    = b"PF" version 0x00, then a MessagePack array [tag, source, store, groups, plain]
    tag     the message's class name; it selects the decoder out of a closed registry
    source  the sender's peer name or address        store  the id of the sender's metadata store, "" when not known yet
    groups  one list per payload frame: the sizes in bytes of the blocks that lie in it, in order
    plain   the message without its payload (`core/plain.py`)

The version stands before everything that could depend on it. MessagePack alone decides what bytes mean: integers, strings,
bytes, lists. No class is named by a peer, nothing in a message can be executed, and the registry is made from the type
`core.events.Message`, so a message that can be sent can be received.
"""

from __future__ import annotations

from typing import Any, Final, get_args

from attrs import define

from ..core.events import Message
from ..core.ids import Peer
from ..core.plain import payload_fields

VERSION: Final = 1
"""Of the envelope and of every class in it. Any change of a field's type, of their order or count is a new version."""

MAGIC: Final = b"PF"
PREFIX: Final = MAGIC + bytes((VERSION, 0))


@define
class Envelope:
    """One message with what its sender says about itself."""

    source: Peer
    store: str
    message: Any


# ---- what wires say to each other ----------------------------------------------------------------------------


@define
class Hello:
    """First word of a connection, said again after each reconnection. `nonce` comes back in the answer, so that an answer
    to an earlier greeting is not taken for one to this. The version and the store id are those of the envelope."""

    identity: str
    nonce: str


@define
class Welcome:
    """You may speak as the identity of the greeting with this nonce."""

    nonce: str


@define
class Reject:
    """You may not. `reason` is the name of an error: `IdentityTaken`, `WrongStore`, `WrongVersion`, `WrongSource`, `WireBusy`.

    `nonce` "" answers a message that came without a greeting.
    """

    nonce: str
    reason: str
    detail: str


@define
class Probe:
    """Nobody answers it. Whether it could be sent tells if a connection still exists."""


Control = Hello | Welcome | Reject | Probe

MESSAGE_TYPES: Final[dict[str, type]] = {kind.__name__: kind for kind in get_args(Message)}
CONTROL_TYPES: Final[dict[str, type]] = {kind.__name__: kind for kind in get_args(Control)}
TYPES: Final[dict[str, type]] = MESSAGE_TYPES | CONTROL_TYPES
"""The closed registry: type tag to class."""


def _payload_field(kind: type) -> str:
    """The name of the one field that carries buffers, "" for none."""
    names = payload_fields(kind)
    if len(names) > 1:
        raise TypeError(f"{kind.__name__} has {len(names)} payload fields; an envelope carries one")
    return names[0] if names else ""


PAYLOAD_FIELDS: Final[dict[type, str]] = {kind: _payload_field(kind) for kind in TYPES.values()}

if len(TYPES) != len(get_args(Message)) + len(get_args(Control)):
    raise TypeError("two classes that travel have one name")
