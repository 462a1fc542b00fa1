"""A second opinion on the table: the same rows as a machine of the `transitions` library, and cases for all that guards can say.

The library decides, from the table's data alone, whether an event is legal, which guard refuses it, and where it ends. Where a
row may end in more than one state, the choice is stated here once more, in words of our own (`lands_in`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any, Final

from attrs import define, field
from transitions import Machine, MachineError

from pinfold.core.ids import NO_COPY, CopyId, MovePolicy, NodeName, Role, State, Tier
from pinfold.core.rows import Facts
from pinfold.core.state import Copy, Group
from pinfold.core.table import ROWS, On, Row, find

from .directory_world import MANIFEST, OTHER_MANIFEST, spec_of

SUBJECT = CopyId(0, 10, 0)
ELSE = CopyId(0, 11, 0)
SPARE = CopyId(0, 12, 0)
EPOCH, NOW, REVISION = 20, 1_000, 50
HERE = NodeName("n1")


@define
class Case:
    """One record, one copy concerned, and the numbers beside them, as plain fields that can be set one by one."""

    group: dict[str, Any] = field(factory=dict)
    copy: dict[str, Any] = field(factory=dict)
    facts: dict[str, Any] = field(factory=dict)

    def g(self) -> Group:
        return Group(**self.group)

    def c(self) -> Copy:
        return Copy(**self.copy)

    def k(self) -> Facts:
        return Facts(**self.facts)


def blank(row: Row, role: Role) -> Case:
    """A case of a row in which nothing is said by any guard yet."""
    replica_in_the_making = row.on in (On.COPY_DONE, On.ENDED) and row.role is Role.REPLICA
    moving = row.state in (State.MIGRATING_OUT, State.MIGRATING_IN)
    target = SUBJECT if row.on in (On.COPY_DONE, On.ENDED, On.SEALED) else ELSE
    if replica_in_the_making or not (moving or row.state is State.WRITING):
        target = ELSE if moving else NO_COPY
    spec = spec_of("oracle")
    group = {
        "id": spec.group, "spec": spec, "state": row.state, "epoch": EPOCH, "version": 3, "manifest": MANIFEST, "target": target,
    }  # fmt: skip
    copy = {
        "id": SUBJECT, "node": HERE, "store": False, "tier": Tier.DRAM, "slots": 1,
        "role": Role.INCOMING if replica_in_the_making else role,
    }  # fmt: skip
    return Case(group, copy, {"revision": REVISION, "now": NOW, "manifest": MANIFEST, "authority": ELSE})


def _set(part: str, name: str, yes: Any, no: Any) -> Callable[[Case, bool], None]:
    def put(case: Case, says: bool) -> None:
        getattr(case, part)[name] = yes if says else no

    return put


def _can_be_read(case: Case, says: bool) -> None:
    case.copy["absent"] = not says


def _present(case: Case, says: bool) -> None:
    case.facts["authority_absent"] = not says


def _policy(case: Case, says: bool) -> None:
    if case.facts.get("policy") is not MovePolicy.RECOMPUTE:
        case.facts["policy"] = MovePolicy.SOURCE if says else MovePolicy.WAIT


def _last(case: Case, says: bool) -> None:
    case.facts["refs"], case.facts["readable"] = (0, 1) if says else (1, 0)


def _grace(case: Case, says: bool) -> None:
    case.copy["due"] = NOW if says else NOW + 1


def _nothing(case: Case, says: bool) -> None:
    """What the role of the copy concerned, or the row, says by itself."""


SETTERS: Final[dict[str, Callable[[Case, bool], None]]] = {
    "is_target": _set("group", "target", SUBJECT, ELSE),
    "is_incoming": _nothing,
    "matches_manifest": _set("facts", "manifest", MANIFEST, OTHER_MANIFEST),
    "not_leaving": _set("group", "leaving", False, True),
    "copy_is_readable": _can_be_read,
    "some_copy_readable": _set("facts", "readable", 1, 0),
    "nothing_readable": _set("facts", "readable", 0, 1),
    "not_being_brought": _set("facts", "authority", ELSE, NO_COPY),
    "policy_allows_moving": _policy,
    "not_recompute": _set("facts", "policy", MovePolicy.SOURCE, MovePolicy.RECOMPUTE),
    "epoch_as_expected": _set("facts", "wanted_epoch", EPOCH, EPOCH - 1),
    "authority_present": _present,
    "unpinned_or_allowed": _set("facts", "readable_pins", 0, 1),
    "unpinned": _set("facts", "readable_pins", 0, 1),
    "unreferenced": _set("facts", "refs", 0, 1),
    "backed_off": _set("group", "move_after", NOW, NOW + 1),
    "not_at_target": _set("facts", "at_target", False, True),
    "has_room": _set("facts", "room", True, False),
    "target_is_node": _set("copy", "store", False, True),
    "can_take_over": _can_be_read,
    "is_replica": _nothing,
    "not_last_readable": _last,
    "no_pins_on_it": _set("facts", "pins", 0, 1),
    "grace_over": _grace,
    "not_the_last": _set("facts", "readable", 1, 0),
    "is_absent": _set("copy", "absent", True, False),
    "list_empty": _set("facts", "others", 0, 1),
}
"""How to make each guard say yes or no."""

DIMENSIONS: Final[dict[On, dict[str, tuple[tuple[str, str, Any], ...]]]] = {
    On.ADOPT: {"store": (("copy", "store", False), ("copy", "store", True))},
    On.COPY_DONE: {"store": (("copy", "store", False), ("copy", "store", True))},
    On.ENDED: {
        "gone": (("facts", "gone", False), ("facts", "gone", True)),
        "others": (("facts", "others", 0), ("facts", "others", 1)),
        "authority": (("facts", "authority", ELSE), ("facts", "authority", NO_COPY)),
        "promote": (("facts", "promote", NO_COPY), ("facts", "promote", SPARE)),
        "kind": (("facts", "promote_store", False), ("facts", "promote_store", True)),
    },
    On.EVICT: {"others": (("facts", "others", 0), ("facts", "others", 1))},
    On.DUE: {
        "absent": (("copy", "absent", False), ("copy", "absent", True)),
        "others": (("facts", "others", 0), ("facts", "others", 1)),
    },
    On.GONE: {
        "others": (("facts", "others", 0), ("facts", "others", 1)),
        "promote": (("facts", "promote", NO_COPY), ("facts", "promote", SPARE)),
        "kind": (("facts", "promote_store", False), ("facts", "promote_store", True)),
        "target": (("group", "target", NO_COPY), ("group", "target", ELSE)),
    },
}
"""What else decides where a row ends: for each event the values that are tried, in every combination."""


def cases(row: Row) -> Iterator[tuple[Case, Role, dict[str, bool]]]:
    """Every combination of what a row's guards can say and of what decides its end, for each role that it speaks of.

    A combination that no record can have (a FREEING copy that is readable), or that is another row's, is left out.
    """
    for role in Role if row.role is None else (row.role,):
        dimensions = DIMENSIONS.get(row.on, {})
        for says in product((True, False), repeat=len(row.guards)):
            for values in product(*dimensions.values()):
                case = blank(row, role)
                for part, name, value in values:
                    getattr(case, part)[name] = value
                for guard, yes in zip(row.guards, says, strict=True):
                    SETTERS[guard.name](case, yes)
                g, c, k = case.g(), case.c(), case.k()
                wanted = {guard.name: yes for guard, yes in zip(row.guards, says, strict=True)}
                if find(g, row.on, c) is row and wanted == {guard.name: guard.check(g, c, k) for guard in row.guards}:
                    yield case, role, wanted


# ---- where a row ends ----------------------------------------------------------------------------------------


def lands_in(row: Row, case: Case) -> State:
    """The state in which a row with several ends must end, told from the rules of design section 5."""
    if len(row.to) == 1:
        return row.to[0]
    k, c = case.k(), case.c()
    if row.on in (On.ADOPT, On.COPY_DONE):
        return State.REMOTE if c.store else State.LOCAL
    leaves = k.gone or row.on is On.GONE or (row.on is On.DUE and c.absent)
    emptied = State.EVICTED if k.others == 0 and (leaves or row.on is On.EVICT) else State.EVICTING
    promoted = State.REMOTE if k.promote_store else State.LOCAL
    if row.on is On.ENDED and row.state is not State.WRITING:
        if k.authority != NO_COPY:
            return {State.MIGRATING_OUT: State.LOCAL, State.MIGRATING_IN: State.REMOTE}[row.state]
        return promoted if k.promote != NO_COPY else emptied
    if row.on is On.GONE and c.role is Role.AUTHORITATIVE:
        if k.promote != NO_COPY:
            return promoted
        return row.state if case.group["target"] != NO_COPY else emptied
    return emptied


# ---- the machine ---------------------------------------------------------------------------------------------


class Oracle:
    """A model of the `transitions` library. `says` is what each guard says, `end` the state that the row is to end in."""

    def __init__(self) -> None:
        self.says: dict[str, bool] = {}
        self.end = ""
        self.refusal = ""
        self.machine = Machine(self, states=[state.name for state in State], initial=State.EVICTED.name, auto_transitions=False)
        for row in ROWS:
            for role in Role if row.role is None else (row.role,):
                self._add(row, trigger_of(row.on, role))

    def _add(self, row: Row, trigger: str) -> None:
        """For each guard a transition to nowhere that names its refusal, then one for each end."""
        asked: list[Callable[[], bool]] = []
        for guard in row.guards:
            says = self._answer(guard.name)
            refuse = self._refuse(guard.refusal)
            self.machine.add_transition(trigger, row.state.name, None, conditions=list(asked), unless=[says], after=refuse)
            asked.append(says)
        for target in row.to:
            self.machine.add_transition(trigger, row.state.name, target.name, conditions=[*asked, self._ends_in(target.name)])

    def _answer(self, name: str) -> Callable[[], bool]:
        return lambda: self.says[name]

    def _ends_in(self, name: str) -> Callable[[], bool]:
        return lambda: self.end == name

    def _refuse(self, word: str) -> Callable[[], None]:
        def refuse() -> None:
            self.refusal = word

        return refuse

    def verdict(self, state: State, on: On, role: Role, says: dict[str, bool], end: State) -> tuple[str, State]:
        """`(refusal, state after)`; refusal "" when it happens, "no row" when it is not legal."""
        self.says, self.end, self.refusal = says, end.name, ""
        self.machine.set_state(state.name)
        try:
            happened = self.trigger(trigger_of(on, role))  # type: ignore[attr-defined]
        except (MachineError, AttributeError):
            return "no row", state
        assert happened, f"{state.name}/{on.name}/{role.name} has no transition to {end.name}"
        return self.refusal, State[self.state]  # type: ignore[attr-defined]


def trigger_of(on: On, role: Role) -> str:
    return f"{on.name}_{role.name}"
