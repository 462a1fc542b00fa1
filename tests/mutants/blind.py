"""The machines without their own invariants: what a check sees by itself, and not because a machine stopped at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pinfold.core import invariants, node_invariants
from tests.cases.switches import everywhere

CHECKS = (
    invariants.check_group, invariants.check_all, invariants.check_progress, node_invariants.check_node,
    node_invariants.links_never_fall,
)  # fmt: skip


@contextmanager
def blind(on: bool = True) -> Iterator[None]:
    """With `on`, nobody asks `core/invariants.py` and `core/node_invariants.py` while the block runs."""
    with pytest.MonkeyPatch.context() as patch:
        for check in CHECKS if on else ():
            everywhere(patch, check, lambda *given, **named: None)
        yield
