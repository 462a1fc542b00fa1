"""`specs/invariants.md` says who looks for each invariant and what dies of it; what it says is so."""

from tests import invariant_page


def test_the_table_is_as_the_code_has_it_and_each_invariant_has_a_mutant() -> None:
    """`python -m tests.invariant_page` writes it anew."""
    assert invariant_page.PAGE.read_text(encoding="utf-8") == invariant_page.page()
    assert [name for name, (made, _, _) in invariant_page.killed_by().items() if not made] == []
