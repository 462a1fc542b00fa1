"""The deep run of the explorer: kept verdicts, what makes them stale, the page it writes, and what worlds have gone through."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pinfold.chaos import campaign_report
from pinfold.chaos.campaign import Kept, KeptError, code_digest, key_of, run
from pinfold.chaos.check import Checked, check_world, document, lives, mutant_line, mutants_of, summary
from pinfold.chaos.topics import TOPICS
from pinfold.chaos.world_file import WorldFile, load_world, parse_world
from pinfold.cli import main

SMALL = ("reader_dies", "lapse_forgotten")


@pytest.fixture(scope="module")
def small() -> list[Checked]:
    return [check_world(load_world(name)) for name in SMALL]


def kept_of(folder: Path, small: list[Checked]) -> Kept:
    kept = Kept(folder)
    kept.begin(False)
    for checked in small:
        file = load_world(checked.world)
        kept.put(key_of(file, file.states_max, code_digest()), checked)
    return kept


def worlds(*names: str) -> list[WorldFile]:
    return [load_world(name) for name in names]


def test_what_was_said_is_kept_and_only_the_rest_is_explored(tmp_path: Path, small: list[Checked]) -> None:
    kept = kept_of(tmp_path / "kept", small[:1])
    told: list[tuple[str, bool]] = []

    def again(fresh: bool = False) -> list[Checked]:
        told.clear()
        files = worlds(*SMALL)
        return run(files, states_max=None, jobs=1, kept=kept, fresh=fresh, tell=lambda one, old: told.append((one.world, old)))

    results = again()
    assert told == [("reader_dies", True), ("lapse_forgotten", False)]
    assert [(one.world, one.states, one.complete) for one in results] == [(one.world, one.states, one.complete) for one in small]
    assert again() == results
    assert [old for _, old in told] == [True, True]
    again(fresh=True)
    assert [old for _, old in told] == [False, False]


def test_another_world_bound_or_code_is_another_question(tmp_path: Path, small: list[Checked]) -> None:
    kept = kept_of(tmp_path, small)
    text = 'about = "A world to be told from others."\n[nodes.n1]\ndram = 1\n[groups.g]\n[clients]\na = ["create g at n1"]\n'
    file = parse_world("reader_dies", text)
    known = load_world("reader_dies")
    code = code_digest()
    assert kept.get("reader_dies", key_of(known, known.states_max, code)) == small[0]
    for key in (key_of(file, known.states_max, code), key_of(known, 5, code), key_of(known, known.states_max, "other")):
        assert kept.get("reader_dies", key) is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is damaged: take it away, or say --fresh"),
        ("[1, 2]", "is no verdict of this program"),
        ('{"format": "another"}', "is no verdict of this program"),
        (None, "is damaged: take it away, or say --fresh"),
    ],
)
def test_a_damaged_or_foreign_verdict_is_one_sentence(tmp_path: Path, small: list[Checked], text: str | None, said: str) -> None:
    kept = kept_of(tmp_path, small)
    path = tmp_path / "reader_dies.json"
    if text is None:
        data = json.loads(path.read_text())
        del data["checked"]["states"]
        text = json.dumps(data)
    path.write_text(text)
    with pytest.raises(KeptError, match=said):
        run(worlds(*SMALL), states_max=None, jobs=1, kept=kept)


def test_a_folder_that_can_t_be_made_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert main(["check", "--all", "--deep", "--keep", str(tmp_path / "file" / "kept")]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_the_section_is_written_in_the_place_of_the_old_one(tmp_path: Path, small: list[Checked]) -> None:
    page = tmp_path / "results.md"
    page.write_text(f"# Results\n\n## Before\n\nfirst\n\n{campaign_report.TITLE}\n\nold\n\n## After\n\nlast\n")
    for _ in range(2):
        campaign_report.write(page, small, 2)
    text = page.read_text()
    assert text.startswith("# Results\n\n## Before\n\nfirst\n\n")
    assert text.endswith("\n\n## After\n\nlast\n")
    assert "old" not in text
    assert text.count(campaign_report.TITLE) == 1
    assert f"2 worlds, {small[0].states + small[1].states:,} distinct states" in text
    assert "| reader_dies | no faults | 258 |" in text
    assert "| deferred frees | reader_dies |" in text
    assert "| replicas | **none** |" in text
    with pytest.raises(campaign_report.PageError):
        campaign_report.write(tmp_path / "no such page.md", small, 2)


def test_a_stopped_world_is_no_complete_one_in_the_section() -> None:
    tried = check_world(load_world("evict_recreate_one_slot"), states_max=50)
    lines = campaign_report.section([tried], 1)
    assert "- `evict_recreate_one_slot`: tried for 1 lapse, 1 early (stopped by 50 states)." in lines
    assert "Not complete: evict_recreate_one_slot." in lines


def test_each_named_mutant_is_looked_for_and_one_that_lives_is_told(tmp_path: Path) -> None:
    text = 'about = "One group is written and is there."\nkills = ["writes_outlive_sessions", "two_owners"]\n'
    text += '[nodes.n1]\ndram = 1\n[groups.g]\n[clients]\na = ["create g at n1", "write g", "unpin g"]\n[faults]\nexpire = 1\n'
    (tmp_path / "small.toml").write_text(text)
    found = mutants_of(["small"], folder=tmp_path)
    assert [(one.mutant, lives(one)) for one in found] == [("writes_outlive_sessions", False), ("two_owners", True)]
    assert "dies of" in mutant_line(found[0])
    assert "LIVES" in mutant_line(found[1])


@pytest.mark.parametrize(
    ("world", "topics"),
    [
        ("reader_dies", {"readers inside", "deferred frees"}),
        ("lapse_forgotten", {"lapse", "return in the same boot"}),
        ("pipelined_commits", {"pipelined commits", "commit outcome unknown", "unsynced writes lost", "restart"}),
        ("store_garbage", {"REMOTE states", "lapse"}),
        ("held_group", {"loss"}),
        ("move_crash_directory", {"crash of the directory", "crash between persist and send", "unsynced writes lost", "restart"}),
    ],
)
def test_what_a_world_has_gone_through_is_said_and_nothing_else(world: str, topics: set[str]) -> None:
    file = load_world(world)
    gone = set(check_world(file, states_max=5_000).topics)
    for fault, topic in (("lapse", "lapse"), ("expire", "session expiry"), ("drop", "loss"), ("early", "early timers")):
        assert topic not in gone or file.budget(fault), "what no budget allows was gone through"
    assert topics <= gone
    assert gone <= set(TOPICS)
    assert not gone & {"replicas", "a deposed directory still sending", "node-local instances", "duplication"}


def test_whatever_a_whole_run_went_through_no_topic_is_left_out() -> None:
    """`make explore` says what is missing; these few worlds, seen in part, show that nothing is."""
    shown = (
        "client_dies", "deposed_directory", "evict_recreate_one_slot", "lapse_and_return", "move_crash_directory",
        "move_crash_node", "pipelined_commits", "reader_session_expiry", "replica_dies", "rotten_bytes", "tiers",
        "two_groups_one_room", "upload_dies", "writing",
    )  # fmt: skip
    seen = [check_world(load_world(name), states_max=6_000) for name in shown]
    assert document(seen)["topics_never_seen"] == []
    assert "topics that no world went through (0): none" in summary(seen)
    assert "crash of a client" in document(seen[1:])["topics_never_seen"]
