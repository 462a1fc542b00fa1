"""`put`, `get`: bytes into groups and out of them. `stat`, `ls`, `locate`: what there is and where."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO

import click

from .backends.checksums import NAMES, checksum, checksums
from .backends.tier import TierRefused
from .cli_calls import Caller, refused
from .cli_shared import DURATION, GROUP, SIZE, Given, pass_given, plain, shared
from .core import answers, calls, commands
from .core.commands import Spec
from .core.ids import GroupId, Key, Layout, MovePolicy, NodeName, State, Tier, group_id
from .units import show_size

# ---- put -----------------------------------------------------------------------------------------------------


def _range(context: click.Context, parameter: click.Parameter, text: str) -> tuple[int, int]:
    first, colon, last = text.partition(":")
    if not colon or not first.isdigit() or not last.isdigit() or int(first) > int(last):
        raise click.BadParameter(f"takes FIRST:LAST, not {text!r}", context, parameter)
    return int(first), int(last)


RANGE = {"default": "0:0", "callback": _range, "metavar": "FIRST:LAST", "show_default": True}


@click.command()
@click.argument("source", default="-", type=click.File("rb"), metavar="[FILE]")
@click.option("--tenant", default="default", show_default=True, help="Whose it is.")
@click.option("--model", default="bytes", show_default=True, help="Which model made it.")
@click.option("--model-revision", default="0", show_default=True, help="Which revision of it.")
@click.option("--prefix", default="", help="What stands before, all of it: a hash. By default, one of the bytes up to here.")
@click.option("--layers", help="Layer range.", **RANGE)  # type: ignore[arg-type]
@click.option("--heads", help="Head range.", **RANGE)  # type: ignore[arg-type]
@click.option("--tokens", help="Token range.", **RANGE)  # type: ignore[arg-type]
@click.option("--dtype", default="uint8", show_default=True, help="What the bytes are.")
@click.option("--checksum", default="crc32", show_default=True, type=click.Choice(NAMES), help="Of each block.")
@click.option("--block-bytes", default="4KiB", show_default=True, type=SIZE, help="Size of a block; the last may be smaller.")
@click.option("--group-blocks", type=click.IntRange(1, 4096), help="Blocks in a group.  [default: node.group_slots]")
@click.option("--node", default="", help="Where to; by default the directory chooses.")
@click.option("--tier", default="dram", show_default=True, type=click.Choice(("dram", "ssd")), help="The tier wished for.")
@click.option("--request", default="", help="The request that it belongs to.")
@click.option("--priority", default=0, help="Weighs against eviction.")
@click.option("--recompute-cost", default=0, help="Weighs against eviction.")
@click.option("--ttl", default="0", type=DURATION, help="After which it is the first to be evicted.")
@shared
@pass_given
def put(given: Given, /, source: BinaryIO, **options: Any) -> None:
    """Store a file, or stdin, as groups of blocks. Prints the id of each group, in order."""
    own = given.config.settings
    group_blocks = options.pop("group_blocks") or own.node_limits["group_slots"]
    layout = Layout(options.pop("dtype"), (), "C", options.pop("block_bytes"), options.pop("checksum"))
    done: list[dict[str, Any]] = []
    try:
        checksum(layout.checksum)
    except TierRefused as error:
        raise click.UsageError(str(error)) from None
    with Caller(given) as caller:
        for spec, blocks in _groups(source, layout, group_blocks, options):
            op = calls.PutGroup(
                spec, checksums(layout.checksum, blocks), tuple(blocks), NodeName(options["node"]),
                Tier[options["tier"].upper()], options["request"],
            )  # fmt: skip
            stored: calls.PutDone = caller.call(op)
            line = {"group": stored.group, "copy": stored.copy, "created": stored.created}
            done.append(line | {"blocks": len(blocks), "bytes": spec.size_bytes})
            if not given.as_json:
                click.echo(stored.group.hex())
    if not done:
        raise click.UsageError("there is nothing to put: the input is empty")
    given.say_aside(f"{len(done)} groups, {show_size(sum(line['bytes'] for line in done))}")
    if given.as_json:
        given.data({"groups": done, "bytes": sum(line["bytes"] for line in done)})


def _groups(
    source: BinaryIO, layout: Layout, group_blocks: int, options: dict[str, Any]
) -> Iterator[tuple[Spec, list[bytes]]]:
    """The input as specs with their blocks. Each group's prefix names all that came up to its end, so that equal keys mean equal
    bytes; where the caller names the prefix, the caller answers for that."""
    chain, parent, number = b"", None, 0
    while True:
        blocks = []
        for _ in range(group_blocks):
            block = _read_whole(source, layout.block_bytes)
            if block:
                blocks.append(block)
            if len(block) < layout.block_bytes:
                break
        if not blocks:
            return
        chain = blake2b(chain + b"".join(blocks), digest_size=16).digest()
        prefix = chain.hex()
        if options["prefix"]:
            prefix = options["prefix"] + (f"/{number}" if number else "")
        key = Key(
            options["tenant"], options["model"], options["model_revision"], layout, prefix, len(blocks),
            options["layers"], options["heads"], options["tokens"],
        )  # fmt: skip
        group = group_id(key)
        yield Spec(
            group, key, tuple(map(len, blocks)), (), options["request"], "", parent,
            options["priority"], options["recompute_cost"], options["ttl"],
        ), blocks  # fmt: skip
        parent, number = group, number + 1
        if len(blocks[-1]) < layout.block_bytes:
            return


def _read_whole(source: BinaryIO, size: int) -> bytes:
    """`size` bytes, or fewer at the end: a pipe gives what it has."""
    parts, left = [], size
    while left:
        part = source.read(left)
        if not part:
            break
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


# ---- get -----------------------------------------------------------------------------------------------------


@click.command()
@click.argument("groups", nargs=-1, required=True, type=GROUP, metavar="GROUP...")
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="A file; it appears when it is whole.")
@click.option(
    "--policy", default="source", show_default=True, help="What to do while a group moves.",
    type=click.Choice([each.name.lower() for each in MovePolicy]),
)  # fmt: skip
@click.option("--near", default="", help="The node to read from, if it can be chosen.")
@shared
@pass_given
def get(given: Given, groups: tuple[GroupId, ...], output: Path | None, policy: str, near: str) -> None:
    """Write the bytes of groups, one after the other, to stdout or a file. Every block is verified."""
    if given.as_json and output is None:
        raise click.UsageError("bytes and JSON can't both go to stdout: say --output FILE")
    partial = output.with_name(f".{output.name}.part") if output is not None else None
    done: list[dict[str, Any]] = []
    try:
        with Caller(given) as caller, Opened(partial) as target:
            for group in groups:
                got = _get_one(caller, group, MovePolicy[policy.upper()], NodeName(near))
                for block in got.data:
                    target.write(block)
                size = sum(memoryview(block).nbytes for block in got.data)
                done.append({"group": group, "copy": got.route.copy, "node": got.route.node, "tier": got.tier, "bytes": size})
        if partial is not None and output is not None:
            partial.rename(output)
    except BaseException:
        if partial is not None:
            with suppress(OSError):
                partial.unlink()
        raise
    total = sum(line["bytes"] for line in done)
    given.say_aside(f"{len(done)} groups, {show_size(total)}")
    if given.as_json:
        given.data({"groups": done, "bytes": total})


class Opened:
    """The file, or stdout, which stays open. What can't be opened is a usage error."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def __enter__(self) -> Any:
        if self._path is None:
            self._file: Any = sys.stdout.buffer
            return self._file
        try:
            self._file = self._path.open("wb")
        except OSError as error:
            raise click.UsageError(f"cannot write {self._path}: {error.strerror}") from None
        return self._file

    def __exit__(self, *_exception: object) -> None:
        self._file.flush()
        if self._path is not None:
            self._file.close()


