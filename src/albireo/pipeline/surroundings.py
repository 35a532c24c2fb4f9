"""Surroundings of a Spark session: what of them is kept out, what it gets instead, and what has to be there.

A machine may have another Spark or Hadoop, set up by variables that this session would follow to another cluster, other
files and other classes. None of them is meant: `session` has all settings, the user's own included. Only a cluster is
told by them how to reach this machine, and which Python its own machines have.
"""

import importlib
import importlib.util
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from albireo.pipeline.config import SparkConfig
from albireo.pipeline.errors import INSTALL, SparkFailed

PYSPARK_NEEDED: Final = "4.3.0"
ROOM_BYTES: Final = 32 * 1024 * 1024
"""Room for the native libraries that Spark's jars unpack."""
OF_CLUSTERS: Final = frozenset({"SPARK_LOCAL_IP", "SPARK_LOCAL_HOSTNAME", "SPARK_PUBLIC_DNS", "PYSPARK_PYTHON"})
_PREFIXES: Final = ("SPARK_", "PYSPARK_", "HADOOP_", "HDFS_", "MAPRED_", "YARN_", "HIVE_")
_NAMES: Final = frozenset({"BASH_ENV", "CLASSPATH", "JAVA_TOOL_OPTIONS"})


def foreign(names: Iterable[str]) -> set[str]:
    """Variables that Spark, Hadoop, Java or their scripts would follow, and that are not for us."""
    return {one for one in names if one.startswith(_PREFIXES) or one.endswith("_JAVA_OPTIONS") or one in _NAMES}


def cleaned(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment without them."""
    kept_out = foreign(environment)
    return {name: value for name, value in environment.items() if name not in kept_out}


def of_session(environment: Mapping[str, str], config: SparkConfig, scratch: Path) -> dict[str, str]:
    """The environment of a session: places that may be anybody's are told to it, so that it looks for none."""
    own = {
        "SPARK_HOME": str(_pyspark()),
        "SPARK_CONF_DIR": str(scratch / "conf"),
        "SPARK_LOCAL_DIRS": str(scratch),
        # Java takes names of files by it, and in some languages writes numbers and small letters otherwise.
        "LC_ALL": "C.UTF-8",
    }
    if not config.is_local:
        return cleaned(environment) | {one: environment[one] for one in OF_CLUSTERS & environment.keys()} | own
    # The name of this machine may stand for nothing; where nothing listens but on loopback none is needed.
    here = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_HOSTNAME": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    return cleaned(environment) | own | here


def place_to_execute(scratch: Path, environment: Mapping[str, str]) -> Path:
    """The first directory from which libraries may be loaded: `scratch`, or one for temporary files.

    Raises:
        SparkFailed: there is none, or something else lacks without which Spark does not start.
    """
    found: str = importlib.import_module("pyspark").__version__
    if found != PYSPARK_NEEDED:
        problem = f"the pyspark that is found, {_pyspark()}, is version {found}, not {PYSPARK_NEEDED}"
        raise SparkFailed(problem, f"unset PYTHONPATH if it leads to another Spark; else {INSTALL}")
    if shutil.which("bash", path=environment.get("PATH", os.defpath)) is None:
        raise SparkFailed("no bash on PATH, in which Spark's launcher is written", "install bash, or correct PATH")
    own, runtime, home = (environment.get(name, "") for name in ("TMPDIR", "XDG_RUNTIME_DIR", "HOME"))
    others = (own, runtime, "/tmp", "/var/tmp", "/dev/shm", home)
    places = [scratch, *(Path(one) for one in others if one.startswith("/"))]
    reasons = {place: unfit(place) for place in places}
    if fit := [place for place, why in reasons.items() if not why]:
        return fit[0]
    raise SparkFailed(
        "Spark can load the libraries that it unpacks from nowhere: "
        + ", ".join(f"{place} is {why}" for place, why in reasons.items()),
        "name a directory in TMPDIR, or another output with --out, on a disk that has room and is not mounted noexec",
    )


def unfit(place: Path) -> str:
    """Why nothing can be unpacked and executed in a directory; empty: it can."""
    try:
        disk = os.statvfs(place)
        if disk.f_flag & getattr(os, "ST_NOEXEC", 0):
            return "mounted noexec"
        with tempfile.TemporaryDirectory(dir=place, prefix="albireo-spark-"):
            pass
    except OSError as error:
        return f"not to be had ({error.strerror})"
    return "full" if disk.f_blocks and disk.f_bavail * disk.f_frsize < ROOM_BYTES else ""


def _pyspark() -> Path:
    """Folder of the package, in which Spark is: what is imported, and no other."""
    found = importlib.util.find_spec("pyspark")
    assert found is not None and found.origin is not None, "nobody starts Spark without it"
    return Path(found.origin).parent
