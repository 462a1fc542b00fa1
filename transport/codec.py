"""Envelopes to frames and back. The only module of this layer that imports msgspec.

    frames = encode(message, source)          # [head, payload frame, ...]
    source, message = decode(frames)          # payload as read-only memoryviews into the frames

Encoding coalesces small blocks into frames of about `Limits.frame_bytes` (the one copy that is made) and passes large ones
on as they are. Decoding is in two steps, because a wire may have the head before the payload: `open_head` checks everything
that can be checked, sizes included, and allocates nothing for the payload; `Head.finish` adds the frames.

Depth is bounded twice: msgspec ends at the interpreter's recursion limit, and the plain form is then read by the types of
the message, none of which nests deeper than a handful.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final

import msgspec
from attrs import define

from ..core import plain
from ..core.ids import Peer
from .base import LIMITS, BadBytes, Buffer, Limits, MisuseError, Oversize, UnknownType, WrongVersion
from .envelope import MAGIC, PAYLOAD_FIELDS, PREFIX, TYPES, VERSION, Envelope

Groups = list[list[int]]
"""Sizes in bytes of the blocks in each payload frame."""


class _Fields(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """The head after its prefix. `plain` stays raw until the tag has been looked up."""

    tag: Annotated[str, msgspec.Meta(max_length=64)]
    source: str
    store: str
    groups: list[list[Annotated[int, msgspec.Meta(ge=0)]]]
    plain: msgspec.Raw


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(_Fields)
_plain_decoder: Final = msgspec.msgpack.Decoder()

# msgspec's own errors and bad UTF-8 are ValueErrors, and so would be those of a validator on a field.
_DECODE_ERRORS: Final = (ValueError, RecursionError, OverflowError, plain.PlainError)


def encode(message: Any, source: str, *, store: str = "", limits: Limits = LIMITS) -> list[Buffer]:
    """The frames of one message. Raises `Oversize` for a limit, `MisuseError` for a value that can't travel."""
    kind = type(message)
    name = PAYLOAD_FIELDS.get(kind)
    if name is None:
        raise MisuseError(f"{kind.__name__} is no message: it is not in core.events.Message")
    frames, groups = _payload(getattr(message, name), limits) if name else ([], [])
    try:
        body = _encoder.encode((kind.__name__, source, store, groups, plain.pack(message)))
    except (TypeError, ValueError, OverflowError, AttributeError) as error:
        raise MisuseError(f"{kind.__name__} can't be encoded: {error}") from error
    if len(body) + len(PREFIX) > limits.head_bytes_max:
        raise Oversize(f"{kind.__name__}: a head of {len(body)} bytes is above head_bytes_max, {limits.head_bytes_max}")
    return [PREFIX + body, *frames]


def decode(frames: Sequence[Buffer], *, limits: Limits = LIMITS) -> tuple[Peer, Any]:
    """`(source, message)` from what `encode` gave. Raises `BadBytes`, `UnknownType`, `Oversize`, `WrongVersion`."""
    envelope = decode_envelope(frames, limits=limits)
    return envelope.source, envelope.message


def decode_envelope(frames: Sequence[Buffer], *, limits: Limits = LIMITS) -> Envelope:
    """As `decode`, with the store id too."""
    if not frames:
        raise BadBytes("a message of no frames")
    return open_head(frames[0], limits=limits).finish(frames[1:])


@define(eq=False)
class Head:
    """A checked head. `envelope.message` is whole but for its payload, of which `groups` gives the frames to come."""

    envelope: Envelope
    groups: Groups
    payload_bytes: int

    def finish(self, frames: Sequence[Buffer]) -> Envelope:
        """The envelope with its payload, as views into `frames`, which are kept alive by them. Raises `BadBytes`."""
        if len(frames) != len(self.groups):
            raise BadBytes(f"the head announces {len(self.groups)} payload frames, there are {len(frames)}")
        blocks: list[memoryview] = []
        for sizes, frame in zip(self.groups, frames, strict=True):
            view = memoryview(frame).toreadonly()
            if view.nbytes != sum(sizes):
                raise BadBytes(f"the head announces a payload frame of {sum(sizes)} bytes, it has {view.nbytes}")
            if len(sizes) == 1:
                blocks.append(view)
                continue
            at = 0
            for size in sizes:
                blocks.append(view[at : at + size])
                at += size
        if blocks:
            message: Any = self.envelope.message
            setattr(message, PAYLOAD_FIELDS[type(message)], tuple(blocks))
        return self.envelope


