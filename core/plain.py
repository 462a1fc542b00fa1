"""Plain form: any event, effect or record as nested tuples of int, str, bytes, bool, float and None; and back, checked.

One converter serves the wire, the stores, digests and a model checker's keys, so that they cannot disagree about what a
value is. It is driven by the attrs field types: an attrs class becomes the tuple of its fields; where a field's type is a
union of classes, the tuple is preceded by the class name. `Any` fields (payload buffers) are left out: they travel beside.

`unpack` trusts nothing: a wrong type, length, enum value or class name is a `PlainError` that names the path.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable
from enum import IntEnum
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import attrs

from .errors import PeerError

T = TypeVar("T")
Plain = Any
Convert = Callable[[Any], Any]

INT_MAX = 2**63 - 1
"""Largest integer that the plain form carries; ids, counts, times and revisions all fit."""


class PlainError(PeerError):
    """Raised when plain data does not have the shape of the class that was asked for. The sender's fault."""


_packers: dict[Any, Convert] = {}
_unpackers: dict[Any, Convert] = {}


def pack(value: Any) -> Plain:
    """`value`, an instance of an attrs class, as the tuple of its fields."""
    return packer(type(value))(value)


def unpack(kind: type[T], plain: Plain) -> T:
    """An instance of `kind` from what `pack` gave (lists may stand for tuples). Raises `PlainError`."""
    return typing.cast(T, unpacker(kind)(plain))


def packer(kind: Any) -> Convert:
    """The compiled packer of an attrs class or of a field type."""
    found = _packers.get(kind)
    if found is None:
        found = _packers[kind] = _make_packer(kind)
    return found


def unpacker(kind: Any) -> Convert:
    """The compiled, checking unpacker of an attrs class or of a field type."""
    found = _unpackers.get(kind)
    if found is None:
        found = _unpackers[kind] = _make_unpacker(kind)
    return found


def fields_of(kind: type) -> list[tuple[str, Any]]:
    """`(name, type)` of the fields that take part, in order: all but `Any` payloads."""
    hints = get_type_hints(kind)
    return [(field.name, hints[field.name]) for field in attrs.fields(kind) if not _is_payload(hints[field.name])]


def payload_fields(kind: type) -> list[str]:
    """Names of the fields that carry buffers and travel beside the plain form."""
    hints = get_type_hints(kind)
    return [field.name for field in attrs.fields(kind) if _is_payload(hints[field.name])]


def _is_payload(hint: Any) -> bool:
    return hint is Any or (get_origin(hint) is tuple and Any in get_args(hint))


def _base(hint: Any) -> Any:
    while hasattr(hint, "__supertype__"):
        hint = hint.__supertype__
    return hint


def _members(hint: Any) -> list[Any] | None:
    """The members of a union of two or more classes, flattened; None for anything else."""
    if get_origin(hint) in (Union, types.UnionType):
        flat: list[Any] = []
        for arg in get_args(hint):
            flat.extend(_members(arg) or [arg])
        return flat
    return None


def _is_named_tuple(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, tuple) and hasattr(hint, "_fields")


# ---- packing -------------------------------------------------------------------------------------------------


def _same(value: Any) -> Any:
    return value


def _make_packer(hint: Any) -> Convert:
    hint = _base(hint)
    members = _members(hint)
    if members is not None:
        return _pack_union(members)
    if hint in (int, str, bytes, bool, float, type(None)):
        return _same
    if isinstance(hint, type) and issubclass(hint, IntEnum):
        return int
    if _is_named_tuple(hint):
        return tuple
    if get_origin(hint) is tuple:
        return _pack_tuple(get_args(hint))
    if attrs.has(hint):
        return _pack_class(hint)
    raise TypeError(f"plain form has no rule for {hint!r}")


def _pack_union(members: list[Any]) -> Convert:
    kinds = [m for m in members if m is not type(None)]
    if len(kinds) == 1:
        inner = packer(kinds[0])
        return lambda value: None if value is None else inner(value)

    def pack_tagged(value: Any) -> Any:
        if value is None:
            return None
        return (type(value).__name__, packer(type(value))(value))

    return pack_tagged


def _pack_tuple(args: tuple[Any, ...]) -> Convert:
    if len(args) == 2 and args[1] is Ellipsis:
        inner = packer(args[0])
        if inner in (_same, int):
            return tuple
        return lambda value: tuple([inner(item) for item in value])
    inners = [packer(arg) for arg in args]
    return lambda value: tuple([pack_one(item) for pack_one, item in zip(inners, value, strict=True)])


