"""The list of obligations is complete, the contract files are what the table says, and a sample of them is settled here.

`make prove` settles all of them; `tests/test_proofs_view.py` ties what is proved to the real records.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from pinfold.core.ids import State
from pinfold.core.invariants import INVARIANTS
from pinfold.core.table import ROWS
from proofs import obligations as ob
from proofs.canaries import BY_NAME, CANARIES
from proofs.properties import ANY, IDS, NAMED
from proofs.run import Settled, analyse, judge, lines, main, settle
from proofs.view import NEEDED

ROOT = Path(__file__).resolve().parent.parent


# ---- the list ------------------------------------------------------------------------------------------------


def test_every_row_has_an_obligation_for_every_invariant_that_applies() -> None:
    listed = {(one.row, one.invariant) for one in ob.obligations()}
    assert len(listed) == len(ob.obligations())
    for row in ROWS:
        for invariant in IDS:
            applies = invariant != "LIVE-1" or State.EVICTING in row.to
            assert ((row.name, invariant) in listed) == applies
    assert len(ob.obligations()) > 1_000


def test_every_obligation_has_its_contracts_and_every_contract_its_function() -> None:
    proofs = [one for one in ob.contracts() if not one.breaks]
    assert {(one.row, one.view) for one in proofs} == {(row.name, view) for row in ROWS for view in ("Any", "Named")}
    for module in ob.modules():
        tree = ast.parse((ROOT / "proofs" / f"{module}.py").read_text())
        functions = {node.name: ast.get_docstring(node) or "" for node in tree.body if isinstance(node, ast.FunctionDef)}
        mine = [one for one in ob.contracts() if one.module == module]
        assert set(functions) == {one.function for one in mine}
        for one in mine:
            assert functions[one.function].count("pre:") == 2
            post = f'check("{one.breaks}", ' if one.breaks else "holds("
            assert f"post: {post}" in functions[one.function]


def test_the_contract_files_are_what_the_table_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert ob.stale() == []
    assert ob.main(["--check"]) == 0
    assert ob.main([]) == 0
    assert f"{len(ob.obligations())} obligations" in capsys.readouterr().out
    assert ob.main(["--what"]) == 2


def test_the_invariants_are_those_of_the_design() -> None:
    assert set(NAMED) <= set(ANY)
    assert set(IDS) - set(INVARIANTS) == {"TABLE"}


# ---- the canaries --------------------------------------------------------------------------------------------


def test_each_file_and_each_invariant_has_a_canary() -> None:
    assert {one.module for one in ob.contracts() if one.breaks} == set(ob.modules())
    assert {canary.breaks for canary in CANARIES} == set(IDS)
    assert {canary.breaks for canary in CANARIES if canary.view == "Named"} >= {"COPY-2", "HOLD-1", "MOVE-1"}


def test_each_guard_on_which_a_proof_rests_is_left_out_by_a_canary() -> None:
    assert {guard.name for row in ROWS for guard in row.guards} >= NEEDED
    left_out = {
        guard.name for canary in CANARIES for guard in BY_NAME[canary.row.name].guards if guard not in canary.row.guards
    }
    assert left_out == NEEDED


# ---- the verdict ---------------------------------------------------------------------------------------------


def said(contract: ob.Contract, verdict: str, invariant: str = "") -> Settled:
    return Settled(contract, invariant, verdict, verdict, 1, 0.1)


def test_a_verdict_names_what_is_refuted_what_resists_and_what_survives() -> None:
    proof = next(one for one in ob.contracts() if one.row == "LOCAL/LEAVE" and one.view == "Any")
    canary = next(one for one in ob.contracts() if one.breaks)
    good = judge([[said(proof, "confirmed")], [said(canary, "refuted")]], 1.0, {"LOCAL/LEAVE"})
    assert good.well
    assert (good.obligations, good.confirmed, good.canaries) == (12, 12, 1)
    text = "\n".join(lines(good))
    assert "12 of 12 obligations confirmed over all paths, 0 resisted, 0 refuted; 1 of 1 canaries refuted" in text
    refuted = judge([[said(proof, "refuted"), said(proof, "refuted", "USE-1")]], 1.0, {"LOCAL/LEAVE"})
    assert not refuted.well
    assert list(refuted.refuted) == ["LOCAL/LEAVE USE-1"]
    assert "REFUTED   LOCAL/LEAVE USE-1" in "\n".join(lines(refuted))
    resisted = judge([[said(proof, "resisted"), said(proof, "resisted", "CAP-1")]], 1.0, {"LOCAL/LEAVE"})
    assert not resisted.well
    assert resisted.uncovered == ["LOCAL/LEAVE CAP-1"]
    assert "Covered by: NOTHING" in "\n".join(lines(resisted))
    survived = judge([[said(canary, "confirmed")]], 1.0, set())
    assert not survived.well
    assert "SURVIVED" in "\n".join(lines(survived))


# ---- a sample ------------------------------------------------------------------------------------------------


def test_a_sample_is_confirmed_over_all_paths_and_its_canaries_are_refuted() -> None:
    command = [sys.executable, "-m", "proofs.run", "--json", "--jobs", "1", "--only", "contracts_evict"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    report = json.loads(run.stdout)
    assert report["well"]
    assert report["confirmed"] == report["obligations"] >= 80
    assert report["canaries"] >= 4


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # CrossHair looks at every class there is
def test_a_contract_that_fails_is_settled_invariant_by_invariant() -> None:
    canary = next(one for one in ob.contracts() if one.breaks == "COPY-1")
    assert analyse(canary).verdict == "refuted"
    as_proof = ob.Contract(canary.module, canary.function, canary.row, canary.view)
    parts = settle(as_proof)
    assert parts[0].verdict == "refuted"
    assert [part.invariant for part in parts[1:]] == [one for one in IDS if one != "LIVE-1"]


def test_the_runner_says_how_it_is_used(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--jobs", "many"])
    assert "--jobs" in capsys.readouterr().err
