"""Admin actions on a pair: `pair init`, `pair seen`, `switchover`, `maintenance`, `promote --force`, `voter reset`.

Spec: docs/pair.md.
"""

import sys
from pathlib import Path
from typing import Any

import click

from albireo.cli.display import time_text
from albireo.cli.output import ExitCode, Failure, Output, TextTable, printed, say
from albireo.cli.pair.reach import ReachedMember, other_member, own_member
from albireo.cli.place import data_option
from albireo.client import NodeUnreachable


@click.group("pair")
def command() -> None:
    """Begin a pair; say that its losses were looked at."""


@command.command("init")
@data_option
@printed
def init(data: Path | None) -> Output:
    """Write the first record to the voters of a new pair: the primary leads, the backup joins by itself.

    Once in the life of a pair, with --data of the primary. Both members and the voters run already.
    """
    with own_member(data) as (member, _):
        answer = member.act("pair_init")
    table = TextTable(("voter", "answer"), answer["voters"].items())
    hint = f"the pair has begun: {member.place} takes the lead within a second; see `albireo status`"
    return Output(answer, table, (hint,))


@command.command("seen")
@data_option
@printed
def seen(data: Path | None) -> Output:
    """Say that somebody has looked at what was cut from a log, or may be lost: both cases end at both members.

    They stand, over restarts, because only a person can tell. They come back with a new cause.
    """
    with own_member(data) as (member, directory):
        ended = {member.place: member.act("pair_seen")["ended"]}
        try:
            with other_member(member, directory) as other:
                ended[other.place] = other.act("pair_seen")["ended"]
        except NodeUnreachable as error:
            say(f"{error}: what stands there stands on; say it again when it is back")
    lines = [f"{place}: {', '.join(cases) if cases else 'nothing stood'}" for place, cases in ended.items()]
    return Output({"ended": ended}, lines)


@click.command("switchover")
@data_option
@printed
def switchover(data: Path | None) -> Output:
    """Let the other member lead: nothing is lost, write orders and answers pause for some tenths of a second.

    With --data of the active member, or of the passive one.
    """
    with own_member(data) as (member, directory):
        answer = _active(member, directory, "switchover")
    return Output(answer, f"{answer['active']} is active, epoch {answer['epoch']}")


def _active(member: ReachedMember, directory: Path, what: str, **arguments: object) -> dict[str, Any]:
    """Ask the active member for the admin action `what`."""
    if member.pair.state in ("active", "solo"):
        return member.act(what, **arguments)
    try:
        with other_member(member, directory) as other:
            return other.act(what, **arguments)
    except NodeUnreachable as error:
        remedy = "give the command on the machine of the active member, with its --data"
        raise Failure(f"{member.place} is not active, and {error}", remedy, ExitCode.UNREACHABLE) from error


@click.command("maintenance")
@data_option
@click.option("--end", "is_over", is_flag=True, help="The work is done: it may lead again (and does not by itself).")
@printed
def maintenance(data: Path | None, is_over: bool) -> Output:
    """Keep a member from leading, for work on its machine.

    If it leads, it hands over first. From then on it follows and keeps every record, but takes over from nobody, not
    even after a restart, until `albireo maintenance --end`. Until then a failure of the other member stops the pair.
    """
    with own_member(data) as (member, _):
        answer = member.act("maintenance", is_on=not is_over)
    if is_over:
        return Output(answer, f"{member.place} may lead again")
    since = time_text(answer["maintenance_since_ns"])
    return Output(answer, f"{member.place} is in maintenance since {since}: it takes over from nobody")


@click.command("promote")
@data_option
@click.option("--force", "is_forced", is_flag=True, help="I know that the other machine is off.")
@click.option("--yes", "is_sure", is_flag=True, help="Do not ask.")
@printed
def promote(data: Path | None, is_forced: bool, is_sure: bool) -> Output:
    """Let this member lead without the voters, because the other machine is off for good.

    Everything else leads by itself. If the other machine is not off, both act, and one of the two histories is lost.
    """
    if not is_forced:
        raise Failure(
            "a member leads by itself where that is safe; there is no promotion but by force",
            "see `albireo status` for what it waits for; if the other machine is off: albireo promote --force",
            ExitCode.USAGE,
        )
    with own_member(data) as (member, _):
        for line in meaning_of(member):
            say(line)
        if not is_sure and not _agreed():
            remedy = "say yes to it, or give --yes, once the other machine is off"
            raise Failure("nothing was done", remedy, ExitCode.USAGE)
        answer = member.act("promote")
    return Output(answer, f"{member.place} leads by force in epoch {answer['epoch']}, from record {answer['end']} on")


def _agreed() -> bool:
    return sys.stdin.isatty() and click.confirm("Is the other machine off?", default=False, err=True)


def meaning_of(member: ReachedMember) -> list[str]:
    """Meaning and possible cost of a forced promotion, in sentences."""
    pair, other = member.pair, member.pair.other
    lines = [
        f"This makes {member.place} lead although the voters did not agree to it. You state that the machine of "
        f"{other.place} is off, and stays off until this one is told otherwise."
    ]
    if other.is_present:
        lines.append(f"{other.place} WAS HEARD {other.heard_ms} ms ago: it is not off, so this will be refused.")
    floors = [one.floor[1] for one in pair.voters_seen.values() if one.floor is not None]
    floor = max(floors, default=0)
    if floor > pair.end:
        lines.append(f"Lost for certain: {floor - pair.end} acknowledged records, {pair.end + 1} to {floor}.")
    if member.place in pair.set:
        lines.append(f"{member.place} was in the set when it last heard: nothing acknowledged until then is missing.")
    lines.append(
        f"May be lost: every record behind {pair.end}, where this log ends, that {other.place} acknowledged "
        "while it was alone."
    )
    return lines


@click.group("voter")
def voter() -> None:
    """Voters of a pair."""


@voter.command("reset")
@click.argument("name")
@data_option
@printed
def reset(name: str, data: Path | None) -> Output:
    """Let the voter NAME, which lost its store, vote again; the active member vouches for what was agreed.

    NAME as the topology lists it (witness:w1), or w1.
    """
    with own_member(data) as (member, directory):
        answer = _active(member, directory, "voter_reset", voter=name)
    return Output(answer, f"{answer['voter']} votes again; it promises nothing below epoch {answer['promised']}")
