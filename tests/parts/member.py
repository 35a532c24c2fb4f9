"""Parts that tests share: the member by table."""

import random

import msgspec

from albireo.machine.pair.config import PairConfig
from albireo.machine.pair.events import (
    MemberStarted,
)
from albireo.machine.pair.member import Member
from albireo.machine.pair.party import MemberFacts
from albireo.model.instant import Instant
from albireo.model.log_view import LogView

CONFIG = PairConfig(cluster="c", voters=("v0", "v1", "v2"))


FACTS = MemberFacts(index=0, run=7, store="a")


EMPTY = LogView()


def member(**facts: object) -> Member:
    machine = Member(CONFIG, msgspec.structs.replace(FACTS, **facts), random.Random(1), Instant(0))
    machine.step(MemberStarted(), EMPTY, Instant(0))
    return machine
