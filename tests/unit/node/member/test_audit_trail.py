"""The audit trail, as far as it needs no second member."""

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from albireo.codec.pair_message import Heartbeat
from albireo.codec.record import Audited
from albireo.model.instant import Instant, WallTime
from albireo.model.log_view import LogView
from albireo.model.position import BEGINNING, EpochHistory
from albireo.node.member.audit_trail import AuditTrail
from albireo.node.member.marks import Marks

ENTRY = Audited(at_ns=5, user="u", action="switchover", subject="root[backup]")
BEAT = Heartbeat(
    feature_level=1,
    log_level=1,
    cluster="c",
    member=1,
    run=1,
    store="s",
    beat=1,
    sent=Instant(0),
    state="ready",
    epoch=1,
    is_acting=False,
    is_holder=False,
    end=BEGINNING,
    committed=BEGINNING,
    accepted_epoch=1,
)


@pytest.mark.parametrize("changes", [{"at_ns": 2**63}, {"at_ns": -(2**63)}, {"detail": "x" * 100_000}])
def test_an_entry_of_the_other_member_that_is_out_of_bounds_is_not_appended(
    tmp_path: Path, changes: dict[str, object]
) -> None:
    appended: list[Audited] = []

    def append(entries: Sequence[Audited]) -> int:
        appended.extend(entries)
        return len(appended)

    log = LogView(committed=BEGINNING, durable=BEGINNING, end=BEGINNING, history=EpochHistory())
    places = ("root[primary]", "root[backup]")
    trail = AuditTrail(lambda: log, Marks(tmp_path), append, lambda: WallTime(1), places)
    beyond = msgspec.structs.replace(ENTRY, **changes)
    trail.heard(msgspec.structs.replace(BEAT, orders=(beyond, ENTRY)))
    assert appended == [ENTRY]
