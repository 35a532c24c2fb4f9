"""Two and three programs of one name on a pair, from a seed: the receipts' world, where programs pause as well.

Of each life the log holds a prefix, once each and in order, and what was acknowledged is in it; the program that began
last has the name, each other one that hears anything stops. Judged as in the receipts' world (tests/parts/receipt.py).

A failure prints the seed: `pytest tests/sim -k "lives and seed-17"` plays it again.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from albireo.codec.message import AppendRefused, Ask
from albireo.codec.record import ProducerForgotten, ProducerOpened
from albireo.machine.desk.forgetting import Forgetting
from albireo.machine.fold.producers import Producers, Standing
from albireo.machine.kernel.events import LettersDrained
from albireo.machine.producer.producer import Producer, SendToCore
from albireo.model.instant import Instant
from tests.long_form import check_caught, some
from tests.parts.receipt import LOCAL
from tests.parts.receipt_world import World

SEEDS = some(range(150), 8)
STEPS = 150


class LivesWorld(World):
    """One seed: programs of one name, one of another, of which some are paused now and then."""

    def __init__(self, seed: int) -> None:
        programs = ("a=p", "b=p", "c=p", "q")[: 2 + seed % 3]
        super().__init__(seed, local=(frozenset(), LOCAL)[seed % 2], programs=programs)
        often = self.chance.choice([1.0, 3.0, 10.0])
        self.does |= {self.pause: often, self.wake: 2 * often, self.die: often / 2, self.reconnect: often}

    def pause(self) -> None:
        self.program().is_paused = True

    def wake(self) -> None:
        self.program().is_paused = False

    def reconnect(self) -> None:
        program = self.program()
        if program.machine.chosen is not None:
            program.reconnect()

    def settle(self) -> list[int]:
        for program in self.pair.programs:
            program.is_paused = False
        return super().settle()


def play(seed: int) -> LivesWorld:
    world = LivesWorld(seed)
    for _ in range(STEPS):
        world.step()
    world.settle()
    return world


@pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: f"seed-{seed}")
def test_lives_hold(seed: int) -> None:
    play(seed)


class ForcedWorld(LivesWorld):
    """Now and then the passive member is forced to lead, without what the other one committed alone."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.does[self.force] = 1.0

    def force(self) -> None:
        passive = self.pair.passive
        if passive.is_up and passive.index not in self.pair.late:
            self.pair.force()


@pytest.mark.parametrize("seed", some(range(60), 8), ids=lambda seed: f"seed-{seed}")
def test_lives_that_a_forced_promotion_lost_begin_anew_with_their_gap(seed: int) -> None:
    world = ForcedWorld(seed)
    for _ in range(STEPS):
        world.step()
    world.settle()


