"""Stages: how far each open message is, and since when, as far as this tenure of its origin knows."""

import msgspec

from albireo.model.tree.message import MessageName, MessageStage

_ORDER = list(MessageStage)


class StageTimes(msgspec.Struct):
    """Wall times at which a message reached its stages; 0: not known."""

    told_ns: int = 0
    accepted_ns: int = 0
    """At the owner."""
    begun_ns: int = 0
    """At the owner."""
    selected_ns: int = 0
    """At the owner, of the selection that an order used."""


class MessageStages:
    """The stages of all open messages of an origin."""

    def __init__(self) -> None:
        self._stages: dict[MessageName, MessageStage] = {}
        self._times: dict[MessageName, StageTimes] = {}

    def of(self, name: MessageName) -> MessageStage:
        return self._stages.get(name, MessageStage.AUTHORISED)

    def times(self, name: MessageName) -> StageTimes:
        """When a message reached its stages; to be written to."""
        return self._times.setdefault(name, StageTimes())

    def reach(self, name: MessageName, stage: MessageStage) -> bool:
        """Note that a message is so far; True: it was not before."""
        if _ORDER.index(stage) <= _ORDER.index(self._stages.get(name, MessageStage.REQUESTED)):
            return False
        self._stages[name] = stage
        return True

    def ended(self, name: MessageName) -> None:
        """Forget a message that has its end."""
        self._stages.pop(name, None)
        self._times.pop(name, None)
