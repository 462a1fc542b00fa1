"""The mutants of the casebook, as data: the case, the fault in one line, the switch. Run by `test_mutants_of_cases.py`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.cases import faults_holds as holds
from tests.cases import faults_leases as leases
from tests.cases import faults_moves as moves
from tests.cases import faults_node as node
from tests.cases import faults_places as places
from tests.cases import faults_rooms as rooms
from tests.cases import faults_routes as routes
from tests.cases.switches import Mutant as Mutant

MUTANTS: tuple[Mutant, ...] = (
    Mutant("C01", "a request's end releases only the groups that were read", holds.only_what_was_read),
    Mutant("C03", "a release of an unknown hold is a silent success", holds.unknown_release_is_silent),
    Mutant("C05", "a second release lowers the count, clamped at zero", holds.clamped_count),
    Mutant("C07", "the copy between tiers takes one more guard and keeps it", node.reference_in_the_codec),
    Mutant("C08", "a failed demotion is not cleaned up", node.no_cleanup_on_failure),
    Mutant("C09", "a move whose target has gone keeps its source and its state", holds.record_before_hold),
    Mutant("C12", "a copy that has gone is counted free once more", node.freed_again),
    Mutant("C13", "a copy is ordered to go whenever it is FREEING, not when it becomes so", holds.free_whenever_freeing),
    Mutant("C16", "a batch evicts past the guards", holds.batch_past_the_guards),
    Mutant("C17", "the source of a queued copy is let go at once", node.source_let_go_at_once),
    Mutant("C19", "a create gives no pin", holds.put_without_a_hold),
    Mutant("C21 a", "room is given back at the abort", node.freed_under_guards),
    Mutant("C21 b", "an abort always waits for one more completion", node.one_more_completion),
    Mutant("C22", "the deadline of a transfer only forgets that it was waited for", node.deadline_forgets_only),
    Mutant("C24", "bytes are free when one writer is left", node.freed_under_the_last_guard),
    Mutant("C25", "an abort returns the slots to the pool", node.slots_back_at_abort),
    Mutant("C26", "registrations are told apart by name only", node.peers_by_name),
    Mutant("C29", "the writer's word is taken for the end of its writes", node.books_are_believed),
    Mutant("C31", "waits are kept by copy and not by place", node.guards_by_name),
    Mutant("C32", "a fetch that ran out of room is given out", node.room_without_bytes),
    Mutant("C35", "what exists is told from the record's list and not from readable copies", moves.exists_by_the_record),
    Mutant("C36", "room on disk is counted when a file is published", node.counted_when_published),
    Mutant("C37", "a target that is being freed is in the way of the next move", moves.no_second_pull),
    Mutant("C38 a", "a move's commit is not durable at the directory", moves.commit_at_the_target_only),
    Mutant("C38 b", "old bytes are never the group's again", moves.retired_for_good),
    Mutant("C40", "a job that is ordered again overwrites what it has made", routes.overwrite_on_retry),
    Mutant("C41", "every end of a transfer is told as a success", node.every_end_is_done),
    Mutant("C42", "staging buffers are lent again as soon as the copy is queued", node.buffers_back_when_queued),
    Mutant("C43", "a node that finds a copy lost tells nobody", routes.loss_is_not_told),
    Mutant("C44", "a snapshot's place in the order is taken from its entries", routes.place_from_the_dump),
    Mutant("C45", "a batch stops at the first item that is refused", routes.batch_stops_at_the_first_no),
    Mutant("C47", "who has connected is believed to have heard everything", places.snapshot_at_once, slow=True),
    Mutant("C48", "numbers and terms are not compared", places.numbers_are_not_compared, slow=True),
    Mutant("C49", "the lease of a session that waits is not checked again", routes.leases_of_waiters_are_not_checked),
    Mutant("C50", "a node remembers the owner and not the highest number", routes.the_first_owner_is_remembered),
    Mutant("C52 a", "leases that were granted before a restart are not counted after it", leases.leases_end_with_the_term),
    Mutant("C52 b", "deadlines are reset on recovery", leases.starts_forget_what_starts_have_given),
    Mutant("C52 c", "the time that a dead holder's lease counts by is not kept", leases.time_of_waits_is_not_kept),
    Mutant("C54", "what was read is not compared after it was read", leases.checked_before_the_copy_only),
    Mutant("C55", "one way of reading is not checked", leases.one_way_is_not_checked),
    Mutant("C56", "recovery erases what has no live lease", leases.recovery_sweeps),
    Mutant("C57", "a node's no is logged and the call succeeds", leases.stale_is_a_success),
    Mutant("C59", "a deadline travels as an instant of the sender's clock", leases.instants_travel),
    Mutant("C61 a", "a node is told by its name only", leases.nodes_by_name),
    Mutant("C61 b", "whoever registers has the name", leases.the_last_word_has_the_name),
    Mutant("C60 a", "the room of a writer that may still write is given to others", routes.takeover_frees_the_room),
    Mutant("C60 b", "any client may end a write", routes.anybody_may_end),
    Mutant("C62", "room is counted down by eviction only", rooms.counted_down_by_eviction_only),
    Mutant("C63", "a create reserves before it looks", rooms.reserve_before_looking),
    Mutant("C65", "an abort forgets one stage of a transfer", rooms.one_stage_is_forgotten),
    Mutant("C66", "sizes of entries are summed, whatever room they have", rooms.sizes_are_summed),
    Mutant("C67", "ends of copies are heard only when something is admitted", rooms.acknowledged_when_admitting),
    Mutant("C68", "what has timed out is swept by create only", rooms.swept_when_creating),
    Mutant("C69", "who finds no room asks again without a pause", rooms.asks_again_at_once),
    Mutant("C71", "the loop sleeps on edges of a descriptor", places.woken_by_edges, slow=True),
    Mutant("C73", "the record of a copy is dropped when it is told to go", rooms.dropped_at_the_end),
    Mutant("C74", "a file is taken for the copy whose name it has", places.whose_it_is_is_not_checked),
    Mutant("C77", "a completion asserts what state it finds", routes.asserts_at_completion),
    Mutant("C79", "a tier's error is not the end of its work but of the node", places.errors_go_up),
    Mutant("C81", "a peer that does not answer is asked as often as ever", places.no_breaker),
    Mutant("C82 a", "a write for which the medium has no room is told as done", places.full_is_a_success),
    Mutant("C82 b", "what a medium lacks is told nobody", places.shortfalls_are_not_told),
    Mutant("C83 a", "a second create of a group that is being written is accepted, too", rooms.no_joining),
    Mutant("C83 b", "whoever waits is told nothing while anything is being written", rooms.all_wait_for_all),
    Mutant("C86", "while a hold is in the way the next look is now", rooms.tries_in_a_tight_loop),
    Mutant("C87", "a group is fetched in one piece", places.in_one_piece),
    Mutant("C88", "the map grows under an open transaction", places.grows_under_a_transaction),
    Mutant("C89", "a handle does not know which process opened it", places.handles_survive_a_fork, slow=True),
    Mutant("C90", "nobody keeps a list of open paths", places.no_registry_of_paths, slow=True),
    Mutant("C92", "the map is writable", places.writable_map, slow=True),
    Mutant("C94", "a ROUTER throws away what does not fit", places.router_by_default, slow=True),
    Mutant("C96", "a send to a full pipe waits for room", places.sends_wait, slow=True),
    Mutant("C97", "answers are matched in order", places.answers_in_order),
    Mutant("C98", "sockets linger as by default", places.linger_by_default),
    Mutant("C99", "a socket is shared between threads", places.anybody_s_socket),
    Mutant("C100 a", "an id is made from model and dtype only", places.model_and_dtype_only),
    Mutant("C100 b", "placement does not ask what slots hold", places.any_slot_will_do),
    Mutant("C102", "an id is Python's own hash", places.python_s_own_hash),
    Mutant("C103", "what arrives is unpickled", places.unpickles, slow=True),
    Mutant("C105", "a decision is guarded by the state before the last one", rooms.accepted_between_guard_and_write),
    Mutant("C108", "only a call that reads gives its hold back", holds.release_from_reading_only),
)


@contextmanager
def inherit(name: str) -> Iterator[None]:
    """In a child process: run under the mutant of this name."""
    with next(mutant for mutant in MUTANTS if mutant.name == name).on():
        yield
