"""Parts that tests share: a site under its parent."""

from typing import Any

from albireo.codec.frame import Frame, encode, frames
from albireo.codec.record import Kind
from albireo.codec.tree.envelope import open_envelope
from albireo.log.log import Log
from tests.parts.lone import Program, asked_until
from tests.parts.tree import TreeNode, only


def read(program: Program, node: str, value: float) -> Any:
    """The reading of the item of a node below, once it has this value."""
    return asked_until(
        program, lambda found: any(one["value"] == value for one in found), "read", node=node, names=(f"{node}:co",)
    )[0]


def has_all(program: Program, site: TreeNode) -> Any:
    """The row of a site above, once all lies there that the site has committed by now."""
    with site.program() as own:
        log = own.result("status")["log"]

    def is_there(rows: Any) -> bool:
        """A copy of the branch that a restored store has left may have more records, but not of this epoch."""
        epoch, _, sequence = only(rows, site.node)["position"].partition(":")
        return (epoch, int(sequence or 0) >= log["sequence"]) == (str(log["epoch"]), True)

    return only(asked_until(program, is_there, "tree"), site.node)


def copied(log: Log, log_id: bytes) -> bytes:
    """The frames of another log that lie in this one, as they are inside."""
    found = [Frame(*one) for one in frames(log.read_appended(0, 1 << 24))]
    within = [one for frame in found if frame.header.kind == Kind.ENVELOPE for one in open_envelope(*frame_of(frame))]
    return b"".join(encode(Frame(header, bytes(body))) for header, body in within if header.log_id == log_id)


def frame_of(frame: Frame) -> tuple[Any, Any]:
    return frame.header, frame.body


def own_frames(log: Log) -> bytes:
    """The frames of a log but for its envelopes."""
    found = [Frame(*one) for one in frames(log.read_appended(0, 1 << 24))]
    return b"".join(encode(Frame(one.header, bytes(one.body))) for one in found if one.header.kind != Kind.ENVELOPE)
