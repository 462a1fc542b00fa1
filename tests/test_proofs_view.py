"""The proofs speak of views; these tests tie the views to real records, the real `ledger` and the real invariants.

What is proved of every view is then true of every record: a record that the invariants allow shows only views that the
preconditions admit; a step of the ledger is the step of each view; and whatever `core/invariants.py` would complain of on the
record after a step, some view's postcondition complains of too.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from typing import Any

import pytest
from hypothesis import assume, given, note, settings
from hypothesis import strategies as st

from pinfold.core import creating, ledger
from pinfold.core.errors import InvariantViolation
from pinfold.core.ids import NO_COPY, CopyId, Role, State
from pinfold.core.invariants import check_group, check_progress
from pinfold.core.records import evolve
from pinfold.core.rows import Facts
from pinfold.core.state import Copy, Group, Meta
from pinfold.core.table import ROWS, On, Row, find
from pinfold.core.turn import Turn
from proofs import given as known_before
from proofs.logic import every, implies, no, one_of, some
from proofs.properties import ANY, NAMED, check
from proofs.view import NEEDED, NOBODY, Id, allowed, facts_of, step
from proofs.view import Any as AnyView

from .directory_walk import Walk
from .record_views import REVISION, SPEC, Record, after_of, facts, known_of, record_of, records, subjects, views
from .test_directory_walk import WORLDS

BY_STATE = {state: [row for row in ROWS if row.state is state] for state in State}
TAKES = (On.PIN, On.CREATE)
"""Rows after which the door takes a PIN on the copy concerned."""

Chosen = tuple[Row, Record, Copy, dict[str, Any], Facts]


@st.composite
def steps(draw: st.DrawFn) -> Chosen:
    """A row, a record in its state, a copy that the row may concern, and the facts."""
    row = draw(st.sampled_from(ROWS))
    record = draw(records(row.state))
    able = subjects(row, record)
    while not able:
        row = draw(st.sampled_from(BY_STATE[row.state]))
        able = subjects(row, record)
    c = draw(st.sampled_from(able))
    known = known_of(draw, row, record)
    return row, record, c, known, facts(row, record, c, known)


def apply(row: Row, record: Record, c: Copy, k: Facts) -> Record:
    """The real ledger's step, on a state of its own."""
    after = Record(record.state.copy())
    turn = after.turn()
    turn.next_revision()
    ledger.change(turn, after.group, row, c, k)
    meta = after.state.meta
    after.state.meta = Meta(meta.store_id, meta.shard, meta.shards, meta.term, turn.revision, meta.clock_ms)
    return after


@given(record=st.sampled_from(State).flatmap(records))
def test_the_records_are_those_that_the_invariants_allow(record: Record) -> None:
    check_group(record.state, SPEC.group)


@settings(max_examples=300)
@given(chosen=steps())
def test_every_view_of_a_record_meets_the_precondition(chosen: Chosen) -> None:
    row, record, c, _, k = chosen
    if row.on in (On.GONE, On.ENDED, On.PIN, On.DUE):
        assert find(record.group, row.on, c) is row
    for v, shown in views(row, record, c, k):
        note(f"{row.name} {v} {shown}")
        if row.on is On.SEALED and not v.told:
            continue
        assert known_before.given(row, v)
        others = all(guard.check(record.group, c, k) for guard in row.guards if guard.name not in NEEDED)
        says = all(guard.check(record.group, c, k) for guard in row.guards)
        assert says == (allowed(row, v) and others)
        made = facts_of(row, v)
        for name in ("revision", "now", "others", "readable", "readable_pins", "refs", "gone", "due", "authority_absent",
                     "promote_store", "grace_due", "incarnation"):  # fmt: skip
            assert getattr(made, name) == getattr(k, name), name
        assert (made.authority, made.promote) == (k.authority, k.promote)
        if row.on not in NOBODY:
            assert made.pins == k.pins


