"""The connector's jar: compiled as a whole or not at all, reproducible, and refused when stale."""

from __future__ import annotations

import hashlib
import shutil
import stat
import subprocess
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from aggregator.datapath.connector import build
from aggregator.datapath.connector.archive import read_attributes
from aggregator.datapath.connector.build import (
    JAR_NAME,
    build_jar,
    connector_jar,
    ensure_jar,
    is_current,
    sources_sha256,
)
from aggregator.datapath.jars import jars, java_command
from aggregator.model.errors import JarsError

# Each test starts a compiler.
pytestmark = pytest.mark.slow

TINY = """\
package aggregator.connector;

/** Says hello, and that in UTF-8. */
public final class Tiny {
    public static void main(String[] args) {
        System.out.println("gr\u00fcezi".length());
    }
}
"""
UNUSED = "package aggregator.connector;\nfinal class Idle {\n    private int unused;\n}\n"
SERIAL = """\
package aggregator.connector;
final class Sent implements java.io.Serializable {
    final int number = 1;
}
"""
BROKEN = "package aggregator.connector;\nfinal class Broken {\n    int one = 1\n}\n"

Build = Callable[..., Path]


@pytest.fixture(scope="module")
def compiler() -> Path:
    (found,) = jars("compiler")
    return found


@pytest.fixture(scope="module")
def tiny(compiler: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A jar of that source, built against nothing but Java; for all who only look at one."""
    source = tmp_path_factory.mktemp("tiny") / "Tiny.java"
    source.write_text(TINY, "utf-8")
    return build_jar(java_command(), [], compiler, source.with_name(JAR_NAME), [source])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder as that of the package, with one source in it."""
    made = tmp_path / "connector"
    made.mkdir()
    (made / "Tiny.java").write_text(TINY, "utf-8")
    return made


@pytest.fixture
def built(compiler: Path, folder: Path) -> Build:
    """Builds all sources of the folder, against Java alone unless `against` names more."""

    def make(name: str = JAR_NAME, against: tuple[Path, ...] = ()) -> Path:
        sources = sorted(folder.glob("*.java"))
        return build_jar(java_command(), against, compiler, folder / name, sources)

    return make


def test_what_is_built_runs(tiny: Path) -> None:
    command = [java_command(), "-cp", str(tiny), "aggregator.connector.Tiny"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "6\n"
    # Installed by one user, run by another.
    assert stat.S_IMODE(tiny.stat().st_mode) == 0o644


def test_the_class_files_are_those_of_java_17(tiny: Path) -> None:
    with zipfile.ZipFile(tiny) as archive:
        content = archive.read("aggregator/connector/Tiny.class")
    assert int.from_bytes(content[6:8], "big") == 61


def test_the_same_sources_make_the_same_bytes(folder: Path, built: Build) -> None:
    (folder / "Sent.java").write_text(SERIAL)
    first, second = built("first.jar"), built("second.jar")
    assert first.read_bytes() == second.read_bytes()
    with zipfile.ZipFile(first) as archive:
        entries = archive.infolist()
    names = [each.filename for each in entries]
    assert names[0] == "META-INF/MANIFEST.MF"
    assert names[1:] == sorted(names[1:])
    assert {each.date_time for each in entries} == {(1980, 1, 1, 0, 0, 0)}


def test_the_manifest_says_what_the_jar_is_made_of(
    tmp_path: Path, compiler: Path, folder: Path, built: Build
) -> None:
    other = tmp_path / "other-1.0.jar"
    with zipfile.ZipFile(other, "w"):
        pass
    jar = built(against=(other,))
    names = [compiler.name, other.name]
    source = folder / "Tiny.java"
    content = hashlib.sha256(source.read_bytes()).hexdigest()
    expected = hashlib.sha256(f"Tiny.java {content}\n{' '.join(names)}".encode()).hexdigest()
    made = read_attributes(jar)
    assert made["Sources-SHA256"] == expected == sources_sha256([source], names)
    assert made["Made-With"] == " ".join(names)
    with zipfile.ZipFile(jar) as archive:
        lines = archive.read("META-INF/MANIFEST.MF").split(b"\r\n")
    assert max(map(len, lines)) <= 72


def test_java_reads_the_manifest_too(tmp_path: Path, compiler: Path, tiny: Path) -> None:
    source = tmp_path / "Read.java"
    source.write_text(
        "package aggregator.connector;\n"
        "public class Read { public static void main(String[] args) throws Exception {\n"
        "    try (java.util.jar.JarFile jar = new java.util.jar.JarFile(args[0])) {\n"
        "        System.out.print("
        'jar.getManifest().getMainAttributes().getValue("Sources-SHA256"));\n'
        "} } }\n"
    )
    reader = build_jar(java_command(), [], compiler, tmp_path / "reader.jar", [source])
    command = [java_command(), "-cp", str(reader), "aggregator.connector.Read", str(tiny)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == read_attributes(tiny)["Sources-SHA256"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (BROKEN, r"Broken\.java \(at line 3\)(.|\n)*Syntax error, insert \";\""),
        (UNUSED, r"Idle\.java \(at line 3\)(.|\n)*Idle\.unused is not used"),
    ],
    ids=["a syntax error", "a warning"],
)
def test_what_the_compiler_says_is_an_error(
    folder: Path, tiny: Path, built: Build, text: str, said: str
) -> None:
    before = Path(shutil.copy(tiny, folder)).read_bytes()
    (folder / f"{'Broken' if text is BROKEN else 'Idle'}.java").write_text(text)
    with pytest.raises(JarsError, match=said):
        built()
    # The jar is as it was, and nothing half done lies beside it.
    assert (folder / JAR_NAME).read_bytes() == before
    assert [path.name for path in folder.iterdir() if path.suffix != ".java"] == [JAR_NAME]


def test_a_missing_serial_version_is_no_warning(folder: Path, built: Build) -> None:
    (folder / "Sent.java").write_text(SERIAL)
    assert built().is_file()


def test_several_may_build_at_once(folder: Path, built: Build) -> None:
    with ThreadPoolExecutor(3) as pool:
        results = [each.result() for each in [pool.submit(built) for _ in range(3)]]
    assert set(results) == {folder / JAR_NAME}
    with zipfile.ZipFile(folder / JAR_NAME) as archive:
        assert archive.testzip() is None


def test_sources_that_change_meanwhile_are_an_error(
    folder: Path, built: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = build.compile_java

    def edited(java: str, compiler: Path, path: list[Path], sources: list[Path], to: Path) -> None:
        real(java, compiler, path, sources, to)
        (folder / "Tiny.java").write_text(TINY + "\n", "utf-8")

    monkeypatch.setattr(build, "compile_java", edited)
    with pytest.raises(JarsError, match="build again"):
        built()
    assert not (folder / JAR_NAME).exists()


def test_a_folder_that_cannot_be_written_is_named(compiler: Path, folder: Path) -> None:
    target = folder / "not there" / JAR_NAME
    with pytest.raises(JarsError, match="cannot write"):
        build_jar(java_command(), [], compiler, target, [folder / "Tiny.java"])


def test_a_jar_of_other_sources_is_refused(folder: Path) -> None:
    with pytest.raises(JarsError, match="is not built: run `make setup`"):
        connector_jar(folder)
    said: list[str] = []
    jar = ensure_jar(said.append, folder)
    assert said[-1] == f"compiling the connector's Java into {JAR_NAME}"
    assert connector_jar(folder) == jar == folder / JAR_NAME

    (folder / "Sent.java").write_text(SERIAL)
    with pytest.raises(JarsError, match="not made of the Java sources beside it: run `make setup`"):
        connector_jar(folder)
    (folder / "Sent.java").unlink()
    assert connector_jar(folder) == jar


def test_a_current_jar_is_left_alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ensure_jar(lambda line: None, folder)
    monkeypatch.setattr(build, "java_command", lambda: pytest.fail("a Java was looked for"))
    monkeypatch.setattr(build, "jars", lambda *_, **__: pytest.fail("jars were asked for"))
    assert ensure_jar(pytest.fail, folder) == folder / JAR_NAME


def test_other_jars_to_compile_against_make_it_stale(
    folder: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jar = Path(shutil.copy(tiny, folder))
    sources = [folder / "Tiny.java"]
    # Compiled against nothing, which is not what is pinned.
    assert not is_current(jar, sources)
    # Where no pyspark names its jars, the sources decide.
    monkeypatch.setattr(build, "find_spec", lambda name: None)
    assert is_current(jar, sources)
    (folder / "Tiny.java").write_text(TINY + "\n", "utf-8")
    assert not is_current(jar, sources)


def test_an_installed_wheel_has_a_jar_and_no_sources(folder: Path, tiny: Path) -> None:
    jar = Path(shutil.copy(tiny, folder))
    (folder / "Tiny.java").unlink()
    assert connector_jar(folder) == jar
    assert ensure_jar(pytest.fail, folder) == jar
    jar.unlink()
    with pytest.raises(JarsError, match="install kafka-aggregator again"):
        ensure_jar(pytest.fail, folder)


@pytest.mark.parametrize("content", [b"", b"no zip", None])
def test_what_is_no_jar_has_no_attributes(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / JAR_NAME
    if content is not None:
        path.write_bytes(content)
    assert read_attributes(path) == {}


def test_the_command_says_what_is_wrong(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "Broken.java").write_text(BROKEN)
    assert build.main(folder) == 1
    assert "Syntax error" in capsys.readouterr().err
    (folder / "Broken.java").unlink()
    assert build.main(folder) == 0
