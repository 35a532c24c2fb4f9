"""Shortcuts that the world of messages must be caught taking, each with the workload that finds it.

Spec: docs/messages.md; ADR-0184.
"""

from collections.abc import Mapping
from typing import Any, Final

from albireo.machine.message.messages import NodeMessages
from albireo.machine.message.origin import OriginSide
from albireo.machine.message.owner import OwnerSide
from albireo.sim.engine.stage import first_caught
from albireo.sim.message import shortcuts as broken
from albireo.sim.message.stage import MessageVariant
from albireo.sim.message.swarm import MessageSwarm
from albireo.sim.message.world import MessageWorld

SEEDS_PER_SHORTCUT: Final = 50
"""Number of seeds within which a workload must catch its shortcut."""


def _origin(side: type[OriginSide], **values: Any) -> MessageVariant:
    return MessageVariant(messages=type("MutantMessages", (NodeMessages,), {"origin_type": side}), **values)


def _owner(side: type[OwnerSide], **values: Any) -> MessageVariant:
    return MessageVariant(messages=type("MutantMessages", (NodeMessages,), {"owner_type": side}), **values)


_LOSSY: Final = MessageSwarm(
    loss=0.3, duplicate=0.2, long_delay=0.1, delay_ms=20.0, ask_every_ms=20.0, faults=("cut_link", "cancel"),
    fault_every_ms=300.0,
)  # fmt: skip
_CROSSED: Final = MessageSwarm(
    long_delay=0.3, delay_ms=20.0, ask_every_ms=15.0, faults=("cancel",), fault_every_ms=30.0
)
_CLEAN: Final = MessageSwarm(ask_every_ms=20.0, faults=("cancel",), fault_every_ms=100.0)
_TAKEN_OVER: Final = MessageSwarm(
    duplicate=0.2, long_delay=0.2, delay_ms=20.0, ask_every_ms=15.0, commit_ms=40.0,
    faults=("take_over", "take_over", "cancel", "go_on"), fault_every_ms=60.0,
)  # fmt: skip
_RESTORED: Final = MessageSwarm(
    long_delay=0.1, delay_ms=20.0, ask_every_ms=20.0, expires_ms=(800, 1_500), commit_ms=20.0,
    faults=("restore", "wipe", "cut_link"), fault_every_ms=400.0,
)  # fmt: skip
_TAKEN_BACK: Final = MessageSwarm(
    delay_ms=30.0, ask_every_ms=20.0, expires_ms=(1_500,), faults=("restore", "cancel", "cancel", "cancel", "cut_link"),
    fault_every_ms=60.0,
)  # fmt: skip
_FORGED: Final = MessageSwarm(ask_every_ms=20.0, faults=("forge",), fault_every_ms=40.0)
_NOTES: Final = MessageSwarm(
    notes=1.0, ask_every_ms=20.0, commit_ms=30.0, leaves=0.5, expires_ms=(300, 800), lease_ms=100,
    faults=("take_over", "take_over", "go_on"), fault_every_ms=60.0,
)  # fmt: skip
_RESTORED_NOTES: Final = MessageSwarm(
    notes=1.0, ask_every_ms=20.0, commit_ms=20.0, device_ms=100.0, expires_ms=(800, 1_500),
    faults=("restore", "cut_link"), fault_every_ms=200.0,
)  # fmt: skip
_SLOW_PROGRAMS: Final = MessageSwarm(
    notes=1.0, ask_every_ms=20.0, device_ms=400.0, expires_ms=(1_500,), lease_ms=100, receivers=4,
    faults=("cut_link",), fault_every_ms=400.0,
)  # fmt: skip
_GIVEN_BACK: Final = MessageSwarm(
    notes=1.0, ask_every_ms=20.0, device_ms=150.0, leaves=0.3, gives_back=0.5, expires_ms=(300, 800), lease_ms=100,
    receivers=4, faults=("cut_link",), fault_every_ms=400.0,
)  # fmt: skip
_LATE: Final = MessageSwarm(
    long_delay=0.4, delay_ms=20.0, ask_every_ms=20.0, expires_ms=(80, 200), faults=("cancel",), fault_every_ms=500.0
)
_CUT: Final = MessageSwarm(
    ask_every_ms=20.0, delay_ms=10.0, faults=("cut_off", "cut_link"), fault_every_ms=200.0, expires_ms=(80, 200)
)
_WRONG_WALLS: Final = MessageSwarm(
    long_delay=0.3, delay_ms=20.0, ask_every_ms=15.0, device_ms=80.0, expires_ms=(80, 200), faults=("jump_wall",),
    fault_every_ms=60.0,
)  # fmt: skip

