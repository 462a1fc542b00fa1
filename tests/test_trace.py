"""The trace reader: what it reads, and one sentence with file and line for everything that it does not."""

import json
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinfold import trace
from pinfold.core.errors import PinfoldError
from pinfold.trace import TraceError, TraceRequest, parse_request, read_trace, to_line, write_trace

GOOD = {"timestamp": 5, "input_length": 1025, "output_length": 7, "hash_ids": [3, 1, 4]}


def line(**changes: Any) -> bytes:
    return json.dumps({**GOOD, **changes}).encode()


def write(folder: Path, *lines: bytes) -> Path:
    path = folder / "trace.jsonl"
    path.write_bytes(b"".join(one + b"\n" for one in lines))
    return path


def test_it_reads_the_requests_in_order(tmp_path: Path) -> None:
    path = write(tmp_path, line(), line(timestamp=5, input_length=0, hash_ids=[]), line(timestamp=9))
    found = list(read_trace(path))
    assert found[0] == TraceRequest(5, 1025, 7, (3, 1, 4))
    assert [one.timestamp_ms for one in found] == [5, 5, 9]


def test_it_forgives_a_missing_last_newline_windows_ends_and_fields_of_others(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_bytes(line(session="x") + b"\r\n" + line())
    assert list(read_trace(path)) == [TraceRequest(5, 1025, 7, (3, 1, 4))] * 2


def test_the_first_requests_are_read_and_what_follows_is_not_looked_at(tmp_path: Path) -> None:
    path = write(tmp_path, line(), line(), b"rubbish")
    assert len(list(read_trace(path, requests=2))) == 2
    assert list(read_trace(path, requests=0)) == []
    assert len(list(read_trace(write(tmp_path, line()), requests=9))) == 1


BAD = {
    "blank": (b"", "the line is blank"),
    "spaces": (b"   ", "the line is blank"),
    "not JSON": (b'{"timestamp": 1,', "not JSON at column 17"),
    "two objects": (line() + line(), "not JSON at column"),
    "not UTF-8": (b'{"timestamp": "\xff"}', "byte 16 of the line is not UTF-8"),
    "byte order mark": (b"\xef\xbb\xbf" + line(), "not JSON at column 1"),
    "NaN": (b'{"timestamp": NaN}', "NaN is not a number"),
    "endless digits": (b'{"timestamp": ' + b"9" * 5000 + b"}", "not JSON that is understood here"),
    "a pit": (b"[" * 200_000, "nested too deeply"),
    "a list": (b"[1, 2]", "expected a JSON object, got [1, 2]"),
    "null": (b"null", "expected a JSON object, got null"),
    "no timestamp": (b'{"input_length": 1}', "the field timestamp is missing"),
    "no ids": (b'{"timestamp": 1, "input_length": 1, "output_length": 1}', "the field hash_ids is missing"),
    "text": (line(timestamp="5"), 'timestamp must be a whole number from 0 to 2**63 - 1, got "5"'),
    "fraction": (line(input_length=1.0), "input_length must be a whole number"),
    "yes": (line(output_length=True), "output_length must be a whole number from 0 to 2**63 - 1, got True"),
    "negative": (line(output_length=-1), "output_length must be a whole number from 0 to 2**63 - 1, got -1"),
    "huge": (line(timestamp=2**63), "timestamp must be a whole number"),
    "ids of text": (line(hash_ids="314"), 'hash_ids must be a list, got "314"'),
    "a null id": (line(hash_ids=[3, None, 4]), "hash_ids[1] must be a whole number from 0 to 2**63 - 1, got null"),
    "too few": (line(hash_ids=[3, 1]), "input_length 1025 is 3 blocks of 512 tokens, but hash_ids has 2"),
    "too many": (line(input_length=1024), "input_length 1024 is 2 blocks of 512 tokens, but hash_ids has 3"),
    "a circle": (line(hash_ids=[3, 1, 3]), "hash_ids has 3 twice"),
    "backwards": (line(timestamp=4), "timestamp 4 is before the 5 of the line above"),
    "long": (b" " * (trace.LINE_BYTES_MAX + 1), "longer than 1048576 bytes (LINE_BYTES_MAX)"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_malformed_line_is_one_sentence_with_file_and_line(tmp_path: Path, case: str) -> None:
    bad, sentence = BAD[case]
    path = write(tmp_path, line(), bad, line())
    got: list[TraceRequest] = []
    with pytest.raises(TraceError, match=re.escape(sentence)) as caught:
        got.extend(read_trace(path))
    assert (caught.value.file, caught.value.line) == (str(path), 2)
    assert str(caught.value).startswith(f"{path}:2: ")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < len(str(path)) + 200
    assert isinstance(caught.value, PinfoldError)
    assert caught.value.exit_code == 2
    assert len(got) <= 1, "at most the good line before it was given out"


def test_a_line_without_end_is_not_read_into_memory(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    with path.open("wb") as stream:
        stream.truncate(1 << 40)  # a terabyte of zeros, none of them on disk
    with pytest.raises(TraceError, match="LINE_BYTES_MAX"):
        next(read_trace(path))


def test_a_line_of_just_the_limit_is_read(tmp_path: Path) -> None:
    full = line().ljust(trace.LINE_BYTES_MAX)
    assert len(list(read_trace(write(tmp_path, full, full)))) == 2


def test_a_file_without_requests_is_said_to_be_empty(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"trace\.jsonl: is empty"):
        list(read_trace(write(tmp_path)))


@pytest.mark.parametrize(("name", "why"), [("absent.jsonl", "No such file"), (".", "Is a directory")])
def test_a_file_that_cannot_be_read_says_why(tmp_path: Path, name: str, why: str) -> None:
    with pytest.raises(TraceError, match=f"cannot be read: {why}"):
        list(read_trace(tmp_path / name))


@given(st.binary(max_size=60) | st.from_regex(rb'\{"timestamp": .{0,20}\}'))
def test_no_bytes_make_it_fail_in_another_way(data: bytes) -> None:
    with suppress(TraceError):
        parse_request(data, "f", 1)


counts = st.integers(0, trace.INT_MAX)


@given(st.lists(st.tuples(counts, st.lists(counts, max_size=5, unique=True), st.integers(0, 511), counts), min_size=1))
def test_what_is_written_is_read_back(rows: list[tuple[int, list[int], int, int]]) -> None:
    for time, ids, short, output in rows:
        request = TraceRequest(time, max(0, len(ids) * 512 - short), output, tuple(ids))
        assert parse_request(to_line(request).encode(), "f", 1) == request


def test_a_written_trace_is_a_trace(tmp_path: Path) -> None:
    requests = [TraceRequest(n, 512, 1, (n,)) for n in range(5)]
    assert write_trace(tmp_path / "made.jsonl", requests) == 5
    assert list(read_trace(tmp_path / "made.jsonl")) == requests


@pytest.mark.traces
@pytest.mark.parametrize(
    ("file", "requests", "blocks"),
    [("conversation_trace.jsonl", 12_031, 288_500), ("synthetic_trace.jsonl", 3_993, 121_877)],
)
def test_the_public_traces_are_read_whole(traces: Path, file: str, requests: int, blocks: int) -> None:
    found = [len(one.hash_ids) for one in read_trace(traces / file)]
    assert (len(found), sum(found)) == (requests, blocks)
