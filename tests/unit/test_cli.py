"""The command line without any cluster: configs, errors, exit codes, secrets, help."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from aggregator import __version__
from aggregator.cli.failures import Commands
from aggregator.cli.main import app
from aggregator.cli.options import FILE_VARIABLE, config_file
from aggregator.model.errors import AggregatorError, CheckpointConflictError

SECRET = "hunter2-very-secret"
CONFIG = f"""\
name: central
hub:
  bootstrap_servers: 127.0.0.1:9
  kafka:
    security.protocol: SASL_PLAINTEXT
    sasl.mechanism: PLAIN
    sasl.jaas.config: >-
      org.apache.kafka.common.security.plain.PlainLoginModule required
      username="me" password="{SECRET}";
sources:
  eu:
    bootstrap_servers: 127.0.0.1:9
    topics: {{include: orders}}
api: {{listen: "off"}}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(FILE_VARIABLE, raising=False)
    return tmp_path


@pytest.fixture
def config(folder: Path) -> Path:
    path = folder / "mine.yaml"
    path.write_text(CONFIG.replace("127.0.0.1:9\n    topics", "127.0.0.1:10\n    topics"), "utf-8")
    return path


def run(*args: object) -> Result:
    return CliRunner().invoke(app, [str(arg) for arg in args])


def test_version() -> None:
    assert run("--version").stdout == f"{__version__}\n"


COMMANDS = ("demo", "run", "plan", "check", "status", "lag", "positions", "jars", "config")


GOOD = "hub: {bootstrap_servers: 'h:1'}\n"
BAD_CONFIGS = {
    "": "hub: ",
    "hub: [": "line 1",
    "just text": "is not a map of settings",
    GOOD: "sources: ",
    GOOD + "sources: []": "sources: ",
    GOOD + "sources: {eu: {bootstrap_servers: 's:1', topics: {include: '*x'}}}": "is not a regex",
    GOOD + "sources: {eu: {bootstrap_servers: 'h:1', topics: {include: x}}}": "h:1 is the hub",
    GOOD + "sources: {eu: {bootstrap_servers: 's:1', topics: {include: x}}}\nstrem: {}": "stream",
    GOOD + "sources: {eu: {bootstrap_servers: '${NIX}', topics: {include: x}}}": "NIX",
    GOOD
    + "sources: {eu: {bootstrap_servers: 's:1', topics: {include: x}, consumer: {group.id: g}}}": (
        "sources.eu.consumer.group.id: refused"
    ),
}


@pytest.mark.parametrize("command", ["run", "plan", "check"])
@pytest.mark.parametrize(("text", "message"), BAD_CONFIGS.items())
def test_a_bad_config_ends_with_2_and_nothing_is_written(
    folder: Path, command: str, text: str, message: str
) -> None:
    (folder / "aggregator.yaml").write_text(text, "utf-8")
    result = run(command)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
    assert "aggregator.yaml:" in result.stderr
    assert "Traceback" not in result.stderr
    assert [path.name for path in folder.iterdir()] == ["aggregator.yaml"]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_examples(command: str) -> None:
    result = run(command, "--help")
    assert result.exit_code == 0
    assert f"\n    aggregator {command}" in result.stdout or "spark-submit" in result.stdout
    assert "\x1b" not in result.stdout


def test_the_help_lists_every_command() -> None:
    listed = run("--help").stdout
    assert all(f"\n  {command} " in listed for command in COMMANDS)


@pytest.mark.parametrize(
    "args",
    [("nix",), ("plan", "--nix"), ("plan", "-o", "xml"), ("lag", "--watch", "0"), ("plan", "x")],
)
def test_wrong_usage_ends_with_2(args: tuple[str, ...]) -> None:
    result = run(*args)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "Error:" in result.stderr


@pytest.mark.parametrize("command", ["run", "plan", "check", "status", "lag", "config"])
def test_without_a_config_it_says_how_to_give_one(command: str, folder: Path) -> None:
    result = run(command)
    assert result.exit_code == 2
    assert "there is no config file (name one with -c FILE or $AGGREGATOR_CONFIG" in result.stderr
    assert list(folder.iterdir()) == []


def test_which_config_file_is_taken(folder: Path, config: Path) -> None:
    assert config_file(None, {}) is None
    assert config_file(None, {FILE_VARIABLE: str(config)}) == config
    (folder / "aggregator.yaml").write_text(CONFIG, "utf-8")
    assert config_file(None, {FILE_VARIABLE: str(config)}) == Path("aggregator.yaml")
    assert config_file(config, {}) == config


