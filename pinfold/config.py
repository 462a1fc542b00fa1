"""Where settings come from: flags, then `PINFOLD_*` variables, then a TOML file, then the defaults; and who said what.

    config = load(flags={"client.timeout": "1s"}, environment=os.environ, file="pinfold.toml")
    config.settings.directory.bind
    config.rows()                     # every key with its value and its origin, for `pinfold config show --origin`

    [directory]                       # the file: one table for each section of `settings.py`
    bind = "tcp://127.0.0.1:7400"
    node_lease = "3s"
    [stores.shared]
    path = "/mnt/kv"
    capacity = "10GiB"

A key's variable is `PINFOLD_<SECTION>_<KEY>`; `PINFOLD_STORES` and the flag say `name=path,capacity`, several apart by `;`.
What is not known is refused with the nearest name: a setting that was misspelt must not be a setting that was ignored.
"""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from attrs import define

from .core.client_state import Degradation
from .core.errors import PinfoldError
from .settings import KEYS, LIMITS, SECTIONS, STORE_KEYS, Key, Kind, Settings, StoreSettings
from .units import DURATION_HINT, SIZE_HINT, parse_duration_ms, parse_size_bytes, show_duration, show_size

PREFIX: Final = "PINFOLD_"
FILE_VARIABLE: Final = "PINFOLD_CONFIG"
STORES_VARIABLE: Final = "PINFOLD_STORES"
OTHER_VARIABLES: Final = frozenset({FILE_VARIABLE, STORES_VARIABLE, "PINFOLD_TRACES"})

SERVICE_LINK: Final = re.compile(r".*_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_\w+)?)?)")
"""What Kubernetes puts into every container for a service whose name begins with `pinfold`: not meant for us."""

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
"""Nodes and stores: they become parts of file names, flags and log lines."""


class ConfigError(PinfoldError):
    """Raised when a setting is unknown, malformed or out of range. The sentence names where it stands and what was expected."""

    exit_code = 2


@define(frozen=True)
class Row:
    """One key as it ended up: its value as text, and who said so."""

    key: str
    value: str
    origin: str


@define(frozen=True)
class Config:
    settings: Settings
    values: dict[str, Any]
    """By path, `section.key`, in schema order."""
    origins: dict[str, str]
    """By path: `default`, `PINFOLD_...`, a flag, or `FILE: [section]`."""

    def rows(self) -> list[Row]:
        """Every key, in schema order, stores last."""
        rows = []
        for path, value in self.values.items():
            rows.append(Row(path, show(key_at(path), value), self.origins[path]))
        return rows

    def toml(self, *, only_set: bool = True) -> str:
        """As a file that `load` reads to the same values; without those that are defaults anyway."""
        return dump(self.given if only_set else self.values)

    @property
    def given(self) -> dict[str, Any]:
        """The values that somebody has set."""
        return {path: value for path, value in self.values.items() if self.origins[path] != "default"}


# ---- one value -----------------------------------------------------------------------------------------------


def key_at(path: str) -> Key:
    """The key that a path of `Config.values` names."""
    section, _, name = path.rpartition(".")
    return STORE_KEYS[name] if section.startswith("stores.") else KEYS[section][name]


def show(key: Key, value: Any) -> str:
    """A value as one would write it."""
    if key.kind is Kind.DURATION:
        return show_duration(value)
    if key.kind is Kind.SIZE:
        return show_size(value)
    if key.kind is Kind.FLAG:
        return "true" if value else "false"
    if key.kind is Kind.LIST:
        return ",".join(value)
    return str(value)


def _expected(key: Key) -> str:
    if key.kind is Kind.CHOICE:
        return "one of " + ", ".join(key.choices)
    return DURATION_HINT if key.kind is Kind.DURATION else SIZE_HINT if key.kind is Kind.SIZE else str(key.kind.value)


