"""The one table: every cell is a row or a refusal, and the ledger does what a second machine made from it says."""

from __future__ import annotations

import ast
import inspect
import textwrap
from pathlib import Path
from typing import Any

import pytest

from pinfold import lifecycle
from pinfold.core import effects, ledger, rows
from pinfold.core.directory import Directory
from pinfold.core.errors import REFUSALS, InvariantViolation
from pinfold.core.ids import Role, State
from pinfold.core.records import evolve
from pinfold.core.rows import NOWHERE
from pinfold.core.state import Copy, DirectoryConfig, DirectoryState, Group, GroupRecord, Meta
from pinfold.core.table import MOVING, READABLE, REFUSES, ROWS, TABLE, Guard, On, Row, find, refusal_of
from pinfold.core.turn import Turn

from . import oracle
from .oracle import ELSE, HERE, NOW, REVISION, SETTERS, SPARE, Case, Oracle


def state_of(case: Case) -> DirectoryState:
    """A directory that has the case's record: the copy concerned and, where the numbers say so, others."""
    group = case.g()
    copies = [case.c()]
    wanted = (case.facts.get("authority"), case.facts.get("promote"), case.group["target"])
    role_of = {ELSE: Role.AUTHORITATIVE, SPARE: Role.REPLICA}
    for other in (ELSE, SPARE):
        if other in wanted:
            role = Role.INCOMING if other == case.group["target"] else role_of[other]
            copies.append(Copy(other, HERE, False, copies[0].tier, role, 1))
    tables: dict[str, dict[Any, Any]] = {
        effects.META: {effects.META: Meta("oracle", 0, 1, 1, REVISION - 1, NOW)},
        effects.GROUPS: {group.id: GroupRecord(group, tuple(copies))},
    }
    return Directory.load(tables)


def happens(case: Case, on: On) -> tuple[str, State]:
    """What the real ledger does: `(refusal, state after)`. A refusal leaves everything as it was."""
    state = state_of(case)
    before = state.copy()
    turn = Turn(state, DirectoryConfig(), NOW, revision=REVISION - 1)
    group = case.g()
    refusal = ledger.happen(turn, group, on, case.c(), case.k())
    if refusal is not None:
        assert state == before
        assert turn.persist == []
        assert turn.send == []
        assert turn.revision == REVISION - 1
        return refusal.reason, group.state
    assert turn.revision == REVISION
    assert [write[0] for write in turn.persist] == [effects.GROUPS]
    return "", state.groups[group.id].state


def test_a_body_that_ends_where_the_table_does_not_say_so_is_a_violation() -> None:
    row = next(row for row in ROWS if row.on is On.PIN and row.state is State.LOCAL)
    case = oracle.blank(row, Role.AUTHORITATIVE)

    def strays(g: Group, c: Copy, k: rows.Facts) -> tuple[Group, Copy | None]:
        return evolve(g, state=State.EVICTED), c

    wrong = Row(row.state, row.on, row.role, row.to, row.guards, strays, row.rest, row.effects)
    turn = Turn(state_of(case), DirectoryConfig(), NOW, revision=REVISION - 1)
    with pytest.raises(InvariantViolation, match=r"row LOCAL/PIN ended in EVICTED") as broken:
        ledger.change(turn, case.g(), wrong, case.c(), case.k())
    assert broken.value.invariant == "EPOCH-1"


# ---- the table itself ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", State, ids=lambda state: state.name)
@pytest.mark.parametrize("on", On, ids=lambda on: on.name)
def test_every_cell_is_a_row_or_a_refusal_with_a_known_word(state: State, on: On) -> None:
    with_row = [role for role in Role if (state, on, role) in TABLE]
    if not with_row:
        assert state in REFUSES[on], "no row for any role: the refusal must be stated"
    word = refusal_of(Group(oracle.spec_of("x").group, oracle.spec_of("x"), state), on)
    assert word in REFUSALS


def test_no_two_rows_claim_one_cell() -> None:
    cells = [(row.state, row.on, role) for row in ROWS for role in (Role if row.role is None else (row.role,))]
    assert len(cells) == len(set(cells))
    assert set(cells) == set(TABLE)


