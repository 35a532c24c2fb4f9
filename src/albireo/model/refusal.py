"""Refusal: a "no" as a value, the same from the machine that says it to the client that raises it.

Whatever follows from a refusal (class of the error, exit code, whether the question is asked again) follows from its
code, by the registry below. Cause and remedy are words for people: they may change at any time, and nobody reads them
to decide anything. A code that is not registered is one of a newer version; it is an error of the general class.

The registry prints docs/refusals.md (`codes_table`). Spec: ADR-0233.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from albireo.model.bounded import NAME_CHARS_MAX, Name, Text
from albireo.model.tree.message import AddCause
from albireo.model.tree.node_names import NODES_TOLD

WHAT_TO_DO: Final = "; what to do: "
"""Text between cause and remedy, where both are told in one line."""


class RefusalKind(msgspec.Struct, frozen=True):
    """Everything that follows from a code."""

    meaning: str
    error: str = "NodeRefused"
    """Class of the client's error; a producer that is refused for good has `ProducerRefused` or `NameTaken`."""
    exit_code: int = 1
    """Exit code of a command that ends with it."""
    may_pass: bool = False
    """True: the same question may be answered a little later."""
    add_cause: AddCause = AddCause.INCONSISTENT_PARAMETERS
    """Cause of an order that ends with it, in the words of IEC 61850-7-2."""


def _passing(meaning: str, add_cause: AddCause = AddCause.COMMAND_ALREADY_IN_EXECUTION) -> RefusalKind:
    return RefusalKind(meaning, may_pass=True, add_cause=add_cause)


def _unknown(meaning: str, error: str = "NodeRefused", exit_code: int = 2) -> RefusalKind:
    return RefusalKind(meaning, error, exit_code, add_cause=AddCause.NOT_SUPPORTED)


class RefusalCode(StrEnum):
    """Codes of this version, each with its kind: the registry."""

    kind: RefusalKind

    def __new__(cls, code: str, kind: RefusalKind) -> "RefusalCode":
        one = str.__new__(cls, code)
        one._value_ = code
        one.kind = kind
        return one

    # Who asks, and what.
    ACCESS = (
        "access",
        RefusalKind("the role of whoever asks does not suffice, or its kind may never ask", "AccessRefused"),
    )
    TICKET = "ticket", RefusalKind("a door was shown no ticket, or none that is good there")
    SESSION_OVER = "session_over", RefusalKind("somebody has ended the session of this link", "SessionOver")
    UNKNOWN_QUESTION = "unknown_question", _unknown("whoever is asked does not know the question", "QuestionUnknown", 1)
    MALFORMED = (
        "malformed",
        RefusalKind("an argument has another form, is out of bounds, or belongs to no such question"),
    )
    BAD_VALUE = "bad_value", RefusalKind("an argument has the right form, and a value that makes no sense here")
    # Where and when it is asked.
    NOT_HOLDER = "not_holder", RefusalKind("this member does not act: the other member is to be asked")
    MOVED = (
        "moved",
        _passing("whoever acts now knows what becomes of it: to be asked again, with the same id"),
    )
    NOT_RECORDING = "not_recording", RefusalKind("nothing is recorded now, as with a full disk, so nothing is done")
    BUSY = "busy", _passing("too much of this kind is under way")
    NOT_YET = "not_yet", _passing("it waits for something that comes by itself")
    BEHIND = "behind", _passing("this member knows less than the follower, or may not say more, as it does not lead")
    HELD_UP = "held_up", _passing("somebody has to read first: there is no room for more")
    NO_ANSWER = "no_answer", _passing("whoever had to be asked for it does not answer")
    DISK_FAILED = "disk_failed", RefusalKind("the disk does not take, or give, what is needed")
    # Whatever is named.
    UNKNOWN_ITEM = "unknown_item", _unknown("no item of this name is known")
    UNKNOWN_TOPIC = "unknown_topic", _unknown("there is no topic of this name or number, or it is gone")
    UNKNOWN_NODE = "unknown_node", _unknown("no node of this name is known, or has a history here")
    UNKNOWN_NAME = (
        "unknown_name",
        RefusalKind("nothing else of this name or id is known: command, session, case and so on"),
    )
    AMBIGUOUS = "ambiguous", _unknown("a name may be that of several nodes, and they are told")
    # State of what is named.
    NOT_WRITABLE = "not_writable", _unknown("the item takes no such order: writes, forces or selections", exit_code=1)
    NOT_POSSIBLE = "not_possible", RefusalKind("whatever is named is in a state in which this can't be done")
    CHANGED = "changed", RefusalKind("what the request builds on has changed meanwhile: it is to be read again")
    IN_USE = "in_use", RefusalKind("something else still needs what is named")
    FULL = "full", RefusalKind("a table has no room for one more")
    ENDED = "ended", RefusalKind("it has ended already")
    LEASE_OVER = "lease_over", RefusalKind("the lease of a message is over: another receiver may have it")
    # Orders.
    ID_REUSED = (
        "id_reused",
        RefusalKind("the id names another order already; nothing of this one is done", "CommandIdReused"),
    )
    NOT_SELECTED = (
        "not_selected",
        RefusalKind(
            "the item has to be selected first, or the selection is over or somebody else's",
            "NotSelected",
            add_cause=AddCause.OBJECT_NOT_SELECTED,
        ),
    )
    ALREADY_SELECTED = (
        "already_selected",
        RefusalKind("somebody has selected the item", "AlreadySelected", add_cause=AddCause.OBJECT_ALREADY_SELECTED),
    )
    SELECT_FAILED = "select_failed", RefusalKind("too many items are selected", add_cause=AddCause.SELECT_FAILED)
    NOT_CARRIED_OUT = "not_carried_out", RefusalKind("an order was refused by its node, or not taken in time")
    OUTCOME_UNKNOWN = "outcome_unknown", RefusalKind("nobody here knows what became of an order", "OutcomeUnknown", 69)
    # History.
    TOO_MUCH = "too_much", RefusalKind("the answer would be larger than one may be")
    DAMAGED = "damaged", RefusalKind("a file that is needed for the answer is damaged or missing")
    # Pair.
    NOT_NEW = "not_new", RefusalKind("the pair has begun already: a log of it is not empty")
    OTHER_MEMBER = "other_member", RefusalKind("the other member is not in a state in which this can be done")
    VOTERS = "voters", RefusalKind("the voters are not in a state in which this can be done")
    # Producers.
    GAP = "gap", _passing("a batch came before the one that is wanted first")
    UNKNOWN_PRODUCER = "unknown_producer", _passing("no producer of this number has said hello on this link")
    SUPERSEDED = "superseded", RefusalKind("a later program has the producer's name", "NameTaken")
    FORGOTTEN = "forgotten", RefusalKind("the producer's name was forgotten with this program", "ProducerRefused")
    NOT_OWNER = "not_owner", RefusalKind("a name or an item belongs to another producer or key")


