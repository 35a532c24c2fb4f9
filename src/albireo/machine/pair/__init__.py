"""The member of a pair: who holds the lead and who is in the set, agreed with voters (design/pair.md)."""

from albireo.machine.pair.config import PairConfig

__all__ = ["PairConfig"]
