"""For what, and how often, a member hands the lead over by itself."""

from albireo.core.pair.reasons import FEWER, FULL, Reasons
from albireo.model.instant import SECOND, Instant


def causes(reasons: Reasons, from_s: float, to_s: float, **given: bool) -> list[tuple[float, str]]:
    """When a handover is due, looked at twice a second: (seconds, cause)."""
    now = {FULL: given.get("full", False), FEWER: given.get("fewer", False)}
    looks = [from_s + half / 2 for half in range(int(2 * (to_s - from_s)))]
    return [(at, cause) for at in looks if (cause := reasons.cause(now, Instant(int(at * SECOND))))]


def test_each_has_to_last_and_is_acted_on_again_after_a_while() -> None:
    for given, reason in ({"full": True}, FULL), ({"fewer": True}, FEWER):
        first = reason.lasts_ns / SECOND
        again = first + reason.again_ns / SECOND
        assert causes(Reasons(), 0, again + 1, **given) == [(first, reason.cause), (again, reason.cause)]


def test_what_comes_and_goes_does_not_last() -> None:
    reasons = Reasons()
    for second in range(0, 40, 4):
        assert causes(reasons, second, second + 3.5, fewer=True) == []
        assert causes(reasons, second + 3.5, second + 4) == []


def test_a_disk_that_is_full_does_not_wait_for_a_handover_of_another_reason() -> None:
    reasons = Reasons()
    assert causes(reasons, 0, 6, fewer=True) == [(5.0, FEWER.cause)]
    assert causes(reasons, 6, 8, full=True, fewer=True) == [(7.0, FULL.cause)]


def test_a_full_disk_is_acted_on_again_sooner_than_a_device_less() -> None:
    """Nothing is served meanwhile: half a minute without service was seen in a drill when both waited a minute."""
    assert FULL.again_ns <= 15 * SECOND < FEWER.again_ns
