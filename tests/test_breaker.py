"""The circuit breaker of one peer, as a table of what happens to it."""

from pinfold.core.breaker import CLOSED, BreakerLimits, failed, held_until, phase, sent

LIMITS = BreakerLimits(failures=3, pause_ms=100, pause_max_ms=350, spacing_ms=10, probe_ms=50)


def test_it_opens_after_some_failures_in_a_row() -> None:
    breaker = CLOSED
    for now in (100, 200):
        breaker = failed(breaker, now, LIMITS)
        assert phase(breaker, now) == "closed"
    breaker = failed(breaker, 300, LIMITS)
    assert phase(breaker, 300) == "open"
    assert held_until(breaker, 300) == 400


def test_failures_side_by_side_count_once() -> None:
    breaker = CLOSED
    for now in (100, 101, 105, 109):
        breaker = failed(breaker, now, LIMITS)
    assert breaker.failures == 1


def test_after_the_pause_one_probe_passes() -> None:
    breaker = CLOSED
    for now in (100, 200, 300):
        breaker = failed(breaker, now, LIMITS)
    assert phase(breaker, 400) == "half-open"
    assert held_until(breaker, 400) == 0
    breaker = sent(breaker, 400, LIMITS)
    assert held_until(breaker, 401) == 450  # the second one waits for the probe
    assert held_until(breaker, 450) == 0  # a probe that got lost lets another one pass


def test_each_probe_that_fails_doubles_the_pause_up_to_its_limit() -> None:
    breaker = CLOSED
    for now in (100, 200, 300):
        breaker = failed(breaker, now, LIMITS)
    pauses = []
    for _ in range(4):
        now = breaker.open_until_ms
        breaker = sent(breaker, now, LIMITS)
        breaker = failed(breaker, now + 20, LIMITS)
        pauses.append(breaker.open_until_ms - (now + 20))
    assert pauses == [200, 350, 350, 350]


def test_a_late_failure_of_an_open_breaker_changes_nothing() -> None:
    breaker = CLOSED
    for now in (100, 200, 300):
        breaker = failed(breaker, now, LIMITS)
    assert failed(breaker, 350, LIMITS) == breaker


def test_sending_through_a_closed_breaker_changes_nothing() -> None:
    assert sent(CLOSED, 5, LIMITS) == CLOSED
