"""An LMDB file, read without LMDB: is it one, of which format, and is all of it there?

LMDB trusts the file that it opens. Pages are used as they lie in the map, and one beyond the end of the file is a bus error that
ends the process. So what can be refused is refused before: here, and by py-lmdb's verifier, which walks through every page but
looks at the first of a record's overflow pages only.

The 0.9 format, in the machine's byte order: pages 0 and 1 are meta pages, written in turn. A meta page says where the trees of
free pages and of entries begin; a branch page has nodes with page numbers, a leaf page nodes with entries; a large value lies
in a run of overflow pages.
"""

from __future__ import annotations

import struct
import sys
from pathlib import Path
from typing import BinaryIO, Final

from attrs import define

from .base import StoreDamaged, StoreForeign, StoreVersion
from .lmdb_place import from_os_error

LMDB_FORMATS: Final = {1: "0.9", 2: "1.0", 3: "1.0"}
"""LMDB's data version, as it stands in the file, to the LMDB that writes it."""
LMDB_FORMAT: Final = "0.9"
"""The one that this store makes and reads: every py-lmdb has it. Files of one cannot be read by the other."""

PAGE_SIZES: Final = (512, 1024, 2048, 4096, 8192, 16384, 32768)

_MAGIC = 0xBEEFC0DE
_META = struct.Struct("=16xIIQQI36xQ40xQQQ")  # magic, version, address, map size, page size, roots, last page, transaction
_PAGE = struct.Struct("=QHHHH")  # number, pad, flags, end of the node pointers, begin of the nodes
_NODE = struct.Struct("=HHHH")  # low and high half of a size or page number, flags or its top, size of the key
_BRANCH, _LEAF = 1, 2
_BIG = 1  # the flag of a node whose value is in overflow pages
_NOWHERE = (1 << 64) - 1  # the root of an empty tree


@define(frozen=True)
class Header:
    """What the newer meta page says. `roots`: the trees of free pages and of entries. `transaction`: of the last commit."""

    page_bytes: int
    roots: tuple[int, int]
    pages: int
    transaction: int


def read_header(path: Path) -> Header:
    """Raises StoreForeign for what is no LMDB file, StoreVersion for another LMDB's, StoreDamaged where the two meta pages are
    not of two transactions in a row: a damaged one could otherwise put the store back to an older state in silence."""
    try:
        with path.open("rb") as file:
            first = file.read(4096)
            magic_at = first.find(_MAGIC.to_bytes(4, sys.byteorder), 0, 64)
            if magic_at < 0 or len(first) < 256:
                raise StoreForeign(f"{path} is no LMDB file, or its beginning is damaged")
            version = int.from_bytes(first[magic_at + 4 : magic_at + 8], sys.byteorder)
            if LMDB_FORMATS.get(version) != LMDB_FORMAT:
                found = LMDB_FORMATS.get(version, f"with data version {version}")
                raise StoreVersion(f"{path} was written by LMDB {found}; this store reads the format of LMDB {LMDB_FORMAT}")
            page_bytes = _META.unpack_from(first)[4]
            if page_bytes not in PAGE_SIZES:
                raise StoreDamaged(f"{path} is damaged: it says that its pages have {page_bytes} bytes")
            file.seek(page_bytes)
            second = file.read(256)
    except OSError as error:
        raise from_os_error(error, path, "read") from error
    if len(second) < 256 or _META.unpack_from(second)[0] != _MAGIC:
        raise StoreDamaged(f"{path} is damaged: its second meta page is not there")
    metas = [_META.unpack_from(page) for page in (first, second)]
    one, two = (meta[8] for meta in metas)
    if abs(one - two) > 1:
        raise StoreDamaged(f"{path} is damaged: its meta pages are of transactions {one} and {two}, not of two in a row")
    newer = metas[0] if one > two else metas[1]
    return Header(page_bytes, (newer[5], newer[6]), newer[7] + 1, newer[8])


def check_length(path: Path, header: Header) -> None:
    """Raises StoreDamaged if a page that is in use lies beyond the end of the file. Call it after the verifier: tree pages are
    taken as they are. A file may be shorter than its meta page says, by pages that were freed before they were written."""
    needed = header.pages
    size = 0
    try:
        size = path.stat().st_size
        if size >= header.pages * header.page_bytes:
            return
        with path.open("rb") as file:
            needed = max((_pages_of(file, root, header.page_bytes) for root in header.roots if root != _NOWHERE), default=0)
    except OSError as error:
        raise from_os_error(error, path, "read") from error
    except struct.error:
        pass  # a tree page is cut: all pages are needed
    if size < needed * header.page_bytes:
        raise StoreDamaged(f"{path} is damaged: it has {size} bytes, and its data end at {needed * header.page_bytes}")


def _pages_of(file: BinaryIO, root: int, page_bytes: int) -> int:
    """The number of pages that a file must have for the tree at `root` to be all there."""
    last = root
    waiting = [root]
    while waiting:
        number = waiting.pop()
        last = max(last, number)
        file.seek(number * page_bytes)
        page = file.read(page_bytes)
        _, _, flags, end, _ = _PAGE.unpack_from(page)
        for pointer in range(_PAGE.size, end, 2):
            (at,) = struct.unpack_from("=H", page, pointer)
            low, high, top, key_bytes = _NODE.unpack_from(page, at)
            if flags & _BRANCH:
                waiting.append(low | high << 16 | top << 32)
            elif flags & _LEAF and top & _BIG:
                (start,) = struct.unpack_from("=Q", page, at + _NODE.size + key_bytes)
                last = max(last, start + (_PAGE.size - 1 + (low | high << 16)) // page_bytes)
    return last + 1
