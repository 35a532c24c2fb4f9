"""Errors of the stored history.

HistoryError
    HistoryRefused       a question is not answered: `refusal`
        HistoryDamaged   a file or the manifest is missing or damaged: path, reason
        UnknownItem      no item of that name was ever declared here
        UnknownNode      no node of that name has a history here
        QueryRefused     the question makes no sense or asks for too much
            TooManyRows  it would read more raw rows than one question may
        AmbiguousNode    a name is the end of the ids of several nodes
    MergeAbandoned       a merge, or taking a file of the other member, was told to stop
    FileRefused          a file of the other member has a fault: its name
    HoleGone             a hole that was copied is not listed any more: the log went another way
OSError                  the disk (full, failing), as it comes; a seal that meets it is tried again
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from albireo.codec.files_told import SealTold
from albireo.model.refusal import Refusal, RefusalCode, ambiguous
from albireo.model.tree.node_names import NODES_TOLD

SEAL_REMEDY: Final = "make room on the disk of the data directory, or exchange it; what is not sealed waits in the log"
_TROUBLE_CHARS_MAX: Final = 250


class HistoryError(Exception):
    """Base of the history's errors."""


class HistoryRefused(HistoryError):
    """A question is not answered."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(str(refusal))
        self.refusal = refusal


class HistoryDamaged(HistoryRefused):
    def __init__(self, path: str, reason: str) -> None:
        remedy = "restore it from a copy, or move it away (its rows are then missing from the history)"
        super().__init__(Refusal(RefusalCode.DAMAGED, f"{path}: {reason}", remedy))
        self.path = path
        self.reason = reason


class UnknownItem(HistoryRefused):
    def __init__(self, name: str) -> None:
        cause = f"no item {name!r} in the history"
        super().__init__(Refusal(RefusalCode.UNKNOWN_ITEM, cause, "`albireo items` lists the names"))
        self.name = name


class UnknownNode(HistoryRefused):
    def __init__(self, node: str, known: Sequence[str]) -> None:
        cause = f"no history of {node!r} here; there is one of this node, and of {_listed(known)}"
        remedy = "albireo history NODE:ITEM, with one of these nodes; records of others were not copied here"
        super().__init__(Refusal(RefusalCode.UNKNOWN_NODE, cause, remedy))
        self.node = node
        self.known = known


class QueryRefused(HistoryRefused):
    def __init__(self, cause: str, remedy: str = "", code: RefusalCode = RefusalCode.BAD_VALUE) -> None:
        super().__init__(Refusal(code, cause, remedy))


class TooManyRows(QueryRefused):
    def __init__(self, count: int, most: int) -> None:
        super().__init__(f"{count} rows, at most {most}", "ask for a shorter range", RefusalCode.TOO_MUCH)


class AmbiguousNode(HistoryRefused):
    def __init__(self, name: str, nodes: Sequence[str]) -> None:
        super().__init__(ambiguous(name, nodes))


class MergeAbandoned(HistoryError):
    pass


class FileRefused(HistoryError):
    def __init__(self, fault: str) -> None:
        super().__init__(fault)
        self.fault = fault


class HoleGone(HistoryError):
    pass


def _listed(nodes: Sequence[str]) -> str:
    more = f" and {len(nodes) - NODES_TOLD} more" if len(nodes) > NODES_TOLD else ""
    return f"{', '.join(nodes[:NODES_TOLD])}{more}" if nodes else "no node below"


def refusal_of(error: Exception) -> Refusal:
    """Refusal of a question whose answer ended with this error."""
    if isinstance(error, HistoryRefused):
        return error.refusal
    is_malformed = isinstance(error, msgspec.ValidationError)
    return Refusal(RefusalCode.MALFORMED if is_malformed else RefusalCode.DISK_FAILED, str(error))


def seal_told(outcome: object) -> SealTold:
    """Word for CORE after a seal that ended with this: a manifest, or an error."""
    is_failed = isinstance(outcome, Exception)
    return SealTold(trouble=f"{str(outcome)[:_TROUBLE_CHARS_MAX]}: {SEAL_REMEDY}" if is_failed else "")
