"""The transcripts in tests/scenarios: each is run again and must say the same, word for word (`--record` writes them anew)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pinfold.chaos.check import check_world
from pinfold.chaos.mutants import MUTANTS, planted
from pinfold.chaos.play import IMPOSSIBLE
from pinfold.chaos.play import VERBS as EXPLORER_VERBS
from pinfold.chaos.world_file import load_world
from pinfold.core.errors import InvariantViolation

from .story import VERBS, Block, Story, compare, parse, replay, unparse

FOLDER = Path(__file__).parent / "scenarios"
FOUND = sorted((FOLDER / "explorer").glob("*.txt"))
"""Counterexamples of the explorer, each named after the seeded fault that it shows."""
FILES = [*sorted(FOLDER.glob("*.txt")), *FOUND]

TOLD = {
    "move_happy", "move_aborts", "source_lost_before", "source_lost_after", "late_reports", "pin_during_move",
    "session_expiry_reader", "stale_route", "lapse_same_boot", "lapse_new_boot", "restart_in_move", "recreate_during_eviction",
}  # fmt: skip
"""What must be told at least."""


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
@pytest.mark.usefixtures("mutant")
def test_the_story_is_still_told_word_for_word(path: Path, record: bool) -> None:
    """With `--mutant NAME` a fault is planted first: then the story of that fault breaks here."""
    compare(path, record)


@pytest.mark.parametrize("path", FOUND, ids=lambda path: path.stem)
def test_the_story_of_a_seeded_fault_breaks_where_the_fault_is(path: Path) -> None:
    """Played by the reader of all transcripts, without a search: the fault is planted, and an invariant says no."""
    text = path.read_text(encoding="utf-8")
    invariant = re.search(r"^# (?:SAFETY: ([A-Z]+-\d)|(?:DEADLOCK|LIVENESS): )", text, re.MULTILINE)
    assert invariant is not None, "the second line says what is broken"
    with planted(path.stem), pytest.raises(InvariantViolation) as broken:
        replay(text)
    assert broken.value.invariant == (invariant[1] or "LIVE-1")


def test_each_seeded_fault_has_its_story() -> None:
    missing = set(MUTANTS) - {path.stem for path in FOUND}
    assert not missing, "pinfold check --world W --mutant M --scenario tests/scenarios/explorer/M.txt"


@pytest.mark.parametrize("mutant", ["two_owners", "exits_are_not_noticed", "orders_are_not_repeated"])
def test_the_explorer_writes_a_story_that_passes_and_breaks_with_the_fault(mutant: str) -> None:
    """An invariant, a deadlock and a circle, from the search to the text; the text is the one that is kept."""
    path = FOLDER / "explorer" / f"{mutant}.txt"
    kept = path.read_text(encoding="utf-8")
    world = next(block.script[0].split()[1] for block in parse(kept) if block.script[0].startswith("explore "))
    text = check_world(load_world(world), mutant=mutant).scenario
    assert unparse(replay(text)) == text
    with planted(mutant), pytest.raises(InvariantViolation):
        replay(text)
    assert text == kept


def test_a_step_that_cannot_happen_is_said_and_changes_nothing() -> None:
    story = Story()
    for line in ("explore move", "deliver n1 Free", "b fly", "b move g n2 #1"):
        story.do(line.split())
    assert story.take() == [IMPOSSIBLE, IMPOSSIBLE, "  send directory: Move(g, target=n2) #1"]


def test_what_must_be_told_is_told() -> None:
    assert {path.stem for path in FILES} >= TOLD


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_story_says_what_it_is_about_and_ends_at_rest(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.startswith("# ")
    blocks = parse(text)
    assert blocks[-1].script[-1] == "rest"
    assert blocks[-1].output[-1] == "at rest"


# ---- the format itself ---------------------------------------------------------------------------------------

LITTLE = """\
# A little one.

world n1=4
put A n1
show A
----
A LOCAL e4 [A.1 AUTHORITATIVE at n1]
"""


def test_a_transcript_reads_back_as_it_was_written() -> None:
    assert unparse(parse(LITTLE)) == LITTLE
    assert parse(LITTLE)[1] == Block(["world n1=4", "put A n1", "show A"], ["A LOCAL e4 [A.1 AUTHORITATIVE at n1]"])


def test_a_changed_word_fails_and_recording_mends_it(tmp_path: Path) -> None:
    path = tmp_path / "little.txt"
    path.write_text(LITTLE.replace("AUTHORITATIVE", "REPLICA"))
    with pytest.raises(AssertionError, match=r"little\.txt: if the change is meant"):
        compare(path, record=False)
    compare(path, record=True)
    assert path.read_text() == LITTLE
    compare(path, record=False)


def test_two_runs_say_the_same() -> None:
    text = (FOLDER / "drain.txt").read_text(encoding="utf-8")
    assert unparse(replay(text)) == unparse(replay(text))


def test_what_a_script_asks_for_in_vain_is_an_error_and_not_silence() -> None:
    story = Story()
    story.do(["world", "n1=4"])
    for words in (["deliver", "Fetch"], ["finish", "n1", "LoadBlocks"], ["drop", "Free"], ["repeat", "CopyDone"]):
        with pytest.raises(AssertionError, match=r"nothing under way|no such work"):
            story.do(words)


def test_a_violated_invariant_ends_the_story() -> None:
    story = Story()
    for line in ("world n1=4 n2=4", "put A n1"):
        story.do(line.split())
    state = story.world.directory.state
    state.used["n1"] = 3
    with pytest.raises(InvariantViolation, match="CAP-1"):
        story.do(["a", "Pin", "A"])


def test_bytes_that_were_damaged_are_never_read_as_good() -> None:
    """BYTES-1, with real bytes: the read finds out, and the copy is lost."""
    story = Story()
    for line in ("world n1=4", "put A n1", "damage n1", "b read A.1", "run", "show A"):
        story.do(line.split())
    said = story.take()
    assert any("CopyLost copy=A.1 reason=CORRUPT" in line for line in said)
    assert any("refused Corrupt" in line for line in said)
    assert not any(line.startswith("  reply b: Blocks") for line in said)


def test_every_verb_is_in_the_manual() -> None:
    manual = (FOLDER.parent.parent / "specs" / "scenarios.md").read_text(encoding="utf-8")
    assert {verb for verb in (*VERBS, *EXPLORER_VERBS) if f"`{verb}" not in manual} == set()
