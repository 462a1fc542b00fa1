"""The examples do what they say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def test_embedding_example_ends_with_every_invariant_holding() -> None:
    ran = subprocess.run([sys.executable, "examples/embed.py"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[-1] == "1 group in the store, 0 holds: every invariant holds"
    assert "evict: Pinned" in ran.stdout
