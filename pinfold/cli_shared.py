"""What all commands share: the global options, settings, output, and how an error is told.

The global options may stand before a command or after it. Data goes to stdout (one JSON document with `--json`), everything
else to stderr.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar

import attrs
import click
from attrs import define, field

from .config import Config, ConfigError, load, unknown
from .core.errors import PinfoldError, Refusal
from .core.ids import CopyId, GroupId, HoldId
from .logs import Log, make_log
from .settings import KEYS

F = TypeVar("F", bound=Callable[..., Any])


@define
class Given:
    """What the command line has said so far, and what comes of it. The object of click's context."""

    flags: dict[str, str | None] = field(factory=dict)
    names: dict[str, str] = field(factory=dict)
    """The flag that set a path, as it was written."""
    file: str = ""
    as_json: bool = False
    _config: Config | None = None

    def say(self, path: str, text: str | None, flag: str) -> None:
        """A flag sets the key `path`; a later one wins."""
        if text is not None:
            self.flags[path] = text
            self.names[path] = flag

    @property
    def config(self) -> Config:
        """Everything taken together. Raises ConfigError."""
        if self._config is None:
            self._config = load(self.flags, os.environ, self.file, flag_names=self.names)
        return self._config

    def log(self, process: str) -> Log:
        logging = self.config.settings.logging
        return make_log(process, level=logging.level, form=logging.form)

    # ---- output ----------------------------------------------------------------------------------------------

    def data(self, document: Any, lines: Callable[[], list[str]] | None = None) -> None:
        """One result on stdout: `document` as JSON, or as `lines` for people."""
        if self.as_json or lines is None:
            click.echo(json.dumps(plain(document), sort_keys=False, ensure_ascii=False))
        else:
            for line in lines():
                click.echo(line)

    def say_aside(self, sentence: str) -> None:
        """Progress, for people, on stderr."""
        if not self.as_json:
            click.echo(sentence, err=True)


