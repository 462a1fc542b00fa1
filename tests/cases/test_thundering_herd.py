"""Many who want one thing at once."""

from pinfold.core import commands as c
from pinfold.core.answers import Awaited, Created, Joined, MoveAccepted, Pinned, Refused, Told
from pinfold.core.ids import SessionId
from tests.cases.story import settle
from tests.directory_world import CLIENT, N1, STORE, World, id_of, spec_of

CROWD = 50


def outcomes(world: World) -> list[str]:
    """What waiters were told in the last step."""
    answers = [reply.message.answer for reply in world.ready.reply if isinstance(reply.message, Told)]
    return [answer.outcome for answer in answers if isinstance(answer, Awaited)]


def crowd(world: World, name: str) -> tuple[list[SessionId], list[object]]:
    """Fifty sessions that all want to make one group; those who may not, wait until it is there."""
    sessions = [world.open() for _ in range(CROWD)]
    answers = [world.do(c.Create(spec_of(name), N1), session) for session in sessions]
    for number, answer in enumerate(answers):
        if isinstance(answer, Joined):
            world.step(c.Await(CLIENT, f"{name} {number}", "readable", id_of(name), timeout_ms=5_000))
    return sessions, answers


def test_c83_herd_one_makes_it_the_others_join_and_nobody_waits_for_anything_else() -> None:
    """vLLM #44294 and #50433. Without coalescing each of many requests for one cold prefix loaded it again; with a crude one all
    of them, also those that could go on, waited behind one load, at twelve times the latency.

    Here one of fifty is accepted and 49 join. All are told in the step in which it is there, each takes a hold of its own; what
    else somebody needs is not delayed; when the one gives up they are told, and one of them is next.
    """
    world = World(N1, capacity=200)
    sessions, answers = crowd(world, "G")
    created = [answer for answer in answers if isinstance(answer, Created)]
    assert len(created) == 1
    assert sum(isinstance(answer, Joined) for answer in answers) == CROWD - 1
    other = world.create("H")
    world.step(c.Await(CLIENT, "H", "readable", id_of("H"), timeout_ms=5_000))
    world.sealed(other.copy)
    assert outcomes(world) == ["readable"]
    world.step(c.Await(CLIENT, "impatient", "readable", id_of("G"), timeout_ms=100))
    world.now += 200
    world.tick()
    assert outcomes(world) == ["timeout"]
    world.sealed(created[0].copy)
    assert outcomes(world) == ["readable"] * (CROWD - 1)
    pins = [world.do(c.Pin(id_of("G")), session) for session in sessions[1:]]
    assert all(isinstance(pin, Pinned) for pin in pins)
    assert world.state.pinned[created[0].copy] == CROWD  # the maker's own among them

    # The one who was accepted dies: the others are told at once, and one is accepted next.
    sessions, answers = crowd(world, "K")
    leader = next(session for session, answer in zip(sessions, answers, strict=True) if isinstance(answer, Created))
    world.step(c.CloseSession(CLIENT, "dies", leader))
    assert outcomes(world) == ["gone"] * (CROWD - 1)
    sessions.remove(leader)
    again = [world.do(c.Create(spec_of("K"), N1), session) for session in sessions]
    assert [type(answer) for answer in again] == [Created] + [Joined] * (CROWD - 2)

    # A load from the store: one move, which goes on whoever has asked for it.
    cold = World(N1, stores=10)
    cold.put("G")
    cold.moved("G", STORE)
    settle(cold, 3_000)
    first = cold.open()
    asked = [cold.do(c.Move(id_of("G"), N1), first)] + [cold.do(c.Move(id_of("G"), N1)) for _ in range(CROWD - 1)]
    assert isinstance(asked[0], MoveAccepted)
    assert all(isinstance(answer, Refused) and answer.refusal.reason == "MoveInProgress" for answer in asked[1:])
    for number in range(CROWD):
        cold.step(c.Await(CLIENT, f"{number}", "settled", id_of("G"), asked[0].move, timeout_ms=5_000))
    cold.ask(c.CloseSession(CLIENT, "x", first))
    cold.done(asked[0].move)
    assert outcomes(cold) == ["settled"] * CROWD
