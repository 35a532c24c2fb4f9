"""Memory of Spark: room for what Java compiles, tasks that fit into the heap, words when it is too little."""

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from albireo.codec.history import Manifest
from albireo.pipeline.config import ROWS_OF_TASK, SHORT_ROWS_MAX, SHORT_TASKS, TASKS_MAX, SparkConfig, spark_config
from albireo.pipeline.errors import SparkFailed
from albireo.pipeline.source import HistoryFolder, named_failures

MIB = 1 << 20
DEATH = "java.lang.OutOfMemoryError: Java heap space\n"


@pytest.mark.spark
@pytest.mark.slow
def test_java_has_room_for_the_code_of_a_long_session(spark: SparkSession) -> None:
    """`spark` is a short session; with nothing said it would have 48 MiB."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    pools = jvm.java.lang.management.ManagementFactory.getMemoryPoolMXBeans()
    sizes = {str(pool.getName()): int(pool.getUsage().getMax()) for pool in pools}
    assert sum(size for name, size in sizes.items() if name.startswith("Code")) >= 190 * MIB, sizes


def test_a_task_never_has_more_rows_than_find_room_in_memory() -> None:
    assert spark_config({}, is_short=True).shuffle_tasks(0) == SHORT_TASKS
    assert spark_config({}, is_short=True).shuffle_tasks(SHORT_ROWS_MAX) * ROWS_OF_TASK >= SHORT_ROWS_MAX
    assert SparkConfig().shuffle_tasks(0) == SparkConfig().shuffle_tasks_local
    assert SparkConfig().shuffle_tasks(50 * ROWS_OF_TASK) == 50
    assert SparkConfig().shuffle_tasks(50 * ROWS_OF_TASK + 1) == 51
    assert SparkConfig().shuffle_tasks(10**12) == TASKS_MAX


@pytest.mark.parametrize(("before", "meanwhile", "is_said"), [("", DEATH, True), (DEATH, "", False), ("", "", False)])
def test_a_run_that_is_out_of_memory_says_so_with_the_remedy(
    tmp_path: Path, before: str, meanwhile: str, is_said: bool
) -> None:
    """The JVM is gone by then: its log has the reason. That of an earlier run is none."""
    log = tmp_path / "spark.log"
    log.write_text(before)
    history = HistoryFolder(directory=tmp_path, manifest=Manifest(node="root"))
    with pytest.raises(SparkFailed) as caught, named_failures(history, log):
        log.write_text(before + meanwhile)
        raise PySparkException("An error occurred while calling o1.parquet.")
    assert ("ALBIREO_SPARK_MEMORY" in caught.value.remedy) is is_said
