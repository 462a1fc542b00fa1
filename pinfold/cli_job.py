"""`pinfold demo`, `pinfold replay`: a whole cluster under a trace, with faults or without; and the judgement of it."""

from __future__ import annotations

import re
import shlex
import signal
from collections.abc import Callable
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

import click

from .cli_shared import F, Given, pass_given, shared
from .core.eviction import POLICIES
from .units import parse_size_bytes

if TYPE_CHECKING:
    from .demo import JobOptions, JobRun
    from .report import Report

REQUESTS: Final = 900
"""Of the built-in generator, where nothing else is said."""

REQUESTS_MIN: Final = 20

UNBOUNDED: Final = "unbounded"


class _Judged:
    """Around a run: unless it says `passed`, one line on stderr tells how to have the same run again."""

    def __init__(self, command: list[str]) -> None:
        self.command = command
        self.passed = False

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGTERM, _interrupt)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        signal.signal(signal.SIGTERM, self._before)
        if not self.passed and not isinstance(error, KeyboardInterrupt):
            click.echo(f"REPRODUCE: {shlex.join(self.command)}", err=True)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    """SIGTERM ends a job as Ctrl-C does: everything that it has started is ended, its folder is removed."""
    raise KeyboardInterrupt


def _capacity(_context: click.Context, parameter: click.Parameter, text: str | None) -> str | None:
    if text is not None and text != UNBOUNDED and re.fullmatch(r"\d+blocks", text) is None:
        try:
            parse_size_bytes(text)
        except ValueError:
            what = f"takes {UNBOUNDED}, blocks such as 1500blocks, or a size such as 64MiB"
            raise click.BadParameter(what, param=parameter) from None
    return text


def slots_of(text: str | None, block_bytes: int, default: int | None) -> int | None:
    """A `--capacity` in slots of one block; None: unbounded."""
    if text is None:
        return default
    if text == UNBOUNDED:
        return None
    if text.endswith("blocks"):
        return int(text.removesuffix("blocks"))
    return parse_size_bytes(text) // block_bytes


def _job_options(command: F) -> F:
    file = click.Path(dir_okay=False, path_type=Path)
    for flag, kind, default, metavar, text in (
        ("--report", file, None, "FILE", "Write a page with plots there."),
        ("--block-bytes", click.IntRange(1, 1 << 20), 4_096, "N", "Bytes of one block."),
        ("--group-blocks", click.IntRange(1, 256), 4, "N", "Consecutive blocks in a group."),
        ("--requests", click.IntRange(1, 1_000_000), None, "N", f"By default all of a trace, {REQUESTS} of the generator."),
        ("--trace", None, "", "FILE", "A trace in the Mooncake format, instead of the built-in generator."),
        ("--seed", click.IntRange(0, 2**62), 0, "N", "Fixes the generated workload, the moves and the faults."),
    ):
        shown = isinstance(default, int)
        command = click.option(flag, type=kind, default=default, metavar=metavar, help=text, show_default=shown)(command)
    return command


def _check_report(report: Path | None) -> None:
    if report is not None and not report.absolute().parent.is_dir():
        raise click.BadParameter(f"there is no folder {report.absolute().parent}", param_hint="--report")


def _say(sentence: str) -> None:
    click.echo(sentence, err=True)


def _conclude(given: Given, report: Report, page: Path | None) -> int:
    """Tell the result; the exit code."""
    given.data(report.to_json(), lambda: _lines(report))
    if page is not None:
        report.write_html(page)
        _say(f"report: {page}")
    return 0 if report.ok else 1


def _lines(report: Report) -> list[str]:
    figures: dict[str, Any] = report.to_json()
    shown = (
        "seconds", "requests", "blocks", "hit_rate", "ops_per_s", "bytes_verified", "moves_committed", "moves_aborted",
        "evictions", "demotions", "retries", "stale_routes", "degraded", "kills", "pauses", "violations",
        "wrong_bytes", "leaked_holds", "orphan_copies",
    )  # fmt: skip
    lines = [f"{name:16} {figures[name]}" for name in shown]
    lines += [f"recovered from   {name}: {seconds} s" for name, seconds in figures["recovery_s"].items()]
    lines += [f"PROBLEM          {problem}" for problem in report.problems]
    return [*lines, "passed" if report.ok else "FAILED"]


# ---- demo ----------------------------------------------------------------------------------------------------


