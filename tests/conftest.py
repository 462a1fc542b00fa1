"""What tests share: where the public traces are, how far Hypothesis goes, how transcripts are recorded."""

import os
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.database import DirectoryBasedExampleDatabase

from pinfold.chaos.mutants import MUTANTS, planted

ROOT = Path(__file__).resolve().parent.parent

# `ci` is the default everywhere: the same examples on each run, so a red test is red for everybody.
# `--hypothesis-profile=nightly` looks for new ones.
settings.register_profile(
    "ci",
    derandomize=True,
    max_examples=100,
    stateful_step_count=40,
    deadline=None,  # a shared machine stalls; a slow example is not a wrong one
    database=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],  # for the same reason as the deadline
)
settings.register_profile(
    "nightly",
    parent=settings.get_profile("ci"),
    derandomize=False,
    max_examples=5_000,
    stateful_step_count=200,
    database=DirectoryBasedExampleDatabase(ROOT / ".hypothesis" / "examples"),  # what failed once is tried first
)
settings.load_profile("ci")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("pinfold")
    group.addoption("--record", action="store_true", help="write the transcripts in tests/scenarios anew")
    group.addoption("--mutant", default="", metavar="NAME", help="plant a fault of pinfold.chaos.mutants under the transcripts")
    group.addoption(
        "--require-traces",
        action="store_true",
        help="fail, instead of skip, where the public traces are absent",
    )


@pytest.fixture
def record(request: pytest.FixtureRequest) -> bool:
    """Whether transcripts are to be written anew (`--record`) instead of compared."""
    return bool(request.config.getoption("--record"))


@pytest.fixture
def mutant(request: pytest.FixtureRequest) -> Iterator[str]:
    """The fault that is planted while the test runs (`--mutant NAME`), "" where there is none."""
    name = str(request.config.getoption("--mutant"))
    if name and name not in MUTANTS:
        pytest.fail(f"there is no mutant {name!r}", pytrace=False)
    with planted(name) if name else nullcontext():
        yield name


@pytest.fixture
def traces(request: pytest.FixtureRequest) -> Path:
    """The folder of the public request traces; the only door to them, so that no skip hides their absence."""
    folder = ROOT / os.environ.get("PINFOLD_TRACES", "../shared/data")  # an absolute value replaces ROOT
    if not (folder / "conversation_trace.jsonl").is_file():
        reason = f"no request traces in {folder}: set PINFOLD_TRACES to the folder that has them"
        if request.config.getoption("--require-traces"):
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)
    return folder
