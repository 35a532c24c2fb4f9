"""Way: the lines of one part to the members of a node, and what can be said of them while nobody answers."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Final

import msgspec

from albireo.client.engine import log
from albireo.client.errors import KeyNotTrusted, NodeUnreachable, NotInTime
from albireo.codec.message import AnyMessage, RoleAsked, RoleTold
from albireo.runtime.directory import holder
from albireo.runtime.link.connection import MUTE, ConnectionEvent
from albireo.runtime.link.dialing import NO_KEY
from albireo.runtime.link.keys import Keys
from albireo.runtime.link.lines import LineNews, Lines, LineTo
from albireo.runtime.link.link import Part

ASK_ROLE: Final = RoleAsked(adapter="client")
"""One name for all programs: a member remembers each name that asks on its own machine as one of an adapter."""


class Target(msgspec.Struct, frozen=True):
    """Members of a node, as a client reaches them."""

    lines: tuple[LineTo, ...]
    keys: Keys | None = None
    is_pinned: bool = False
    """True: the first line is the only one, and whoever is there is spoken with, acting or not."""

    def __str__(self) -> str:
        return ", ".join(one.endpoint for one in self.lines)


class Way(Lines):
    """Lines to the members of a target."""

    def __init__(self, target: Target) -> None:
        """Raises: as `Lines`."""
        super().__init__(target.lines, target.keys)
        self._target = target
        self._told: list[LineNews] = []
        self._unread = 0
        """Number of messages that could not be read."""

    def send(self, line: int, message: AnyMessage, raw: Sequence[Part] = ()) -> bool:
        """As `Lines.send`. A pinned member is not asked whether it acts: it counts as acting."""
        if not isinstance(message, RoleAsked):
            return super().send(line, message, raw)
        if not self._target.is_pinned:
            return super().send(line, ASK_ROLE)
        self._told.append(LineNews(line, message=RoleTold(is_acting=True, epoch=0)))
        return True

    @property
    def is_stirred(self) -> bool:
        return bool(self._told) or super().is_stirred

    def take(self, signalled: AbstractSet[int]) -> list[LineNews]:
        told, self._told = self._told, []
        news = [*super().take(signalled), *told]
        if self.malformed() > self._unread:
            self._unread = self.malformed()
            log.warning("%s: %d messages can't be read here: another version?", self._target, self._unread)
        return news

    def fate(self, line: int) -> str:
        """As `Lines.fate`. Where a node of this machine runs, a part that does not listen now will do so again."""
        to = self._target.lines[line]
        return MUTE if to.is_local and holder(Path(to.endpoint)) else super().fate(line)

    def is_locked_out(self, up: frozenset[int]) -> bool:
        """No line is up, and of each it is certain that a key is not trusted, here or there."""
        fates = {self.fate(line) for line in range(len(self._target.lines))}
        return not up and fates <= {NO_KEY, ConnectionEvent.REFUSED.value}

    def silence(self, up: frozenset[int], what: str, wait_s: float) -> NodeUnreachable:
        """The error that says why nobody answered.

        Args:
            up: lines that are up.
            what: question that had no answer.
            wait_s: time that was waited.
        """
        cause = f"{what!r} had no answer within {wait_s:g} s"
        if self._target.keys is not None and (trouble := self._target.keys.trouble) is not None:
            cause += f"; our keys can't be read: {trouble}"
        if self._unread:
            cause += f", and {self._unread} messages of the node can't be read here: it may be of another version"
        down = [line for line in range(len(self._target.lines)) if line not in up]
        fates = [f"{self._target.lines[line].endpoint}: {self.fate(line)}" for line in down]
        for line in down:
            remedy = self._key_remedy(self.fate(line), self._target.lines[line])
            if remedy and not up:
                return KeyNotTrusted(f"{cause}; {'; '.join(fates)}", remedy)
        reached = ", ".join(self._target.lines[line].endpoint for line in sorted(up) if line < len(self._target.lines))
        if reached and self._target.is_pinned:
            return NotInTime(f"{cause}; {reached} is there and says nothing")
        if reached:
            cause = f"{cause}; {reached} is there, and no member that acts answered"
            return NotInTime("; ".join([cause, *fates]), "look at `albireo status`; name both members of a pair")
        is_far = any(self.fate(line) == ConnectionEvent.NOT_IN_TIME.value for line in down)
        if is_far or any(self.fate(line) == MUTE for line in down):
            far = ("is it a node? If so ask again: it is busy, or its way is slow",) if is_far else ()
            return NotInTime("; ".join([cause, *fates]), *far)
        return NodeUnreachable("; ".join([cause, *fates]), "start the node: albireo node run, or mend the way to it")

    def _key_remedy(self, fate: str, to: LineTo) -> str:
        """The commands that let the keys of both ends know each other; empty: keys are not what is missing."""
        keys = self._target.keys
        name = to.peer.strip("*") or "NODE"
        if fate == NO_KEY and keys is not None:
            return f"albireo keys trust {name!r} ITS_KEY --keys {keys.directory} (`albireo keys list` there shows it)"
        if fate == ConnectionEvent.REFUSED.value and keys is not None:
            return f"at the node: albireo keys trust {keys.name} {keys.public} --data ITS_DIRECTORY"
        if fate in (ConnectionEvent.REFUSED.value, ConnectionEvent.BROKEN_OFF.value):
            if keys is None:
                return "is it a node? If it wants keys, name yours (keys=DIRECTORY, --keys): docs/keys.md"
            return f"is it a node? If so trust its present key: albireo keys trust {name!r} KEY --keys {keys.directory}"
        return ""
