"""The words of a client's script, one instruction a line.

    create G at N      write G            pin G   unpin G   ref G   unref G      evict G [wait]
    move G to N [pinned]   cancel G       replicate G to N   drop G              release (all holds)
    guard G   let G    read G             drain N [off]      close               die

A client does one thing at a time and waits for its answer; `async` before a command goes on without waiting. `A | B` takes
either. An instruction whose subject is not there (no hold to unpin, no copy to read) is passed over. A script ends with `die` or
`close`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from attrs import define

from .world_file import WorldFileError

COMMANDS: Final = ("create", "pin", "unpin", "ref", "unref", "move", "cancel", "replicate", "drop", "evict", "release", "drain")
REQUESTS: Final = ("write", "guard", "let", "read")
ENDS: Final = ("close", "die")
BARE: Final = ("release", *ENDS)


@define(frozen=True)
class Instruction:
    """`group` and `place` as they were written, "" where there is none; `place` is a node or store."""

    verb: str
    group: str = ""
    place: str = ""
    flag: str = ""
    is_async: bool = False


Script = tuple[tuple[Instruction, ...], ...]
"""Each entry: the alternatives of one line."""


def parse_script(world: str, lines: Sequence[str], groups: Sequence[str], places: Sequence[str]) -> Script:
    """Raises `WorldFileError`."""
    script = tuple(tuple(_instruction(world, part, groups, places) for part in line.split("|")) for line in lines)
    if not script or any(one.verb not in ENDS for one in script[-1]):
        script = (*script, (Instruction("die"),))
    return script


def _instruction(world: str, text: str, groups: Sequence[str], places: Sequence[str]) -> Instruction:
    words = text.split()
    is_async = bool(words) and words[0] == "async"
    words = words[is_async:]
    verb = words[0] if words else ""
    if verb not in (*COMMANDS, *REQUESTS, *ENDS):
        raise WorldFileError(f"world {world}: {text!r} is no instruction")
    group = place = flag = ""
    for word in words[1:]:
        if word in groups and not group and verb != "drain":
            group = word
        elif word in places and not place:
            place = word
        elif word in ("wait", "pinned", "off") and not flag:
            flag = word
        elif word not in ("at", "to"):
            raise WorldFileError(f"world {world}: {word!r} in {text!r} is nothing that there is")
    if (verb not in (*BARE, "drain")) != bool(group) or (verb == "drain") != (verb == "drain" and bool(place)):
        raise WorldFileError(f"world {world}: {text!r} lacks its subject")
    return Instruction(verb, group, place, flag, is_async)