REGISTRY: Final[Mapping[str, RefusalKind]] = {one.value: one.kind for one in RefusalCode}
"""Kind of each code."""
_OF_NEWER: Final = RefusalKind("a code of a newer version")


class Refusal(msgspec.Struct, frozen=True):
    """A "no": what it is, why, and what a person can do about it."""

    code: Name
    """One of `RefusalCode`; of a newer version maybe another word."""
    cause: Text
    remedy: Text = ""
    """Empty: nothing can be done, or the cause says it."""

    def __str__(self) -> str:
        """Cause and remedy in one line."""
        return f"{self.cause}{WHAT_TO_DO}{self.remedy}" if self.remedy else self.cause


def kind_of_code(code: str) -> RefusalKind:
    """Kind of a refusal; of a code that a newer version has, the general one."""
    return REGISTRY.get(code, _OF_NEWER)


def codes_table() -> str:
    """The registry as a table of the documentation."""
    lines = ["| code | meaning | error of the client | exit code | may pass |", "|---|---|---|---|---|"]
    for code, kind in REGISTRY.items():
        passes = "yes" if kind.may_pass else ""
        lines.append(f"| `{code}` | {kind.meaning} | `{kind.error}` | {kind.exit_code} | {passes} |")
    return "\n".join(lines)


def id_reused(command_id: str, other: str) -> Refusal:
    """Refusal of an id that names another order already.

    Args:
        other: word for what differs.
    """
    return Refusal(
        RefusalCode.ID_REUSED,
        f"command id {command_id!r} was given to an order with another {other}, and nothing of this order is done",
        "give every order an id of its own (a UUID)",
    )


def unknown_question(what: str, known: Iterable[str]) -> Refusal:
    """Refusal of a question that whoever is asked does not know.

    Args:
        known: questions that it knows.
    """
    cause = f"unknown question {what[:NAME_CHARS_MAX]!r}; known: {', '.join(sorted(known))}"
    remedy = "run the node with the version of this client, or a later one"
    return Refusal(RefusalCode.UNKNOWN_QUESTION, cause, remedy)


def no_item(name: str) -> Refusal:
    """Refusal of a name that no item here has."""
    return Refusal(RefusalCode.UNKNOWN_ITEM, f"no item {name!r}", "`albireo items` lists them")


def ambiguous(name: str, found: Sequence[str]) -> Refusal:
    """Refusal of a name that may mean each of several nodes."""
    listed = " or ".join(found[:NODES_TOLD])
    remedy = f"name the node by its whole id, as in {found[0]}"
    return Refusal(RefusalCode.AMBIGUOUS, f"{name!r} may be one of {listed}", remedy)