@settings(max_examples=300)
@given(chosen=steps())
def test_a_step_of_the_ledger_is_the_step_of_each_view_and_keeps_every_invariant(chosen: Chosen) -> None:
    row, record, c, _, k = chosen
    if not all(guard.check(record.group, c, k) for guard in row.guards):
        return
    after = apply(row, record, c, k)
    check_group(after.state, SPEC.group)
    check_progress(record.state, after.state)
    for v, shown in views(row, record, c, k):
        note(f"{row.name} {v} {shown}")
        real = after_of(row, v, shown, c, after, row.on in TAKES)
        stepped = step(row, v)
        for name in ("state", "epoch", "version", "leaving", "created", "failures", "move_after"):
            assert getattr(stepped.g, name) == getattr(real.g, name), name
        assert (stepped.g.manifest or 0) == real.g.manifest
        assert (stepped.g.target, stepped.g.source) == (Id(*real.g.target), Id(*real.g.source))
        pairs = list(zip(stepped.others, real.others, shown, strict=True))
        if row.on not in NOBODY:
            pairs.append((stepped.c, real.c, c))
        for ended, wanted, copy in pairs:
            assert ended.listed == wanted.listed
            if copy is not None and wanted.listed:
                assert ended == wanted
        for invariant in ANY:
            assert check(invariant, row, v, stepped), invariant


class Witness:
    """Stands at the ledger's door and shows each step that really happens to the proofs."""

    def __init__(self) -> None:
        self.met: dict[str, int] = {}
        self.change = ledger.change

    def __call__(self, turn: Turn, g: Group, row: Row, c: Copy, k: Facts) -> None:
        if g.id in turn.state.groups:  # a first `Create` has no record yet: it is the base of the induction
            record = Record(turn.state, g.id)
            for v, shown in views(row, record, c, k):
                assert known_before.given(row, v), (row.name, v, shown)
                assert allowed(row, v), (row.name, v, shown)
                stepped = step(row, v)
                wrong = [name for name in (ANY if isinstance(v, AnyView) else NAMED) if not check(name, row, v, stepped)]
                assert not wrong, (row.name, wrong, v)
            self.met[row.name] = self.met.get(row.name, 0) + 1
        self.change(turn, g, row, c, k)


