"""Which role each message and each question needs: the one table of it, printed in docs/access.md.

Messages that only processes of the node itself send (outcomes of writes, words about voters) need the highest: no key
is heard with them anyway (codec/principal.py).

Spec: ADR-0154.
"""

from typing import Final

from albireo.codec.message import AnyMessage, Append, Ask, FeedAck, FeedHello, ProducerHello, RoleAsked
from albireo.model.access import AccessRole
from albireo.model.case import Action

_VIEW, _OPERATE, _ENGINEER, _ADMIN = AccessRole.VIEW, AccessRole.OPERATE, AccessRole.ENGINEER, AccessRole.ADMIN

MESSAGES: Final[dict[type, AccessRole]] = {
    RoleAsked: _VIEW,
    FeedHello: _VIEW,
    FeedAck: _VIEW,
    ProducerHello: _OPERATE,
    Append: _OPERATE,
}
"""Role that a message needs; `Ask` goes by its question."""

QUESTIONS: Final[dict[str, AccessRole]] = {
    "status": _VIEW,
    "tree": _VIEW,
    "items": _VIEW,
    "read": _VIEW,
    "cases": _VIEW,
    "flood": _VIEW,
    "origins": _VIEW,
    "history_item": _VIEW,
    "history_piece": _VIEW,
    "events_piece": _VIEW,
    "gaps_piece": _VIEW,
    "stats": _VIEW,
    "write": _OPERATE,
    "select": _OPERATE,
    "deselect": _OPERATE,
    "selections": _VIEW,
    "force": _OPERATE,
    "force_release": _OPERATE,
    "forces": _VIEW,
    "session": _VIEW,
    "sessions": _VIEW,
    "session_end": _VIEW,
    "ticket": _VIEW,
    "tickets_shown": _ADMIN,
    "send": _OPERATE,
    "message": _OPERATE,
    "receive": _OPERATE,
    "take": _OPERATE,
    "give_back": _OPERATE,
    "cancel": _OPERATE,
    "command": _VIEW,
    "commands": _VIEW,
    "case_action": _OPERATE,
    "pair_seen": _OPERATE,
    "switchover": _ENGINEER,
    "maintenance": _ENGINEER,
    "forget": _ENGINEER,
    "access_list": _ENGINEER,
    "access_grant": _ADMIN,
    "access_revoke": _ADMIN,
    "pair_init": _ADMIN,
    "voter_reset": _ADMIN,
    "promote": _ADMIN,
    "stop_hold": _ADMIN,
    "stop_level": _ADMIN,
    "stop_now": _ADMIN,
}
"""Role that a question needs, by its name."""

CASE_ACTIONS: Final[dict[Action, AccessRole]] = {
    Action.ACK: _OPERATE,
    Action.ACK_ALL: _OPERATE,
    Action.RESET: _OPERATE,
    Action.SHELVE: _OPERATE,
    Action.SHELVE_ONCE: _OPERATE,
    Action.UNSHELVE: _OPERATE,
    Action.OUT_OF_SERVICE: _ENGINEER,
    Action.IN_SERVICE: _ENGINEER,
    Action.COMMENT: _OPERATE,
}
"""Role that each action of the question `case_action` needs."""


def needed_for(message: AnyMessage) -> AccessRole:
    """Role that a message needs. A question that nobody knows needs VIEW: its answer is that nobody knows it."""
    if not isinstance(message, Ask):
        return MESSAGES.get(type(message), _ADMIN)
    needed = QUESTIONS.get(message.what, _VIEW)
    if message.what == "case_action":
        action = message.arguments.get("action")
        if isinstance(action, str) and action in CASE_ACTIONS:
            return max(needed, CASE_ACTIONS[Action(action)])
    return needed