def test_each_refusal_of_a_guard_is_in_the_list_of_reasons_and_each_guard_has_one_name() -> None:
    guards = [guard for row in ROWS for guard in row.guards]
    assert {guard.refusal for guard in guards} <= set(REFUSALS)
    by_name: dict[str, set[Any]] = {}
    for guard in guards:
        by_name.setdefault(guard.name, set()).add(guard.check)
    assert all(len(checks) == 1 for checks in by_name.values())


def test_a_copy_that_is_not_the_target_is_looked_up_as_a_replica_in_the_making() -> None:
    for on in (On.COPY_DONE, On.ENDED):
        case = oracle.blank(TABLE[(State.MIGRATING_OUT, on, Role.REPLICA)], Role.REPLICA)
        row = find(case.g(), on, case.c())
        assert row is not None
        assert row.role is Role.REPLICA
        case.group["target"] = oracle.SUBJECT
        row = find(case.g(), on, case.c())
        assert row is not None
        assert row.role is Role.INCOMING


def test_row_functions_have_a_fixed_shape_and_see_no_list() -> None:
    tree = ast.parse(Path(inspect.getsourcefile(rows) or "").read_text())
    loops = (ast.For, ast.While, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Subscript)
    functions = {row.body for row in ROWS} | {row.rest for row in ROWS if row.rest}
    functions |= {guard.check for row in ROWS for guard in row.guards}
    for function in functions:
        assert function.__module__ == rows.__name__
        wanted = ["g", "c", "o", "held", "k"] if function.__name__.endswith(("_rest", "_retires")) else ["g", "c", "k"]
        assert list(inspect.signature(function).parameters) == wanted
        body = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
        assert isinstance(body, ast.FunctionDef)
        assert not [node for line in body.body for node in ast.walk(line) if isinstance(node, loops)], function.__name__
    imported = [alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names]
    assert "DirectoryState" not in imported


def test_a_body_that_ends_where_the_table_does_not_say_is_a_bug_and_not_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    row = TABLE[(State.WRITING, On.SEALED, Role.INCOMING)]
    wrong = Row(row.state, row.on, row.role, (State.REMOTE,), row.guards, row.body)
    monkeypatch.setitem(TABLE, (row.state, row.on, Role.INCOMING), wrong)
    with pytest.raises(InvariantViolation, match="WRITING/SEALED/INCOMING ended in LOCAL"):
        happens(oracle.blank(row, Role.INCOMING), On.SEALED)


# ---- the full product ----------------------------------------------------------------------------------------


def test_the_ledger_agrees_with_the_second_machine_on_every_row_guard_and_end() -> None:
    """State x event x what each guard says x what decides the end. Afterwards every guard has said both, in every row that
    asks it, and every state that a row may end in has been reached: the table promises nothing that can't happen."""
    second = Oracle()
    tried = 0
    said: dict[tuple[str, str], set[bool]] = {(row.name, guard.name): set() for row in ROWS for guard in row.guards}
    ended: dict[str, set[State]] = {row.name: set() for row in ROWS}
    for row in ROWS:
        for case, role, says in oracle.cases(row):
            wanted = second.verdict(row.state, row.on, role, says, oracle.lands_in(row, case))
            assert happens(case, row.on) == wanted, (row.name, role.name, says, case)
            tried += 1
            for name, yes in says.items():
                said[row.name, name].add(yes)
            if not wanted[0]:
                ended[row.name].add(wanted[1])
    assert tried > 2_000
    assert [key for key, both in said.items() if both != {True, False} and key not in ONE_SIDED] == []
    assert {row.name: set(row.to) - ended[row.name] for row in ROWS if set(row.to) - ended[row.name]} == {}


ONE_SIDED = {
    *((f"{state.name}/{on.name}/REPLICA", "is_incoming") for state in READABLE for on in (On.COPY_DONE, On.ENDED)),
    *((f"{state.name}/{on.name}/INCOMING", "is_target") for state in MOVING for on in (On.COPY_DONE, On.ENDED)),
    ("WRITING/ENDED/INCOMING", "is_target"),
}
"""What `find` has answered already by looking the row up: of the two rows for an INCOMING copy, one is for the target. The
guards say it all the same, so that each row is true by itself. The tests below come as another role, or as another target."""


