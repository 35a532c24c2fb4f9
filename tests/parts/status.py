"""The status of a node that stands alone and is well, and changes of it."""

from typing import Any, Final

import msgspec

from albireo.model.status import NodeStatus, PairStatus

GOOD: Final[dict[str, Any]] = {
    "node": "root",
    "role": "standalone",
    "pair": None,
    "door": None,
    "durability": {},
    "replication": {},
    "log": {
        "log_id": "00" * 16,
        "epoch": 2,
        "sequence": 0,
        "end": 0,
        "log_time_ms": 0,
        "feature_level": 1,
        "admission": "",
        "lacks_to": 0,
    },
    "wall_ns": 0,
    "topology_hash": "",
    "zone": "UTC",
    "items": 12,
    "bad_items": 0,
    "bad": [],
    "nodes": {"below": 0, "silent": []},
    "forced_items": 0,
    "sessions": 0,
    "sessions_left_out": 0,
    "cases": {"open": 0, "unacked": 0, "raised": 0},
    "commands_open": 0,
    "samples_committed": 0,
    "refused": 0,
    "malformed": 0,
    "repeated": 0,
    "superseded": 0,
    "credit_cut": 0,
    "acquire_to_commit_ms": {},
    "adapters": [{"name": "p1", "connected": True, "heard": True, "device": True, "silent_ms": 0, "trouble": ""}],
    "faces": [],
    "producers": [],
    "audit": {"first_sequence": 0, "count": 0, "sequence": 0, "head": ""},
    "followers": [],
}


def node_status(pair: PairStatus | None = None, **changes: Any) -> NodeStatus:
    """`changes`: fields, in JSON values; of a part some fields are enough."""
    told = {
        name: {**GOOD[name], **value} if isinstance(value, dict) and GOOD[name] else value
        for name, value in changes.items()
    }
    return msgspec.structs.replace(msgspec.convert(GOOD | told, NodeStatus), pair=pair)
