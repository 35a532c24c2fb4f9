"""The judge: whether a principal may say a message at this node, and the words to whoever may not.

    local user, other member, anybody on a link without keys      admin
    witness                                                       none
    person:  what is on record of its name, else view, for whom an admin speaks; never more than that one may
    program: what is on record of its name                        the highest of it that covers this node
             nothing on record                                    what the key directory says of it
             neither                                              view

Refusals of more than a look go on record, for each principal at most one in a second, with the number left out.

Not decided here: whether the sender is who it says (runtime/link), what is heard from its kind (codec/principal.py).
Spec: ADR-0154.
"""

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from albireo.codec.message import AnyMessage, Ask, ProducerHello
from albireo.codec.questions.declared import QUESTIONS
from albireo.codec.record import Audited
from albireo.machine.access.needs import MESSAGES, needed_for
from albireo.machine.fold.people.access import AccessFold
from albireo.machine.fold.people.persons import People
from albireo.model.access import AccessRole, RoleGrant, highest, is_admin_everywhere
from albireo.model.instant import SECOND, Instant, WallTime
from albireo.model.principal import (
    PERSON_NAME_PATTERN,
    PERSON_NAME_WORDS,
    PERSON_PREFIX,
    TOKEN_MARK,
    PrincipalKind,
    kind_of,
)
from albireo.model.refusal import Refusal, RefusalCode

ON_RECORD_NS: Final = SECOND
"""Shortest time between two refusals of one principal that go on record."""
REMEMBERED_MAX: Final = 2_000
"""Most principals whose role, or last refusal, is remembered: twice as many as keys can be trusted."""
CLAIMED_CHARS_MAX: Final = 100
_NAMED: Final = PERSON_NAME_PATTERN[1:-1] + rf"({TOKEN_MARK}[0-9]{{1,19}})?"
"""A person, or one of its tokens, as a question names it."""

_OF_KIND: Final = {
    PrincipalKind.LOCAL: AccessRole.ADMIN,
    PrincipalKind.MEMBER: AccessRole.ADMIN,
    PrincipalKind.ANYBODY: AccessRole.ADMIN,
    PrincipalKind.WITNESS: AccessRole.NONE,
}
"""Role of every principal of a kind; programs have roles of their own."""


class RefusedAccess(msgspec.Struct, frozen=True):
    """A refusal for want of a role."""

    refusal: Refusal
    """The role that is missing, and who can give it."""
    entry: Audited | None
    """Entry for the audit trail; None: it is a look, or one went on record within the last second."""


class _Refusals(msgspec.Struct):
    told_at: Instant
    left_out: int = 0


