"""The one place where a Spark session is started and ended.

The JVM is started by us rather than by the session builder, so that its output goes to a file, its scratch files lie in
the output directory, and its end can be waited for: when `spark_session` is left, by whatever way, no Java of ours
is running.

Spec: ADR-0070.
"""

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Final

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException, PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from albireo.pipeline.config import LOG_BYTES_MAX, SparkConfig
from albireo.pipeline.errors import OutputUnusable, SparkFailed, foreign_text
from albireo.pipeline.java import Java, find_java, java_home
from albireo.pipeline.surroundings import of_session, place_to_execute

END_TIMEOUT_S: Final = 10.0
"""A JVM that has not ended this long after its end was asked for is killed."""

_LOGGING: Final = """status = error
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = {log}
appender.file.filePattern = {log}.1
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{ISO8601}} %p %c{{1}}: %m%n%ex
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = {bytes_max}
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 1
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
"""


@contextlib.contextmanager
def spark_session(
    config: SparkConfig, directory: Path, environment: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """A session; at the end of the block it is stopped and its JVM is gone.

    Args:
        directory: gets `spark.log`, and `tmp/`, which is removed at the end.
        environment: where JAVA_HOME, PATH and TMPDIR are looked up; the process' own by default.
    Raises:
        JavaMissing: no Java can run Spark.
        OutputUnusable: nothing can be written in `directory`.
        SparkFailed: something lacks for Spark, or the JVM or the session did not start; names the log.
    """
    environment = os.environ if environment is None else environment
    java, scratch, log = find_java(environment), directory / "tmp", directory / "spark.log"
    shutil.rmtree(scratch, ignore_errors=True)
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, scratch, ignore_errors=True)
        try:
            (scratch / "conf").mkdir(parents=True)
            logging = _LOGGING.format(log=log, bytes_max=LOG_BYTES_MAX)
            (scratch / "log4j2.properties").write_text(logging, encoding="utf-8")
            tools = Path(tempfile.mkdtemp(prefix="albireo-spark-", dir=place_to_execute(scratch, environment)))
        except OSError as error:
            remedy = "make room or name another directory with --out"
            raise OutputUnusable(f"{scratch} can't be written ({error.strerror})", remedy) from error
        stack.callback(shutil.rmtree, tools, ignore_errors=True)
        stack.enter_context(_interrupt_handler_restored())
        # PySpark reads variables as long as the session lives.
        stack.enter_context(_environment(of_session(os.environ, config, scratch)))
        session = _session(stack.enter_context(_gateway(config, java, tools, scratch, log)), log)
        try:
            yield session
        finally:
            with contextlib.suppress(Exception):
                session.stop()


