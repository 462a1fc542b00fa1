"""Request traces in the Mooncake format: one JSON object a line.

    {"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47, 48, ...]}

`timestamp` in ms, lengths in tokens, one hash id per `BLOCK_TOKENS` tokens of the prompt, in prefix order;
equal ids mean equal prefixes up to and with that block. The reader is strict, because a trace decides what a
run proves: whatever it cannot vouch for ends it with one sentence that names file and line. It streams, so
that a trace may be larger than memory.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final

from attrs import define

from .core.errors import PinfoldError

BLOCK_TOKENS: Final = 512
"""Tokens of the prompt behind one hash id; the last block of a prompt may have fewer."""

LINE_BYTES_MAX: Final = 1 << 20
"""The longest line that is read: about 100,000 hash ids, or a prompt of 50 million tokens."""

INT_MAX: Final = (1 << 63) - 1
"""The largest number in a trace, so that it fits every wire and store."""

_NUMBERS: Final = ("timestamp", "input_length", "output_length")


class TraceError(PinfoldError):
    """Raised when a trace cannot be read or is not one: the caller names another file or mends this one.

    `line` is the 1-based number of the line, 0 when it is about the file as a whole.
    """

    exit_code = 2

    def __init__(self, file: str, line: int, what: str) -> None:
        super().__init__(f"{file}:{line}: {what}" if line else f"{file}: {what}")
        self.file = file
        self.line = line


@define(frozen=True)
class TraceRequest:
    """One request. `timestamp_ms` from the start of the trace, lengths in tokens, `hash_ids` in prefix
    order."""

    timestamp_ms: int
    input_length: int
    output_length: int
    hash_ids: tuple[int, ...]


def read_trace(path: str | Path, requests: int | None = None) -> Iterator[TraceRequest]:
    """The requests of a file in its order, the first `requests` of them, all if it is None or they are fewer.

    What follows the last one asked for is not looked at. Raises `TraceError` (when the iteration gets there)
    for a file that cannot be read or has no request, and for a line that is not a request or goes back in
    time.
    """
    file = str(path)
    try:
        stream = open(path, "rb")  # noqa: SIM115 (closed below; opening has its own sentence)
    except OSError as error:
        raise TraceError(file, 0, f"cannot be read: {error.strerror or error}") from error
    with stream:
        last_ms = 0
        number = 0
        for number, line in enumerate(_lines(stream, file), 1):
            if requests is not None and number > requests:
                return
            found = parse_request(line, file, number)
            if found.timestamp_ms < last_ms:
                what = f"timestamp {found.timestamp_ms} is before the {last_ms} of the line above"
                raise TraceError(file, number, what)
            last_ms = found.timestamp_ms
            yield found
        if number == 0:
            raise TraceError(file, 0, "is empty; a trace has one JSON object a line")


def _lines(stream: BinaryIO, file: str) -> Iterator[bytes]:
    """Lines without their ends. Reads at most the limit and one byte of a line, however long it is."""
    number = 0
    while True:
        number += 1
        try:
            line = stream.readline(LINE_BYTES_MAX + 2)
        except OSError as error:  # a directory opens on some systems and fails here; a disk fails at any line
            raise TraceError(file, number, f"cannot be read: {error.strerror or error}") from error
        if not line:
            return
        body = line.removesuffix(b"\n").removesuffix(b"\r")
        if len(body) > LINE_BYTES_MAX:
            raise TraceError(file, number, f"the line is longer than {LINE_BYTES_MAX} bytes (LINE_BYTES_MAX)")
        yield body


def parse_request(line: bytes, file: str, number: int) -> TraceRequest:
    """The request on line `number` of `file`; fields that the format does not have are passed over. Raises
    `TraceError`."""

    def wrong(what: str) -> TraceError:
        return TraceError(file, number, what)

    if not line.strip():
        raise wrong("the line is blank; a trace has one JSON object a line")
    try:
        found = json.loads(line.decode("utf-8"), parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        raise wrong(f"byte {error.start + 1} of the line is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise wrong(f"not JSON at column {error.colno}: {error.msg}") from None
    except RecursionError:
        raise wrong("not a request: nested too deeply") from None
    except ValueError as error:  # a number of thousands of digits, NaN
        raise wrong(f"not JSON that is understood here: {str(error).splitlines()[0]}") from None
    if not isinstance(found, dict):
        raise wrong(f"expected a JSON object, got {_show(found)}")
    for name in (*_NUMBERS, "hash_ids"):
        if name not in found:
            raise wrong(f"the field {name} is missing")
    for name in _NUMBERS:
        if not _is_count(found[name]):
            raise wrong(f"{name} must be a whole number from 0 to 2**63 - 1, got {_show(found[name])}")
    return TraceRequest(found["timestamp"], found["input_length"], found["output_length"], _hash_ids(found, wrong))


def _hash_ids(found: dict[str, Any], wrong: Callable[[str], TraceError]) -> tuple[int, ...]:
    """Checked ids: as many as the prompt has blocks, and none twice, for a prefix is never equal to its own
    beginning."""
    ids = found["hash_ids"]
    if not isinstance(ids, list):
        raise wrong(f"hash_ids must be a list, got {_show(ids)}")
    for place, one in enumerate(ids):
        if not _is_count(one):
            raise wrong(f"hash_ids[{place}] must be a whole number from 0 to 2**63 - 1, got {_show(one)}")
    blocks = -(-found["input_length"] // BLOCK_TOKENS)
    if len(ids) != blocks:
        raise wrong(
            f"input_length {found['input_length']} is {blocks} blocks of {BLOCK_TOKENS} tokens, but hash_ids has {len(ids)}"
        )
    if len(set(ids)) != len(ids):
        twice = next(one for place, one in enumerate(ids) if one in ids[:place])
        raise wrong(f"hash_ids has {twice} twice; equal ids mean equal prefixes")
    return tuple(ids)


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value <= INT_MAX  # `True` is an int to isinstance


def _no_constant(word: str) -> None:
    raise ValueError(f"{word} is not a number")


def _show(value: object) -> str:
    text = json.dumps(value, default=str) if not isinstance(value, int) else str(value)
    return text if len(text) <= 40 else text[:37] + "..."


def to_line(request: TraceRequest) -> str:
    """The request as a line of a trace, with its end; what `read_trace` reads back as an equal request."""
    return (
        json.dumps(
            {
                "timestamp": request.timestamp_ms,
                "input_length": request.input_length,
                "output_length": request.output_length,
                "hash_ids": list(request.hash_ids),
            }
        )
        + "\n"
    )


def write_trace(path: str | Path, requests: Iterable[TraceRequest]) -> int:
    """Write a trace; returns the number of requests. Raises `OSError` if the file cannot be written."""
    count = 0
    with open(path, "w", encoding="utf-8", newline="\n") as stream:
        for request in requests:
            stream.write(to_line(request))
            count += 1
    return count
