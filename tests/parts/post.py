"""Parts that tests share: the post."""

from typing import Any

import msgspec

from albireo.machine.message.events import SendAsked
from albireo.machine.orders.write.kinds import WriteBody
from albireo.model.tree.message import WRITE
from tests.parts.message_core import MessageCore

TOP, MIDDLE, SITE = b"top", b"middle", b"site"


def tree() -> dict[bytes, MessageCore]:
    cores = {
        TOP: MessageCore("root"),
        MIDDLE: MessageCore("root/north"),
        SITE: MessageCore("root/north/pump"),
    }
    link(cores)
    return cores


def link(cores: dict[bytes, MessageCore]) -> None:
    cores[TOP].post.linked("root/north", MIDDLE)
    cores[MIDDLE].post.linked("root", TOP)
    cores[MIDDLE].post.linked("root/north/pump", SITE)
    cores[SITE].post.linked("root/north", MIDDLE)


def write(value: float = 40.0, item: str = "fan", command_id: str = "c1", **values: Any) -> SendAsked:
    asked = SendAsked(
        command_id=command_id,
        owner="root/north/pump",
        kind=WRITE,
        body=msgspec.msgpack.encode(WriteBody(item, value)),
        expires_ms=5_000,
        user="ann",
        principal="operator",
        reason="smoke",
    )
    return msgspec.structs.replace(asked, **values)


def end_told(core: MessageCore) -> dict[str, Any]:
    (answer,) = core.answers
    assert isinstance(answer.result, dict)
    end: dict[str, Any] = answer.result.get("end", answer.result)  # That of an order is the receipt of an order.
    return end
