"""The members of a pair as a table: each as it says itself, or as the other member last heard. No I/O.

In the manner of `patronictl list`, with one more column: whom each member sees, and how long ago.
"""

import shlex
from collections.abc import Sequence
from typing import Final

import msgspec

from albireo.cli.display import time_text
from albireo.cli.place import MEMBERS
from albireo.machine.pair.events import Objection
from albireo.model.feature import FIRST_LEVEL
from albireo.model.status import CatchingUp, PairStatus, VoterStatus

ROLES: Final = {
    "active": "ACTIVE",
    "solo": "ACTIVE",
    "recovering": "takes over",
    "suspended": "stands still",
    "fenced": "FENCED",
}
"""Roles by state; a member in any other state is passive."""
FOLLOWS: Final = ("ready", "catching_up")
"""A member that records the other's frames has nothing of its own to record."""
SILENT_MS: Final = 3_000
"""A voter is asked at least once a second."""
COLUMNS: Final = ("member", "role", "state", "epoch", "set", "end", "lag", "since", "endpoint", "sees")
CASE_WORDS: Final = {
    "history_at_risk": "HISTORY AT RISK",
    "tail_quarantined": "a tail was cut, see `albireo quarantine`, then `albireo pair seen`",
    "history_incomplete": "history incomplete:",
    "other_history_incomplete": "the other member's history incomplete:",
    "store_refused": "the other member's store is refused",
    "marks_unreadable": "its marks were unreadable, so it is in maintenance: see that nobody works there, then "
    "`albireo maintenance --end` and `albireo pair seen`;",
    "disk_refuses": "its disk takes no more records now, it goes on by itself:",
    "no_room": "its log has to be cut, and its disk has no room to keep what is cut: make room, it goes on by itself",
}


TRUST_HINT: Final = (
    "if it runs, one of the two may not trust the other's key: `albireo keys list` on both machines must show the "
    "other (docs/keys.md)"
)
"""Cause that neither side can see: whoever is not trusted gets no answer."""


class MemberRow(msgspec.Struct, frozen=True, kw_only=True):
    """One member's line."""

    member: str
    role: str
    state: str
    epoch: int
    set: tuple[str, ...]
    """Members of the set, as this member knows it."""
    end: int
    lag: int | None = None
    """Records behind the active member; None: nobody is active, or it is itself."""
    since_ns: int = 0
    """Wall time of its last change of state; 0: not known."""
    endpoint: str
    is_heard: bool = False
    """The row is as the other member heard it, not as this one says itself."""
    maintenance_since_ns: int = 0
    at_risk_since_ns: int = 0
    cases: dict[str, str] = {}
    sees: dict[str, int | None] = {}
    """Milliseconds since it was last heard, by member and voter; None: never."""
    voters: dict[str, VoterStatus] = {}
    refused: dict[str, int] = {}
    guards: dict[str, str] = {}
    feature_level: int = FIRST_LEVEL
    """The highest that it knows, or is held back to; 0: it was never heard."""
    log_level: int = FIRST_LEVEL
    """Feature level of its log; FIRST_LEVEL for a member that was only heard, as nothing is known."""
    apart: str = ""
    """Why it can't have one log with the other member; empty: it can."""
    catching_up: CatchingUp | None = None
    """Way of the other member into the set; None: it is no leader, or nobody is on that way."""
    topology_hash: str = ""
    """Hash of the topology that it runs; empty: not known."""


def rows_of(views: Sequence[PairStatus]) -> list[MemberRow]:
    """Both members, the primary first.

    Args:
        views: the pair as one member sees it, or as both do.
    """
    told = {view.place: _own_row(view) for view in views}
    for view in views:
        if view.other.place not in told:
            told[view.other.place] = _heard_row(view)
    leader = max((one for one in told.values() if one.role == "ACTIVE"), key=lambda one: one.epoch, default=None)
    rows = [msgspec.structs.replace(one, lag=_lag(one, leader)) for one in told.values()]
    return sorted(rows, key=lambda one: one.member.endswith("[backup]"))


def _lag(row: MemberRow, leader: MemberRow | None) -> int | None:
    return None if leader is None or leader.member == row.member else max(0, leader.end - row.end)


def _own_row(view: PairStatus) -> MemberRow:
    ages = {name: one.answered_ms for name, one in view.voters_seen.items()}
    return MemberRow(
        member=view.place,
        role=ROLES.get(view.state, "passive"),
        state=view.state,
        epoch=view.epoch,
        set=view.set,
        end=view.end,
        since_ns=view.since_ns,
        endpoint=view.client,
        maintenance_since_ns=view.maintenance_since_ns,
        at_risk_since_ns=view.at_risk_since_ns,
        cases=view.cases,
        sees={view.other.place: view.other.heard_ms, **ages},
        voters=view.voters_seen,
        refused=view.refused,
        guards=view.guards,
        feature_level=view.feature_level,
        log_level=view.log_level,
        apart=view.apart,
        catching_up=view.catching_up,
        topology_hash=view.topology_hash,
    )


