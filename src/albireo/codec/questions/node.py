"""Questions about the node itself, the nodes below, and items."""

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from albireo.codec.questions.kind import Answerer, Asked, Nothing, QuestionKind
from albireo.codec.questions.pieces import InPieces
from albireo.model.access import AccessRole
from albireo.model.bounded import Name
from albireo.model.item import KnownItem, Reading
from albireo.model.order_text import OrderText
from albireo.model.status import NodeStatus
from albireo.model.tree.node_row import NodeRow

ITEMS_MAX: Final = 100_000
"""Most items named in one question."""


ForgetNames = Annotated[tuple[Name, ...], Meta(max_length=ITEMS_MAX)]


class ItemsAsked(InPieces, frozen=True, kw_only=True):
    """Arguments of `items` and `read`: full or local names; empty: all."""

    names: Annotated[tuple[Name, ...], Meta(max_length=ITEMS_MAX)] = ()
    node: Name = ""
    """Node below whose items are meant; empty: this node."""


class ForgetAsked(Asked, frozen=True, kw_only=True):
    """Arguments of `forget`: names to forget, all of them or none."""

    producers: ForgetNames = ()
    items: ForgetNames = ()
    """Full or local names."""
    user: OrderText = "unknown"
    reason: OrderText = ""


class Forgotten(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to `forget`."""

    producers: tuple[str, ...] = ()
    items: tuple[str, ...] = ()


STATUS: Final = QuestionKind(
    name="status",
    shape=Nothing,
    answer=NodeStatus,
    answerer=Answerer.CORE,
    meaning="state of the node or pair",
    told="position, rates, adapters (`heard`: the adapter speaks; `device`: its device answers, null while nobody "
    "knows; `connected`: it speaks and says so; `trouble`: why a configured one does not run), faces (`name`, "
    "`trouble`, `address` with `url` and `fingerprint` of the certificate), followers, the hash of the topology by "
    "which it runs (`topology_hash`, empty without a file), the time zone of the plant (`zone`), how many items are "
    "forced, the 64 producers whose names were taken last (with lives and runs), the head of the audit chain, the door "
    "(endpoint, why it is closed, questions handed on), how often a follower's credit was cut",
    is_reading=True,
)
TREE: Final = QuestionKind(
    name="tree",
    shape=Nothing,
    answer=list[NodeRow],
    answerer=Answerer.CORE,
    meaning="the nodes below",
    told="the nodes below, and those beyond whose state is followed: through which child (or the parent), since when "
    "not heard, items, position and watermark of the copy here, records still to come, and records that no log here "
    "will have; who leads a pair directly below (`leads`), and what pairs say of themselves (`pair`: `at_risk`, "
    "`other_lost`, `voters_silent`, ..., null where it is not known now)",
    is_reading=True,
)
ITEMS: Final = QuestionKind(
    name="items",
    shape=ItemsAsked,
    answer=list[KnownItem],
    answerer=Answerer.CORE,
    meaning="which items there are",
    told="declarations with ids; `node`: of a node below",
    is_reading=True,
)
READ: Final = QuestionKind(
    name="read",
    shape=ItemsAsked,
    answer=list[Reading],
    answerer=Answerer.CORE,
    meaning="current values",
    told="current values with quality and times",
    is_reading=True,
)
ORIGINS: Final = QuestionKind(
    name="origins",
    shape=Nothing,
    answer=list[object],
    answerer=Answerer.CORE,
    meaning="whose records from below lie in the log",
    told="logs of nodes below whose records lie here: `index, node, origin_log` (base64)",
    is_reading=True,
)
FORGET: Final = QuestionKind(
    name="forget",
    shape=ForgetAsked,
    answer=Forgotten,
    answerer=Answerer.ACTING,
    role=AccessRole.ENGINEER,
    meaning="forget producers and items",
    told="the names, once it is committed that they are forgotten: all or none (ADR-0150)",
)
KINDS: Final = (STATUS, TREE, ITEMS, READ, ORIGINS, FORGET)
