"""Room for what Java compiles: a session that lived for minutes once ended for want of it."""

import pytest
from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]
MIB = 1 << 20


def test_java_has_room_for_the_code_of_a_long_session(spark: SparkSession) -> None:
    """`spark` is a short session; with nothing said it would have 48 MiB."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    pools = jvm.java.lang.management.ManagementFactory.getMemoryPoolMXBeans()
    sizes = {str(pool.getName()): int(pool.getUsage().getMax()) for pool in pools}
    assert sum(size for name, size in sizes.items() if name.startswith("Code")) >= 190 * MIB, sizes
