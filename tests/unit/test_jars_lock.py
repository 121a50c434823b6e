"""The lock file of the jars: complete, unambiguous, and rendered for Ivy as it says."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest

from aggregator.cli.jars import JarSet
from aggregator.datapath.jars.lockfile import Jar, jars_of, load_lock, parse_lock, render_ivy
from aggregator.model.errors import JarsError

SETS = [
    *("spark", "avro", "broker", "mirror", "registry", "compiler", "java-tests"),
    "connect-client",
    *("broker-2.8", "broker-3.9", "broker-4.0", "broker-4.4"),
]
MAVEN = "{http://ant.apache.org/ivy/maven}"


def test_the_sets_are_those_that_the_code_asks_for() -> None:
    assert list(load_lock()) == SETS
    # Those of a build are there too: a machine without a network may build as well.
    assert [each.value for each in JarSet] == SETS
    assert all(load_lock().values())


def test_every_entry_has_a_sha256() -> None:
    for jars in load_lock().values():
        for jar in jars:
            assert re.fullmatch(r"[0-9a-f]{64}", jar.sha256), jar


def test_a_file_name_means_one_file() -> None:
    sums: dict[str, str] = {}
    for set_name, jars in load_lock().items():
        names = [jar.file_name for jar in jars]
        assert len(names) == len(set(names)), set_name
        modules = [(jar.org, jar.name) for jar in jars]
        assert len(modules) == len(set(modules)), set_name
        for jar in jars:
            assert sums.setdefault(jar.file_name, jar.sha256) == jar.sha256


def test_spark_jars_match_the_versions_of_the_python_packages() -> None:
    versions = {jar.name: jar.version for jar in jars_of("spark")}
    assert versions["spark-sql-kafka-0-10_2.13"] == "4.2.0"
    assert [it.version for it in jars_of("avro")] == ["4.2.0"]
    assert versions["delta-spark_4.2_2.13"] == versions["delta-storage"] == "4.4.0"


def test_a_file_name_is_the_one_of_a_maven_repository() -> None:
    assert Jar("o", "n", "1.0", "x").file_name == "n-1.0.jar"
    assert Jar("o", "n", "1.0", "x", "all", "tar.gz").file_name == "n-1.0-all.tar.gz"
    assert Jar("o", "n", "1.0", "x").coordinates == "o:n:1.0"


def test_ivy_is_asked_for_each_file_and_nothing_behind_it() -> None:
    root = ET.fromstring(render_ivy(jars_of("spark") + jars_of("registry")))
    found = root.findall("./dependencies/dependency")
    assert [each.get("name") for each in found][-2:] == ["delta-storage", "apicurio-registry-app"]
    assert {each.get("transitive") for each in found} == {"false"}
    artifact = found[-1].find("artifact")
    assert artifact is not None
    assert artifact.get("ext") == "tar.gz"
    assert artifact.get(f"{MAVEN}classifier") == "all"
    assert found[0].find(f"artifact[@{MAVEN}classifier]") is None


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ('a = [{ org = "o", name = "n", version = "1" }]', "sha256"),
        ('a = [{ org = "o", name = "n", version = "1", sha256 = "x", typo = "t" }]', "typo"),
    ],
)
def test_a_wrong_entry_is_named(text: str, word: str) -> None:
    with pytest.raises(JarsError, match=word):
        parse_lock(text)


def test_an_unknown_set_is_named_with_those_that_exist() -> None:
    with pytest.raises(JarsError, match=f"'sparkle'; there are: {', '.join(SETS)}"):
        jars_of("sparkle")
