"""One Spark session for all tests of the pipeline: its start takes longer than any of them."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from albireo.pipeline.config import SparkConfig
from albireo.pipeline.session import spark_session


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    directory: Path = tmp_path_factory.mktemp("spark")
    with spark_session(SparkConfig(master="local[2]", shuffle_tasks_local=2, is_short=True), directory) as session:
        yield session
