"""The format of a block file: one copy's blocks, contiguous, behind a header that says what they are.

    offset 0   magic            8 bytes  b"pinfold\\n"
               version          u16      1
               reserved         u16      0
               data_offset      u32      where the blocks start: a multiple of 4096
               meta_bytes       u32      length of the JSON text
               header_checksum  u32      crc32 of everything before `data_offset`, this field taken as 0
               data_bytes       u64      sum of the block sizes; the file ends at data_offset + data_bytes
    offset 32  meta             JSON     {"copy", "spec" (plain form: key, layout, sizes, ...), "checksums", "manifest"}
               zeros            up to `data_offset`

Numbers are little-endian; bytes in JSON are {"hex": "..."}. The header is as long for a copy before its checksums are known
as after, so the blocks can be written first and the header last. Every bit of the file is under a checksum: the header under
its own, the blocks under the layout's. Change anything here, or the fields of `Spec`, `Key` or `Layout`, or how a group id or a
manifest hash is made (`core/ids.py`), and VERSION rises.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Final

from attrs import define

from ..core.commands import Spec
from ..core.ids import CopyId, manifest_hash
from ..core.plain import INT_MAX, PlainError, pack, unpack
from .tier import TierCorrupt, TierRefused

MAGIC: Final = b"pinfold\n"
VERSION: Final = 1
ALIGN_BYTES: Final = 4096
"""Blocks start on a page and sector boundary."""

_PREAMBLE: Final = struct.Struct("<8sHHIIIQ")
PREAMBLE_BYTES: Final = _PREAMBLE.size
HEADER_BYTES_MAX: Final = 64 << 20
"""No header is longer: 64 MiB is room for the checksums of about 3 million blocks."""


@define(frozen=True)
class Geometry:
    """Where the parts of a copy's file are, in bytes from its start."""

    data_offset: int
    offsets: tuple[int, ...]
    """Of each block."""
    file_bytes: int


@define(frozen=True)
class Header:
    """What a published file says of itself."""

    copy: CopyId
    spec: Spec
    checksums: tuple[int, ...]
    manifest: bytes
    geometry: Geometry


def geometry(copy: CopyId, spec: Spec) -> Geometry:
    """The geometry follows from the copy id and the spec alone; `file_bytes` is what the copy takes on disk."""
    longest = _meta(copy, spec, [INT_MAX] * len(spec.sizes), bytes(16))
    return _geometry(PREAMBLE_BYTES + len(longest), spec.sizes)


def _geometry(header_bytes: int, sizes: Sequence[int]) -> Geometry:
    data_offset = -(-header_bytes // ALIGN_BYTES) * ALIGN_BYTES
    ends = list(accumulate(sizes, initial=data_offset))
    return Geometry(data_offset, tuple(ends[:-1]), ends[-1])


def encode(copy: CopyId, spec: Spec, checksums: Sequence[int], manifest: bytes) -> bytes:
    """The header, padded to `data_offset`."""
    data_offset = geometry(copy, spec).data_offset
    meta = _meta(copy, spec, checksums, manifest)
    header = bytearray(data_offset)
    header[PREAMBLE_BYTES : PREAMBLE_BYTES + len(meta)] = meta
    _PREAMBLE.pack_into(header, 0, MAGIC, VERSION, 0, data_offset, len(meta), 0, spec.size_bytes)
    _PREAMBLE.pack_into(header, 0, MAGIC, VERSION, 0, data_offset, len(meta), zlib.crc32(header), spec.size_bytes)
    return bytes(header)


def header_bytes(name: str, preamble: bytes) -> int:
    """How many bytes of file `name` to read for `decode`, from its first PREAMBLE_BYTES.

    Raises TierCorrupt for what is no block file, TierRefused for another format version.
    """
    magic, version, _, data_offset, meta_bytes, _, _ = _PREAMBLE.unpack(preamble)
    if magic != MAGIC:
        raise TierCorrupt(f"{name} does not start like a block file")
    if version != VERSION:
        raise TierRefused(f"{name} has format version {version}; this pinfold reads version {VERSION}")
    if not PREAMBLE_BYTES + meta_bytes <= data_offset <= HEADER_BYTES_MAX or data_offset % ALIGN_BYTES:
        raise TierCorrupt(f"the header of {name} is damaged: its lengths contradict each other")
    return int(data_offset)


def decode(name: str, header: bytes, file_bytes: int) -> Header:
    """The header of file `name`, checked as far as can be without the blocks. Raises TierCorrupt."""
    _, _, _, data_offset, meta_bytes, header_checksum, data_bytes = _PREAMBLE.unpack_from(header)
    bare = bytearray(header)
    _PREAMBLE.pack_into(bare, 0, *_PREAMBLE.unpack_from(header)[:5], 0, data_bytes)
    if zlib.crc32(bare) != header_checksum:
        raise TierCorrupt(f"the header of {name} is damaged: its checksum differs")
    if file_bytes != data_offset + data_bytes:
        raise TierCorrupt(f"{name} has {file_bytes} bytes; its header says {data_offset + data_bytes}")
    copy, spec, checksums, manifest = _parse(name, header[PREAMBLE_BYTES : PREAMBLE_BYTES + meta_bytes])
    layout = _geometry(data_offset, spec.sizes)
    if layout.file_bytes != file_bytes or len(checksums) != len(spec.sizes):
        raise TierCorrupt(f"the header of {name} contradicts itself: sizes, checksums and length do not agree")
    if manifest_hash(spec.key.layout, spec.sizes, checksums) != manifest:
        raise TierCorrupt(f"the header of {name} contradicts itself: its checksums do not make its manifest")
    return Header(copy, spec, checksums, manifest, layout)


def _meta(copy: CopyId, spec: Spec, checksums: Sequence[int], manifest: bytes) -> bytes:
    content = {"copy": list(copy), "spec": pack(spec), "checksums": list(checksums), "manifest": manifest}
    return json.dumps(content, separators=(",", ":"), default=_hex).encode("ascii")


def _hex(value: Any) -> dict[str, str]:
    return {"hex": value.hex()}  # json asks for bytes only: the plain form has nothing else that it does not know


def _unhex(value: dict[str, Any]) -> Any:
    return bytes.fromhex(value["hex"]) if value.keys() == {"hex"} else value


def _parse(name: str, meta: bytes) -> tuple[CopyId, Spec, tuple[int, ...], bytes]:
    try:
        content = json.loads(meta.decode("ascii"), object_hook=_unhex)
        copy = unpack(CopyId, content["copy"])
        spec = unpack(Spec, content["spec"])
        checksums = unpack(tuple[int, ...], content["checksums"])
        manifest = unpack(bytes, content["manifest"])
    except (ValueError, KeyError, TypeError, RecursionError, PlainError) as error:
        raise TierCorrupt(f"the header of {name} can't be read: {error}") from None
    if any(size < 0 for size in spec.sizes):
        raise TierCorrupt(f"the header of {name} contradicts itself: a block of negative size")
    return copy, spec, checksums, manifest
