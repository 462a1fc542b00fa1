"""How far Hypothesis goes: the two profiles of `tests/conftest.py`, and what each is for."""

from pathlib import Path

from hypothesis import settings
from hypothesis.database import DirectoryBasedExampleDatabase

EXAMPLES = Path(__file__).resolve().parent.parent / ".hypothesis" / "examples"


def test_ci_takes_the_same_bounded_examples_in_each_run() -> None:
    ci = settings.get_profile("ci")
    assert ci.derandomize
    assert ci.database is None
    assert (ci.max_examples, ci.stateful_step_count) == (100, 40)


def test_nightly_takes_new_examples_and_keeps_what_failed() -> None:
    nightly = settings.get_profile("nightly")
    assert not nightly.derandomize
    assert nightly.max_examples > settings.get_profile("ci").max_examples
    assert isinstance(nightly.database, DirectoryBasedExampleDatabase)
    nightly.database.save(b"profiles", b"kept")
    try:
        assert list(DirectoryBasedExampleDatabase(EXAMPLES).fetch(b"profiles")) == [b"kept"]
    finally:
        nightly.database.delete(b"profiles", b"kept")