def _text_to_plain(key: Key, text: str) -> Any:
    """What a flag or variable says, as a file would have said it. Raises ValueError."""
    if key.kind is Kind.COUNT:
        return int(text.replace("_", ""))
    if key.kind is Kind.FLAG:
        return {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}[text.lower()]
    if key.kind is Kind.LIST:
        return [part.strip() for part in text.split(",") if part.strip()]
    return text


def _plain_to_value(key: Key, plain: Any) -> Any:
    """Raises ValueError, perhaps with a sentence."""
    kind = key.kind
    wanted: bool
    if kind is Kind.COUNT:
        wanted = isinstance(plain, int) and not isinstance(plain, bool)
    elif kind is Kind.FLAG:
        wanted = isinstance(plain, bool)
    elif kind is Kind.LIST:
        wanted = isinstance(plain, list) and bool(plain) and all(isinstance(item, str) and item for item in plain)
    elif kind is Kind.DURATION or kind is Kind.SIZE:
        wanted = isinstance(plain, str) or plain == 0
    else:
        wanted = isinstance(plain, str)
    if not wanted:
        raise ValueError
    if kind is Kind.DURATION:
        return parse_duration_ms(str(plain))
    if kind is Kind.SIZE:
        return parse_size_bytes(str(plain))
    if kind is Kind.PATH:
        return Path(str(plain)).expanduser()
    if kind is Kind.LIST:
        return (*plain,) if isinstance(plain, list) else ()
    if kind is Kind.CHOICE and plain not in key.choices:
        raise ValueError
    return plain


def read(key: Key, plain: Any, where: str, *, text: bool) -> Any:
    """The checked value of what `where` says for `key`; `text`: it comes from a flag or variable. Raises ConfigError."""
    try:
        value = _plain_to_value(key, _text_to_plain(key, plain) if text else plain)
    except (ValueError, KeyError):
        nearest = difflib.get_close_matches(str(plain), key.choices, 1) if key.choices else []
        hint = f"; did you mean {nearest[0]!r}?" if nearest else ""
        raise ConfigError(f"{where}: {key.path} must be {_expected(key)}, not {_quote(plain)}{hint}") from None
    if key.kind in (Kind.COUNT, Kind.DURATION, Kind.SIZE) and not key.low <= value <= key.high:
        limits = f"at least {show(key, key.low)}" if value < key.low else f"at most {show(key, key.high)}"
        raise ConfigError(f"{where}: {key.path} must be {limits}, not {_quote(plain)}")
    return value


def _quote(plain: Any) -> str:
    if isinstance(plain, str | int | float | bool | list):
        return json.dumps(plain, ensure_ascii=False)[:80]
    return "a table" if isinstance(plain, dict) else str(plain)[:80]


def unknown(where: str, what: str, name: str, known: Iterable[str]) -> ConfigError:
    """A refusal of a name, with the nearest known one."""
    names = list(known)
    near = difflib.get_close_matches(name, names, 1, 0.5)
    hint = f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(names)}"
    return ConfigError(f"{where}: unknown {what} {name!r}{hint}")


# ---- the sources ---------------------------------------------------------------------------------------------


