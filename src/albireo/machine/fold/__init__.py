"""Folds of the log: the knowledge of a node, rebuilt by replay.

All folds see committed frames only, in log order. For each frame CORE calls, in this order:

    conditions.time_passed(log_time, node_ns)       before anything of the frame is folded
    dim.fold_item(record, sequence)                 each ItemDeclared, then once
    conditions.fold_items(records, log_time)
    cases.redefined(item_ids)
    dim.fold_samples(batch, last_sequence, log_time) -> fresh
    conditions.fold_samples(fresh, log_time)
    cases.fold(record, sequence)                    each CaseChanged

and once per turn, after the frames, `cases.propose(log_time, wall_ns)`, whose records it appends. When no frame comes,
CORE appends a mark frame at the earliest `deadline()` of the folds, so that log time reaches it. In a replay small
frames are folded together where that is the same (`stretch`).
"""

from albireo.machine.fold.alarms.cases import Cases
from albireo.machine.fold.alarms.conditions import Conditions
from albireo.machine.fold.alarms.flood import FloodMetrics
from albireo.machine.fold.items.dim import Dim, Fresh
from albireo.model.settings import AlarmConfig

__all__ = ["AlarmConfig", "Cases", "Conditions", "Dim", "FloodMetrics", "Fresh"]
