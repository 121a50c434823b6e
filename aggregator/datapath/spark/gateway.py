"""Starts the driver's Java directly, without Spark's launcher, where the settings allow it.

`spark-submit` starts a Java that puts the command together, and in the driver's a program that
reads settings, logs in and then starts the server for Python. With a local master and no more than
settings that are known here all of that ends in the same server, later and for more CPU.
Where anything else is set, `quick_command` has no command, and Spark starts it.
"""

import os
import shlex
import shutil
import struct
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pyspark import SparkContext

from aggregator.datapath.spark.class_archive import JAVA_ENVIRONMENT
from aggregator.datapath.spark.java_options import DRIVER
from aggregator.plan.lanes.memory import HEAP

SERVER = "org.apache.spark.api.python.PythonGatewayServer"
CLASS_PATH = "spark.driver.extraClassPath"
CONNECTION_FILE = "_PYSPARK_DRIVER_CONN_INFO_PATH"
PORT, SECRET = "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"
"""Where PySpark looks for a server that runs already."""
OF_SUBMIT = (
    *("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_DIST_CLASSPATH"),
    *("SPARK_PREPEND_CLASSES", "PYSPARK_SUBMIT_ARGS", "SPARK_TESTING", PORT),
)
"""Where one of these is in the environment, Spark itself has to make sense of it: the first ones
are a part of the class path."""
CONF_FILES = ("spark-defaults.conf", "spark-env.sh")
KNOWN = (HEAP, CLASS_PATH, DRIVER, "spark.master", "spark.driver.host", "spark.driver.bindAddress")
NO_INTERRUPTS = ("/bin/sh", "-c", 'trap "" INT; exec "$0" "$@"')
"""Becomes the command behind it, without Ctrl-C, which is ours. Not by `preexec_fn` as PySpark has
it: that is Python between fork and exec, where what another thread held is held for ever, and
others run discovery meanwhile (docs.python.org/3/library/subprocess.html)."""
START_SECONDS = 120.0
POLL_SECONDS = 0.02


def quick_command(
    words: Sequence[str],
    conf: Mapping[str, str],
    java_home: Path,
    spark_home: Path,
    environment: Mapping[str, str],
) -> tuple[str, ...]:
    """The command of a driver's Java that begins with the server; nothing where Spark starts it.

    `words` are what Spark's launcher said, up to the class that is started; none are known where
    there is no archive of classes. `conf` are the settings of a launch.
    """
    if "-cp" not in words or set(conf) - set(KNOWN):
        return ()
    if any(environment.get(name) for name in OF_SUBMIT):
        return ()
    if any((spark_home / "conf" / name).exists() for name in CONF_FILES):
        return ()
    at = words.index("-cp") + 1
    try:
        given = shlex.split(conf.get(DRIVER, ""))
        more = shlex.split(environment.get(JAVA_ENVIRONMENT, ""))
    except ValueError:  # quotes that do not end: Spark says so
        return ()
    # Spark refuses a heap among the options, and names the setting for it.
    if any(it.startswith("-Xmx") for it in given):
        return ()
    return (
        *(str(java_home / "bin" / "java"), "-cp", words[at], *more, f"-Xmx{conf[HEAP]}", *given),
        *(it for it in words[at + 1 :] if not it.startswith("-Xmx")),
        *(f"-D{name}={value}" for name, value in conf.items()),
        SERVER,
    )


class Server(NamedTuple):
    """A Java that waits for Python: its process where we started it, its port and its secret."""

    process: subprocess.Popen[bytes] | None
    port: int
    secret: str


def start_quickly(command: Sequence[str], spark_home: Path) -> bool:
    """Start this command and have PySpark use it; False when no server came of it.

    Its Java ends with this process, as Spark's own way has it.
    """
    server = launch(command, spark_home)
    if server is None:
        return False
    connect(server)
    return True


def launch(command: Sequence[str], spark_home: Path, stdin: int = subprocess.PIPE) -> Server | None:
    """Start this command; None when no server came of it.

    It ends at the end of what it reads from `stdin`: by default, when this process ends.
    """
    folder = Path(tempfile.mkdtemp(prefix="gateway-"))
    connection_file = folder / "connection"
    environment = {
        **os.environ,
        "SPARK_HOME": str(spark_home),
        "SPARK_CONNECT_MODE": "0",
        # As `spark-submit` has it: Python's workers agree on what a text hashes to.
        "PYTHONHASHSEED": "0",
        CONNECTION_FILE: str(connection_file),
    }
    try:
        child = subprocess.Popen([*NO_INTERRUPTS, *command], stdin=stdin, env=environment)
        if not _has_connected(connection_file, child):
            child.kill()
            child.communicate()
            return None
        port, secret = _connection(connection_file.read_bytes())
    except OSError:
        return None
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return Server(child, port, secret)


def connect(server: Server) -> None:
    """Have PySpark use it."""
    os.environ[PORT], os.environ[SECRET] = str(server.port), server.secret
    try:
        SparkContext._ensure_initialized()
    finally:
        # Our child is not one that spark-submit has started.
        del os.environ[PORT], os.environ[SECRET]
    gateway: Any = SparkContext._gateway
    gateway.proc = server.process


def _has_connected(connection_file: Path, child: subprocess.Popen[bytes]) -> bool:
    """Wait until Java has written its port; whether it has."""
    deadline = time.monotonic() + START_SECONDS
    while not connection_file.exists():
        if child.poll() is not None or time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


def _connection(content: bytes) -> tuple[int, str]:
    """The port and the secret: a number, the length of a text, the text."""
    port, length = struct.unpack_from(">ii", content)
    return port, content[8 : 8 + length].decode()