def _pack_class(kind: Any) -> Convert:
    plan = [(name, packer(hint)) for name, hint in fields_of(kind)]
    names = [(name, None if convert is _same else convert) for name, convert in plan]

    def pack_fields(value: Any) -> Any:
        return tuple([getattr(value, name) if convert is None else convert(getattr(value, name)) for name, convert in names])

    return pack_fields


# ---- unpacking -----------------------------------------------------------------------------------------------


def _make_unpacker(hint: Any) -> Convert:
    hint = _base(hint)
    members = _members(hint)
    if members is not None:
        return _unpack_union(members)
    if hint is int:
        return _unpack_int
    if hint in (str, bytes, bool, float, type(None)):
        return _unpack_exact(hint)
    if isinstance(hint, type) and issubclass(hint, IntEnum):
        return _unpack_enum(hint)
    if _is_named_tuple(hint):
        return _unpack_named_tuple(hint)
    if get_origin(hint) is tuple:
        return _unpack_tuple(get_args(hint))
    if attrs.has(hint):
        return _unpack_class(hint)
    raise TypeError(f"plain form has no rule for {hint!r}")


def _unpack_int(plain: Any) -> int:
    if type(plain) is not int or not -INT_MAX <= plain <= INT_MAX:
        raise PlainError(f"expected an integer of at most 63 bits, got {_show(plain)}")
    return plain


def _unpack_exact(kind: type) -> Convert:
    def unpack_exact(plain: Any) -> Any:
        if type(plain) is not kind:
            raise PlainError(f"expected {kind.__name__}, got {_show(plain)}")
        return plain

    return unpack_exact


def _unpack_enum(kind: type[IntEnum]) -> Convert:
    by_value = {int(member): member for member in kind}

    def unpack_enum(plain: Any) -> Any:
        member = by_value.get(plain) if type(plain) is int else None
        if member is None:
            raise PlainError(f"expected a {kind.__name__}, got {_show(plain)}")
        return member

    return unpack_enum


def _unpack_named_tuple(kind: Any) -> Convert:
    hints = get_type_hints(kind)
    inner = _unpack_tuple(tuple(hints[name] for name in kind._fields))
    return lambda plain: kind(*inner(plain))


def _sequence(plain: Any) -> Any:
    if type(plain) not in (list, tuple):
        raise PlainError(f"expected a sequence, got {_show(plain)}")
    return plain


def _unpack_tuple(args: tuple[Any, ...]) -> Convert:
    if len(args) == 2 and args[1] is Ellipsis:
        inner = unpacker(args[0])
        return lambda plain: tuple([inner(item) for item in _sequence(plain)])
    inners = [unpacker(arg) for arg in args]

    def unpack_fixed(plain: Any) -> Any:
        if len(_sequence(plain)) != len(inners):
            raise PlainError(f"expected {len(inners)} items, got {len(plain)}")
        return tuple([convert(item) for convert, item in zip(inners, plain, strict=True)])

    return unpack_fixed


def _unpack_union(members: list[Any]) -> Convert:
    optional = type(None) in members
    kinds = [m for m in members if m is not type(None)]
    single = unpacker(kinds[0]) if len(kinds) == 1 else None
    by_name = {kind.__name__: kind for kind in kinds} if single is None else {}

    def unpack_union(plain: Any) -> Any:
        if plain is None and optional:
            return None
        if single is not None:
            return single(plain)
        tagged = _sequence(plain)
        if len(tagged) != 2 or type(tagged[0]) is not str or tagged[0] not in by_name:
            raise PlainError(f"expected one of {', '.join(by_name)}, got {_show(plain)}")
        return unpacker(by_name[tagged[0]])(tagged[1])

    return unpack_union


def _unpack_class(kind: Any) -> Convert:
    plan = [(name, unpacker(hint)) for name, hint in fields_of(kind)]

    def unpack_class(plain: Any) -> Any:
        if len(_sequence(plain)) != len(plan):
            raise PlainError(f"{kind.__name__}: expected {len(plan)} fields, got {len(plain)}")
        values = []
        for (name, convert), item in zip(plan, plain, strict=True):
            try:
                values.append(convert(item))
            except PlainError as error:
                raise PlainError(f"{kind.__name__}.{name}: {error}") from None
        return kind(*values)

    return unpack_class


def _show(plain: Any) -> str:
    text = repr(plain)
    return text if len(text) <= 60 else text[:57] + "..."