def test_a_late_report_about_a_replica_that_is_there_already_is_stale() -> None:
    for state in READABLE:
        for on in (On.COPY_DONE, On.ENDED):
            case = oracle.blank(TABLE[(state, on, Role.REPLICA)], Role.REPLICA)
            case.copy["role"] = Role.REPLICA
            assert happens(case, on) == ("StaleReport", state)


def test_the_target_of_another_move_never_ends_or_commits_this_one() -> None:
    for state in MOVING:
        for on in (On.COPY_DONE, On.ENDED):
            case = oracle.blank(TABLE[(state, on, Role.INCOMING)], Role.INCOMING)
            case.group["target"] = ELSE
            assert happens(case, on) == ("", state), "it is a replica in the making"
            row = TABLE[(state, on, Role.INCOMING)]
            assert not row.guards[0].check(case.g(), case.c(), case.k())


def test_what_has_no_row_is_refused_by_both_machines() -> None:
    second = Oracle()
    tried = 0
    for state in State:
        for on in On:
            for role in Role:
                if (state, on, role) in TABLE:
                    continue
                assert second.verdict(state, on, role, {}, state) == ("no row", state)
                # INCOMING that is the target, so that COPY_DONE and ENDED are looked up under that role
                row = Row(state, on, role, (state,), (), rows.unchanged)
                case = oracle.blank(row, role)
                case.copy["role"] = role
                if role is Role.INCOMING:
                    case.group["target"] = oracle.SUBJECT
                assert happens(case, on) == (refusal_of(case.g(), on), state)
                tried += 1
    assert tried > 200


def test_every_guard_is_known_to_the_product_and_none_is_left_over() -> None:
    asked = {guard.name for row in ROWS for guard in row.guards}
    assert asked == set(SETTERS)


def test_an_event_without_a_copy_concerned_finds_the_rows_for_any_role() -> None:
    for on in (On.REF, On.EVICT, On.LEAVE, On.PIN):
        for state in READABLE:
            group = Group(oracle.spec_of("x").group, oracle.spec_of("x"), state)
            assert find(group, on, NOWHERE) is not None


def test_the_product_catches_a_guard_that_was_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    row = TABLE[(State.LOCAL, On.EVICT, Role.FREEING)]
    weak = Row(row.state, row.on, row.role, row.to, tuple(g for g in row.guards if g.name != "unpinned"), row.body, row.rest)
    for role in Role:
        monkeypatch.setitem(TABLE, (row.state, row.on, role), weak)
    with pytest.raises(AssertionError):
        test_the_ledger_agrees_with_the_second_machine_on_every_row_guard_and_end()


# ---- the document --------------------------------------------------------------------------------------------


def test_the_lifecycle_document_is_what_the_table_says() -> None:
    said = lifecycle.FILE.read_text(encoding="utf-8")
    assert said == lifecycle.text(), "run python -m pinfold.lifecycle --write"


def test_the_document_names_every_row_guard_state_and_effect() -> None:
    text = lifecycle.text()
    assert {effect for row in ROWS for effect in row.effects} == set(lifecycle.EFFECTS)
    assert {row.rest.__name__ for row in ROWS if row.rest} == set(lifecycle.RESTS)
    assert all(f"`{guard.name}`" in text for row in ROWS for guard in row.guards)
    assert all(f"### {state.name}\n" in text for state in State)
    assert text.count("\n| `") > len(ROWS)


def test_the_diagram_has_each_change_of_state_and_no_other() -> None:
    drawn = {line.strip().partition(":")[0] for line in lifecycle.diagram().splitlines()[2:-1]}
    assert drawn == {f"{row.state.name} --> {to.name}" for row in ROWS for to in row.to if to is not row.state}


def test_writing_and_checking_the_document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifecycle, "FILE", tmp_path / "lifecycle.md")
    assert lifecycle.main(["--check"]) == 1
    assert lifecycle.main(["--write"]) == 0
    assert lifecycle.main(["--check"]) == 0
    (tmp_path / "lifecycle.md").write_text("old")
    assert lifecycle.main(["--check"]) == 1
    assert lifecycle.main(["--draw"]) == 2


def test_a_guard_is_shown_by_the_expression_that_it_is() -> None:
    guard = next(guard for guard in lifecycle.guards() if guard.name == "backed_off")
    assert isinstance(guard, Guard)
    assert lifecycle.condition(guard.check) == "k.now >= g.move_after"
