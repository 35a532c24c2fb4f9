"""Surroundings that are made for another Spark."""

FOREIGN = {
    "CLASSPATH": "/nowhere",
    "HADOOP_CONF_DIR": "/nowhere",
    "HADOOP_HOME": "/nowhere",
    "JAVA_TOOL_OPTIONS": "-javaagent:/nowhere.jar",
    "JDK_JAVA_OPTIONS": "-Xmx1m",
    "PYSPARK_DRIVER_PYTHON": "jupyter",
    "PYSPARK_GATEWAY_PORT": "1",
    "PYSPARK_GATEWAY_SECRET": "x",
    "PYSPARK_PYTHON": "python2.7-missing",
    "PYSPARK_SUBMIT_ARGS": "--master yarn pyspark-shell",
    "SPARK_CONF_DIR": "/nowhere",
    "SPARK_DIST_CLASSPATH": "/nowhere",
    "SPARK_HOME": "/nowhere",
    "SPARK_LOCAL_IP": "10.99.99.99",
    "SPARK_REMOTE": "sc://127.0.0.1:1",
    "YARN_CONF_DIR": "/nowhere",
    "_JAVA_OPTIONS": "-Xmx1m",
}
"""Variables of other Sparks, Hadoops and Javas, each of which would end a session that follows it."""