def _get_one(caller: Caller, group: GroupId, policy: MovePolicy, near: NodeName) -> calls.GotGroup:
    spec = described(caller, group).spec
    op = calls.GetGroup(group, policy, near, layout=spec.key.layout, sizes=spec.sizes)
    got: calls.GotGroup = caller.call(op)
    return got


def described(caller: Caller, group: GroupId) -> answers.Described:
    """The record of a group. Raises CallFailed (UnknownGroup)."""
    answer: answers.Described = caller.ask(commands.Describe(caller.config.client, "", group))
    return answer


# ---- looking -------------------------------------------------------------------------------------------------


@click.command()
@click.argument("group", type=GROUP)
@shared
@pass_given
def stat(given: Given, group: GroupId) -> None:
    """Print the record of a group: state, copies, holds, access."""
    with Caller(given) as caller:
        record = described(caller, group)
    given.data({"group": group} | plain(record), lambda: _record_lines(group, record))


def _record_lines(group: GroupId, record: answers.Described) -> list[str]:
    key = record.spec.key
    reason = f" ({record.reason.name.lower()})" if record.reason else ""
    leaving = " leaving" if record.leaving else ""
    lines = [
        f"group    {group.hex()}",
        f"key      {key.tenant} {key.model}@{key.model_revision} prefix {key.prefix} tokens {key.tokens[0]}:{key.tokens[1]}",
        f"size     {record.spec.size_bytes} bytes, {len(record.spec.sizes)} blocks of {key.layout.dtype}, {key.layout.checksum}",
        f"state    {record.state.name}{reason}{leaving} epoch {record.epoch} version {record.version}",
        f"used     {record.access_count} times",
    ]
    for copy in record.copies:
        absent = " absent" if copy.absent else ""
        lines.append(f"copy     {copy.copy} {copy.role.name}{absent} at {copy.node} {copy.tier.name} with {copy.pins} pins")
    for hold in record.holds:
        of = f" on {hold.copy}" if hold.kind == 0 else ""
        session = f" of session {hold.session_name}" if hold.session_name else ""
        lines.append(f"hold     {hold.hold} {hold.kind.name}{of}{session}{f' for {hold.request}' if hold.request else ''}")
    return lines


