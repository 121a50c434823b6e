"""Compiles the Java of this folder into one jar, ahead of any run, and verifies that jar.

`python -m aggregator.datapath.connector.build` does it, and nothing when the jar is current. The
compiler is a jar that any Java 17 runs, so no JDK is needed; a user who installs a wheel or an
sdist does not even need that, as both carry the jar. Only the standard library is imported, because
a wheel may be built where nothing else is installed.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from aggregator.datapath.connector.archive import read_attributes, render_jar, write_jar
from aggregator.datapath.jars import jars, java_command
from aggregator.datapath.jars.fetch import Progress
from aggregator.datapath.jars.lockfile import jars_of
from aggregator.model.errors import AggregatorError, JarsError

FOLDER = Path(__file__).parent
JAR_NAME = "aggregator-connector.jar"
SOURCES_SHA256 = "Sources-SHA256"
MADE_WITH = "Made-With"
LANGUAGE = "17"
SHORT_LIVED = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")
"""For a Java that ends within seconds: half the CPU of one that optimises what it runs."""
COMPILE_TIMEOUT_SECONDS = 300

SPARK_JARS = (
    "spark-sql-api_*.jar",
    "spark-sql_*.jar",
    "spark-catalyst_*.jar",
    "spark-core_*.jar",
    "spark-common-utils-java_*.jar",
    "spark-common-utils_*.jar",
    "spark-unsafe_*.jar",
    "spark-variant_*.jar",
    "spark-network-common_*.jar",
    "spark-tags_*.jar",
    "scala-library-*.jar",
    "slf4j-api-*.jar",
    "jackson-core-*.jar",
    "jackson-databind-*.jar",
    "jackson-annotations-*.jar",
    "avro-1*.jar",
    "zstd-jni-*.jar",
)
"""Of the jars inside pyspark, those that its API classes and ours are read with."""

CODECS = ("lz4-java", "snappy-java", "zstd-jni")

WARNINGS = (
    "allDeadCode,allOver-ann,charConcat,compareIdentical,conditionAssign,constructorName,dep-ann,"
    "deprecation,discouraged,emptyBlock,enumSwitch,fallthrough,fieldHiding,finalBound,finally,"
    "forbidden,hashCode,intfNonInherited,intfRedundant,maskedCatchBlock,module,noEffectAssign,"
    "null,nullDereference,pkgDefaultMethod,raw,removal,semicolon,static-access,suppress,"
    "syncOverride,typeHiding,unavoidableGenericProblems,unchecked,"
    "unlikelyCollectionMethodArgumentType,unlikelyEqualsArgumentType,unusedAllocation,"
    "unusedArgument,unusedImport,unusedLabel,unusedLocal,unusedPrivate,unusedThrown,"
    "unusedTypeArgs,uselessTypeCheck,varargsCast,warningToken"
)
"""What the compiler warns of, and a warning fails the build: what is likely a mistake or is dead.

