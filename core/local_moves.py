"""Moves between a node's own tiers (rule 12): no directory, no new copy id, no new epoch.

    one VERIFIED place  ->  a second one FILLING beside it  ->  the second VERIFIED, the first RETIRING  ->  one place

Both places count until the first is released, which is what the slack of `NodeConfig.capacity` is for; so a copy is moving
until it has one place again, and only `local_moves_max` are. A failed move costs nothing but its work.
"""

from __future__ import annotations

from .effects import CloneInstance
from .errors import InvariantViolation
from .events import InstanceCloned, WorkFailed
from .freeing import place_is_bad, settle
from .guards import stays
from .ids import CopyId, Reason, Tier
from .node_state import Copy, Kind, LocalMove, Place, Stage, TierRoom, Work, place_of
from .node_turn import Turn
from .records import evolve
from .reports import Condition, TierChanged

CANDIDATES_MAX = 64
"""Copies looked at, from the coldest, for one that may go down: guarded and large ones are passed over, not searched beyond."""


def relieve(turn: Turn) -> None:
    """Start demotions while a tier is pressed. Called at the end of each step that changed something."""
    state, config = turn.state, turn.config
    if state.fenced:
        return
    for index, room in enumerate(config.tiers[:-1]):
        if not _is_pressed(turn, room) or state.move_again_at > turn.now:
            continue
        while len(state.moves) < config.local_moves_max and _is_pressed(turn, room):
            if not _demote_one(turn, room, config.tiers[index + 1 :]):
                break


def _is_pressed(turn: Turn, room: TierRoom) -> bool:
    """Above high, or on the way from high to low. Slots that are leaving already don't press."""
    state = turn.state
    leaving = sum(
        len(state.copies[move.copy].spec.sizes) for move in state.moves.values() if move.source == room.tier
    )
    staying = (state.slots[room.tier].used - leaving) * 100
    pressed = state.pressed[room.tier]
    if staying > room.high_percent * room.slots:
        pressed = True
    elif staying <= room.low_percent * room.slots:
        pressed = False
    if pressed != state.pressed[room.tier]:
        state.pressed[room.tier] = pressed
    return pressed


def _demote_one(turn: Turn, room: TierRoom, slower: tuple[TierRoom, ...]) -> bool:
    state = turn.state
    for seen, copy_id in enumerate(state.warmth[room.tier]):
        if seen >= CANDIDATES_MAX:
            break
        copy = state.copies[copy_id]
        if len(copy.places) != 1 or copy.places[0].guards:
            continue
        for target in slower:
            if _start(turn, copy, copy.places[0], target.tier):
                return True
    return False


def promote(turn: Turn, copy: Copy, tier: Tier) -> None:
    """After a read from `tier`: bring the copy to the fastest tier that stays below its low watermark with it."""
    state, config = turn.state, turn.config
    copy = state.copies[copy.copy]
    place = place_of(copy, tier)
    if not config.promote or state.fenced or place is None or len(copy.places) != 1:
        return
    if len(state.moves) >= config.local_moves_max or state.move_again_at > turn.now:
        return
    if stays(state, copy.copy):
        return
    for room in config.tiers:
        if room.tier == tier:
            return
        after = state.slots[room.tier].used + len(copy.spec.sizes)
        if after * 100 <= room.low_percent * room.slots and _start(turn, copy, place, room.tier):
            return


def _start(turn: Turn, copy: Copy, source: Place, tier: Tier) -> bool:
    target = turn.allocate(copy.copy, len(copy.spec.sizes), tier)
    if target is None:
        return False
    copy_id, source_tier = copy.copy, source.instance.tier
    turn.put(evolve(copy, places=(*copy.places, target)))
    turn.state.moves[copy_id] = LocalMove(copy_id, source_tier, tier)
    job = turn.begin(Kind.CLONE, copy_id, tier, ((copy_id, source_tier), (copy_id, tier)))
    turn.transfer(CloneInstance(job, source.instance, target.instance, copy.spec, copy.manifest))
    return True


def moved(turn: Turn, work: Work, event: InstanceCloned) -> None:
    """The second place is made. It takes over if the copy still wants it: not while it is being freed, and not from under
    somebody who keeps the copy where it is."""
    move = turn.state.moves[work.copy]
    copy = turn.state.copies[work.copy]
    source, target = place_of(copy, move.source), place_of(copy, move.target)
    if source is None or target is None:
        raise InvariantViolation("USE-1", f"a place of {copy.copy} went under the clone that guarded it")
    if copy.condition is Condition.VERIFIED and target.stage is Stage.FILLING:
        if event.manifest != copy.manifest or (source.stage is Stage.VERIFIED and stays(turn.state, copy.copy)):
            _give_up(turn, copy, target)
        else:
            copy = turn.set_place(copy, evolve(target, stage=Stage.VERIFIED))
            if source.stage is Stage.VERIFIED:
                turn.set_place(copy, evolve(source, stage=Stage.RETIRING))
            turn.tell(TierChanged(copy.copy, move.target), copy.copy.shard)
    settle(turn, work.copy)


def not_moved(turn: Turn, work: Work, event: WorkFailed) -> None:
    """The target goes. LOST and CORRUPT speak of the source: without this, a bad source would fail every move for ever."""
    copy = turn.state.copies[work.copy]
    move = turn.state.moves[work.copy]
    target = place_of(copy, move.target)
    if target is not None and target.stage is Stage.FILLING:
        _give_up(turn, copy, target)
    if event.reason in (Reason.LOST, Reason.CORRUPT):
        place_is_bad(turn, work.copy, move.source, event.reason)
    settle(turn, work.copy)


def _give_up(turn: Turn, copy: Copy, target: Place) -> None:
    turn.set_place(copy, evolve(target, stage=Stage.RETIRING))
    turn.state.move_again_at = turn.now + turn.config.move_retry_ms


def is_local(work: Work, copy: CopyId) -> bool:
    """Whether a clone is a move between tiers: both of its ends are the same copy."""
    return len(work.touches) == 2 and all(touched == copy for touched, _ in work.touches)
