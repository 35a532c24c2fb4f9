"""The pair: who is in charge, agreed with voters, checked wherever an effect happens (design/pair.md)."""

from albireo.core.pair.config import PairConfig
from albireo.core.pair.member import Member
from albireo.core.pair.own import MemberFacts
from albireo.core.pair.voter import Voter, VoterStore

__all__ = ["Member", "MemberFacts", "PairConfig", "Voter", "VoterStore"]