MESSAGE_SHORTCUTS: Final[Mapping[str, tuple[MessageVariant, MessageSwarm]]] = {
    # Those of the played model.
    "accepted number forgotten at its deadline": (_owner(broken.ForgetsByDeadline, keeps_folds=False), _LOSSY),
    "body taken that was not asked for": (_owner(broken.TakesAnyBody), _LOSSY),
    "expired said after a body left": (_origin(broken.ExpiresAfterBody), _LOSSY),
    "mark passes numbers without an outcome": (_origin(broken.SkipsOpenNumbers), _CLEAN),
    "carried out before it is on record": (_owner(broken.ExecutesBeforeCommit), _TAKEN_OVER),
    "never said without a refusal": (_owner(broken.SaysNeverLightly), _CROSSED),
    "time counted from the body": (_owner(broken.CountsFromTheBody), _LATE),
    "guid not compared": (_origin(broken.ComparesNoGuid), _FORGED),
    # Of inboxes and their receivers.
    "offered on in a new life": (_owner(broken.OffersOnInANewLife), _RESTORED_NOTES),
    "time begun anew at a takeover": (_owner(broken.BeginsTimeAnewAtATakeover), _NOTES),
    "leases counted anew": (MessageVariant(receivers=broken.CountsLeasesAnew), _NOTES),
    "handed out before the lease is on record": (MessageVariant(receivers=broken.HandsOutOffTheRecord), _NOTES),
    "word of any lease taken": (MessageVariant(receivers=broken.TakesAnyLease), _SLOW_PROGRAMS),
    "expired said of what a receiver had": (MessageVariant(receivers=broken.SaysExpiredOfWhatWasOut), _NOTES),
    "earlier receivers forgotten as one gives back": (
        MessageVariant(receivers=broken.ForgetsEarlierReceivers),
        _GIVEN_BACK,
    ),
    # Others.
    "nonce of an earlier tenure taken": (_owner(broken.TakesNoncesOfEarlierTenures), _TAKEN_OVER),
    "end by the wall clock at the owner": (_owner(broken.ExpiresByTheWallAtTheOwner), _WRONG_WALLS),
    "window not kept": (_origin(broken.HasNoWindow), _CUT),
    "life of the owner not compared": (_origin(broken.ServesAnyLife), _RESTORED),
    "served on in a new life": (_origin(broken.ServesOnInANewLife), _TAKEN_BACK),
    "restored store said to go on": (MessageVariant(claims_its_store=True), _RESTORED),
    "never said before the refusal is on record": (_owner(broken.RefusesOffTheRecord), _TAKEN_OVER),
    "silence taken for never": (_origin(broken.TakesSilenceForNever), _CUT),
    "carried out again after a takeover": (_owner(broken.CarriesOutAgain), _TAKEN_OVER),
    "nothing asked at the deadline": (_origin(broken.AsksNothingAtTheDeadline), _LOSSY),
    "unknown never corrected": (_origin(broken.SettlesUnknown), _CUT),
}
HARMLESS: Final[Mapping[str, tuple[MessageVariant, MessageSwarm]]] = {
    "mark kept in memory only": (_owner(broken.PutsNoMarkOnRecord, keeps_folds=False, is_bounded=False), _TAKEN_OVER),
    "over asked before the stop is on record": (_origin(broken.AsksOverOffTheRecord, keeps_folds=False), _TAKEN_OVER),
}
"""Shortcuts that break no promise. The first is the ninth of the played model: the record lets an owner forget after a
restart too. The second would let a message that was taken back go on after a takeover."""


def catch_message_shortcut(name: str, seeds: range) -> tuple[int, str] | None:
    """Return the first seed that catches the shortcut, and what was seen; None if none of them does."""
    variant, swarm = MESSAGE_SHORTCUTS[name]
    return first_caught(lambda seed: MessageWorld(seed, swarm, variant).play(), seeds)
