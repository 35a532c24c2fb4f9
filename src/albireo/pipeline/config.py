"""Settings of the pipeline, read once at the edge."""

from collections.abc import Mapping
from typing import Final

import msgspec

MASTER_VARIABLE: Final = "ALBIREO_SPARK_MASTER"
MEMORY_VARIABLE: Final = "ALBIREO_SPARK_MEMORY"
SHORT_ROWS_MAX: Final = 3_000_000
"""Samples up to which a run counts as short: about a minute of work on two cores."""
SHORT_TASKS: Final = 2
"""Fewest tasks of a shuffle of a short run: each writes a file per day."""
ROWS_OF_TASK: Final = 400_000
"""Samples of one task of a shuffle. Two tasks at once, each with a few times as many, leave so little of a heap of 1 GB
to the windows that these write to disk over and over, and no room is left to read that again (ADR-0070)."""
TASKS_MAX: Final = 1_000
LOG_BYTES_MAX: Final = 8 * 1024 * 1024
"""The log of Spark is begun anew beyond this size; one older part is kept."""


class SparkConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of Spark."""

    master: str = "local[*]"
    """Spark's master URL. A cluster must see the history and the output under the same paths as the driver."""
    driver_memory: str = "1g"
    """Heap of the driver's JVM. 1 GB carried 20 million rows, in as many tasks as `shuffle_tasks` says (ADR-0070)."""
    shuffle_tasks_local: int = 4
    """Fewest tasks of a shuffle on one machine: few, because each costs more than it saves on a day of one site."""
    read_partition_bytes: int = 32 * 1024 * 1024
    """Input of one task. A quarter of Spark's default, so that a day of 100 MB still uses every core."""

    is_short: bool = False
    """Little to do: the JVM compiles quickly instead of well, which saves a third of the processor time of a small run
    and costs a large one half of its speed (ADR-0070)."""

    def __post_init__(self) -> None:
        if not self.master:
            raise ValueError("master must not be empty")
        if not 1 <= self.shuffle_tasks_local <= TASKS_MAX:
            raise ValueError(f"shuffle_tasks_local must be within 1..{TASKS_MAX}")

    @property
    def is_local(self) -> bool:
        return self.master.startswith("local")

    def shuffle_tasks(self, sample_rows: int) -> int:
        """Tasks of a shuffle on one machine in a run over so many samples."""
        return min(TASKS_MAX, max(self.shuffle_tasks_local, -(-sample_rows // ROWS_OF_TASK)))


def spark_config(environment: Mapping[str, str], master: str | None = None, *, is_short: bool = False) -> SparkConfig:
    """Settings from the environment; `master` given by the caller goes before it."""
    defaults = SparkConfig()
    return SparkConfig(
        master=master or environment.get(MASTER_VARIABLE) or defaults.master,
        driver_memory=environment.get(MEMORY_VARIABLE) or defaults.driver_memory,
        shuffle_tasks_local=SHORT_TASKS if is_short else defaults.shuffle_tasks_local,
        is_short=is_short,
    )
