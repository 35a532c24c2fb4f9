"""Heartbeats: what one says of its sender, and the answer to it.

Spec: design/pair.md, rule 13.
"""

from albireo.codec.pair_message import Heartbeat, HeartbeatAnswered
from albireo.machine.pair.events import State
from albireo.machine.pair.following import Following
from albireo.machine.pair.holder import Holder
from albireo.machine.pair.party import Party
from albireo.model.instant import Instant


def heartbeat_of(
    own: Party, state: State, holder: Holder | None, following: Following | None, beat: int, now: Instant
) -> Heartbeat:
    """Heartbeat that says where this member stands."""
    followed = following.epoch if following is not None and following.is_verified else 0
    is_holder = holder is not None and bool(holder.changes.confirmed) and not holder.has_yielded
    return Heartbeat(
        **own.peer_head,
        beat=beat,
        sent=now,
        state=state.value,
        epoch=holder.epoch if holder is not None else followed,
        is_acting=is_holder and state in (State.RECOVERING, State.ACTIVE, State.SOLO),
        is_holder=is_holder,
        members=holder.changes.confirmed if holder is not None else (),
        end=own.log.end,
        sent_to=holder.sent_to if holder is not None else 0,
        session=holder.session if holder is not None else 0,
        committed=own.log.told,
        accepted_epoch=own.accepted_epoch,
        is_held=own.is_held,
        reaches=own.reaches,
        adapters=own.adapters,
        has_room=not own.log.refuses_because,
        feature_level=own.feature_level,
        log_level=own.log_level,
    )


def answer_of(own: Party, heartbeat: Heartbeat, *, follows: bool, is_promised: bool) -> HeartbeatAnswered:
    """Answer that a heartbeat was heard; `follows`: this member follows its sender in its epoch."""
    return HeartbeatAnswered(
        **own.peer_head,
        to_run=heartbeat.run,
        echo=heartbeat.sent,
        following_epoch=heartbeat.epoch if follows else 0,
        is_promised=is_promised,
        accepted_epoch=own.accepted_epoch,
    )