@pytest.mark.parametrize("world", ["plain", "remote", "hasty"])
def test_what_happens_in_a_directory_among_honest_nodes_is_what_the_proofs_speak_of(
    world: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The preconditions claim what callers make sure of. Here are the real callers, in all that they do in a long walk."""
    witness = Witness()
    for module in (ledger, creating):
        monkeypatch.setattr(module, "change", witness)
    walk = Walk(7, **WORLDS[world])
    walk.run(1_500)
    walk.settle()
    assert sum(witness.met.values()) > 100, witness.met
    assert len(witness.met) > 15, witness.met


# ---- what the record's own checks see, a view sees -----------------------------------------------------------


KINDS = ("role", "role", "absent", "store", "drop", "state", "state", "number", "target", "source", "leaving", "seal")


@st.composite
def spoiled(draw: st.DrawFn) -> tuple[Chosen, Record]:
    """A step, and its result with one thing wrong, as a faulty row might leave it."""
    chosen = draw(steps())
    row, record, c, _, k = chosen
    assume(all(guard.check(record.group, c, k) for guard in row.guards))
    after = apply(row, record, c, k)
    group, copies = after.group, list(after.copies)
    what = draw(st.sampled_from(KINDS))
    if what in ("role", "absent", "store", "drop") and copies:
        at = draw(st.integers(0, len(copies) - 1))
        if what == "drop":
            del copies[at]
        else:
            value: Any = draw(st.sampled_from(Role)) if what == "role" else draw(st.booleans())
            copies[at] = evolve(copies[at], **{what: value})
    elif what == "state":
        group = evolve(group, state=draw(st.sampled_from(State)))
    elif what == "number":
        group = evolve(group, **{draw(st.sampled_from(("epoch", "version"))): draw(st.integers(-1, REVISION + 3))})
    elif what in ("target", "source"):
        ids = [NO_COPY, CopyId(0, 77, 0), *(copy.id for copy in record.copies), c.id]
        group = evolve(group, **{what: draw(st.sampled_from(ids))})
    elif what == "leaving":
        group = evolve(group, leaving=True)
    else:
        group = evolve(group, manifest=b"")
    return chosen, _replaced(after, group, tuple(copies))


def _replaced(after: Record, group: Group, copies: tuple[Copy, ...]) -> Record:
    new = Record(after.state.copy())
    new.state.groups[SPEC.group] = group
    new.state.copies[SPEC.group] = copies
    new.state.group_of = {copy.id: SPEC.group for copy in copies}
    return new


def complains(before: Record, after: Record) -> bool:
    try:
        check_group(after.state, SPEC.group)
        check_progress(before.state, after.state)
    except InvariantViolation:
        return True
    return False


SEEN = {"faults": 0}


@settings(max_examples=800)
@given(case=spoiled())
def test_whatever_the_invariants_complain_of_on_a_record_some_view_complains_of(case: tuple[Chosen, Record]) -> None:
    (row, record, c, _, k), after = case
    if not complains(record, after):
        return
    SEEN["faults"] += 1
    blamed = []
    for v, shown in views(row, record, c, k):
        real = after_of(row, v, shown, c, after, row.on in TAKES)
        blamed += [name for name in (ANY if isinstance(v, AnyView) else NAMED) if not check(name, row, v, real)]
    assert blamed, (row.name, after.group, after.copies)


def test_the_faults_were_many() -> None:
    """Runs after the one above, and counts what it has met."""
    if SEEN["faults"]:
        assert SEEN["faults"] > 100


# ---- the beginning -------------------------------------------------------------------------------------------


def test_a_record_begins_where_the_proofs_begin() -> None:
    """The base of the induction: a group that was never created has no copies and is EVICTED, and its view is admitted."""
    record = record_of(Group(SPEC.group, SPEC), (), {}, 0)
    row = next(row for row in ROWS if row.name == "EVICTED/CREATE")
    (c,) = subjects(row, record)
    for v, _ in views(row, record, c, facts(row, record, c, {})):
        assert known_before.given(row, v)
        assert allowed(row, v)


def test_a_directory_gives_one_copy_id_per_revision() -> None:
    """`Id` tells ids apart by revision alone; so no two copies of a directory may share one. The ordinal is always 0."""
    made = [
        node
        for module in ("creating", "migration")
        for node in ast.walk(ast.parse(inspect.getsource(__import__(f"pinfold.core.{module}", fromlist=["x"]))))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "CopyId"
    ]
    assert len(made) == 2
    assert all(isinstance(call.args[2], ast.Constant) and call.args[2].value == 0 for call in made)


# ---- what rows look into -------------------------------------------------------------------------------------

CONSTANT = {"spec", "reason", "cause", "writer", "node", "tier"}
"""Fields that have one value in all views, because rows only hand them on."""


def test_rows_decide_by_nothing_but_what_the_views_vary() -> None:
    """No branch, comparison or boolean of a row has a field in it that a view keeps constant."""
    functions: set[Any] = {row.body for row in ROWS} | {row.rest for row in ROWS if row.rest}
    functions |= {guard.check for row in ROWS for guard in row.guards if guard.name in NEEDED}
    for function in functions:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
        tests = [node.test for node in ast.walk(tree) if isinstance(node, ast.If | ast.IfExp)]
        tests += [node for node in ast.walk(tree) if isinstance(node, ast.Compare | ast.BoolOp)]
        asked = {inner.attr for test in tests for inner in ast.walk(test) if isinstance(inner, ast.Attribute)}
        assert not asked & CONSTANT, (function.__name__, asked & CONSTANT)


# ---- logic without branches ----------------------------------------------------------------------------------


@pytest.mark.parametrize("a", [True, False])
@pytest.mark.parametrize("b", [True, False])
@pytest.mark.parametrize("c", [True, False])
def test_logic_is_logic(a: bool, b: bool, c: bool) -> None:
    assert no(a) is (not a)
    assert implies(a, b) is (not a or b)
    assert every(a, b, c) is (a and b and c)
    assert some(a, b, c) is (a or b or c)
    assert one_of(a, b, c) is (a + b + c <= 1)
    assert every() is True
    assert some() is False
