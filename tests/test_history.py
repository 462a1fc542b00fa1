"""Histories: what could have happened is accepted, what could not is refused with the smallest part that shows it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, note, settings
from hypothesis import strategies as st

from pinfold.chaos.history import BadHistory, History, Op, Verdict, load, parse
from pinfold.chaos.history_check import RULES, check
from pinfold.chaos.history_search import search

G = "ab" * 16
H = "cd" * 16
GONE = "h3.1.0"


def pin(at: tuple[int, int], revision: int, epoch: int, **more: Any) -> Op:
    number = more.pop("number", revision)
    hold = more.pop("hold", f"h3.{number}.0")
    fields = {
        "op": "pin", "client": "a", "session": 3, "group": G, "term": 1, "copy": f"c0.{epoch}.0", "manifest": "m",
        "outcome": "ok", "effect": True, "number": number, "hold": hold,
    } | more  # fmt: skip
    return Op(invoke=at[0], returned=at[1], revision=revision, epoch=epoch, **fields)


def release(at: tuple[int, int], revision: int, hold: str, **more: Any) -> Op:
    fields = {"client": "a", "session": 3, "group": G, "term": 1, "outcome": "ok", "effect": True, "number": revision} | more
    return Op(op="unpin", invoke=at[0], returned=at[1], revision=revision, hold=hold, **fields)


def look(at: tuple[int, int], revision: int, epoch: int, **more: Any) -> Op:
    fields = {"client": "b", "group": G, "term": 1, "copy": f"c0.{epoch}.0"} | more
    return Op(op="locate", invoke=at[0], returned=at[1], outcome="ok", revision=revision, epoch=epoch, **fields)


def evict(at: tuple[int, int], revision: int, **more: Any) -> Op:
    fields = {"client": "b", "session": 4, "group": G, "term": 1, "effect": True, "number": revision, "epoch": revision} | more
    return Op(op="evict", invoke=at[0], returned=at[1], outcome="ok", revision=revision, **fields)


def judged(*ops: Op, **header: Any) -> Verdict:
    return check(History([evolve(op, line=at) for at, op in enumerate(ops, 2)], **header))


def test_another_sessions_hold_is_unknown_to_a_release() -> None:
    denied = release((3, 4), 12, GONE, outcome="refused", reason="UnknownHold", effect=False)
    took = pin((1, 2), 12, 7, hold=GONE)
    assert judged(took, denied, complete=True).word == "violated"
    assert judged(took, evolve(denied, session=4), complete=True).word == "ok"


# ---- what is accepted ----------------------------------------------------------------------------------------


def test_a_pin_a_look_and_a_release_are_a_history() -> None:
    verdict = judged(pin((1, 4), 12, 7), look((2, 5), 11, 7), look((6, 7), 12, 7), release((8, 9), 13, "h3.12.0"), complete=True)
    assert verdict.word == "ok"
    assert "ordered by revision" in verdict.bounds
    assert (verdict.ops, verdict.groups, verdict.sessions) == (4, 1, 1)


def test_what_overlaps_may_be_in_either_order() -> None:
    assert judged(pin((1, 9), 12, 7), look((2, 8), 11, 7), look((3, 7), 12, 7)).word == "ok"


def test_an_answer_that_never_came_explains_what_it_may() -> None:
    took = pin((1, 2), 12, 7)
    lost = Op("a", "unpin", 3, session=3, number=13, group=G, hold="h3.12.0")
    told = release((5, 6), 13, "h3.12.0", outcome="refused", reason="AlreadyDone", effect=False, number=14)
    assert judged(took, lost, told, complete=True).word == "ok"
    assert judged(took, told, complete=True).word == "violated"
    assert judged(took, evolve(lost, invoke=7), told, complete=True).word == "violated"


def test_what_is_said_to_be_lost_is_not_a_lost_hold() -> None:
    told = release((5, 6), 13, "h3.12.0", outcome="refused", reason="HoldLost", effect=False)
    assert judged(pin((1, 2), 12, 7), told, complete=True).word == "ok"


def test_a_session_that_was_closed_may_have_ended_its_holds() -> None:
    close = Op("a", "close", 3, 4, "ok", session=3, term=1, revision=13)
    told = release((5, 6), 13, "h3.12.0", outcome="refused", reason="AlreadyDone", effect=False)
    assert judged(pin((1, 2), 12, 7), close, told, complete=True).word == "ok"


def test_clients_with_clocks_of_their_own_are_judged_by_their_own_order() -> None:
    apart = look((1, 2), 12, 7), look((100, 101), 11, 7, client="c")
    assert judged(*apart).word == "violated"
    verdict = judged(*apart, clock="own")
    assert verdict.word == "ok"
    assert "not judged" in verdict.bounds
    assert judged(look((1, 2), 12, 7), look((3, 4), 11, 7), clock="own").word == "violated"


def test_a_deposed_directory_may_answer_a_query_but_not_in_a_client_that_knows_better() -> None:
    stale = look((5, 6), 12, 7, client="c")
    assert judged(look((1, 2), 14, 7, term=2), stale).word == "ok"
    assert judged(look((1, 2), 14, 7, term=2), evolve(stale, client="b")).word == "violated"
    assert judged(look((1, 2), 14, 7, term=2), evolve(stale, number=9)).word == "violated"


# ---- what is refused -----------------------------------------------------------------------------------------

PLANTED: dict[str, tuple[str, list[Op], tuple[int, ...], dict[str, Any]]] = {
    "stale read": ("LIN-1", [pin((1, 2), 12, 7), pin((3, 4), 15, 15), look((6, 7), 14, 7)], (3, 4), {}),
    "stale epoch": ("LIN-1", [pin((1, 2), 15, 15), look((1, 9), 16, 7)], (2, 3), {}),
    "read your writes": ("LIN-1", [pin((1, 2), 12, 7), look((3, 4), 11, 7, client="a")], (2, 3), {"clock": "own"}),
    "monotonic reads": ("LIN-1", [look((1, 2), 12, 7), look((3, 4), 11, 7)], (2, 3), {"clock": "own"}),
    "from the future": ("EPOCH-1", [look((1, 2), 12, 13)], (2,), {}),
    "term went back": ("EPOCH-1", [look((1, 9), 12, 7, term=2), look((1, 9), 13, 7, client="c")], (2, 3), {}),
    "two owners": ("OWN-1", [look((1, 9), 12, 7, owner="n1"), look((1, 9), 13, 7, owner="n2")], (2, 3), {}),
    "two answers": ("ONCE-1", [pin((1, 2), 12, 7, number=5), pin((3, 4), 13, 7, number=5)], (2, 3), {}),
    "double effect": ("ONCE-1", [pin((1, 9), 12, 7), pin((1, 9), 12, 7, number=13, hold="h3.13.0")], (2, 3), {}),
    "hold taken twice": ("HOLD-1", [pin((1, 2), 12, 7, hold=GONE), pin((3, 4), 13, 7, hold=GONE)], (2, 3), {}),
    "released twice": (
        "HOLD-1",
        [pin((1, 2), 12, 7, hold=GONE), release((3, 4), 13, GONE), release((5, 6), 14, GONE)], (3, 4), {},
    ),
    "lost hold": (
        "HOLD-1",
        [pin((1, 2), 12, 7, hold=GONE), release((3, 4), 12, GONE, outcome="refused", reason="UnknownHold", effect=False)],
        (2, 3), {},
    ),
    "released, never taken": ("HOLD-1", [look((1, 2), 12, 7), release((3, 4), 13, GONE)], (3,), {"complete": True}),
    "evicted under a hold": (
        "HOLD-1",
        [pin((1, 2), 12, 7, op="ref", hold=GONE), evict((3, 4), 14), release((5, 6), 15, GONE)], (2, 3, 4), {},
    ),
    "copy of two groups": ("COPY-3", [look((1, 9), 12, 7), look((1, 9), 12, 7, group=H)], (2, 3), {}),
    "two manifests": ("COPY-3", [look((1, 9), 12, 7, manifest="m"), look((1, 9), 12, 7, manifest="o")], (2, 3), {}),
    "other bytes": (
        "BYTES-1",
        [look((1, 9), 12, 7, content=content) for content in ({"0": 1}, {"0": 1, "1": 4}, {"1": 5})],
        (3, 4), {},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_refused_with_the_smallest_part_that_shows_it(name: str) -> None:
    rule, ops, lines, header = PLANTED[name]
    verdict = judged(*ops, **header)
    assert verdict.word == "violated"
    found = next(violation for violation in verdict.violations if violation.rule == rule)
    assert tuple(sorted(op.line for op in found.ops)) == lines
    history = History(list(found.ops), header.get("clock", "common"), header.get("complete", False))
    assert check(history).word == "violated", "the part alone shows it"
    for op in found.ops:
        fewer = evolve(history, ops=[one for one in found.ops if one is not op])
        assert rule not in {one.rule for one in check(fewer).violations}, "and no part of the part does"


def test_a_pin_holds_off_evicts_unless_something_may_have_given_it_up() -> None:
    ops = [pin((1, 2), 12, 7), evict((3, 4), 14), release((5, 6), 15, "h3.12.0")]
    assert judged(*ops, complete=True).word == "violated"
    assert judged(*ops).word == "ok"
    drain = Op("b", "drain", 2, 3, "ok", session=4, number=1, term=1, revision=13, pinned_too=True)
    assert judged(*ops, drain, complete=True).word == "ok"


# ---- all orders ----------------------------------------------------------------------------------------------


def test_answers_without_a_revision_are_searched_and_a_bound_that_is_met_is_said() -> None:
    loose = [look((1, 9), 0, epoch, client=f"c{epoch}") for epoch in range(5, 12)]
    verdict = judged(*loose)
    assert verdict.word == "ok"
    assert "all orders of 1 groups searched" in verdict.bounds
    backwards = [look((epoch * 2, epoch * 2 + 1), 0, 20 - epoch, client=f"c{epoch}") for epoch in range(5, 12)]
    verdict = judged(*backwards)
    assert verdict.word == "violated"
    assert len(verdict.violations[0].ops) == 2
    tangled = check(History([*loose, *backwards]), budget=5)
    assert tangled.word == "unknown"
    assert "the bound was met by 1" in tangled.bounds


ORDERED = ("real_time", "epochs_agree", "changes_happen_once", "holds_begin_and_end_once", "no_evict_under_a_hold")
BY_SORTING = [rule for rule in RULES if rule.__name__ in ORDERED]


@st.composite
def small_histories(draw: st.DrawFn) -> History:
    """A run of up to eight operations on one group as it may have been, and then up to two of its numbers changed."""
    ops: list[Op] = []
    revision, epoch, now = 5, 5, 0
    live: list[tuple[str, str]] = []
    for at in range(draw(st.integers(1, 8))):
        start = now + draw(st.integers(-3, 2))
        kind = draw(st.sampled_from(("look", "pin", "ref", "release", "evict", "again")))
        common: dict[str, Any] = {"client": f"c{at}", "session": 3, "number": at + 1, "group": G, "term": 1}
        now += draw(st.integers(1, 3))
        back = max(start, now + draw(st.integers(0, 3)))
        if kind in ("pin", "ref"):
            revision += 1
            live.append((f"h3.{at + 1}.0", kind))
            took = Op(op=kind, invoke=start, returned=back, outcome="ok", revision=revision, epoch=epoch, **common)
            ops.append(evolve(took, hold=live[-1][0], effect=True))
        elif kind == "release" and live:
            revision += 1
            hold, taken = live.pop(draw(st.integers(0, len(live) - 1)))
            word = "unpin" if taken == "pin" else "unref"
            unknown = draw(st.integers(0, 4)) == 0
            ended: dict[str, Any] = {} if unknown else {"returned": back, "outcome": "ok", "effect": True, "revision": revision}
            ops.append(Op(op=word, invoke=start, hold=hold, **ended, **common))
        elif kind == "evict" and not live:
            revision += 1
            epoch = revision
            gone = Op(op="evict", invoke=start, returned=back, outcome="ok", revision=revision, epoch=epoch, **common)
            ops.append(evolve(gone, effect=True))
        elif kind == "again" and live and draw(st.booleans()):
            told = Op(op="unpin", invoke=start, returned=back, outcome="refused", revision=revision, hold=live[0][0], **common)
            ops.append(evolve(told, reason="AlreadyDone"))
        else:
            ops.append(Op(op="locate", invoke=start, returned=back, outcome="ok", revision=revision, epoch=epoch, **common))
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(ops) - 1))
        name = draw(st.sampled_from(("revision", "epoch", "invoke", "hold", "returned")))
        op = ops[at]
        if name == "hold" and op.hold:
            ops[at] = evolve(op, hold=draw(st.sampled_from([one.hold for one in ops if one.hold])))
        elif name == "invoke":
            ops[at] = evolve(op, invoke=draw(st.integers(-3, op.invoke if op.returned is None else op.returned)))
        elif name == "returned" and op.returned is not None:
            ops[at] = evolve(op, returned=op.returned + draw(st.integers(0, 4)))
        elif getattr(op, name) and name in ("revision", "epoch"):
            ops[at] = evolve(op, **{name: max(1, getattr(op, name) + draw(st.integers(-3, 3)))})
    return History(ops, complete=draw(st.booleans()))


WORDS = {"ok": 0, "violated": 0}


@settings(max_examples=500)
@given(history=small_histories())
def test_sorting_and_trying_all_orders_agree(history: History) -> None:
    for op in history.ops:
        note(str(op))
    sorted_out = "violated" if any(True for rule in BY_SORTING for _ in rule(history)) else "ok"
    result = search(history.ops, history)
    WORDS[sorted_out] += 1
    assert result.word == sorted_out
    if result.word == "violated":
        assert search(result.smallest, history).word == "violated"


def test_both_words_were_said_often() -> None:
    """Runs after the one above."""
    if sum(WORDS.values()):
        assert min(WORDS.values()) > 50, WORDS


# ---- files ---------------------------------------------------------------------------------------------------


def test_a_file_gives_back_what_was_saved(tmp_path: Path) -> None:
    history = History([pin((1, 4), 12, 7), Op("a", "unpin", 5, session=3, number=13, hold="h3.12.0")], "own", True)
    history.save(tmp_path / "h.jsonl")
    again = load(tmp_path / "h.jsonl")
    assert (again.clock, again.complete) == ("own", True)
    assert [evolve(op, line=0) for op in again.ops] == history.ops
    assert [op.line for op in again.ops] == [2, 3]


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        ([], "begins with a line that has its version"),
        (["{"], "history:1: this is no JSON"),
        (["[]"], "history:1: a line of a history is an object"),
        (['{"history": 9}'], 'has "history": 1'),
        (['{"history": 1, "clock": "sun"}'], "clock is one of common, own"),
        (['{"history": 1}', '{"op": "pin"}'], "history:2: an operation has client, invoke"),
        (['{"history": 1}', '{"client": "a", "op": "pin", "invoke": 1, "colour": 3}'], "an operation has no 'colour'"),
        (['{"history": 1}', '{"client": "a", "op": "pin", "invoke": "1"}'], "invoke is a int"),
        (['{"history": 1}', '{"client": "a", "op": "pin", "invoke": 1, "return": "x"}'], "return is a number, or null"),
        (['{"history": 1}', '{"client": "a", "op": "pin", "invoke": 1, "return": 2, "outcome": "fine"}'], "outcome is one of"),
        (['{"history": 1}', '{"client": "a", "op": "pin", "invoke": 1, "return": 2}'], "without an answer is unknown"),
        (['{"history": 1}', '{"client": "a", "op": "pin", "invoke": 3, "return": 2, "outcome": "ok"}'], "answered before"),
    ],
)
def test_what_is_no_history_is_one_sentence(lines: list[str], sentence: str) -> None:
    with pytest.raises(BadHistory) as raised:
        parse(lines)
    assert sentence in str(raised.value)


def test_a_file_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(BadHistory, match="cannot read the history"):
        load(tmp_path / "none.jsonl")


@pytest.mark.parametrize(("name", "code"), [("ok", 0), ("stale read", 12)])
def test_the_command_says_it_in_words_in_json_and_by_its_exit_code(
    name: str, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from pinfold.cli import main

    ops = PLANTED[name][1] if name in PLANTED else [pin((1, 4), 12, 7)]
    History(ops).save(tmp_path / "h.jsonl")
    assert main(["history", "check", str(tmp_path / "h.jsonl")]) == code
    said = capsys.readouterr().out
    assert ("stale read" in said) == (code == 12)
    assert main(["history", "check", "--json", str(tmp_path / "h.jsonl")]) == code
    (document,) = json.loads(capsys.readouterr().out)
    assert document["verdict"] == ("ok" if code == 0 else "violated")
    if code:
        assert [op["line"] for op in document["violations"][0]["ops"]] == [3, 4]


def test_a_large_history_is_decided_in_seconds() -> None:
    ops = [pin((at * 2, at * 2 + 5), at + 10, 7, client=f"c{at % 50}", number=at + 1) for at in range(60_000)]
    verdict = check(History(ops))
    assert verdict.word == "ok"
    assert verdict.seconds < 30
