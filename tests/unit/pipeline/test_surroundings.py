"""What a Spark session takes from its surroundings: nothing that is another one's, and a place that lets it work."""

import os
from pathlib import Path

import pytest

from albireo.pipeline import surroundings
from albireo.pipeline.config import SparkConfig
from albireo.pipeline.errors import SparkFailed
from tests.unit.pipeline.other_sparks import FOREIGN

OWN = {"ALBIREO_SPARK_MEMORY": "1g", "HOME": "/x", "JAVA_HOME": "/jvm", "PATH": "/bin", "TMPDIR": "/tmp"}


def test_what_others_set_is_kept_out() -> None:
    assert surroundings.foreign(OWN | FOREIGN) == FOREIGN.keys()
    assert surroundings.cleaned(OWN | FOREIGN) == OWN


def test_a_cluster_is_told_how_to_reach_this_machine() -> None:
    told = {"PYSPARK_PYTHON", "SPARK_LOCAL_IP", "SPARK_LOCAL_HOSTNAME"}
    own = {"SPARK_HOME", "SPARK_CONF_DIR", "SPARK_LOCAL_DIRS", "LC_ALL"} | OWN.keys()
    here = surroundings.of_session(OWN | FOREIGN, SparkConfig(), Path("/x"))
    assert (set(here), here["SPARK_LOCAL_IP"]) == (own | told, "127.0.0.1")
    there = surroundings.of_session(OWN | FOREIGN, SparkConfig(master="spark://head:7077"), Path("/x"))
    assert (set(there), there["SPARK_LOCAL_IP"]) == (own | told - {"SPARK_LOCAL_HOSTNAME"}, "10.99.99.99")
    assert all(there[name] != FOREIGN.get(name) for name in own)


def test_the_first_place_that_lets_programs_run_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """/proc stands for a disk where nothing can be written."""
    assert surroundings.place_to_execute(tmp_path, {}) == tmp_path
    others = {"TMPDIR": "/sys", "XDG_RUNTIME_DIR": str(tmp_path)}
    assert surroundings.place_to_execute(Path("/proc"), others) == tmp_path
    monkeypatch.setattr(surroundings, "ROOM_BYTES", 1 << 62)
    with pytest.raises(SparkFailed) as refused:
        surroundings.place_to_execute(Path("/proc"), {"TMPDIR": str(tmp_path), "HOME": "relative"})
    assert "/proc is not to be had" in refused.value.problem
    assert f"{tmp_path} is full" in refused.value.problem
    assert "TMPDIR" in refused.value.remedy


def test_a_place_that_is_not_there_is_none(tmp_path: Path) -> None:
    assert surroundings.unfit(tmp_path / "none") == "not to be had (No such file or directory)"


def test_another_pyspark_and_a_machine_without_bash_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SparkFailed, match="no bash"):
        surroundings.place_to_execute(tmp_path, {"PATH": "/nowhere"})
    monkeypatch.setattr("pyspark.__version__", "3.5.1")
    with pytest.raises(SparkFailed, match=r"is version 3\.5\.1, not") as refused:
        surroundings.place_to_execute(tmp_path, os.environ)
    assert "PYTHONPATH" in refused.value.remedy