def test_a_config_file_that_is_not_there() -> None:
    result = run("config", "-c", "nix.yaml")
    assert result.exit_code == 2
    assert "nix.yaml" in result.stderr
    assert "Traceback" not in result.stderr


def test_every_problem_of_a_config_at_once(folder: Path) -> None:
    (folder / "aggregator.yaml").write_text(
        "hub: {bootstrap_server: h:1}\nsources: {eu: {bootstrap_servers: x, topics: {include: a}}}"
    )
    result = run("plan")
    assert result.exit_code == 2
    assert "hub.bootstrap_server: " in result.stderr
    assert "did you mean bootstrap_servers" in result.stderr
    assert "sources.eu.bootstrap_servers: " in result.stderr


def test_set_values_alone_make_a_config() -> None:
    result = run(
        "config",
        "-o",
        "json",
        "--set",
        "hub.bootstrap_servers=h:1",
        "--set",
        "sources.eu.bootstrap_servers=s:1",
        "--set",
        "sources.eu.topics.include=orders",
    )
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["sources"]["eu"]["topics"]["include"] == "orders"


def test_too_few_set_values_say_both(folder: Path) -> None:
    result = run("config", "--set", "stream.lanes=source")
    assert result.exit_code == 2
    assert "there is no config file" in result.stderr
    assert "hub" in result.stderr


def test_config_shows_no_secret(config: Path) -> None:
    for form in ("yaml", "json"):
        result = run("config", "-c", config, "-o", form, "--set", "api.listen=127.0.0.1:4711")
        assert result.exit_code == 0
        assert SECRET not in result.output
        assert "********" in result.stdout
        assert "127.0.0.1:4711" in result.stdout
    assert "warning: hub.kafka.security.protocol: the password travels" in result.stderr


def test_schema_and_defaults_need_no_config() -> None:
    schema = json.loads(run("config", "--schema").stdout)
    assert "sources" in schema["properties"]
    table = run("config", "--defaults")
    assert table.exit_code == 0
    assert "sources.<alias>.start" in table.stdout
    rows = json.loads(run("config", "--defaults", "-o", "json").stdout)
    assert {"path", "type", "default", "description"} == set(rows[0])


def test_a_taken_api_port_ends_a_run_before_anything_starts(config: Path, folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        listen = f"127.0.0.1:{other.getsockname()[1]}"
        result = run("run", "-c", config, "--set", f"api.listen={listen}")
    assert result.exit_code == 2
    assert f"api.listen: cannot listen on {listen}" in result.stderr
    assert [path.name for path in folder.iterdir()] == ["mine.yaml"]


def failing(error: Exception) -> typer.Typer:
    """An app that uses our `Commands`, and whose only command fails."""
    broken = typer.Typer(cls=Commands, pretty_exceptions_enable=False)

    @broken.callback()
    def root(_debug: bool = typer.Option(False, "--debug")) -> None:
        """Nothing."""

    @broken.command()
    def fail() -> None:
        raise error

    return broken


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (AggregatorError("broken"), 1, "error: broken\n"),
        (CheckpointConflictError("gone"), 4, "error: gone\n"),
        (KeyError("x"), 1, "error: unexpected KeyError: 'x'\n"),
        (AggregatorError("http://me:pw@host"), 1, "error: http://me:********@host\n"),
        # Of another pipe than that of our output.
        (BrokenPipeError("gone"), 1, "error: unexpected BrokenPipeError: gone\n"),
    ],
)
def test_an_error_is_one_plain_text(error: Exception, code: int, text: str) -> None:
    result = CliRunner().invoke(failing(error), ["fail"])
    assert (result.exit_code, result.stdout, result.stderr) == (code, "", text)


@pytest.mark.parametrize("args", [["--debug", "fail"], ["fail", "--debug"]])
def test_debug_shows_the_traceback_wherever_it_is_given(args: list[str]) -> None:
    result = CliRunner().invoke(failing(AggregatorError("broken")), args)
    assert result.exit_code == 1
    assert result.stderr.startswith("Traceback")
    assert result.stderr.endswith("error: broken\n")


def test_jars_of_an_unknown_set() -> None:
    assert run("jars", "--set", "nix").exit_code == 2


def test_jars_of_a_folder_that_lacks_them(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGGREGATOR_JARS", str(folder))
    result = run("jars")
    assert result.exit_code == 1
    assert "is missing" in result.stderr
