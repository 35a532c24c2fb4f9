"""The pair in the live view: who is active, epoch, set, lag, voters, guards; and since when it is at risk.

One line, and a second one while something is wrong. No I/O.
"""

from albireo.cli.pair.table import (
    FOLLOWS,
    MemberRow,
    at_risk_text,
    guard_text,
    rows_of,
    short,
    troubles,
    voters_in_reach,
)
from albireo.cli.view.state import LiveState


def pair_lines(live: LiveState) -> list[str]:
    """State of the pair, and its troubles; empty: the node stands alone, or has said nothing yet."""
    if live.status.pair is None:
        return []
    rows = rows_of([live.status.pair])
    own = next(row for row in rows if not row.is_heard)
    active = next((row for row in rows if row.role == "ACTIVE"), None)
    wrong = troubles(rows)
    text = f"pair {_summary(active, own, rows, live.records_per_s())}"
    if active is not None and own is not active:
        text = f"{text}   (seen from {own.member})"
    return [text, f"!! {'   '.join(wrong)}"] if wrong else [text]


def _summary(active: MemberRow | None, own: MemberRow, rows: list[MemberRow], rate: float | None) -> str:
    parts = ["nobody leads" if active is None else f"{active.member} leads"]
    parts.append(f"safe on {' and '.join(short(one) for one in own.set) or 'nobody'}")
    parts += [f"{short(row.member)} {row.state}, {behind_text(row.lag, rate)}" for row in rows if row.lag is not None]
    answering, listed = voters_in_reach(own)
    if listed:
        parts.append(f"voters {answering}/{listed}")
    guards = guard_text(own.guards)
    if guards:
        parts.append(f"guard {guards}")
    return "   ".join(parts)


def behind_text(lag: int, rate: float | None) -> str:
    """How far a member is behind, in seconds where the rate of new records says what that is."""
    if lag == 0 or (rate and lag < rate):
        return "up to date"
    return f"{lag / rate:.0f} s behind" if rate else f"{lag} records behind"


def is_passive(live: LiveState) -> bool:
    """This member follows a healthy other one: that it records nothing of its own is as it should be."""
    return live.status.pair is not None and live.status.pair.state in FOLLOWS


def plain_pair(live: LiveState) -> str:
    """A few words for the line where no terminal is; empty without a pair."""
    if live.status.pair is None:
        return ""
    rows = rows_of([live.status.pair])
    own = next(row for row in rows if not row.is_heard)
    risk = at_risk_text(own)
    return f"{own.member} {own.state} epoch {own.epoch}" + (f" {risk.partition(':')[0]}" if risk else "")
