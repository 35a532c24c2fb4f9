"""Notice: one message to people, about one alarm or many, as it stands on record, with whoever was told so far."""

import hashlib
import re
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from albireo.face.notify.rules import Duty, priority_of
from albireo.model.case import ItemCase, case_label

CASES_MAX: Final = 1_000
"""Cases of one notice; of more there are several notices."""
LISTED_MAX: Final = 50
"""Cases that stand in its text."""
TEXT_CHARS_MAX: Final = 300
TRIED_MAX: Final = 1_000
TWICE: Final = "It is not known whether this message left before: it may come twice."
_STEERING: Final = re.compile(
    r"[\x00-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f]"
)
"""Marks that end a line, turn text, or hide in it."""

CaseKey = tuple[str, int, int]
"""One activation of a case: node, case id, activation."""
Text = Annotated[str, Meta(max_length=TEXT_CHARS_MAX)]


class SendOutcome(StrEnum):
    """How far a try came."""

    LEAVING = "leaving"
    """It may have left: this was recorded before, and nothing since."""
    SENT = "sent"
    LATER = "later"
    """It did not leave; trying again may help."""
    UNKNOWN = "unknown"
    """It may have left, and nobody said so."""
    REFUSED = "refused"
    """It did not leave, and trying again does not help."""


class Try(msgspec.Struct, frozen=True):
    """One person, tried once or again."""

    name: Text
    kind: Text
    address: Annotated[str, Meta(max_length=500)]
    outcome: SendOutcome
    attempt: int
    at_ns: int
    """Wall time of the outcome; Unix ns."""
    why: Text = ""


class Notice(msgspec.Struct, frozen=True):
    """A notice. Its key in the store is its number."""

    number: Text
    rule: Text
    severity: int
    """Severity of the worst of its cases."""
    subject: Text
    body: Annotated[str, Meta(max_length=100_000)]
    cases: Annotated[tuple[CaseKey, ...], Meta(min_length=1, max_length=CASES_MAX)]
    made_ns: int
    tried: Annotated[tuple[Try, ...], Meta(max_length=TRIED_MAX)] = ()
    """Tries of this round, one for each address."""
    doubtful: Annotated[tuple[Annotated[str, Meta(max_length=500)], ...], Meta(max_length=TRIED_MAX)] = ()
    """Addresses to which it may have left without anybody knowing, in any round."""

    def message_id(self, address: str, node: str) -> str:
        """The same each time that it is sent to this address."""
        host = re.sub(r"[^a-z0-9]+", "-", node.lower()).strip("-") or "node"
        number = re.sub(r"[^A-Za-z0-9.]+", "-", self.number)
        return f"<{number}.{hashlib.sha256(address.encode()).hexdigest()[:12]}@{host}.albireo>"


def clean(text: str) -> str:
    """A text from outside, on one line and of bounded length."""
    return _STEERING.sub(" ", text)[:TEXT_CHARS_MAX]


def notice_of(rule: str, cases: Sequence[ItemCase], wall_ns: int) -> Notice:
    """A notice about these cases, the worst of which comes first; CASES_MAX at most."""
    worst = sorted(cases, key=lambda one: (-one.severity, one.raised_ns, one.case_id))
    first = worst[0]
    more = f" and {len(worst) - 1} more" if len(worst) > 1 else ""
    lines = [_line(one) for one in worst[:LISTED_MAX]]
    if len(worst) > LISTED_MAX:
        lines.append(f"... and {len(worst) - LISTED_MAX} more: albireo cases list")
    return Notice(
        number=f"{rule}.{first.node}.{case_label(first.case_id, first.activations)}.{wall_ns:x}",
        rule=rule,
        severity=first.severity,
        subject=clean(f"[{priority_of(first.severity)}] {first.item} {first.condition}{more}"),
        body="\n".join([*lines, "", "Acknowledge at the page, or: albireo cases ack NUMBER", ""]),
        cases=tuple((one.node, one.case_id, one.activations) for one in worst),
        made_ns=wall_ns,
    )


def _line(case: ItemCase) -> str:
    value = "" if case.value is None else f", value {case.value}"
    said = f": {case.message}" if case.message else ""
    label = case_label(case.case_id, case.activations)
    return clean(
        f"{priority_of(case.severity)} ({case.severity}) {case.item} {case.condition}{value}, case {label}{said}"
    )


def tried(notice: Notice, duty: Duty | Try, outcome: SendOutcome, attempt: int, at_ns: int, why: str = "") -> Notice:
    """The notice with this try, in the place of an earlier one of the same address."""
    one = Try(duty.name, duty.kind, duty.address, outcome, attempt, at_ns, clean(why))
    others = tuple(it for it in notice.tried if (it.kind, it.address) != (one.kind, one.address))
    is_doubtful = outcome is SendOutcome.UNKNOWN and one.address not in notice.doubtful
    return msgspec.structs.replace(
        notice,
        tried=(*others, one),
        doubtful=(*notice.doubtful, one.address) if is_doubtful else notice.doubtful,
    )
