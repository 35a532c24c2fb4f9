"""The member of a pair: who holds the lead and who is in the set, agreed with voters (design/pair.md)."""

from albireo.machine.pair.config import PairConfig
from albireo.machine.pair.member import Member
from albireo.machine.pair.party import MemberFacts

__all__ = ["Member", "MemberFacts", "PairConfig"]