Not serialVersionUID, as both ends of a serialization are the same jar; nor Javadoc, and nothing
that is taste.
"""


def build_jar(
    java: str,
    class_path: Sequence[Path],
    compiler: Path,
    target: Path,
    sources: Sequence[Path] | None,
) -> Path:
    """Compile the Java sources against `class_path` into the jar `target`, and return it.

    `java` is the java command, `compiler` the jar of the compiler; `sources` are all of this
    folder when none are given. The same input makes the same bytes. Several processes may build
    at once: each moves a whole file into place. Raises `JarsError` with the compiler's words when
    it has an error or a warning, and when there are no sources or they change meanwhile.
    """
    found = java_sources(FOLDER) if sources is None else list(sources)
    if not found:
        raise JarsError(f"there are no Java sources in {FOLDER}")
    names = [compiler.name, *(path.name for path in class_path)]
    identity = sources_sha256(found, names)
    with tempfile.TemporaryDirectory(prefix="aggregator-connector-") as scratch:
        classes = Path(scratch)
        compile_java(java, compiler, class_path, found, classes)
        content = render_jar(classes, {SOURCES_SHA256: identity, MADE_WITH: " ".join(names)})
    if sources_sha256(found, names) != identity:
        raise JarsError("the Java sources were changed while they were compiled: build again")
    write_jar(target, content)
    return target


def compile_java(
    java: str, compiler: Path, class_path: Sequence[Path], sources: Sequence[Path], target: Path
) -> None:
    """Compile sources into class files in the folder `target`; a warning is an error.

    Raises `JarsError` with the compiler's words.
    """
    command = [java, *SHORT_LIVED, "-jar", str(compiler), "-source", LANGUAGE, "-target", LANGUAGE]
    command += ["-encoding", "UTF-8", "-proc:none", "-g", f"-warn:{WARNINGS}", "-failOnWarning"]
    command += ["-classpath", os.pathsep.join(map(str, class_path)), "-d", str(target)]
    command += map(str, sorted(sources))
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            timeout=COMPILE_TIMEOUT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise JarsError(f"the Java compiler does not run: {error}") from error
    if done.returncode != 0:
        said = (done.stderr + done.stdout).strip()
        raise JarsError(f"the Java of the connector does not compile:\n{said}")


def connector_jar(folder: Path = FOLDER) -> Path:
    """The built jar of `folder`, which is that of this package.

    Raises `JarsError` with what to do when there is none, and, where the Java sources lie beside
    it as they do in a checkout, when it was made of others than these.
    """
    jar = folder / JAR_NAME
    sources = java_sources(folder)
    if not sources:
        if jar.is_file():
            return jar
        raise JarsError(
            f"{jar} is missing, which every wheel holds: install kafka-aggregator again"
        )
    if not is_current(jar, sources):
        what = "is not made of the Java sources beside it" if jar.is_file() else "is not built"
        raise JarsError(f"{jar} {what}: run `make setup`")
    return jar


def ensure_jar(progress: Progress, folder: Path = FOLDER) -> Path:
    """The built jar of `folder`; when it is missing or not current it is built first.

    What the build needs is fetched. Raises `JarsError` when that, or a Java, cannot be had, or
    when the sources do not compile.
    """
    jar = folder / JAR_NAME
    sources = java_sources(folder)
    if not sources:
        return connector_jar(folder)
    if is_current(jar, sources):
        return jar
    java = java_command()
    (compiler,) = jars("compiler", progress=progress)
    clients = [path for path in jars("spark", progress=progress) if _is_clients(path.name)]
    progress(f"compiling the connector's Java into {JAR_NAME}")
    return build_jar(java, [*spark_jars(), *clients], compiler, jar, sources)


def jar_is_current(folder: Path = FOLDER) -> bool:
    """Whether `ensure_jar` would have nothing to do."""
    jar = folder / JAR_NAME
    sources = java_sources(folder)
    return is_current(jar, sources) if sources else jar.is_file()


def java_sources(folder: Path) -> list[Path]:
    """The Java sources of a folder, sorted; none in an installed wheel."""
    return sorted(folder.glob("*.java"))


def is_current(jar: Path, sources: Sequence[Path]) -> bool:
    """Whether there is such a jar, and it was made of these sources and with the pinned jars.

    Where pyspark is not installed, as in the environment that an installer builds a wheel in, the
    jars are not compared: what is asked is whether the sources are those of the jar.
    """
    made = read_attributes(jar)
    names = made.get(MADE_WITH, "").split() if _pyspark_jars() is None else _names_to_use()
    return made.get(SOURCES_SHA256) == sources_sha256(sources, names)


def sources_sha256(sources: Sequence[Path], names: Sequence[str]) -> str:
    """One sum, in hex, over the names and contents of sources, and names of the jars used."""
    total = hashlib.sha256()
    for path in sorted(sources, key=lambda each: each.name):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        total.update(f"{path.name} {content}\n".encode())
    total.update(" ".join(names).encode())
    return total.hexdigest()


def spark_jars() -> list[Path]:
    """The jars inside pyspark to compile against; `JarsError` when one of them is not there."""
    folder = _pyspark_jars()
    if folder is None:
        raise JarsError("the Java of the connector is compiled against pyspark: install it first")
    found = []
    for pattern in SPARK_JARS:
        matching = sorted(folder.glob(pattern))
        if not matching:
            raise JarsError(f"no {pattern} inside pyspark: install the pyspark package from PyPI")
        found += matching
    return found


def codec_jars() -> list[Path]:
    """The jars inside pyspark that Kafka's clients compress with, for a class path without Spark's.

    `JarsError` when pyspark is not installed.
    """
    folder = spark_jars()[0].parent
    return [jar for name in CODECS for jar in sorted(folder.glob(f"{name}-*.jar"))]


def _names_to_use() -> list[str]:
    """The names of the jars that a build would use now, in its order; nothing is fetched."""
    compiler = [each.file_name for each in jars_of("compiler")]
    clients = [each.file_name for each in jars_of("spark") if _is_clients(each.file_name)]
    return [*compiler, *(path.name for path in spark_jars()), *clients]


def _pyspark_jars() -> Path | None:
    """The folder of jars inside pyspark, found without importing it; None without such a one."""
    spec = find_spec("pyspark")
    for place in (spec.submodule_search_locations or []) if spec else []:
        if (folder := Path(place) / "jars").is_dir():
            return folder
    return None


def _is_clients(file_name: str) -> bool:
    return file_name.startswith("kafka-clients-")


def main(folder: Path = FOLDER) -> int:
    """Make the jar of `folder` current; the exit code of the command."""
    try:
        ensure_jar(_write_line, folder)
    except AggregatorError as error:
        _write_line(str(error))
        return error.exit_code
    return 0


def _write_line(line: str) -> None:
    sys.stderr.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main())
