"""What CORE found in its log, in the words of the member machine.

Spec: design/pair.md, rule 6; ADR-0119.
"""

from albireo.log import Log
from albireo.machine.feed.leader import BEHIND_RECORDS
from albireo.machine.pair.events import State
from albireo.machine.pair.member import Member
from albireo.machine.pair.party import MemberFacts
from albireo.model.feature import FIRST_LEVEL


def facts_of(
    log: Log, index: int, run: int, *, is_complete: bool, levels: tuple[int, int] = (FIRST_LEVEL, FIRST_LEVEL)
) -> MemberFacts:
    """At the start of a run.

    Args:
        is_complete: the folds could be rebuilt.
        levels: feature levels of this member and of the log.
    """
    header = log.header
    return MemberFacts(
        index=index,
        run=run,
        store=header.store_id,
        history=header.history,
        end=log.end,
        durable=log.durable,
        committed=log.committed,
        tried_epoch=header.tried_epoch,
        accepted_epoch=header.accepted_epoch,
        is_whole=not log.corrupt,
        damaged_from=min((one.first_sequence for one in log.corrupt), default=0),
        is_complete=is_complete,
        begin=log.view().begin,
        feature_level=levels[0],
        log_level=levels[1],
    )


def is_far_behind(log: Log, member: Member) -> bool:
    """Much is committed that is missing here, and there is room for it: a full disk waits for the history."""
    last = member.peer.last
    missing = 0 if last is None else last.committed.sequence - log.end.sequence
    return member.state is State.CATCHING_UP and missing >= BEHIND_RECORDS and not log.admission()
