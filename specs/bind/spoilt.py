"""The model with one thing spoilt: each must be refused, or the properties prove nothing. One line each, found in the text."""

from __future__ import annotations

from pathlib import Path

import tlc
from attrs import define
from equality import ACTIONS
from slices import SLICES, Slice


@define(frozen=True)
class Spoilt:
    """`old` in `file` becomes `new`; TLC must then find one of `finds` violated in `slice`."""

    name: str
    file: str
    old: str
    new: str
    slice: Slice
    finds: tuple[str, ...]


LATE = Slice("late", "late inventories", 1, 1, 1, {"create": 1, "tell": 1, "hear": 1})
BACK = SLICES["back"]

SPOILT = (
    Spoilt(
        "absence counts whenever the inventory was taken (INV-1)", "pinfold",
        "m.term = d.term /\\ m.num >= d.ordered[c])", "TRUE)", LATE, ("INV1",),
    ),
    Spoilt(
        "an inventory from before the verification loses the copy", "pinfold",
        '[] OTHER -> IF cond = "freeing" /\\ counts', "[] OTHER -> IF counts", LATE, ("INV1",),
    ),
    Spoilt(
        "a FREEING copy is taken back (finding 6)", "pinfold",
        '{c \\in There(n) : dir.list[c].role \\in {"REPLICA", "RETIRING"} /\\ ~dir.list[c].absent}',
        '{c \\in Copy : dir.list[c].node = n /\\ dir.list[c].role \\in {"REPLICA", "RETIRING", "FREEING"}}', BACK,
        ("COPY3", "Safe"),
    ),
    Spoilt(
        "bytes go while somebody reads them (USE-1)", "pinfold",
        'node[n].has[c].ph = "freeing" /\\ node[n].has[c].touch = 0', 'node[n].has[c].ph = "freeing"', SLICES["write"], ("USE2",),
    ),
    Spoilt(
        "an order is taken whatever its number (FENCE-1)", "pinfold",
        "(m.term = x.term /\\ m.num > x.num)", "m.term = x.term", SLICES["write"], ("NUMBER1",),
    ),
    Spoilt(
        "a late registration of a dead boot replaces the living one (rule 9)", "pinfold",
        "/\\ m.over # dir.inc[n] ", "/\\ FALSE ", SLICES["boots"], ("Safe",),
    ),
    Spoilt(
        "an evict frees what is pinned", "pinfold_rows",
        '[] c \\in stay /\\ Pinned(d, c) -> [@[c] EXCEPT !.role = "RETIRING"]\n', "\n", BACK, ("USE3",),
    ),
    Spoilt(
        "a retired copy goes under a pin", "pinfold_rows", "/\\ ~d.list[c].absent /\\ ~Pinned(d, c) /\\",
        "/\\ ~d.list[c].absent /\\", SLICES["move"], ("USE3",),
    ),
    Spoilt(
        "a commit leaves the epoch as it was (EPOCH-1)", "pinfold_rows",
        'THEN Swap(d, Promoted(d, Decided(d, "LOCAL", "NONE", NoCopy), c))',
        'THEN [Swap(d, Promoted(d, Decided(d, "LOCAL", "NONE", NoCopy), c)) EXCEPT !.epoch = d.epoch]', SLICES["move"],
        ("EPOCH1",),
    ),
)  # fmt: skip


def refused(one: Spoilt, folder: Path) -> tuple[str, float]:
    """What TLC finds violated in the spoilt model, "" for nothing."""
    slice_ = one.slice
    settings = slice_.settings("INVARIANT Safe", ACTIONS)
    tlc.lay_out(folder, **{f"{slice_.name}__tla": slice_.module(), f"{slice_.name}__cfg": settings})
    path = folder / f"{one.file}.tla"
    text = path.read_text()
    if text.count(one.old) != 1:
        raise tlc.Failed(f"spoilt model '{one.name}': its place is in {path.name} {text.count(one.old)} times, not once")
    path.write_text(text.replace(one.old, one.new))
    verdict = tlc.run(folder, slice_.name)
    return verdict.violated, verdict.seconds