def catching_up_text(row: MemberRow) -> str:
    """How far the other member is from the set, how fast it comes, and when it is whole; empty: it does not come."""
    way = row.catching_up
    if way is None:
        return ""
    whole = "is not coming nearer" if way.whole_in_s is None else f"is whole in {way.whole_in_s:,.0f} s as it goes now"
    held = f", not before {way.not_before_s:,.0f} s, as it was lost again and again" if way.not_before_s else ""
    slowed = f"; each commit waits up to {way.slowed_ms} ms for it" if way.slowed_ms else ""
    far = f"lacks {way.behind:,} records ({way.late_ms / 1000:.1f} s), gains {way.gains_per_s:,.0f} a second"
    return f"the other member {far}, {whole}{held}{slowed}"


def _heard_row(view: PairStatus) -> MemberRow:
    other = view.other
    return MemberRow(
        member=other.place,
        role=ROLES.get(other.state, "passive") if other.is_present else "?",
        state=other.state if other.is_present else "silent",
        epoch=other.epoch or 0,
        set=(),
        end=other.end or 0,
        endpoint=other.client,
        is_heard=True,
        cases=other.cases,
        sees={view.place: other.answers_ms},
        feature_level=other.feature_level or 0,
        topology_hash=other.topology_hash,
    )


def cells_of(row: MemberRow) -> tuple[str, ...]:
    """One line of the table."""
    state = row.state + (", maintenance" if row.maintenance_since_ns else "") + (" (heard)" if row.is_heard else "")
    return (
        row.member,
        row.role,
        state,
        str(row.epoch),
        "+".join(short(one) for one in row.set) or "-",
        str(row.end),
        "-" if row.lag is None else str(row.lag),
        time_text(row.since_ns),
        row.endpoint,
        ", ".join(f"{short(name)} {age_text(age)}" for name, age in row.sees.items()),
    )


def age_text(age_ms: int | None) -> str:
    """Time since something was last heard, as text."""
    if age_ms is None:
        return "NEVER"
    return f"{age_ms} ms" if age_ms < SILENT_MS else f"SILENT {age_ms // 1000} s"


def short(name: str) -> str:
    """`root[backup]` -> `backup`, `witness:w1` -> `w1`; what has neither stays."""
    if name.endswith("]"):
        return name.rpartition("[")[2].removesuffix("]")
    return name.rpartition(":")[2]


VOTER_COLUMNS: Final = ("voter", "asked by", "answered", "promised", "record", "set", "lease", "floor", "refused")


def voter_cells(rows: Sequence[MemberRow]) -> list[tuple[str, ...]]:
    """One line per voter and member that asks it."""
    return [
        (name, short(row.member), *_voter(row.voters[name]))
        for name in dict.fromkeys(name for row in rows for name in row.voters)
        for row in rows
        if name in row.voters
    ]


def _voter(one: VoterStatus) -> tuple[str, ...]:
    if one.answered_ms is None or one.floor is None:
        return ("NEVER", "-", "-", "-", "-", "-", "-")
    record = one.record
    refused = ", ".join(f"{reason} {count}" for reason, count in sorted(one.refused.items()))
    return (
        age_text(one.answered_ms),
        str(one.promised),
        "EMPTY" if record is None else f"{record.epoch}.{record.version}" + " FORCED" * record.is_forced,
        "-" if record is None else "+".join(MEMBERS[index] for index in record.members),
        f"{one.lease_left_ms} ms" if one.is_lease_running else "none",
        f"{one.floor[0]}:{one.floor[1]}",
        refused or "-",
    )


def refused_text(rows: Sequence[MemberRow]) -> list[str]:
    """Messages that were not taken, by member and reason."""
    return [
        f"{row.member} refused: " + ", ".join(f"{reason} {count}" for reason, count in sorted(row.refused.items()))
        for row in rows
        if row.refused
    ]


def troubles(rows: Sequence[MemberRow]) -> list[str]:
    """Sentences that a person must read; empty when the pair is whole."""
    found = [] if any(row.role == "ACTIVE" for row in rows) else ["NOBODY IS ACTIVE: nothing is recorded"]
    found += [one for row in rows if row.role == "ACTIVE" and (one := at_risk_text(row))]
    for row in rows:
        if row.maintenance_since_ns:
            since = time_text(row.maintenance_since_ns)
            found.append(
                f"{row.member} is in maintenance since {since}: "
                "it takes over from nobody until `albireo maintenance --end`"
            )
        found += [f"{row.member}: {case_text(case, detail)}" for case, detail in row.cases.items() if case != "at_risk"]
        found += [f"{row.member} {text}" for text in (*voter_troubles(row), *_never_heard(row))]
    return found + apart_text(rows) + topologies_text(rows)


