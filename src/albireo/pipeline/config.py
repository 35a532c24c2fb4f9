"""Settings of the pipeline, read once at the edge."""

from collections.abc import Mapping
from typing import Final

import msgspec

MASTER_VARIABLE: Final = "ALBIREO_SPARK_MASTER"
MEMORY_VARIABLE: Final = "ALBIREO_SPARK_MEMORY"
SHORT_PARTITIONS: Final = 2
"""Tasks of a shuffle of a short run: each writes a file per day."""


class SparkConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of Spark."""

    master: str = "local[*]"
    """Spark's master URL. A cluster must see the history and the output under the same paths as the driver."""
    driver_memory: str = "1g"
    """Heap of the driver's JVM. 1 GB carried 20 million rows in the measurement of ADR-0070; sorts beyond it spill."""
    shuffle_partitions_local: int = 4
    """Tasks of a shuffle on one machine: few, because each costs more than it saves on a day of one site."""
    read_partition_bytes: int = 32 * 1024 * 1024
    """Input of one task. A quarter of Spark's default, so that a day of 100 MB still uses every core."""

    is_short: bool = False
    """Little to do: the JVM compiles quickly instead of well, which saves a third of the processor time of a small run
    and costs a large one half of its speed (ADR-0070)."""

    def __post_init__(self) -> None:
        if not self.master:
            raise ValueError("master must not be empty")
        if not 1 <= self.shuffle_partitions_local <= 10_000:
            raise ValueError("shuffle_partitions_local must be within 1..10000")

    @property
    def is_local(self) -> bool:
        return self.master.startswith("local")


def spark_config(environment: Mapping[str, str], master: str | None = None, *, is_short: bool = False) -> SparkConfig:
    """Settings from the environment; `master` given by the caller goes before it."""
    defaults = SparkConfig()
    return SparkConfig(
        master=master or environment.get(MASTER_VARIABLE) or defaults.master,
        driver_memory=environment.get(MEMORY_VARIABLE) or defaults.driver_memory,
        shuffle_partitions_local=SHORT_PARTITIONS if is_short else defaults.shuffle_partitions_local,
        is_short=is_short,
    )