class ForgettingWorld(LivesWorld):
    """Now and then a name is forgotten, whoever uses it: what no rule allows, and a sleep of 90 days looks like."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.does[self.forget] = 2.0

    def forget(self) -> None:
        leader = self.pair.leader
        if leader.is_up:
            ask = Ask(request_id=1, what="forget", arguments={"producers": [self.program().name]})
            leader.step(LettersDrained([(b"cli", ask, (), "local:0")]))


def play_forgetting(seed: int) -> ForgettingWorld:
    world = ForgettingWorld(seed)
    for _ in range(STEPS):
        world.step()
    world.settle()
    return world


def anybody(self: Forgetting, name: str, owning: dict[str, int]) -> str:
    return ""


@pytest.mark.parametrize("seed", some(range(100), 8), ids=lambda seed: f"seed-{seed}")
def test_programs_of_forgotten_names_double_nothing_and_lose_nothing_that_was_told(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Forgetting, "_producer_refused", anybody)
    play_forgetting(seed)


def test_the_world_shows_programs_that_hear_that_they_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Forgetting, "_producer_refused", anybody)
    programs = [program for seed in range(40) for program in play_forgetting(seed).pair.programs]
    words = [word.refusal.code for one in programs if (word := one.machine.last_word) is not None]
    assert words.count("forgotten") > 5, "at the end of their stories"


def numbers_begin_again(self: Producers, record: ProducerForgotten) -> None:
    """The highest number goes with the name that has it."""
    _forgotten(self, record)
    self._highest = max(self._names, default=0)


def forgotten_is_new(self: Producers, name: str, run: int, life: int) -> Standing:
    """Whoever is not known is new, as after a forced promotion."""
    standing = _standing(self, name, run, life)
    return Standing.NEW if standing is Standing.FORGOTTEN else standing


_forgotten, _standing = Producers.fold_forgotten, Producers.standing


@pytest.mark.parametrize(
    ("name", "instead", "seed"), [("fold_forgotten", numbers_begin_again, 3), ("standing", forgotten_is_new, 3)]
)
def test_a_rule_of_forgetting_that_is_taken_out_is_caught(
    monkeypatch: pytest.MonkeyPatch, name: str, instead: Callable[..., object], seed: int
) -> None:
    monkeypatch.setattr(Forgetting, "_producer_refused", anybody)
    monkeypatch.setattr(Producers, name, instead)
    check_caught(partial(caught, play_forgetting), seed, range(40))


def test_the_world_shows_lives_that_end_with_batches_under_way() -> None:
    """Otherwise it would prove nothing: superseded programs, with and without all of their batches in the log."""
    superseded = cut_off = 0
    for seed in range(20):
        world = play(seed)
        stored = set(world.pair.leader.values())
        for life in [life for one in world.pair.programs for life in one.lives if life.by is not None]:
            superseded += 1
            cut_off += bool(set(life.offered) - stored)
    assert superseded > 40
    assert 0 < cut_off < superseded


def caught(play_one: Callable[[int], object], seeds: range) -> int | None:
    """Return the first seed that ends badly; None if none of them does."""
    for seed in seeds:
        try:
            play_one(seed)
        except (AssertionError, KeyError):
            return seed
    return None


def one_number_for_all_lives(self: Producers, name: str, run: int, *opened: Any) -> ProducerOpened:
    """Whoever has the name goes on behind the last number."""
    known = self.present(name)
    record = _open(self, name, run, *opened)
    if known is None:
        return record
    opening = self._opening[name]
    opening.producer_id, opening.last_sequence = known.producer_id, self.last_appended(known.producer_id) or 0
    return ProducerOpened(producer_id=known.producer_id, name=name, run=run)


def the_name_is_whose_asks(self: Producers, name: str, run: int, life: int) -> Standing:
    """Whoever comes back takes the name, as if the program were new."""
    known = self.present(name)
    return Standing.PRESENT if known is not None and known.run == run else Standing.NEW


def nothing_is_over(self: Producers, producer_id: int) -> bool:
    return False


def goes_on_all_the_same(self: Producer, event: AppendRefused, now: Instant) -> list[SendToCore]:
    """A program that is told it is superseded begins again under another run."""
    if event.refusal.code == "superseded":
        self._hello = type(self._hello)(
            producer=self._hello.producer, items=self._hello.items, run=self._hello.run + 500
        )
        self._welcome = None
        return self._greet(now)
    return _was_refused(self, event, now)


_open, _was_refused = Producers.open, Producer._was_refused


@pytest.mark.parametrize(
    ("owner", "name", "instead", "seed"),
    [
        (Producers, "open", one_number_for_all_lives, 0),
        (Producers, "standing", the_name_is_whose_asks, 7),
        (Producers, "is_over", nothing_is_over, 2),
        (Producer, "_was_refused", goes_on_all_the_same, 0),
    ],
    ids=lambda one: one.__name__ if callable(one) and not isinstance(one, type) else "",
)
def test_a_fence_that_is_taken_out_is_caught(
    monkeypatch: pytest.MonkeyPatch, owner: type, name: str, instead: Callable[..., object], seed: int
) -> None:
    monkeypatch.setattr(owner, name, instead)
    check_caught(partial(caught, play), seed, range(40))