@click.command()
@click.option("--clients", type=click.IntRange(1, 16), default=3, show_default=True, help="Client processes.")
@click.option("--keep", is_flag=True, help="Leave the cluster's folder where it is.")
@_job_options
@shared
@pass_given
def demo(
    given: Given,
    seed: int,
    trace: str,
    requests: int | None,
    group_blocks: int,
    block_bytes: int,
    report: Path | None,
    clients: int,
    keep: bool,
) -> int:
    """The main job: a cluster of processes under clients that verify every byte, under moves, three kills and a pause.

    Memory is a third of what the trace touches. Exits with 1 for any violation, wrong byte, leaked hold or orphaned copy.
    """
    from .demo import JobOptions, JobRun

    _check_report(report)
    count = requests if requests is not None or trace else REQUESTS
    options = JobOptions("demo", seed, trace, count, clients, group_blocks, block_bytes, keep=keep)
    return _run(given, lambda: JobRun(options, _say), _again(options), report)


def _again(options: JobOptions, *more: str) -> list[str]:
    """The command line that does the same."""
    command = ["pinfold", options.job, "--seed", str(options.seed)]
    if options.trace:
        command += ["--trace", options.trace]
    if options.requests is not None:
        command += ["--requests", str(options.requests)]
    for name in ("clients", "group_blocks", "block_bytes"):
        command += ["--" + name.replace("_", "-"), str(getattr(options, name))]
    return [*command, *more]


def _run(given: Given, make: Callable[[], JobRun], command: list[str], page: Path | None) -> int:
    """Make the run (here a trace that is none is refused), then run it."""
    job = make()
    if job.options.faults and len(job.requests) < REQUESTS_MIN:
        raise click.UsageError(f"a demo takes at least {REQUESTS_MIN} requests: its faults need room between them")
    with _Judged(command) as judged:
        report = job.run()
        judged.passed = report.ok
        return _conclude(given, report, page)


# ---- replay --------------------------------------------------------------------------------------------------


@click.command()
@click.option("--embedded", is_flag=True, help="The machines in one process, one client, in file order: counts to the block.")
@click.option("--no-bytes", is_flag=True, help="With --embedded: leave payloads out.")
@click.option("--capacity", callback=_capacity, metavar="SIZE|unbounded", help="Of all nodes: 64MiB, 1500blocks or unbounded.")
@click.option("--policy", type=click.Choice(sorted(POLICIES)), default="lru", show_default=True, help="What is evicted first.")
@click.option("--clients", type=click.IntRange(1, 16), default=3, show_default=True, help="Client processes.")
@_job_options
@shared
@pass_given
def replay(
    given: Given,
    seed: int,
    trace: str,
    requests: int | None,
    group_blocks: int,
    block_bytes: int,
    report: Path | None,
    clients: int,
    policy: str,
    capacity: str | None,
    no_bytes: bool,
    embedded: bool,
) -> int:
    """Replay a trace: the main job without faults.

    By default the nodes have room for a third of the blocks that the trace touches; a remote store half as large stands beside.
    """
    _check_report(report)
    if no_bytes and not embedded:
        raise click.UsageError("--no-bytes goes with --embedded: between processes bytes are what is shown")
    count = requests if requests is not None or trace else REQUESTS
    if embedded:
        return _embedded(given, (seed, trace, count), (group_blocks, block_bytes, policy, capacity, not no_bytes), report)
    from .demo import JobOptions, JobRun

    options = JobOptions(
        "replay", seed, trace, count, clients, group_blocks, block_bytes, slots_of(capacity, block_bytes, 0), policy, faults=False
    )
    more = ("--policy", policy, *(("--capacity", capacity) if capacity else ()))
    return _run(given, lambda: JobRun(options, _say), _again(options, *more), report)


def _embedded(
    given: Given, source: tuple[int, str, int | None], shape: tuple[int, int, str, str | None, bool], page: Path | None
) -> int:
    from .embedded_job import EmbeddedJob, EmbeddedRun
    from .job_requests import distinct_blocks, load_requests

    (seed, trace, count), (group_blocks, block_bytes, policy, capacity, with_bytes) = source, shape
    requests = load_requests(trace, seed, count)
    slots = slots_of(capacity, block_bytes, max(group_blocks, distinct_blocks(requests) // 3))
    job = EmbeddedJob(group_blocks, slots, policy, with_bytes=with_bytes, block_bytes=block_bytes)
    said = -1

    def progress(done: int) -> None:
        nonlocal said
        if done * 10 // len(requests) > said:
            said = done * 10 // len(requests)
            _say(f"{done} of {len(requests)} requests")

    found = EmbeddedRun(job, requests, progress).run()
    found.seed = seed
    return _conclude(given, found, page)


COMMANDS = (demo, replay)
