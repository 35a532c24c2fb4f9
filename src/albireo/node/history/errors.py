"""Errors of the stored history.

HistoryError
    HistoryDamaged       a file or the manifest is missing or damaged: path, reason, remedy
    UnknownItem          no item of that name was ever declared here
    UnknownNode          no node of that name has a history here
    QueryRefused         the question makes no sense or asks for too much: reason
        TooManyRows      it would read more raw rows than one question may
        AmbiguousNode    a name is the end of the ids of several nodes
    MergeAbandoned       a merge, or taking a file of the other member, was told to stop
    FileRefused          a file of the other member has a fault: its name
    HoleGone             a hole that was copied is not listed any more: the log went another way
OSError                  the disk (full, failing), as it comes; a seal that meets it is tried again
"""

from collections.abc import Sequence

from albireo.model.tree.node_names import NODES_TOLD, ambiguous


class HistoryError(Exception):
    """Base of the history's errors."""


class HistoryDamaged(HistoryError):
    def __init__(self, path: str, reason: str) -> None:
        super().__init__(
            f"{path}: {reason}; restore it from a copy, or move it away (its rows are then missing from the history)"
        )
        self.path = path
        self.reason = reason


class UnknownItem(HistoryError):
    def __init__(self, name: str) -> None:
        super().__init__(f"no item {name!r} in the history; `albireo items` lists the names")
        self.name = name


class UnknownNode(HistoryError):
    def __init__(self, node: str, known: Sequence[str]) -> None:
        super().__init__(f"no history of {node!r} here; there is one of this node, and of {_listed(known)}")
        self.node = node
        self.known = known


class QueryRefused(HistoryError):
    pass


class TooManyRows(QueryRefused):
    pass


class AmbiguousNode(QueryRefused):
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
