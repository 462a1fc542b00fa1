"""What byte work does to the cells of a world, when it begins, when it completes, and when its process dies under it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attrs import define

from ..core import events
from ..core.effects import (
    CloneInstance,
    Instance,
    ListStore,
    LoadBlocks,
    ReleaseInstance,
    StoreBlocks,
    Transfer,
    VerifyInstance,
)
from ..core.errors import InvariantViolation
from ..core.ids import NO_COPY, CopyId, GroupId, Reason, Tier
from . import memory
from .memory import ROTTEN, SOILED, Cells, cells_of, cells_of_file, found, put, without

Files = dict[tuple[str, CopyId], tuple[int, bytes]]
"""Whole files of tiers that outlive a process: `(tier, copy)` -> `(group, manifest)`."""

LASTING = Tier.SSD


@define
class Done:
    """The end of a piece of byte work."""

    event: events.Completion
    cells: Cells
    files: Files
    store: Cells


def begun(cells: Cells, works: Iterable[Transfer]) -> Cells:
    """What is destroyed as soon as it is asked for."""
    for work in works:
        if isinstance(work, StoreBlocks):
            where = cells_of(work.instance, len(work.spec.sizes))
            cells = put(cells, [where[block] for block in work.blocks], SOILED)
        elif isinstance(work, CloneInstance) and not work.target.place:
            cells = put(cells, cells_of(work.target, len(work.spec.sizes)), SOILED)
        elif isinstance(work, ReleaseInstance) and work.instance.slots:
            cells = without(cells, cells_of(work.instance, 0))
    return cells


def finish(
    work: Transfer, way: str, cells: Cells, files: Files, store: Cells, group_at: Mapping[GroupId, int], injured: bool
) -> Done:
    """Byte work completes: well (`way` ""), `fails`, or `rots`."""
    copy = NO_COPY
    if isinstance(work, CloneInstance):
        copy = work.target.copy
    elif not isinstance(work, ListStore):
        copy = work.instance.copy
    if way == "fails":
        return Done(events.WorkFailed(work.job, copy, Reason.FAILED), cells, files, store)
    if isinstance(work, StoreBlocks):
        where = cells_of(work.instance, len(work.spec.sizes))
        after = dict(cells)
        for block, checksum in zip(work.blocks, work.checksums, strict=True):
            after[where[block]] = ROTTEN if way else checksum
        return Done(events.BlocksStored(work.job, copy), after, files, store)
    if isinstance(work, VerifyInstance):
        return _verified(work, cells, files, store, group_at)
    if isinstance(work, LoadBlocks):
        return _loaded(work, way, cells, files, store, injured)
    if isinstance(work, CloneInstance):
        return _cloned(work, cells, files, store, group_at, injured)
    if isinstance(work, ReleaseInstance):
        return _released(work, cells, files, store)
    assert isinstance(work, ListStore)
    objects = sorted({CopyId(0, revision, ordinal) for place, revision, ordinal, _ in store if place == work.store})
    return Done(events.StoreListed(work.job, work.store, tuple(objects)), cells, files, store)


def _publish(files: Files, instance: Instance, group: int, manifest: bytes) -> Files:
    if instance.tier is not LASTING:
        return files
    return {**files, (instance.tier.name, instance.copy): (group, manifest)}


def _verified(work: VerifyInstance, cells: Cells, files: Files, store: Cells, group_at: Mapping[GroupId, int]) -> Done:
    values = found(cells, cells_of(work.instance, len(work.spec.sizes)))
    copy = work.instance.copy
    if values is None or memory.manifest_of(work.spec, values) != work.manifest:
        return Done(events.WorkFailed(work.job, copy, Reason.CORRUPT), cells, files, store)
    files = _publish(files, work.instance, group_at[work.spec.group], work.manifest)
    return Done(events.InstanceVerified(work.job, copy, work.manifest), cells, files, store)


def _loaded(work: LoadBlocks, way: str, cells: Cells, files: Files, store: Cells, injured: bool) -> Done:
    where = cells_of(work.instance, len(work.spec.sizes))
    wanted = [where[block] for block in work.blocks]
    if way:
        cells = put(cells, wanted, ROTTEN)
    values = found(cells, wanted)
    if values is None or (SOILED in values and not injured):
        raise InvariantViolation("USE-1", f"the bytes of {work.instance.copy} went under a running load")
    return Done(events.BlocksLoaded(work.job, work.instance.copy, values), cells, files, store)


def _cloned(
    work: CloneInstance, cells: Cells, files: Files, store: Cells, group_at: Mapping[GroupId, int], injured: bool
) -> Done:
    blocks = len(work.spec.sizes)
    copy = work.target.copy
    values = found(store if work.source.place else cells, cells_of(work.source, blocks))
    if values is None:
        if not work.source.place and not injured:
            raise InvariantViolation("USE-1", f"the bytes of {work.source.copy} went under a running clone")
        return Done(events.WorkFailed(work.job, copy, Reason.LOST), cells, files, store)
    cells, store = _copied(work, values, cells, store)
    if memory.manifest_of(work.spec, values) != work.manifest:
        return Done(events.WorkFailed(work.job, copy, Reason.CORRUPT), cells, files, store)
    if not work.target.place:
        files = _publish(files, work.target, group_at[work.spec.group], work.manifest)
    return Done(events.InstanceCloned(work.job, copy, work.manifest), cells, files, store)


def _copied(work: CloneInstance, values: tuple[int, ...], cells: Cells, store: Cells) -> tuple[Cells, Cells]:
    where = cells_of(work.target, len(values))
    after = dict(store if work.target.place else cells)
    after.update(zip(where, values, strict=True))
    return (cells, after) if work.target.place else (after, store)


def _released(work: ReleaseInstance, cells: Cells, files: Files, store: Cells) -> Done:
    instance = work.instance
    copy = instance.copy
    if instance.place:
        store = without(store, cells_of_file(store, str(instance.place), copy))
    elif instance.slots:
        cells = without(cells, cells_of(instance, 0))
    else:
        cells = without(cells, cells_of_file(cells, instance.tier.name, copy))
        files = {key: what for key, what in files.items() if key != (instance.tier.name, copy)}
    return Done(events.InstanceReleased(work.job, copy), cells, files, store)


def landed(work: Transfer, cells: Cells, files: Files, store: Cells) -> tuple[Cells, Files, Cells]:
    """Byte work whose process died lands all the same, where that leaves a trace: in a store, or as a file that is gone."""
    if isinstance(work, ReleaseInstance) and not work.instance.slots:
        done = _released(work, cells, files, store)
        return done.cells, done.files, done.store
    if isinstance(work, CloneInstance) and work.target.place:
        values = found(cells, cells_of(work.source, len(work.spec.sizes)))
        if values is not None:
            return cells, files, _copied(work, values, cells, store)[1]
    return cells, files, store
