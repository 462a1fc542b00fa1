"""Chance from a seed, back-off, the token bucket."""

from pinfold.core import rate, retry


def test_splitmix64_gives_the_published_numbers() -> None:
    # The first outputs for seed 1234567, as in the reference implementation and in Rosetta Code.
    seed, found = 1234567, []
    for _ in range(5):
        seed, bits = retry.splitmix64(seed)
        found.append(bits)
    assert found == [
        6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821,
    ]  # fmt: skip


def test_a_drawn_number_is_in_its_range_and_reaches_both_ends() -> None:
    seed, found = 0, set()
    for _ in range(1_000):
        seed, value = retry.below(seed, 7)
        found.add(value)
    assert sorted(found) == list(range(7))


def test_the_bound_of_the_pause_grows_and_is_capped_and_the_pause_is_never_nought() -> None:
    longest = []
    for attempt in range(12):
        seed, pauses = 3, []
        for _ in range(500):
            seed, pause = retry.backoff_ms(seed, attempt, 20, 2_000)
            pauses.append(pause)
        assert 1 <= min(pauses) <= 1 + (20 << attempt) // 50  # full jitter: also short ones
        longest.append(max(pauses))
    assert all(pause <= min(2_000, 20 << attempt) for attempt, pause in enumerate(longest))
    assert longest[7:] > [1_900] * 5


def test_a_huge_attempt_is_still_capped() -> None:
    assert retry.backoff_ms(1, 10**9, 20, 2_000)[1] <= 2_000


def test_a_bucket_gives_its_burst_then_its_rate() -> None:
    bucket = rate.full(3)
    for _ in range(3):
        bucket, wait = rate.take(bucket, 0, 10, 3)
        assert wait == 0
    same, wait = rate.take(bucket, 0, 10, 3)
    assert (same, wait) == (bucket, 100)
    bucket, wait = rate.take(bucket, 100, 10, 3)
    assert wait == 0


def test_a_bucket_never_holds_more_than_its_burst() -> None:
    assert rate.level_at(rate.full(3), 10**9, 10, 3) == 3_000


def test_a_bucket_that_does_not_fill_says_to_wait_for_long() -> None:
    _, wait = rate.take(rate.TokenBucket(0), 0, 0, 3)
    assert wait == rate.NEVER_MS


def test_a_clock_that_goes_back_fills_nothing() -> None:
    bucket = rate.TokenBucket(500, 1_000)
    assert rate.level_at(bucket, 0, 10, 3) == 500
