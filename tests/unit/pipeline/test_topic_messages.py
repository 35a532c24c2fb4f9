"""Spark reads messages by the name of their topic, as DuckDB and Polars do (tests/unit/node/topics/test_store.py)."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from albireo.codec.puts import Extra
from albireo.machine.topics.tables import KeptMessages
from albireo.model.position import Position
from albireo.node.topics.store import TopicStore
from tests.parts.message_columns import columns

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_messages_of_a_topic_come_in_their_order_with_key_and_headers(spark: SparkSession, tmp_path: Path) -> None:
    store, _ = TopicStore.open(tmp_path, "root")
    rows = [(1, 1, 1, b"a"), (2, 1, 2, b"b"), (1, 2, 3, b"c")]
    content = columns(rows, {2: Extra(b"fan", {"unit": "rpm"})})
    names = {1: "plant.events", 2: "plant.jobs"}
    store.seal([content], Position(1, 3), {}, names, b"L", (), KeptMessages({1: 0, 2: 0}))
    table = spark.read.parquet(str(tmp_path / "topics" / "*.parquet"))
    found = table.where("topic = 'plant.events'").orderBy("sequence").collect()
    assert [(int(one.number), bytes(one.body)) for one in found] == [(1, b"a"), (2, b"c")]
    assert (bytes(found[1].key), found[1].headers, found[0].key) == (b"fan", {"unit": "rpm"}, None)
