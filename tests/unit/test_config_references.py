"""Secrets from elsewhere: properties files as Java reads them, and folders as Kubernetes mounts."""

from __future__ import annotations

from pathlib import Path

import pytest

from aggregator.config.properties import parse_properties
from aggregator.config.references import resolve


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1\nb: 2\nc 3\nd", {"a": "1", "b": "2", "c": "3", "d": ""}),
        ("# a=1\n  ! b=2\n\n  c = 3 ", {"c": "3 "}),
        ("a=x=y:z", {"a": "x=y:z"}),
        ("a\\=b=c\na\\ b = d", {"a=b": "c", "a b": "d"}),
        ("a=one \\\n   two\nb=3", {"a": "one two", "b": "3"}),
        ("a=back\\\\\nb=2", {"a": "back\\", "b": "2"}),
        ("a=\\u00e9\\t\\q", {"a": "\u00e9\tq"}),
        ("a=1\r\na=2\r\n", {"a": "2"}),
        ("a=\\", {"a": ""}),
        ("a=pass#word!", {"a": "pass#word!"}),
    ],
)
def test_properties_are_read_as_java_reads_them(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


def test_a_folder_is_read_file_by_file(tmp_path: Path) -> None:
    """As Kubernetes mounts a secret: by way of a link to a folder that is swapped."""
    (tmp_path / "..data").mkdir()
    (tmp_path / "..data" / "password").write_text("s3cret\n")
    (tmp_path / "password").symlink_to(tmp_path / "..data" / "password")
    tree = {"a": f"${{dir:{tmp_path}:password}}", "b": "x-${dir:.:password}-y"}
    assert resolve(tree, {}, tmp_path)[:2] == ({"a": "s3cret", "b": "x-s3cret-y"}, [])


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        ("${dir:/nowhere:key}", "cannot read /nowhere/key: No such file or directory"),
        ("${dir:/etc}", "names no file of a folder"),
        ("${dir:/etc:../etc/passwd}", "names no file of a folder"),
        ("${dir:/etc:..}", "names no file of a folder"),
    ],
)
def test_what_is_no_file_of_a_folder_is_reported(
    reference: str, reason: str, tmp_path: Path
) -> None:
    _, (problem,), failed = resolve({"a": reference}, {}, tmp_path)
    assert (problem.path, failed) == ("a", {"a"})
    assert reason in problem.reason


def test_a_file_of_windows_is_the_secret_alone(tmp_path: Path) -> None:
    (tmp_path / "password").write_bytes(b"\xef\xbb\xbfs3cret\r\n")
    (tmp_path / "eu.properties").write_bytes(b"\xef\xbb\xbfpassword=s3cret\r\nuser=me\r\n")
    tree = {"a": "${file:password}", "b": "${file:eu.properties:password}"}
    assert resolve(tree, {}, tmp_path)[:2] == ({"a": "s3cret", "b": "s3cret"}, [])


def test_a_default_is_for_a_variable_that_is_not_set() -> None:
    tree = {"a": "${X:-d}", "b": "${Y:-d}", "c": "${Y:-}", "d": "${X}"}
    expected = {"a": "", "b": "d", "c": "", "d": ""}
    assert resolve(tree, {"X": ""}, Path())[:2] == (expected, [])


def test_a_variable_of_a_file_of_windows_is_named() -> None:
    """`docker run --env-file` leaves the carriage return in the value: a login would be refused."""
    env = {"PASSWORD": "hidden\r", "PEM": "a\r\nb\r\n"}
    tree, (problem,), failed = resolve({"a": "x${PASSWORD}", "b": "${env:PEM}"}, env, Path())
    assert (problem.path, failed, tree["b"]) == ("a", {"a"}, "a\r\nb\r\n")
    assert problem.reason == "environment variable PASSWORD ends with a carriage return"
    assert "hidden" not in str(problem)
