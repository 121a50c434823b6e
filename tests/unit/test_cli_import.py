"""`aggregator import` and the commands with the old words, as far as no broker is needed."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from aggregator.cli.import_ import split_words
from aggregator.cli.main import app
from aggregator.cli.stand_in import state_folder
from aggregator.config.load import load
from aggregator.extras.importers.import_request import connectors_of
from support.strangers import speaking

MM2 = """
clusters = a, b, c
a.bootstrap.servers = a:1
b.bootstrap.servers = b:1
c.bootstrap.servers = c:1
c.ssl.key.password = hidden-word
a->b.enabled = true
a->c.enabled = true
groups = .*
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "mm2.properties").write_text(MM2, "utf-8")
    return tmp_path / "mm2.properties"


def call(*words: object) -> Result:
    return CliRunner().invoke(app, ["import", *map(str, words)])


def test_options_of_the_old_tools_are_not_taken_for_files() -> None:
    words = ["a.json", "--num.streams", "4", "--new.consumer", "--a.b=c", "b.json"]
    assert split_words(words) == (
        ["a.json", "b.json"],
        {"num.streams": "4", "new.consumer": "true", "a.b": "c"},
    )
    for wrong in (["--unknown"], ["-x"], ["--num.streams"]):
        with pytest.raises(typer.BadParameter):
            split_words(wrong)


def test_several_targets_go_to_stdout_one_after_the_other(file: Path) -> None:
    done = call(file)
    assert done.exit_code == 0
    assert [text.count("\nname:") for text in done.stdout.split("---\n")] == [1, 1]
    assert "groups: see sources.<alias>.groups" in done.stderr
    assert "set: export HUB_SSL_KEY_PASSWORD=" in done.stderr
    assert "hidden-word" not in done.output


def test_several_targets_need_a_folder_or_one_of_them(file: Path, tmp_path: Path) -> None:
    done = call(file, "--out", tmp_path / "one.yaml")
    assert done.exit_code == 2
    assert "several targets (b, c)" in done.output
    assert call(file, "--target", "c", "--out", tmp_path / "one.yaml").exit_code == 0
    config = load(tmp_path / "one.yaml", env={"HUB_SSL_KEY_PASSWORD": "x"})
    assert config.name == "c"
    assert call(file, "--out", tmp_path / "configs").exit_code == 0
    assert sorted(it.name for it in (tmp_path / "configs").iterdir()) == ["b.yaml", "c.yaml"]
    assert call(file, "--target", "d").exit_code == 2
    assert call(file, "--positions").exit_code == 2


def test_a_file_is_written_over_only_when_that_is_asked_for(file: Path, tmp_path: Path) -> None:
    out = tmp_path / "b.yaml"
    out.write_text("mine")
    assert call(file, "--target", "b", "--out", out).exit_code == 2
    assert out.read_text() == "mine"
    assert call(file, "--target", "b", "--out", out, "--force").exit_code == 0
    assert load(out).name == "b"


def test_what_was_not_taken_over_is_a_list_in_json(file: Path) -> None:
    done = call(file, "-o", "json")
    first, second = json.loads(done.stdout)["configs"]
    (note,) = [it for it in first["notes"] if it["key"] == "groups"]
    assert (note["file"], note["decide"]) == (str(file), False)
    assert [it["variable"] for it in second["secrets"]] == ["HUB_SSL_KEY_PASSWORD"]
    assert second["config"]["hub"]["kafka"] == {"ssl.key.password": "${env:HUB_SSL_KEY_PASSWORD}"}


def test_no_one_else_can_read_clear_secrets(file: Path, tmp_path: Path) -> None:
    out = tmp_path / "c.yaml"
    call(file, "--target", "c", "--out", out, "--secrets", "clear")
    assert out.stat().st_mode & 0o077 == 0
    assert load(out).hub.kafka["ssl.key.password"] == "hidden-word"


def test_options_that_a_tool_does_not_have_are_refused(file: Path) -> None:
    done = call(file, "--whitelist", "x")
    assert done.exit_code == 2
    assert "--whitelist: without effect for files of MirrorMaker 2" in done.stderr
    words = ["--alias", "x", "--hub", "h:1", "--cluster.id", "c", "--group", "g"]
    assert "--alias, --hub, --cluster.id, --group: without effect" in call(file, *words).stderr
    assert call(file, "--version", "3").exit_code == 2
    assert call(file, "--version", "3.9.1").exit_code == 0
    assert call().exit_code == 2
    assert call(file.with_name("absent")).exit_code == 2


def test_state_lies_where_the_system_keeps_it() -> None:
    assert state_folder("x", {"XDG_STATE_HOME": "/s"}) == Path("/s/aggregator/x")
    assert state_folder("x", {}) == Path.home() / ".local/state/aggregator/x"


def test_what_is_missing_for_an_old_command_is_named_at_once() -> None:
    done = CliRunner().invoke(app, ["mirror-maker"])
    assert done.exit_code == 2
    assert "--consumer.config FILE" in done.stderr
    assert "--producer.config FILE" in done.stderr
    assert CliRunner().invoke(app, ["replicator"]).exit_code == 2


def test_an_address_that_speaks_another_protocol_is_named() -> None:
    """As one of HTTPS does that is asked without it."""
    with speaking(b"\x15\x03\x01\x00\x02\x02\x46\r\n") as port:
        done = call(f"http://me:hidden@127.0.0.1:{port}", "--hub", "h:1")
    assert done.exit_code == 2
    assert "is not to be had" in done.stderr
    assert "hidden" not in done.output


def test_a_login_does_not_follow_a_redirect() -> None:
    asked: list[tuple[str, bool]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append((self.path, "Authorization" in self.headers))
            if self.path == "/elsewhere":
                self.send_response(200)
                self.end_headers()
                self.wfile.write(b"{}")
            else:
                self.send_response(302)
                self.send_header("Location", "/elsewhere")
                self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            del format, args

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            assert connectors_of(f"http://me:hidden@127.0.0.1:{server.server_port}") == "[]"
        finally:
            server.shutdown()
    assert asked == [("/connectors?expand=info", True), ("/elsewhere", False)]
