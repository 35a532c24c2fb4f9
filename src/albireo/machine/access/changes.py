"""Changes of access: what `access_grant` and `access_revoke` ask for, as records to append, or why not.

One change at a time: the next is judged when the one before it is committed, so that two of them together can't take
away what each of them alone may not, the last admin.

Spec: ADR-0154.
"""

from typing import Final

from albireo.codec.questions.people import GrantAsked, RevokeAsked
from albireo.codec.record import AccessGranted, AccessRevoked
from albireo.machine.access.judge import AccessJudge
from albireo.machine.fold.people.access import changed
from albireo.model.access import ROLE_WORDS, is_admin_everywhere, role_from
from albireo.model.bounded import NAME_CHARS_MAX
from albireo.model.principal import (
    KEY_NAME_WORDS,
    PERSON_NAME_WORDS,
    PERSON_PREFIX,
    PrincipalKind,
    is_key_name,
    is_person_name,
    kind_of,
)
from albireo.model.refusal import Refusal, RefusalCode

PRINCIPALS_MAX: Final = 1_000
"""Most principals on record, as many as keys can be trusted."""
GRANTS_MAX: Final = 16
"""Most roles of one principal, each at another node."""
NODE_CHARS_MAX: Final = 200
USER_CHARS_MAX: Final = 100

_NO_ROLES: Final = {
    PrincipalKind.MEMBER: "a member of a pair: its key is for the commands that run beside it, and may all",
    PrincipalKind.WITNESS: "a witness: its key is for votes",
    PrincipalKind.LOCAL: "a user of this machine: who may reach the data directory may all",
    PrincipalKind.ANYBODY: "no name of a key",
}


AccessChange = AccessGranted | AccessRevoked


class AccessChanges:
    """Changes of access of one tenure."""

    def __init__(self, judge: AccessJudge) -> None:
        self._judge = judge
        self._under_way = 0
        """Sequence of the last change that was appended."""

    def rows(self) -> list[dict[str, object]]:
        """Everybody who has a role, by name; for `access_list`."""
        judge = self._judge
        return [
            {
                "principal": name,
                "role": judge.role_of(name).word,
                "grants": [{"role": one.role.word, "node": one.node} for one in judge.grants_of(name)],
                "is_on_record": name in judge.fold,
                "has_key": None
                if judge.listed is None or kind_of(name) is PrincipalKind.PERSON
                else name in judge.listed,
            }
            for name in sorted({*judge.fold, *(judge.listed or {})})
        ]

    def record_of(self, asked: GrantAsked | RevokeAsked, folded_to: int) -> AccessChange | Refusal:
        """The record that does what is asked.

        Args:
            folded_to: sequence up to which the log is folded.
        """
        if self._under_way > folded_to:
            return Refusal(
                RefusalCode.NOT_YET, "another change of access is not committed yet", "ask again in a moment"
            )
        if (refused := self._refusal(asked)) is not None:
            return refused
        record: AccessChange
        if isinstance(asked, GrantAsked):
            record = AccessGranted(principal=asked.principal, role=asked.role, node=asked.node)
        else:
            record = AccessRevoked(principal=asked.principal, node=asked.node)
        return self._takes_the_last_admin(record) or record

    def appended(self, sequence: int) -> None:
        self._under_way = sequence

    def _refusal(self, asked: GrantAsked | RevokeAsked) -> Refusal | None:
        name, node = asked.principal, asked.node
        kind = kind_of(name)
        if kind not in (PrincipalKind.PROGRAM, PrincipalKind.PERSON):
            cause = f"{name!r} is {_NO_ROLES[kind]}; only programs and people with a key have roles"
            return Refusal(RefusalCode.BAD_VALUE, cause)
        if len(node) > NODE_CHARS_MAX or not node.isprintable() or len(asked.user) > USER_CHARS_MAX:
            cause = f"node takes at most {NODE_CHARS_MAX} printable characters, user at most {USER_CHARS_MAX}"
            return Refusal(RefusalCode.BAD_VALUE, cause)
        if isinstance(asked, RevokeAsked):
            return self._nothing_to_revoke(name, node)
        if kind is PrincipalKind.PERSON and not is_person_name(name.removeprefix(PERSON_PREFIX)):
            return Refusal(RefusalCode.BAD_VALUE, f"no person has this name; one has {PERSON_NAME_WORDS}")
        if kind is PrincipalKind.PROGRAM and not is_key_name(name):
            return Refusal(RefusalCode.BAD_VALUE, f"no key has this name; one has {KEY_NAME_WORDS}")
        if role_from(asked.role) is None:
            cause = f"there is no role {asked.role[:NAME_CHARS_MAX]!r}; the roles are {', '.join(ROLE_WORDS)}"
            return Refusal(RefusalCode.BAD_VALUE, cause)
        return self._too_many(name, node)

    def _nothing_to_revoke(self, name: str, node: str) -> Refusal | None:
        judge = self._judge
        if name not in judge.fold and name not in (judge.listed or {}):
            return Refusal(RefusalCode.UNKNOWN_NAME, f"nothing is known of {name!r}", "see: albireo access list")
        if node and all(one.node != node for one in judge.grants_of(name)):
            cause = f"{name!r} was given no role at {node!r}"
            return Refusal(RefusalCode.NOT_POSSIBLE, cause, "see: albireo access list")
        return None

    def _too_many(self, name: str, node: str) -> Refusal | None:
        known = self._judge.fold.grants_of(name)
        if known is None and len(self._judge.fold) >= PRINCIPALS_MAX:
            cause = f"{PRINCIPALS_MAX} principals have roles on record"
            return Refusal(RefusalCode.FULL, cause, "give the next its role with its key (keys trust)")
        if known is not None and len(known) >= GRANTS_MAX and all(one.node != node for one in known):
            cause = f"{name!r} has {GRANTS_MAX} roles already"
            return Refusal(RefusalCode.FULL, cause, f"first: albireo access revoke {name} --node NODE")
        return None

    def _takes_the_last_admin(self, record: AccessChange) -> Refusal | None:
        """Refuse to leave the pair without anybody who may give roles over the network."""
        judge, name = self._judge, record.principal
        known = set(judge.fold) if judge.listed is None else set(judge.listed)
        holders = {one for one in known if kind_of(one) is PrincipalKind.PROGRAM}
        if name not in holders or not judge.rules_everywhere(name):
            return None
        after = changed(judge.fold.grants_of(name) or (), record)
        if is_admin_everywhere(after) or any(judge.rules_everywhere(one) for one in holders - {name}):
            return None
        return Refusal(
            RefusalCode.IN_USE,
            f"{name!r} is the last admin with a key",
            "first make another one: albireo access grant NAME admin (whoever may reach the data directory of a node "
            "stays an admin there)",
        )
