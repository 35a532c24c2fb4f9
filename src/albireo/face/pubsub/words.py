"""Words of the first publish/subscribe: what a client asks in one part, and what it is answered.

    request = "PUT" SP topic BLANK message
            / "GET" SP "FROM" SP client SP "ON" SP "TOPIC" SP ":" SP topic
            / ("SUBSCRIBE" / "UNSUBSCRIBE") SP topic SP "FROM" SP "SUBSCRIBER" SP client
    SP      = 1*BLANK                 ; BLANK: space or tab
    topic   = client = 1*visible      ; UTF-8, as `model/topic.py` has names
    message = *OCTET                  ; all that follows one blank

    answer  = "ACK [SUCCESS]: " operation " is DONE"
            / "ACK [SUCCESS]: GET RESPONSE ON TOPIC " topic ": " message
            / "ACK [FAILURE]: " reason

Spec: "Reliable Pub/Sub Service" of 2022, sections 2.1 to 2.5. It does not say how a message is given: that form is the
one of its authors' program, whose clients take whatever begins with `ACK` for an answer.
"""

import re
from typing import Final

import msgspec

from albireo.client.putting import LENGTH_BYTES
from albireo.machine.producer.flight import MESSAGE_BYTES as PUT_BYTES_MAX
from albireo.model.topic import SubscriberName, TopicName

SUBSCRIBER_PREFIX: Final = "pubsub."
"""Begin of the names that these clients have as subscribers: none can read what another program subscribed to."""
MESSAGE_BYTES_MAX: Final = PUT_BYTES_MAX - LENGTH_BYTES
ECHO_BYTES_MAX: Final = 60
NAMES: Final = (
    "UTF-8, AT MOST 200 CHARACTERS, NO CONTROL CHARACTER; OF A TOPIC NO * AND NO >, NOTHING EMPTY BETWEEN DOTS"
)
_FORMS: Final = [  # A blank here stands for one or more of either kind.
    re.compile(form.replace(b" ", rb"[ \t]+").replace(b"WORD", rb"[^ \t]+"), re.DOTALL)
    for form in (
        rb"(?P<operation>PUT) (?P<topic>WORD)(?P<client>)[\x20\t](?P<message>.*)",
        rb"(?P<operation>GET) FROM (?P<client>WORD) ON TOPIC : (?P<topic>WORD)[\x20\t]*(?P<message>)",
        rb"(?P<operation>(UN)?SUBSCRIBE) (?P<topic>WORD) FROM SUBSCRIBER (?P<client>WORD)[\x20\t]*(?P<message>)",
    )
]


class PubsubRequest(msgspec.Struct, frozen=True):
    """A request."""

    operation: str
    topic: str
    client: str = ""
    message: bytes = b""

    @property
    def subscriber(self) -> str:
        """Name of the client as a subscriber of the node."""
        return f"{SUBSCRIBER_PREFIX}{self.client}"


def read_request(part: bytes) -> PubsubRequest | str:
    """The request that a part is, or why it is none, whatever its bytes."""
    found = next((one for form in _FORMS if (one := form.fullmatch(part)) is not None), None)
    if found is None:
        return f"BAD REQUEST: {part[:ECHO_BYTES_MAX].decode(errors='replace')!r}"
    if len(found["message"]) > MESSAGE_BYTES_MAX:
        return f"A MESSAGE HAS AT MOST {MESSAGE_BYTES_MAX} BYTES"
    try:
        operation, topic, client = (found[one].decode() for one in ("operation", "topic", "client"))
        request = PubsubRequest(operation, msgspec.convert(topic, TopicName), client, found["message"])
        msgspec.convert(request.subscriber, SubscriberName)
    except (msgspec.ValidationError, UnicodeDecodeError):
        return f"NO NAME CAN BE LIKE THAT: {NAMES}"
    return request


def done(operation: str) -> bytes:
    """Answer to PUT, SUBSCRIBE or UNSUBSCRIBE."""
    return f"ACK [SUCCESS]: {operation} is DONE".encode()


def given(topic: str, message: bytes) -> bytes:
    """Answer to GET."""
    return f"ACK [SUCCESS]: GET RESPONSE ON TOPIC {topic}: ".encode() + message


def failed(reason: str) -> bytes:
    """Answer: it is not done, and asking again does not help."""
    return f"ACK [FAILURE]: {reason}".encode()