def spark_settings(config: SparkConfig, scratch: Path, tools: Path) -> dict[str, str]:
    """Spark's configuration: what we set and why.

    Args:
        tools: where libraries of the jars are unpacked, and may be executed.
    """
    settings = {
        "spark.app.name": "albireo",
        "spark.master": config.master,
        "spark.driver.memory": config.driver_memory,
        "spark.driver.extraJavaOptions": _java_options(config, scratch, tools),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        # A Python data source that pushes filters down is refused without it (SPARK: DATA_SOURCE_PUSHDOWN_DISABLED).
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # Delta knows microseconds; Spark's default for files is a type of its own (INT96).
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.parquet.compression.codec": "zstd",
        "spark.sql.files.maxPartitionBytes": str(config.read_partition_bytes),
        # The history seals a small file each minute: many of them go into one task.
        "spark.sql.files.openCostInBytes": str(256 * 1024),
        # Sums by hash take all memory of a task and give none back; the window that feeds them in the same stage then
        # fails for want of some, with a million minutes or so. A sort writes to disk what it can't hold.
        "spark.sql.execution.useHashAggregateExec": "false",
        # Few days at a time are written without sorting by day before; small row groups, because all are open at once.
        "spark.sql.maxConcurrentOutputFileWriters": "8",
        "spark.hadoop.parquet.block.size": str(16 * 1024 * 1024),
        # The driver lists the files that tasks wrote; markers beside them would only be in the way.
        "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
        "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    }
    return settings | (_local_settings(config, scratch) if config.is_local else {})


def _java_options(config: SparkConfig, scratch: Path, tools: Path) -> str:
    options = (
        f"-Dlog4j2.configurationFile={(scratch / 'log4j2.properties').as_uri()}",
        f"-Djava.io.tmpdir={tools}",
        # A user who is only a number has no home, and Spark's launcher makes folders there.
        f"-Duser.home={tools}",
        "-Duser.timezone=UTC",
        # One small heap on few cores: the serial collector starts fastest and takes the least memory.
        "-XX:+UseSerialGC",
        # The second compiler's work does not pay in a short run. The first alone would have 48 MB for its code, and
        # a session that lives for minutes ends for want of more.
        *(("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=192m") if config.is_short else ()),
    )
    # The launcher splits the text at blanks, unless quoted.
    return " ".join(f'"{option}"' if " " in option else option for option in options)


def _local_settings(config: SparkConfig, scratch: Path) -> dict[str, str]:
    """On one machine nothing listens but on loopback."""
    return {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(scratch),
        "spark.sql.shuffle.partitions": str(config.shuffle_tasks_local),
        "spark.default.parallelism": str(config.shuffle_tasks_local),
        # It plans the rest of a query anew behind each shuffle, as a job of its own. With a few tasks there is nothing
        # to win by that: partitions are as many as cores, and we say ourselves which side of a join is small.
        "spark.sql.adaptive.enabled": "false",
    }


@contextlib.contextmanager
def _gateway(config: SparkConfig, java: Java, tools: Path, scratch: Path, log: Path) -> Iterator[Any]:
    """The JVM, its output in the log."""
    conf = SparkConf(loadDefaults=False)
    for key, value in spark_settings(config, scratch, tools).items():
        conf.set(key, value)
    home, directory = java_home(java, tools / "java"), tempfile.tempdir
    with log.open("ab") as output, _environment(os.environ | {"JAVA_HOME": str(home), "TMPDIR": str(tools)}):
        tempfile.tempdir = str(tools)  # Where the launcher exchanges words with Java; /tmp may be full.
        try:
            gateway = _launched(conf, output, log)
        finally:
            tempfile.tempdir = directory
    try:
        yield gateway
    finally:
        _end(gateway)


def _launched(conf: SparkConf, output: IO[bytes], log: Path) -> Any:
    try:
        gateway = launch_gateway(conf, {"stdout": output, "stderr": output})
    except (PySparkRuntimeError, OSError) as error:
        raise SparkFailed(f"Java did not start Spark ({error})", f"its last words are in {log}") from error
    gateway.albireo_conf = conf
    return gateway


def _session(gateway: Any, log: Path) -> SparkSession:
    try:
        _name_nameless_user(gateway)
        return SparkSession(SparkContext(gateway=gateway, conf=gateway.albireo_conf))
    except (PySparkException, Py4JError, ValueError, OSError) as error:
        raise SparkFailed(f"no Spark session ({foreign_text(error)})", f"see {log}") from error


def _name_nameless_user(gateway: Any) -> None:
    """Hadoop asks the system for the name of the user, and fails where a number is all that there is."""
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        users = gateway.jvm.org.apache.hadoop.security.UserGroupInformation
        users.setLoginUser(users.createRemoteUser(str(os.getuid())))


def _end(gateway: Any) -> None:
    """Ends the JVM and waits for it; forgets it, so that a later session starts its own."""
    process: subprocess.Popen[bytes] = gateway.proc
    with contextlib.suppress(Exception):
        gateway.shutdown()
    SparkContext._gateway = None
    SparkContext._jvm = None
    # The gateway server ends when its standard input does.
    if process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()
    try:
        process.wait(END_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextlib.contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """These variables and no others: PySpark and its launcher take them from our own environment only."""
    before = dict(os.environ)
    for name in before.keys() - values.keys():
        del os.environ[name]
    os.environ.update(values)
    try:
        yield
    finally:
        for name in values.keys() - before.keys():
            os.environ.pop(name, None)
        os.environ.update(before)


@contextlib.contextmanager
def _interrupt_handler_restored() -> Iterator[None]:
    """SparkContext puts its own SIGINT handler in place and leaves it there."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
