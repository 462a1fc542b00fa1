"""Log lines: one event each, with the names of what it is about, on stderr."""

import io
import json

import pytest

from pinfold.core import answers, requests
from pinfold.core.commands import Command, Pin
from pinfold.core.errors import Refusal
from pinfold.core.ids import CopyId, GroupId, HoldId, NodeName, Peer, SessionId, Tier
from pinfold.logs import SPARSE_MAX, TEXT_MAX, WORDS, Log, fields_of, make_log

GROUP = GroupId(bytes(range(16)))
COPY = CopyId(0, 7, 1)


def lines(form: str, level: str = "debug") -> tuple[io.StringIO, Log]:
    stream = io.StringIO()
    log = make_log("node", level=level, form=form, node="n1")
    log.stream = stream
    return stream, log


def test_json_lines_have_the_bound_fields_and_ids_as_people_write_them() -> None:
    stream, log = lines("json")
    log.bind(term=3).info("copied", copy=COPY, group=GROUP, device="SSD", note=None, hold=HoldId(1, 2, 3))
    said = json.loads(stream.getvalue())
    assert said.pop("time").endswith("Z")
    assert said == {
        "level": "info", "process": "node", "event": "copied", "node": "n1", "copy": "c0.7.1", "group": GROUP.hex(),
        "device": "SSD", "term": 3, "hold": "h1.2.3",
    }  # fmt: skip


def test_lines_for_people_quote_what_has_spaces() -> None:
    stream, log = lines("human")
    log.warning("cannot go on", reason="the disk is full", node="n2")
    assert stream.getvalue().endswith('warning node: cannot go on  node=n2 reason="the disk is full"\n')


def test_a_line_below_the_level_is_not_told_and_a_long_value_is_cut() -> None:
    stream, log = lines("json", "warning")
    log.info("quiet")
    assert stream.getvalue() == ""
    log.error("loud", detail="x" * 10_000)
    assert len(json.loads(stream.getvalue())["detail"]) == TEXT_MAX + 3


def test_a_closed_stream_ends_nothing() -> None:
    stream, log = lines("json")
    stream.close()
    log.info("nobody hears")
    log.info("still nobody")


def test_what_a_peer_can_cause_at_will_does_not_fill_the_log() -> None:
    stream, log = lines("json")
    for number in range(1_000):
        log.sparse("BadBytes", "refused a message", number=number)
        log.bind(term=2).sparse("BadBytes", "refused a message", number=number)
    log.sparse("Oversize", "refused a message")
    said = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert len(said) == SPARSE_MAX + 1
    assert said[-1]["kind"] == "Oversize"


def test_nothing_goes_to_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    make_log("node", form="json").error("here")
    said = capsys.readouterr()
    assert said.out == ""
    assert json.loads(said.err)["event"] == "here"


def test_fields_are_found_in_any_message() -> None:
    command = Command(Peer("client/a"), SessionId(4), 9, 8, Pin(GROUP, COPY, request="r1"))
    assert fields_of(command) == {
        "kind": "Command", "body": "Pin", "peer": "client/a", "session": 4, "sequence": 9, "group": GROUP, "copy": COPY,
        "request": "r1",
    }  # fmt: skip
    refused = answers.Answered(0, 2, SessionId(4), 9, answers.Refused(Refusal("Pinned"), 17))
    assert fields_of(refused) | {"body": ""} == {
        "kind": "Answered", "body": "", "term": 2, "session": 4, "sequence": 9, "revision": 17, "reason": "Pinned",
    }  # fmt: skip
    blocks = requests.Blocks(NodeName("n1"), "t", COPY, (0, 1), (5, 6), Tier.SSD)
    assert fields_of(blocks) == {"kind": "Blocks", "node": "n1", "copy": COPY, "block": (0, 1), "device": "SSD"}


def test_the_fields_of_the_design_are_words() -> None:
    wanted = {"request", "session", "group", "copy", "block", "model", "node", "device", "epoch", "revision"}
    assert wanted <= set(WORDS)