def level_text(rows: Sequence[MemberRow]) -> str:
    """The feature level of the log, and who holds it back."""
    log_level, known = max(row.log_level for row in rows), max(row.feature_level for row in rows)
    if known <= log_level:
        return f"feature level {log_level}"
    behind = [row.member for row in rows if 0 < row.feature_level <= log_level]
    why = f"held back by {', '.join(behind)}" if behind else "raised as soon as both members are in the set"
    return f"feature level {log_level}, {known} is known: {why}"


def apart_text(rows: Sequence[MemberRow]) -> list[str]:
    """Members that can't have one log, because one of them knows too little; empty if they can."""
    why = next((row.apart for row in rows if row.apart), "")
    if not why:
        return []
    older = min(rows, key=lambda row: row.feature_level)
    newer = max(rows, key=lambda row: row.feature_level)
    known = f"{older.member} knows feature level {older.feature_level}"
    if why == Objection.TOO_FAR_APART:
        steps = f"{newer.member} {newer.feature_level}: more than one step, so neither follows the other"
        return [f"{known}, {steps}; start a version between on {older.member} first"]
    log_level = max(row.log_level for row in rows)
    remedy = f"start a version there that knows {log_level}, and is not held back"
    return [f"{known}, the log is at {log_level}: it can't follow; {remedy}"]


def topologies_text(rows: Sequence[MemberRow]) -> list[str]:
    """Sentence that says which topology each member runs; empty if they run the same, as far as is known."""
    known = {row.member: row.topology_hash for row in rows if row.topology_hash}
    if len(set(known.values())) < 2:
        return []
    each = ", ".join(f"{member} {hashed[:12]}" for member, hashed in known.items())
    return [f"the members run different topologies, {each}: albireo topology apply FILE where the file is older"]


def case_text(case: str, detail: str) -> str:
    words = CASE_WORDS.get(case, case)
    if words.endswith(":"):
        return f"{words} {detail}"
    return f"{words} ({detail})" if detail else words


def at_risk_text(row: MemberRow) -> str:
    """Sentence that says since when this member's records exist nowhere else; empty if they do."""
    if not row.at_risk_since_ns:
        return ""
    return f"AT RISK since {time_text(row.at_risk_since_ns)}: what {row.member} records exists there only"


def _is_silent(voter: VoterStatus) -> bool:
    return voter.answered_ms is None or voter.answered_ms > SILENT_MS


def voter_troubles(row: MemberRow) -> list[str]:
    """Voters that this member does not reach, or that have nothing to say."""
    voters = row.voters
    silent = [name for name, one in voters.items() if _is_silent(one)]
    empty = [name for name, one in voters.items() if name not in silent and one.reason == "empty"]
    found = []
    if voters and len(silent) + len(empty) > len(voters) // 2:
        found.append("reaches no majority of the voters: it can't take over, and the set can't change")
    if silent:
        found.append(f"does not reach {', '.join(silent)}")
    if empty:
        remedy = "albireo pair init" if len(empty) == len(voters) else "albireo voter reset NAME"
        found.append(f"finds {', '.join(empty)} empty: no vote until `{remedy}`")
    return found


def _never_heard(row: MemberRow) -> list[str]:
    """Those that this member has never heard: a silence since the start has other causes than a new one."""
    never = [name for name, age in row.sees.items() if age is None]
    return [f"has never heard {', '.join(never)}: {TRUST_HINT}"] if never and not row.is_heard else []


def untrusted_text(names: Sequence[str]) -> list[str]:
    """Names of the topology whose keys are not trusted here."""
    return [
        f"{name} IS NOT TRUSTED HERE: on its machine `albireo keys list` shows its key; then `albireo keys trust "
        f"{shlex.quote(name)} KEY` here"
        for name in names
    ]


def voters_in_reach(row: MemberRow) -> tuple[int, int]:
    """(those that answer and have their store, all)."""
    good = [one for one in row.voters.values() if not _is_silent(one)]
    return sum(one.reason != "empty" for one in good), len(row.voters)


def local_text(durability: dict[str, str]) -> str:
    """Streams that are acknowledged before both members have them; empty if none is."""
    local = ", ".join(stream for stream, word in durability.items() if word == "local")
    return f"acknowledged by the active member alone, so a takeover may cut the newest: {local}" if local else ""


def private_text(replication: dict[str, str]) -> str:
    """Streams whose values only the member has that took them; empty if all are replicated."""
    private = ", ".join(stream for stream, word in replication.items() if word != "all")
    return (
        f"{private} stay with the member that took them, so a takeover leaves a gap in the other's" if private else ""
    )


def guard_text(guards: dict[str, str]) -> str:
    """Guard levels of outputs: one word if all adapters are alike. Adapters without outputs say nothing."""
    levels = dict.fromkeys(guards.values())
    if len(levels) <= 1:
        return next(iter(levels), "")
    return ", ".join(f"{name} {level}" for name, level in guards.items())
