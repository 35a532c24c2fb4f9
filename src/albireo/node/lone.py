"""A process of its own beside the nodes, a witness or a gate: LOGGER and its one actor as two threads under boot.

Supervised like a node's actors, with one difference: no restart. The service manager or an operator starts it again.
"""

from pathlib import Path

import msgspec

from albireo.model.instant import MS, SECOND
from albireo.model.settings import RuntimeSettings
from albireo.runtime import ActorSpec
from albireo.runtime.actor.node import run_node
from albireo.runtime.actor.supervision import SupervisionConfig


def run_alone(spec: ActorSpec, data: Path, runtime: RuntimeSettings) -> int:
    """Run the actor in this process until a signal stops it. Gives and raises what `run_node` does."""
    config = msgspec.structs.replace(supervision_of(runtime), intensity=0)
    return run_node(data, [logger_of(runtime), spec], "thread", config=config, log_level=runtime.log_level.value)


def logger_of(runtime: RuntimeSettings) -> ActorSpec:
    """LOGGER, which starts before the others and which nobody depends on."""
    arguments: dict[str, object] = {
        "target": runtime.log_target,
        "level": runtime.log_level,
        "file_mib": runtime.log_file_mib,
    }
    return ActorSpec("logger", "albireo.node.logger:create", arguments, stage=0, is_essential=False)


def supervision_of(runtime: RuntimeSettings) -> SupervisionConfig:
    """The supervisor's configuration, from the topology's words."""
    return SupervisionConfig(
        intensity=runtime.restarts_max,
        period_ns=runtime.restarts_within_s * SECOND,
        ask_every_ns=runtime.alive_every_ms * MS,
        silent_after_ns=runtime.alive_timeout_ms * MS,
        stop_within_ns=runtime.stop_timeout_ms * MS,
    )