def pages(caller: Caller, limit: int, **filters: Any) -> Iterator[answers.GroupLine]:
    """Group lines in id order, at most `limit` of them (0: all), page by page."""
    after, left = GroupId(b""), limit or sys.maxsize
    while left:
        query = commands.ListGroups(caller.config.client, "", after, min(left, 500), **filters)
        page: answers.Listed = caller.ask(query)
        yield from page.groups
        left -= len(page.groups)
        if not page.more or not page.groups:
            return
        after = page.groups[-1].group


@click.command()
@click.option("--tenant", default="", help="Only this tenant's.")
@click.option("--model", default="", help="Only of this model.")
@click.option("--node", default="", help="Only with a copy at this node or store.")
@click.option("--request", default="", help="Only of this request.")
@click.option("--block", default="", help="Only with this block id.")
@click.option("--limit", default=0, type=click.IntRange(min=0), help="At most so many; 0 for all.")
@shared
@pass_given
def ls(given: Given, /, limit: int, **filters: Any) -> None:
    """List groups, in the order of their ids."""
    with Caller(given) as caller:
        found = list(pages(caller, limit, **filters))
    given.data({"groups": found}, lambda: [group_line(line) for line in found])


def group_line(line: answers.GroupLine) -> str:
    """One group for people."""
    where = f"{line.node or '-'}/{line.tier.name if line.node else '-'}"
    holds = f"pins {line.pins} refs {line.refs}"
    what = f"{line.size_bytes:>10} B  epoch {line.epoch}  {holds}  {line.model}"
    return f"{line.group.hex()}  {line.state.name:13}  {where:16}  {what}"


@click.command()
@click.argument("groups", nargs=-1, required=True, type=GROUP, metavar="GROUP...")
@click.option("--each", is_flag=True, help="Each of them, instead of the longest run from the front.")
@click.option("--near", default="", help="The node to read from, if it can be chosen.")
@shared
@pass_given
def locate(given: Given, groups: tuple[GroupId, ...], each: bool, near: str) -> None:
    """Print where groups can be read. Exit code 6 if the first (or, with --each, any) can't."""
    with Caller(given) as caller:
        query = commands.Locate(caller.config.client, "", groups, not each, False, NodeName(near))
        found: answers.Located = caller.ask(query)
    state = "" if found.state < 0 else State(found.state).name
    document = {"routes": found.routes, "stop": found.stop, "state": state}
    given.data(document, lambda: [_route_line(route) for route in found.routes])
    if found.stop and (each or not found.routes):
        raise refused("UnknownGroup" if found.state < 0 else "Unreadable", f"{found.stop.hex()} is {state or 'not known'}")


def _route_line(route: answers.Route) -> str:
    moving = "  moving" if route.moving else ""
    where = f"{route.node}/{route.tier.name}"
    return f"{route.group.hex()}  {route.copy}  {where:16}  {route.size_bytes:>10} B  {route.address or 'a store'}{moving}"


COMMANDS = (put, get, stat, ls, locate)