def open_head(frame: Buffer, *, limits: Limits = LIMITS) -> Head:
    """Check and decode a first frame. Raises `BadBytes`, `UnknownType`, `Oversize`, `WrongVersion`."""
    view = memoryview(frame)
    if view.nbytes > limits.head_bytes_max:
        raise Oversize(f"a head of {view.nbytes} bytes is above head_bytes_max, {limits.head_bytes_max}")
    start = bytes(view[: len(PREFIX)])
    if start[: len(MAGIC)] != MAGIC or len(start) < len(PREFIX):
        raise BadBytes("not an envelope: it does not begin with the magic")
    if start[len(MAGIC)] != VERSION:
        raise WrongVersion(f"the peer speaks protocol version {start[len(MAGIC)]}, this is version {VERSION}")
    if start != PREFIX:
        raise BadBytes("not an envelope: reserved bits are set")
    try:
        fields = _decoder.decode(view[len(PREFIX) :])
        kind = TYPES.get(fields.tag)
        if kind is None:
            raise UnknownType(f"no message of version {VERSION} is called {fields.tag!r}")
        payload_bytes = _check_counts(fields, kind, limits)
        message = plain.unpacker(kind)(_plain_decoder.decode(fields.plain))
    except _DECODE_ERRORS as error:
        raise BadBytes(f"not a message: {error}") from None
    return Head(Envelope(Peer(fields.source), fields.store, message), fields.groups, payload_bytes)


def _check_counts(fields: _Fields, kind: type, limits: Limits) -> int:
    """Compare everything that is announced with its limit; give the payload's size in bytes."""
    if max(len(fields.source), len(fields.store)) > limits.name_chars_max:
        raise Oversize(f"a source or store name is longer than name_chars_max, {limits.name_chars_max}")
    if not fields.groups:
        return 0
    if not PAYLOAD_FIELDS[kind]:
        raise BadBytes(f"{kind.__name__} carries no payload, but payload frames are announced")
    if not all(fields.groups):
        raise BadBytes("a payload frame without a block is announced")
    if sum(map(len, fields.groups)) > limits.blocks_max:
        raise Oversize(f"more blocks than blocks_max, {limits.blocks_max}")
    sizes = [sum(group) for group in fields.groups]
    if max(sizes) > limits.frame_bytes_max:
        raise Oversize(f"a payload frame of {max(sizes)} bytes is above frame_bytes_max, {limits.frame_bytes_max}")
    if sum(sizes) > limits.message_bytes_max:
        raise Oversize(f"a payload of {sum(sizes)} bytes is above message_bytes_max, {limits.message_bytes_max}")
    return sum(sizes)


def _view(buffer: Any) -> memoryview:
    """A buffer as a flat view of bytes, without a copy. Raises `MisuseError`."""
    try:
        view = memoryview(buffer)
        return view.cast("B") if view.nbytes else memoryview(b"")  # an empty shape can't be cast
    except TypeError as error:
        raise MisuseError(f"a payload must be contiguous buffers, got {type(buffer).__name__}: {error}") from error


def _payload(buffers: Sequence[Any], limits: Limits) -> tuple[list[Buffer], Groups]:
    """Payload frames and, for each, the sizes of its blocks; order is kept."""
    if len(buffers) > limits.blocks_max:
        raise Oversize(f"{len(buffers)} blocks are above blocks_max, {limits.blocks_max}")
    frames: list[Buffer] = []
    groups: Groups = []
    small: list[memoryview] = []
    filled = total = 0

    def flush() -> None:
        if small:
            groups.append([view.nbytes for view in small])
            frames.append(small[0] if len(small) == 1 else b"".join(small))
            small.clear()

    for buffer in buffers:
        view = _view(buffer)
        size = view.nbytes
        total += size
        if size > limits.frame_bytes_max or total > limits.message_bytes_max:
            raise Oversize(f"a block of {size} bytes, {total} in all: frame_bytes_max is {limits.frame_bytes_max}, "
                           f"message_bytes_max {limits.message_bytes_max}")  # fmt: skip
        if size >= limits.small_block_bytes:
            flush()
            filled = 0
            frames.append(view)
            groups.append([size])
            continue
        if filled + size > limits.frame_bytes:
            flush()
            filled = 0
        small.append(view)
        filled += size
    flush()
    return frames, groups
