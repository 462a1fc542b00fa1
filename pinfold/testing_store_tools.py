"""What the parts of the conformance kit for stores share: exact comparison, and the hooks that a subclass gives."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any
from unittest import SkipTest

from pinfold.backends.base import MetadataStore
from pinfold.backends.memory import Fault
from pinfold.core.driver import Outcome

from .testing_records import KIT_SCHEMA


def check(condition: bool, message: str) -> None:
    """An assertion that also holds under `python -O`."""
    if not condition:
        raise AssertionError(message)


def same(got: Any, wanted: Any, what: str) -> None:
    """Equal, and of the same types all the way down: 1, 1.0 and True are equal and not the same."""
    check(got == wanted and typed(got) == typed(wanted), f"{what}: {str(got)[:200]} instead of {str(wanted)[:200]}")


def typed(value: Any) -> Any:
    """`value` with the name of each type in it. Named tuples and enums in records keep their types."""
    if isinstance(value, dict):
        return {(typed(key), key): typed(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return (type(value).__name__, tuple(typed(item) for item in value))
    fields = getattr(type(value), "__attrs_attrs__", None)
    if fields is not None:
        return (type(value).__name__, tuple(typed(getattr(value, field.name)) for field in fields))
    return type(value).__name__


def refused(call: Callable[[], Any], kind: type[Exception], what: str) -> None:
    """`call` must raise `kind`."""
    try:
        got = call()
    except kind:
        return
    raise AssertionError(f"{what}: answered {got!r} instead of raising {kind.__name__}")


def run_store_kit(kit: StoreKit) -> dict[str, str]:
    """Run all tests of `kit`: the names of those that failed, with what they said. Skipped ones are not in it."""
    failed = {}
    for name in sorted(name for name in dir(kit) if name.startswith("test_")):
        try:
            getattr(kit, name)()
        except SkipTest:
            continue
        except Exception as error:  # noqa: BLE001 - a store under test may raise anything, and that is a failure too
            failed[name] = f"{type(error).__name__}: {error}"
    return failed


class StoreKit(ABC):
    """Three hooks that a subclass must give, two that it may. Stores that a failed test leaves open are left to the subclass."""

    # ---- what a subclass gives -------------------------------------------------------------------------------

    @abstractmethod
    def make_store(self, schema: Mapping[str, Any]) -> MetadataStore:
        """A new, empty store for `schema`, apart from every other."""

    @abstractmethod
    def reopen(self, store: MetadataStore) -> MetadataStore:
        """Close `store` in good order and open the same again."""

    @abstractmethod
    def crash(self, store: MetadataStore) -> MetadataStore:
        """End `store` as a power cut would, at this instant, and open what is left."""

    def usurp(self, store: MetadataStore, term: int) -> None:
        """Another writer claims `term` on the same store, past any lock, while `store` stays open."""
        raise SkipTest("this store cannot be opened by a second writer here")

    def inject(self, store: MetadataStore, fault: Fault) -> None:
        """The next commit of `store` meets `fault`."""
        raise SkipTest("this store has no faults to inject here")

    # ---- tools -----------------------------------------------------------------------------------------------

    def new(self) -> MetadataStore:
        return self.make_store(KIT_SCHEMA)

    def put(self, store: MetadataStore, *writes: tuple[str, Any, Any]) -> None:
        outcome = store.commit(list(writes))
        check(outcome is Outcome.DONE, f"a commit on a healthy store was answered {outcome!r} ({store.failure})")

    def rows(self, store: MetadataStore, table: str) -> dict[Any, Any]:
        return store.load().get(table, {})

    def holds(self, store: MetadataStore, table: str, wanted: Mapping[Any, Any], what: str) -> None:
        same(self.rows(store, table), dict(wanted), what)
