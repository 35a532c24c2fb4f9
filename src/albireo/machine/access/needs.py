"""Which role each message needs, printed in docs/access.md; a question says itself which one it needs.

Messages that only processes of the node itself send (outcomes of writes, words about voters) need the highest: no key
is heard with them anyway (codec/principal.py).

Spec: ADR-0154.
"""

from typing import Final

from albireo.codec.message import AnyMessage, Append, Ask, FeedAck, FeedHello, ProducerHello, RoleAsked
from albireo.codec.questions.declared import QUESTIONS
from albireo.model.access import AccessRole

MESSAGES: Final[dict[type, AccessRole]] = {
    RoleAsked: AccessRole.VIEW,
    FeedHello: AccessRole.VIEW,
    FeedAck: AccessRole.VIEW,
    ProducerHello: AccessRole.OPERATE,
    Append: AccessRole.OPERATE,
}
"""Role that a message needs; `Ask` goes by its question."""


def needed_for(message: AnyMessage) -> AccessRole:
    """Role that a message needs. A question that nobody knows needs VIEW: its answer is that nobody knows it."""
    if not isinstance(message, Ask):
        return MESSAGES.get(type(message), AccessRole.ADMIN)
    kind = QUESTIONS.get(message.what)
    return AccessRole.VIEW if kind is None else kind.role_of(message.arguments)
