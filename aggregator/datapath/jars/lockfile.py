"""The pinned jars as values: read the lock file, name its files, render it for Ivy.

Pure: text in, values and text out. Fetching is the task of `aggregator.datapath.jars.fetch`.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from xml.sax.saxutils import quoteattr

from aggregator.model.errors import JarsError

RETRIEVE_PATTERN = "[artifact]-[revision](-[classifier]).[ext]"
"""Ivy's pattern that yields exactly `Jar.file_name`."""

IVY_SETTINGS = """\
<ivysettings>
  <settings defaultResolver="central"/>
  <resolvers>
    <ibiblio name="central" m2compatible="true" usepoms="false"/>
  </resolvers>
</ivysettings>
"""
"""Maven Central, and no POM is read: the lock file is the whole truth about what is needed."""


@dataclass(frozen=True, slots=True)
class Jar:
    """One pinned file of a Maven repository."""

    org: str
    name: str
    version: str
    sha256: str
    classifier: str = ""
    ext: str = "jar"

    @property
    def file_name(self) -> str:
        """The file's name in a Maven repository, and in every folder we keep."""
        classifier = f"-{self.classifier}" if self.classifier else ""
        return f"{self.name}-{self.version}{classifier}.{self.ext}"

    @property
    def coordinates(self) -> str:
        """`org:name:version`, as Maven and Spark write it."""
        return f"{self.org}:{self.name}:{self.version}"


def parse_lock(text: str) -> dict[str, tuple[Jar, ...]]:
    """Read a lock file's text: the name of each set -> its jars, in file order.

    Raises `JarsError` when an entry lacks a field or has an unknown one.
    """
    sets: dict[str, tuple[Jar, ...]] = {}
    for set_name, entries in tomllib.loads(text).items():
        try:
            sets[set_name] = tuple(Jar(**entry) for entry in entries)
        except TypeError as error:
            raise JarsError(f"the set {set_name} of the jars' lock file: {error}") from error
    return sets


@cache
def load_lock() -> Mapping[str, tuple[Jar, ...]]:
    """The lock file that this package ships."""
    return parse_lock(files("aggregator.datapath.jars").joinpath("jars.toml").read_text("utf-8"))


def jars_of(set_name: str) -> tuple[Jar, ...]:
    """The pinned jars of one set, in class path order; `JarsError` for an unknown set."""
    sets = load_lock()
    if set_name not in sets:
        raise JarsError(f"no set of jars is named {set_name!r}; there are: {', '.join(sets)}")
    return sets[set_name]


def render_ivy(jars: Sequence[Jar]) -> str:
    """An `ivy.xml` that asks for exactly these files, without anything they depend on."""
    lines = [
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">',
        '  <info organisation="aggregator" module="jars"/>',
        '  <configurations><conf name="default"/></configurations>',
        "  <dependencies>",
    ]
    for jar in jars:
        classifier = f" m:classifier={quoteattr(jar.classifier)}" if jar.classifier else ""
        lines += [
            f"    <dependency org={quoteattr(jar.org)} name={quoteattr(jar.name)}"
            f' rev={quoteattr(jar.version)} conf="default->default" transitive="false">',
            f"      <artifact name={quoteattr(jar.name)} type={quoteattr(jar.ext)}"
            f" ext={quoteattr(jar.ext)}{classifier}/>",
            "    </dependency>",
        ]
    return "\n".join([*lines, "  </dependencies>", "</ivy-module>", ""])
