"""Landing: received frames into memory that is already there, without holding the interpreter's lock, and frames into memory that
the process keeps.

A slice assignment between memoryviews holds the lock for the whole copy (tens of milliseconds for a large group), and every
other thread stands still. A foreign function call releases it. Tiers with numpy use `numpy.copyto` and don't need this.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, Final

from .base import MIB, MisuseError

_PyBUF_SIMPLE: Final = 0
_PyBUF_WRITABLE: Final = 1


class _PyBuffer(ctypes.Structure):
    """CPython's `Py_buffer`, of which only the first three fields are read."""

    _fields_ = (
        ("buf", ctypes.c_void_p), ("obj", ctypes.py_object), ("len", ctypes.c_ssize_t), ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int), ("ndim", ctypes.c_int), ("format", ctypes.c_char_p), ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p), ("suboffsets", ctypes.c_void_p), ("internal", ctypes.c_void_p),
    )  # fmt: skip


_get_buffer = ctypes.pythonapi.PyObject_GetBuffer
_get_buffer.argtypes = (ctypes.py_object, ctypes.POINTER(_PyBuffer), ctypes.c_int)
_get_buffer.restype = ctypes.c_int
_release_buffer = ctypes.pythonapi.PyBuffer_Release
_release_buffer.argtypes = (ctypes.POINTER(_PyBuffer),)
_release_buffer.restype = None


class _Pinned:
    """The address and length of a buffer, which stays where it is inside the `with` block."""

    def __init__(self, buffer: Any, flags: int) -> None:
        self._raw = _PyBuffer()
        try:
            _get_buffer(buffer, ctypes.byref(self._raw), flags)
        except (BufferError, TypeError) as error:
            raise MisuseError(f"can't land on or from {type(buffer).__name__}: {error}") from error
        self.address: int = self._raw.buf or 0
        self.length: int = self._raw.len

    def __enter__(self) -> _Pinned:
        return self

    def __exit__(self, *exception: object) -> None:
        _release_buffer(ctypes.byref(self._raw))


_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_MMAP_THRESHOLD_MAX: Final = 32 * MIB
"""The most that glibc takes."""


def keep_frames_on_heap(keep_bytes: int = 512 * MIB) -> bool:
    """Make malloc keep the memory of freed frames, up to `keep_bytes`, for the next ones; for the whole process, for good.

    Otherwise each frame of 1 MiB is mapped anew, touched page by page and unmapped, which is half of the time that the process
    spends on a received group. False where the C library has no such switch; nothing else is lost then.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, _MMAP_THRESHOLD_MAX)) and bool(mallopt(_M_TRIM_THRESHOLD, keep_bytes))


def land(blocks: Sequence[Any], target: Any, offset: int = 0) -> int:
    """Copy `blocks` (contiguous buffers) one after the other into the writable buffer `target` from byte `offset`.

    Gives the number of bytes copied. Raises `MisuseError` when they don't fit; nothing has been copied then.
    """
    with _Pinned(target, _PyBUF_WRITABLE) as to:
        total = sum(memoryview(block).nbytes for block in blocks)
        if offset < 0 or offset + total > to.length:
            raise MisuseError(f"{total} bytes at {offset} don't fit a target of {to.length} bytes")
        at = to.address + offset
        for block in blocks:
            with _Pinned(block, _PyBUF_SIMPLE) as source:
                ctypes.memmove(at, source.address, source.length)  # a CFUNCTYPE: the lock is released
                at += source.length
        return total