def plain(value: Any) -> Any:
    """Records of the protocol as JSON: ids as people write them, enums by name, records as objects."""
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, CopyId | HoldId):
        return str(value)
    if isinstance(value, bytes):
        return value.hex()
    if attrs.has(type(value)):
        return {attribute.name: plain(getattr(value, attribute.name)) for attribute in attrs.fields(type(value))}
    if isinstance(value, dict):
        return {str(plain(key)): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    return value if isinstance(value, bool | int | float | str) or value is None else str(value)


def given_of(context: click.Context) -> Given:
    found = context.find_object(Given)
    if found is None:
        found = context.obj = Given()
    return found


pass_given = click.make_pass_decorator(Given)


# ---- global options ------------------------------------------------------------------------------------------


def sets(path: str, flag: str, **more: Any) -> Callable[[F], F]:
    """An option that sets the configuration key `path`."""
    key = KEYS[path.partition(".")[0]].get(path.partition(".")[2]) if path != "stores" else None

    def note(context: click.Context, _parameter: click.Parameter, value: Any) -> None:
        if isinstance(value, tuple):
            value = ";".join(value) if value else None
        given_of(context).say(path, value, flag)

    more.setdefault("help", key.help[:1].upper() + key.help[1:] + "." if key is not None else None)
    return click.option(flag, expose_value=False, callback=note, metavar=more.pop("metavar", "VALUE"), **more)


def _note_endpoints(context: click.Context, _parameter: click.Parameter, value: str | None) -> None:
    for path in ("client.endpoints", "node.directories"):
        given_of(context).say(path, value, "--endpoints")


def _note_file(context: click.Context, _parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        given_of(context).file = value


def _note_json(context: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value:
        given_of(context).as_json = True


def _note_set(context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> None:
    for text in values:
        path, equals, value = text.partition("=")
        section, _, name = path.partition(".")
        if not equals:
            raise click.UsageError(f"--set takes section.key=value, not {text!r}", context)
        if section not in KEYS:
            raise unknown("--set", "section", section, KEYS)
        if name not in KEYS[section]:
            raise unknown(f"--set {section}", "key", name, KEYS[section])
        given_of(context).say(path, value, f"--set {path}")


def shared(command: F) -> F:
    """The options that every command has."""
    for option in (
        click.option("--json", is_flag=True, callback=_note_json, expose_value=False, help="One JSON document on stdout."),
        click.option(
            "--set", metavar="KEY=VALUE", multiple=True, callback=_note_set, expose_value=False,
            help="Set any key (`pinfold config show` has them).",
        ),
        sets("logging.form", "--log-form", metavar="human|json", help="How logs on stderr look."),
        sets("logging.level", "--log-level", metavar="LEVEL", help="debug, info, warning or error."),
        sets("client.timeout", "--timeout", metavar="DURATION", help="How long a call may take, as 1s or 200ms."),
        click.option(
            "--endpoints", metavar="ENDPOINT[,...]", callback=_note_endpoints, expose_value=False, help="Where the directory is."
        ),
        click.option(
            "--config", metavar="FILE", callback=_note_file, expose_value=False, help="Settings in TOML (or PINFOLD_CONFIG)."
        ),
    ):  # fmt: skip
        command = option(command)
    return command


# ---- parameters ----------------------------------------------------------------------------------------------


if TYPE_CHECKING:
    _ParamType = click.ParamType[Any]
else:
    _ParamType = click.ParamType  # older ones take no argument


class _Parsed(_ParamType):
    """A parameter made of text by a function that raises ValueError."""

    def __init__(self, name: str, parse: Callable[[str], Any], example: str) -> None:
        self.name = name
        self._parse = parse
        self._example = example

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return self._parse(value)
        except ValueError:
            self.fail(f"{value!r} is no {self.name}; one looks like {self._example}", param, ctx)


def _group(text: str) -> GroupId:
    raw = bytes.fromhex(text)
    if len(raw) != 16:
        raise ValueError
    return GroupId(raw)


def _triple(letter: str, text: str) -> tuple[int, int, int]:
    match = re.fullmatch(letter + r"(\d{1,18})\.(\d{1,18})\.(\d{1,18})", text)
    if match is None:
        raise ValueError
    return int(match[1]), int(match[2]), int(match[3])


GROUP = _Parsed("group id", _group, "5f2d0c9be2f34a6d8f1f0a4d2b7c9e11")
COPY = _Parsed("copy id", lambda text: CopyId(*_triple("c", text)), "c0.17.0")
HOLD = _Parsed("hold id", lambda text: HoldId(*_triple("h", text)), "h12.3.0")


def duration(text: str) -> int:
    from .units import parse_duration_ms

    return parse_duration_ms(text)


def size(text: str) -> int:
    from .units import parse_size_bytes

    return parse_size_bytes(text)


DURATION = _Parsed("duration", duration, "200ms, 1s or 5m")
SIZE = _Parsed("size", size, "4KiB or 64MiB")


# ---- errors --------------------------------------------------------------------------------------------------


def tell_error(given: Given | None, sentence: str, code: int, reason: str = "") -> int:
    """One sentence on stderr (an object with `--json`); gives the exit code back."""
    if given is not None and given.as_json:
        print(json.dumps({"error": sentence, "reason": reason, "exit_code": code}, ensure_ascii=False), file=sys.stderr)
    else:
        print(f"pinfold: {sentence}", file=sys.stderr)
    return code


def reason_of(error: PinfoldError) -> str:
    """The word for programs: a refusal's reason, or the error's name."""
    refusal = getattr(error, "refusal", None)
    return refusal.reason if isinstance(refusal, Refusal) else type(error).__name__


def sentence_of(error: PinfoldError) -> str:
    """The sentence for people. Of a deadline, that it may have happened matters more than where it came."""
    if reason_of(error) == "DeadlineReached":
        happened = "it surely did not happen" if getattr(error, "definite", False) else "whether it happened is not known"
        return f"DeadlineReached; no answer in time, {happened}"
    return str(error)


def code_of(error: PinfoldError) -> int:
    return int(getattr(error, "exit_code", 2 if isinstance(error, ConfigError) else 1))
