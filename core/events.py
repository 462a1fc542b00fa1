"""Events: everything a machine can be told, and the list of what each machine takes.

A message is an event where it arrives. Besides messages there are local facts: the clock (`Tick`), completions of byte work
(each effect of `core/effects.py` has its own), the kernel's word about processes, and, for the client machine, the
application's calls. Facts are in the past tense.
"""

from __future__ import annotations

from attrs import define

from . import answers, commands, orders, reports, requests
from .ids import CopyId, NodeName, Peer, Reason, Tier
from .requests import Payload


@define
class Tick:
    """Time has passed; early and late ones are harmless (rule 10)."""


# ---- completions of byte work at a node (twins of the effects of the same stem) -------------------------------


@define
class BlocksStored:
    """`StoreBlocks` with this `job` is done."""

    job: int
    copy: CopyId


@define
class InstanceVerified:
    """`VerifyInstance` read every block back: `manifest` is the hash over what is there. Durable tiers have published."""

    job: int
    copy: CopyId
    manifest: bytes


@define
class BlocksLoaded:
    """`LoadBlocks` has read and checksummed the blocks."""

    job: int
    copy: CopyId
    checksums: tuple[int, ...]
    data: Payload = ()


@define
class InstanceCloned:
    """`CloneInstance` has made and verified the new instance; `manifest` is the hash over what was written."""

    job: int
    copy: CopyId
    manifest: bytes


@define
class InstanceReleased:
    """`ReleaseInstance` is done: slots or object are free."""

    job: int
    copy: CopyId


@define
class StoreListed:
    """`ListStore` has seen these objects."""

    job: int
    store: NodeName
    objects: tuple[CopyId, ...]


@define
class WorkFailed:
    """The work with this `job` has ended without success. `reason`: FAILED, CORRUPT, LOST (no such bytes) or NO_SPACE."""

    job: int
    copy: CopyId
    reason: Reason
    detail: str = ""


Completion = BlocksStored | InstanceVerified | BlocksLoaded | InstanceCloned | InstanceReleased | StoreListed | WorkFailed


@define
class ProcessExited:
    """The kernel's word: the process has exited and its device work is done. Its guards end."""

    owner: str


@define
class RegistrationWithdrawn:
    """A peer's memory registration is withdrawn: guards owned by it end."""

    owner: str


@define
class WriterUncertain:
    """A late writer to these slots can't be ruled out: they are quarantined until `QuarantineLifted`."""

    copy: CopyId


@define
class QuarantineLifted:
    """Nobody can write to the quarantined slots of `copy` any more."""

    copy: CopyId


@define
class InstanceFound:
    """At start, before registration: a recovery scan found a whole, verified instance (SSD)."""

    copy: CopyId
    spec: commands.Spec
    manifest: bytes
    tier: Tier


LocalFact = ProcessExited | RegistrationWithdrawn | WriterUncertain | QuarantineLifted | InstanceFound


@define
class PeerUnreachable:
    """The wire's word that nothing can be sent to `peer` now. A hint for retries, never proof of death."""

    peer: Peer


DirectoryEvent = Tick | commands.Command | commands.SessionCall | commands.Query | reports.NodeReport
NodeEvent = (
    Tick
    | orders.Order
    | orders.DirectoryNotice
    | requests.NodeRequest
    | requests.Blocks
    | requests.NodeRefused
    | Completion
    | LocalFact
    | PeerUnreachable
)
ClientMessage = answers.DirectoryAnswer | requests.NodeAnswer

Message = (
    commands.Command
    | commands.SessionCall
    | commands.Query
    | reports.NodeReport
    | orders.Order
    | orders.DirectoryNotice
    | requests.NodeRequest
    | requests.NodeAnswer
    | answers.DirectoryAnswer
)
"""Everything that can travel between machines."""
