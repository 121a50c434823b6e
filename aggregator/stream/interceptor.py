"""Compiles the Java of the project into a jar, with the compiler that ships in pyspark.

Two small classes: the producer interceptor, and the guard that it asks before each record. Janino
is in pyspark's jars because Spark compiles its own plans with it, so a JRE is enough. The jar is
cached by the content of the sources and of the Kafka client they were compiled against.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
import zipfile
from pathlib import Path

import pyspark

from aggregator.errors import JarsError

SOURCES = tuple(
    Path(__file__).with_name(name)
    for name in ("OriginTimestampInterceptor.java", "WriteGuard.java")
)
AGAINST = ("spark-core_*.jar", "scala-library-*.jar")
"""What the sources need beside the Kafka client; the second only to read the first."""
CLASS_NAME = "aggregator.OriginTimestampInterceptor"
COMPILER = "org.codehaus.commons.compiler.samples.CompilerDemo"
COMPILE_TIMEOUT_SECONDS = 120


def interceptor_jar(cache: Path, kafka_clients: Path, java: str) -> Path:
    """The jar with the interceptor, compiled on the first call and cached in `cache`.

    `kafka_clients` is the client jar to compile against, `java` the java command. Raises JarsError
    with the compiler's words when it cannot be compiled.
    """
    content = b"".join(source.read_bytes() for source in SOURCES)
    identity = hashlib.sha256(content + kafka_clients.name.encode()).hexdigest()[:16]
    jar = cache / f"aggregator-interceptor-{identity}.jar"
    if jar.exists():
        return jar
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as scratch:
        classes = Path(scratch) / "classes"
        classes.mkdir()
        _compile(classes, kafka_clients, java)
        fresh = Path(scratch) / jar.name
        with zipfile.ZipFile(fresh, "w", zipfile.ZIP_DEFLATED) as archive:
            for compiled in sorted(classes.rglob("*.class")):
                archive.write(compiled, compiled.relative_to(classes))
        # Several processes may compile at once; each moves a whole file into place.
        fresh.replace(jar)
    return jar


def _compile(classes: Path, kafka_clients: Path, java: str) -> None:
    shipped = Path(pyspark.__file__).parent / "jars"
    compiler = [*shipped.glob("janino-*.jar"), *shipped.glob("commons-compiler-*.jar")]
    against = [kafka_clients, *(jar for name in AGAINST for jar in shipped.glob(name))]
    done = subprocess.run(
        [
            java,
            *("-cp", os.pathsep.join(map(str, compiler))),
            COMPILER,
            *("-d", str(classes)),
            *("-classpath", os.pathsep.join(map(str, against))),
            *map(str, SOURCES),
        ],
        capture_output=True,
        text=True,
        timeout=COMPILE_TIMEOUT_SECONDS,
        check=False,
    )
    expected = classes / (CLASS_NAME.replace(".", "/") + ".class")
    if done.returncode != 0 or not expected.exists():
        raise JarsError(f"the timestamp interceptor does not compile: {done.stderr or done.stdout}")