class _Gathered:
    """Values and origins; a source that is asked later does not replace what an earlier one has said."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.origins: dict[str, str] = {}
        self.stores: dict[str, None] = {}

    def say(self, path: str, value: Any, origin: str) -> None:
        if path not in self.values:
            self.values[path] = value
            self.origins[path] = origin

    def store(self, name: str, table: Mapping[str, Any], origin: str, *, text: bool) -> None:
        if not NAME.fullmatch(name):
            raise ConfigError(f"{origin}: {name!r} is no name of a store: use letters, digits, '-', '_' and '.'")
        self.stores[name] = None
        for key_name, plain in table.items():
            key = STORE_KEYS.get(key_name)
            if key is None:
                raise unknown(f"{origin} [stores.{name}]", "key", key_name, STORE_KEYS)
            self.say(f"stores.{name}.{key_name}", read(key, plain, f"{origin} [stores.{name}]", text=text), origin)

    def store_texts(self, text: str, origin: str) -> None:
        for part in filter(None, (part.strip() for part in text.split(";"))):
            name, _, rest = part.partition("=")
            path, _, capacity = rest.partition(",")
            if not name or not path:
                raise ConfigError(f"{origin}: a store is written as name=path or name=path,capacity, not {part!r}")
            self.store(name, {"path": path} | ({"capacity": capacity} if capacity else {}), origin, text=True)


def _take_flags(gathered: _Gathered, flags: Mapping[str, str | None], names: Mapping[str, str]) -> None:
    for path, text in flags.items():
        if text is None:
            continue
        origin = names.get(path, "--" + path.rpartition(".")[2].replace("_", "-"))
        if path == "stores":
            gathered.store_texts(text, origin)
            continue
        section, _, name = path.partition(".")
        gathered.say(path, read(KEYS[section][name], text, origin, text=True), origin)


def _take_environment(gathered: _Gathered, environment: Mapping[str, str]) -> None:
    known = {key.variable: key for keys in KEYS.values() for key in keys.values()}
    for variable, text in sorted(environment.items()):
        key = known.get(variable)
        if key is not None:
            gathered.say(key.path, read(key, text, variable, text=True), variable)
        elif variable == STORES_VARIABLE:
            gathered.store_texts(text, variable)
        elif variable.startswith(PREFIX) and variable not in OTHER_VARIABLES and not SERVICE_LINK.fullmatch(variable):
            section = variable.removeprefix(PREFIX).partition("_")[0].lower()
            if section in KEYS or difflib.get_close_matches(variable, known, 1, 0.8):
                raise unknown("the environment", "variable", variable, known)


def _take_file(gathered: _Gathered, file: Path) -> None:
    try:
        tables = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read the configuration {file}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} is not TOML: {error}") from None
    for section, table in tables.items():
        if section != "stores" and section not in KEYS:
            raise unknown(str(file), "section", section, [*KEYS, "stores"])
        if not isinstance(table, dict):
            raise ConfigError(f"{file}: {section} must be a table, [{section}], not {_quote(table)}")
        for name, plain in table.items():
            if section == "stores":
                if not isinstance(plain, dict):
                    raise ConfigError(f"{file}: stores.{name} must be a table, [stores.{name}], not {_quote(plain)}")
                gathered.store(name, plain, str(file), text=False)
                continue
            key = KEYS[section].get(name)
            if key is None:
                raise unknown(f"{file} [{section}]", "key", name, KEYS[section])
            gathered.say(key.path, read(key, plain, f"{file} [{section}]", text=False), str(file))


def load(
    flags: Mapping[str, str | None] | None = None,
    environment: Mapping[str, str] | None = None,
    file: str | Path | None = None,
    *,
    flag_names: Mapping[str, str] | None = None,
) -> Config:
    """Gather, check, build. `flags`: by path, as text; None is not given. `file` "" or None: that of PINFOLD_CONFIG, if any.

    Raises ConfigError: one sentence, exit code 2.
    """
    gathered = _Gathered()
    environment = environment or {}
    _take_flags(gathered, flags or {}, flag_names or {})
    _take_environment(gathered, environment)
    file = file or environment.get(FILE_VARIABLE)
    if file:
        _take_file(gathered, Path(file))
    values, origins = {}, {}
    for key in (key for keys in KEYS.values() for key in keys.values()):
        values[key.path] = gathered.values.get(key.path, key.default)
        origins[key.path] = gathered.origins.get(key.path, "default")
    for name in gathered.stores:
        for key in STORE_KEYS.values():
            path = f"stores.{name}.{key.name}"
            if key.name == "path" and path not in gathered.values:
                raise ConfigError(f"store {name!r} needs a path: say stores.{name}.path")
            values[path] = gathered.values.get(path, key.default)
            origins[path] = gathered.origins.get(path, "default")
    _check(values, origins)
    return Config(_build(values, list(gathered.stores)), values, origins)


# ---- what must fit together ----------------------------------------------------------------------------------

_RISING: Final = (
    ("directory.low", "directory.high"),
    ("node.low_percent", "node.high_percent"),
    ("directory.session_lease_min", "directory.session_lease_max"),
    ("directory.shard", "directory.shards"),
    ("node.heartbeat", "directory.node_lease"),
    ("client.backoff", "client.backoff_max"),
)  # fmt: skip
"""The first must be less than the second."""


def _check(values: Mapping[str, Any], origins: Mapping[str, str]) -> None:
    for low, high in _RISING:
        if values[low] >= values[high]:
            where = origins[low] if origins[low] != "default" else origins[high]
            texts = [show(key_at(path), values[path]) for path in (low, high)]
            raise ConfigError(f"{where}: {low} ({texts[0]}) must be less than {high} ({texts[1]})")
    name = values["node.name"]
    if not NAME.fullmatch(name):
        raise ConfigError(f"{origins['node.name']}: node.name must be letters, digits, '-', '_' and '.', not {name!r}")
    for path in ("directory.bind", "directory.advertise", "node.bind", "node.advertise"):
        _check_endpoint(path, values[path], origins[path], needed=path.endswith("bind"))
    for path in ("node.directories", "client.endpoints"):
        for endpoint in values[path]:
            _check_endpoint(path, endpoint, origins[path], needed=True)
    if max(values["node.dram"], values["node.ssd"]) < values["blocks.bytes"]:
        raise ConfigError("a node needs a tier: node.dram or node.ssd must have room for one block (blocks.bytes)")


_ENDPOINT: Final = re.compile(r"tcp://(\[[0-9a-fA-F:]+\]|[\w.*-]+):(\d{1,5})|ipc://.+")


def _check_endpoint(path: str, endpoint: str, origin: str, *, needed: bool) -> None:
    match = _ENDPOINT.fullmatch(endpoint)
    fits = match is not None and (match[2] is None or int(match[2]) <= 65_535)
    if not fits and (needed or endpoint):
        raise ConfigError(f"{origin}: {path} must be an endpoint such as tcp://127.0.0.1:7400, not {endpoint!r}")


def _build(values: Mapping[str, Any], stores: list[str]) -> Settings:
    parts: dict[str, Any] = {}
    for section, kind in SECTIONS.items():
        own = {key.field for key in KEYS[section].values()} & {attribute.name for attribute in kind.__attrs_attrs__}  # type: ignore[attr-defined]
        given = {key.field: values[key.path] for key in KEYS[section].values()}
        parts[section] = kind(**{name: value for name, value in given.items() if name in own})
        if section in LIMITS:
            limits = {name: value for name, value in given.items() if name not in own}
            if "degradation" in limits:
                limits["degradation"] = Degradation[limits["degradation"].upper()]
            parts[f"{section}_limits"] = limits
    parts["stores"] = {
        name: StoreSettings(**{key.field: values[f"stores.{name}.{key.name}"] for key in STORE_KEYS.values()}) for name in stores
    }
    return Settings(**parts)


def dump(values: Mapping[str, Any]) -> str:
    """Values by path as TOML. A JSON string is a TOML string, as long as it has no surrogates."""
    lines: list[str] = []
    last = ""
    sections = list(dict.fromkeys(path.rpartition(".")[0] for path in values))
    for path, value in sorted(values.items(), key=lambda item: sections.index(item[0].rpartition(".")[0])):
        section, _, name = path.rpartition(".")
        if section != last:
            lines += [""] if lines else []
            table = ".".join(part if "." not in part else json.dumps(part) for part in section.split(".", 1))
            lines.append(f"[{table}]")
            last = section
        key = key_at(path)
        if key.kind in (Kind.COUNT, Kind.FLAG):
            text = show(key, value)
        elif key.kind is Kind.LIST:
            text = json.dumps(list(value), ensure_ascii=False)
        else:
            text = json.dumps(show(key, value), ensure_ascii=False)
        lines.append(f"{name} = {text}")
    return "\n".join(lines) + "\n"
