"""Judgement of one read of both blocks, and of a question before any read. Pure functions.

A block is judged, never believed: it must name this cluster, list, member and lease, and must not be older than an
image that was seen before.
Spec: design/pair.md, The PLC register block.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from albireo.codec.pair_message import Accept, Install, Prepare, Question, Record, Voted
from albireo.codec.register_block import (
    BLOCK_REGISTERS,
    EPOCH_MAX,
    RUN_MAX,
    VERSION_MAX,
    Ballot,
    BlockDamage,
    BlockError,
    LifeSign,
    cluster_tag,
    count_after,
    decode_ballot,
    decode_life,
    is_older,
)
from albireo.machine.vote.events import OwnCopy, RegisterConfig, RegisterRefusal
from albireo.machine.vote.voter import VoterRefusal
from albireo.model.instant import MS

_NOT_OURS_TO_MEND: Final = frozenset({BlockDamage.SIZE, BlockDamage.WORD, BlockDamage.OTHER_LAYOUT})
"""Damage that writing again would not mend, or where it would destroy the block of a later version."""


class Look(NamedTuple):
    """One read of both blocks, judged."""

    other: Ballot | str
    """The other member's ballot, or why it is no answer."""
    own_life: LifeSign | None
    """Life-sign of the own block; None: torn, or never written."""
    other_life: LifeSign | None


def own_trouble(words: Sequence[int], config: RegisterConfig, copy: OwnCopy, landed: int) -> str | None:
    """Own block against the own copy: "": equal; None: the block is to be written; else why there is no vote."""
    try:
        found = decode_ballot(words, config.member * BLOCK_REGISTERS)
    except BlockError as error:
        return error.damage.value if error.damage in _NOT_OURS_TO_MEND else None
    strange = strangeness(found, config, config.member)
    if strange or found == copy.ballot:
        return strange
    if found.count == copy.ballot.count:
        return RegisterRefusal.TWO_WRITERS.value
    if is_older(copy.ballot.count, found.count):
        return RegisterRefusal.COPY_BEHIND.value
    return RegisterRefusal.REWOUND.value if is_older(found.count, landed) else None


def other_ballot(words: Sequence[int], config: RegisterConfig, high: tuple[int, int, int]) -> Ballot | str:
    """The other member's ballot, or why it is no answer.

    Args:
        high: highest promise, epoch and version seen there before.
    """
    try:
        found = decode_ballot(words, (1 - config.member) * BLOCK_REGISTERS)
    except BlockError as error:
        return f"other_{error.damage.value}"
    strange = strangeness(found, config, 1 - config.member)
    if not strange and (found.promised < high[0] or found.rank < high[1:]):
        strange = RegisterRefusal.REWOUND.value
    return f"other_{strange}" if strange else found


def strangeness(found: Ballot, config: RegisterConfig, member: int) -> str:
    """Reason why a valid block is not that of `member` of this pair; "" if it is."""
    if found.cluster_tag != cluster_tag(config.cluster):
        return VoterRefusal.FOREIGN_CLUSTER.value
    if found.generation != config.generation:
        return VoterRefusal.OTHER_LIST.value
    if found.member != member:
        return VoterRefusal.MALFORMED.value
    return "" if found.lease_ms * MS == config.lease_ns else RegisterRefusal.LEASE_DIFFERS.value


def admitted(words: Sequence[int], config: RegisterConfig, question: Install) -> Ballot | str:
    """First own ballot, to be written over zeros or over a block that promised no more; else why not."""
    count = 0
    try:
        found = decode_ballot(words, config.member * BLOCK_REGISTERS)
    except BlockError as error:
        if error.damage is not BlockDamage.ZERO:
            return str(error.damage.value)
    else:
        strange = strangeness(found, config, config.member)
        if strange or found.promised > question.promised or found.rank > question.record.rank:
            return strange or str(VoterRefusal.SUPERSEDED.value)
        count = found.count
    return Ballot(
        count=count_after(count),
        cluster_tag=cluster_tag(config.cluster),
        member=config.member,
        generation=config.generation,
        lease_ms=config.lease_ns // MS,
        **fields_of(question.record) | {"promised": question.promised},
    )


def life_in(words: Sequence[int], start: int) -> LifeSign | None:
    """The life-sign of the block at `start`; None if it is torn or was never written."""
    try:
        return decode_life(words, start)
    except BlockError:
        return None


def refusal_unseen(question: Question, config: RegisterConfig, copy: OwnCopy | None) -> VoterRefusal | None:
    """Refusal of a question that needs no look at the PLC; None: look."""
    if question.cluster != config.cluster:
        return VoterRefusal.FOREIGN_CLUSTER
    if question.generation != config.generation:
        return VoterRefusal.OTHER_LIST
    if (question.member, question.run) != (config.member, config.run):
        return VoterRefusal.MALFORMED
    if (copy is None) != isinstance(question, Install):
        return VoterRefusal.EMPTY if copy is None else VoterRefusal.NOT_EMPTY
    match question:
        case Install():
            is_sound = _is_known(question.record, config) and question.record.epoch <= question.promised <= EPOCH_MAX
        case Prepare():
            is_sound = _is_own(question.epoch, config)
        case Accept():
            record = question.record
            is_sound = _is_known(record, config) and _is_own(record.epoch, config) and record.run == question.run
        case _:
            is_sound = True
    return None if is_sound else VoterRefusal.MALFORMED


def _is_own(epoch: int, config: RegisterConfig) -> bool:
    return 0 < epoch <= EPOCH_MAX and epoch % 2 == config.member


def _is_known(record: Record, config: RegisterConfig) -> bool:
    """A record of this pair that the registers can hold."""
    return (
        (record.cluster, record.voters, record.generation) == (config.cluster, config.voters, config.generation)
        and record.lease_ns == config.lease_ns
        and record.holder == record.epoch % 2
        and record.members in ((0,), (1,), (0, 1))
        and record.holder in record.members
        and 0 < record.epoch <= EPOCH_MAX
        and 1 <= record.version <= VERSION_MAX
        and 0 <= record.run <= RUN_MAX
    )


def vote(config: RegisterConfig, question: Question, reason: str) -> Voted:
    """Vote that tells nothing about the blocks; granted if there is no `reason` against it."""
    return Voted(
        voter=config.name,
        cluster=config.cluster,
        generation=config.generation,
        to_run=question.run,
        round=question.round,
        question=str(type(question).__struct_config__.tag),
        is_granted=not reason,
        reason=reason,
    )


def record_of(config: RegisterConfig, ballot: Ballot) -> Record | None:
    """The record that a block holds; None before the first."""
    if ballot.epoch == 0:
        return None
    return Record(
        cluster=config.cluster,
        voters=config.voters,
        generation=config.generation,
        epoch=ballot.epoch,
        version=ballot.version,
        holder=ballot.epoch % 2,
        run=ballot.run,
        members=ballot.members,
        lease_ns=config.lease_ns,
        is_forced=ballot.is_forced,
    )


def fields_of(record: Record) -> dict[str, Any]:
    """Fields of a ballot that a record fills."""
    return {
        "promised": record.epoch,
        "epoch": record.epoch,
        "version": record.version,
        "members": record.members,
        "run": record.run,
        "is_forced": record.is_forced,
    }