class AccessJudge:
    """Judge of one node; lives as long as its root machine."""

    def __init__(self, node: str, fold: AccessFold, people: People | None = None) -> None:
        self.node = node
        self.fold = fold
        self.people = people
        """Persons on record; None: none can be."""
        self.listed: Mapping[str, RoleGrant] | None = None
        """Programs whose keys are trusted, with the role that the key directory gives; None: there is no directory."""
        self._may_say: dict[str, frozenset[type]] = {}
        """Messages that each principal may say; a question goes by its name, and is judged each time."""
        self._changes = fold.changes
        self._refusals: dict[str, _Refusals] = {}

    def restored(self, fold: AccessFold, people: People | None = None) -> None:
        """Go on from other folds."""
        self.fold, self.people = fold, people
        self._may_say.clear()

    def told(self, listed: Mapping[str, RoleGrant]) -> None:
        """Take what the key directory says now."""
        self.listed = listed
        self._may_say.clear()

    def lacks(self, principal: str, message: AnyMessage) -> bool:
        """True: the principal may not say it here. On the way of every batch, which costs a look at two tables."""
        if self._changes != self.fold.changes:
            self._may_say.clear()
            self._changes = self.fold.changes
        may_say = self._may_say.get(principal)
        if may_say is None:
            may_say = self._learn(principal)
        return type(message) not in may_say and self._role_for(principal, message) < needed_for(message)

    def _role_for(self, principal: str, message: AnyMessage) -> AccessRole:
        """Role with which a message is said: a person's who is named in it, never more than the speaker's."""
        own = self.role_of(principal)
        if not isinstance(message, Ask) or not message.person:
            return own
        if self._may_not_name(principal, message) is not None:
            return AccessRole.NONE
        return min(own, self.role_of(PERSON_PREFIX + message.person))

    def _may_not_name(self, principal: str, ask: Ask) -> Refusal | None:
        """Reason why the principal may not ask this for the person whom it names; None: it may."""
        if kind_of(principal) is PrincipalKind.PERSON or self.role_of(principal) < AccessRole.ADMIN:
            cause = f"only an admin speaks for a person; {principal!r} has {self.role_of(principal).word}"
            return Refusal(RefusalCode.ACCESS, cause, "ask in your own name")
        if re.fullmatch(_NAMED, ask.person) is None:
            return Refusal(RefusalCode.BAD_VALUE, f"no person has this name; one has {PERSON_NAME_WORDS}")
        kind = QUESTIONS.get(ask.what)
        if kind is not None and not kind.is_for_persons:
            return Refusal(RefusalCode.ACCESS, f"{ask.what} is not asked for a person", "ask in your own name")
        return None

    def role_of(self, principal: str) -> AccessRole:
        """Role of a principal at this node."""
        return self.role_at(principal, self.node)

    def role_at(self, principal: str, node: str) -> AccessRole:
        """Role of a principal at a node."""
        kind = kind_of(principal)
        if kind is PrincipalKind.PERSON:
            return self._of_person(*principal.removeprefix(PERSON_PREFIX).split(TOKEN_MARK, 1), node=node)
        of_kind = _OF_KIND.get(kind)
        return highest(self.grants_of(principal), node) if of_kind is None else of_kind

    def _of_person(self, name: str, token: str = "", *, node: str) -> AccessRole:
        role = highest(self.grants_of(PERSON_PREFIX + name), node)
        known = None if self.people is None else self.people.find(name)
        if known is None:
            return AccessRole.NONE if token else role
        return min(role, known.most(token))

    def rules_everywhere(self, principal: str) -> bool:
        """True: the principal is a program whose role is admin over the whole tree."""
        return is_admin_everywhere(self.grants_of(principal))

    def grants_of(self, principal: str) -> tuple[RoleGrant, ...]:
        """Roles of a program: those on record, or that of the key directory."""
        recorded = self.fold.grants_of(principal)
        if recorded is not None:
            return recorded
        listed = (self.listed or {}).get(principal)
        return () if listed is None else (listed,)

    def refused(self, principal: str, message: AnyMessage, now: Instant, wall: WallTime) -> RefusedAccess:
        """The refusal of a message that the principal may not say."""
        who, speaker = speaking(principal, message)
        refusal = self._may_not_name(principal, message) if isinstance(message, Ask) and message.person else None
        claimed = message.arguments.get("user") if isinstance(message, Ask) else None
        user = claimed if isinstance(claimed, str) else ""
        if refusal is not None:
            subject = f"{subject_of(message)} for another"
            told = self.refused_at(self.node, principal, subject, AccessRole.ADMIN, user, now, wall)
            return RefusedAccess(refusal, told.entry if refusal.code == RefusalCode.ACCESS else None)
        subject = subject_of(message)
        return self.refused_at(self.node, who, subject, needed_for(message), user, now, wall, speaker)

    def refused_at(
        self,
        node: str,
        principal: str,
        subject: str,
        needed: AccessRole,
        user: str,
        now: Instant,
        wall: WallTime,
        speaker: str = "",
    ) -> RefusedAccess:
        """The refusal of something that needs a role which the principal lacks at that node.

        Args:
            user: who was claimed to ask.
            speaker: who speaks for that person; empty: nobody does.
        """
        refusal = self._refusal(node, principal, subject, needed)
        if needed <= AccessRole.VIEW:
            return RefusedAccess(refusal, None)
        left_out = self._left_out(principal, now)
        if left_out is None:
            return RefusedAccess(refusal, None)
        detail = f"needs {needed.word} at {node}, has {self.role_at(principal, node).word}"
        detail += f"; {left_out} more before were left out" if left_out else ""
        entry = Audited(
            at_ns=wall,
            user=user[:CLAIMED_CHARS_MAX],
            action="access_refused",
            subject=subject,
            detail=detail,
            principal=principal,
            speaker=speaker,
        )
        return RefusedAccess(refusal, entry)

    def _left_out(self, principal: str, now: Instant) -> int | None:
        """Number of refusals left out since the last on record; None: this one is left out too."""
        before = self._refusals.get(principal)
        if before is not None and now - before.told_at < ON_RECORD_NS:
            before.left_out += 1
            return None
        if before is None and len(self._refusals) >= REMEMBERED_MAX:
            del self._refusals[next(iter(self._refusals))]
        self._refusals[principal] = _Refusals(now)
        return 0 if before is None else before.left_out

    def _refusal(self, node: str, principal: str, subject: str, needed: AccessRole) -> Refusal:
        if kind_of(principal) not in (PrincipalKind.PROGRAM, PrincipalKind.PERSON):
            cause = f"{subject}: {principal!r} is a {kind_of(principal).value} and may not"
            return Refusal(RefusalCode.ACCESS, cause)
        name = principal.removeprefix(PERSON_PREFIX).split(TOKEN_MARK, 1)[0]
        known = None if self.people is None or name == principal else self.people.find(name)
        if known is not None and not known.is_enabled:
            return Refusal(RefusalCode.ACCESS, f"{principal!r} is disabled", f"albireo people enable {name}")
        role, where = self.role_at(principal, node), "" if node == self.node else f" --node {node}"
        return Refusal(
            RefusalCode.ACCESS,
            f"{subject} needs the role {needed.word} at {node}; {principal!r} has {role.word}",
            f"an admin grants it: albireo access grant {principal} {needed.word}{where}",
        )

    def _learn(self, principal: str) -> frozenset[type]:
        if len(self._may_say) >= REMEMBERED_MAX:
            self._may_say.clear()
        role = self.role_of(principal)
        may_say = self._may_say[principal] = frozenset(kind for kind, needed in MESSAGES.items() if needed <= role)
        return may_say


def speaking(principal: str, message: AnyMessage) -> tuple[str, str]:
    """Whose word a message is, and who speaks it if that is another: a person who is named, and the principal."""
    if isinstance(message, Ask) and message.person:
        return PERSON_PREFIX + message.person, principal
    return principal, ""


def subject_of(message: AnyMessage) -> str:
    """Name of what was asked, for people and for the audit trail."""
    match message:
        case Ask(what=what, arguments=arguments):
            kind = QUESTIONS.get(what)
            return what[:CLAIMED_CHARS_MAX] if kind is None else kind.subject_of(arguments)
        case ProducerHello(producer=name):
            return f"producer {name[:CLAIMED_CHARS_MAX]}"
        case _:
            return type(message).__name__
