"""A secret of the config is in no answer, page, event, log line, command's output or table."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from aggregator.cli.main import app as commands
from aggregator.config.mask import MASK
from aggregator.config.schema import Config
from aggregator.extras.embedded.cluster import EmbeddedCluster
from aggregator.extras.embedded.ports import free_ports
from aggregator.extras.embedded.topics import create_topic, produce
from aggregator.features.connectors.config_keys import CLASSES
from support.application import Application, application
from support.clusters import ClusterFactory
from support.load import records
from support.locked import LOGIN, USER, change_password
from support.outputs import answer_of, documents, live, pages, spark_pages, stream, tables
from support.played import bearer
from support.reading import wait_for, wait_until_topic_has
from support.rest import ask
from support.running import make_config, source

MARK = "pl4nted"
"""A part of every secret: whatever is left of one is found by it."""
RECORDS = 300
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
COMMANDS = (
    ("config",),
    ("config", "-o", "json"),
    ("plan",),
    ("plan", "-o", "json"),
    ("check",),
    ("check", "-o", "json"),
    ("status",),
    ("status", "-o", "json"),
    ("lag", "-o", "json"),
    ("sources", "list", "-o", "json"),
    ("events", "-o", "json"),
    ("history", "-o", "json"),
    ("gaps", "list", "-o", "json"),
    ("positions", "show", "-o", "json"),
    ("config", "--set", "sources.us.start=yesterday"),
)


def planted(name: str) -> str:
    """A secret that must appear nowhere."""
    return f"{MARK}-{name}-0123456789"


def login(password: str) -> dict[str, str]:
    """Settings of a client that logs in."""
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{LOGIN} username="{USER}" password="{password}";',
    }


def secretive(
    hub: EmbeddedCluster,
    source_a: EmbeddedCluster,
    locked: EmbeddedCluster,
    state: Path,
    topic: str,
) -> Config:
    """Secrets wherever a config may have one; a source that flows with one, and one that cannot."""
    port, spark_port = free_ports(2)
    unused = {"ssl.key.password": planted("key"), "ssl.keystore.password": planted("store")}
    oauth = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": f"http://me:{planted('url')}@127.0.0.1:9/token",
        "sasl.jaas.config": f'{OAUTH} clientId="me" clientSecret="{planted("client")}";',
    }
    return make_config(
        hub,
        state,
        {
            "eu": source(source_a, topic, kafka=unused, consumer={"x.api.key": planted("api")}),
            "us": source(locked, topic, rename="${topic}.us", kafka=login(planted("login"))),
            "asia": source(source_a, topic, rename="${topic}.asia", kafka=oauth),
        },
        hub={"kafka": unused, "producer": {"plugin.secret": planted("producer")}},
        api={
            "listen": f"127.0.0.1:{port}",
            "read_token": planted("read"),
            "write_token": planted("write"),
            "references": {"files": ["."], "env": ["PLANTED"]},
        },
        checkpoint={
            "path": str(state),
            "storage_options": {"aws_secret_access_key": planted("storage")},
        },
        supervision={"connect_timeout": "5s"},
        timeline={"interval": "5s"},
        spark={
            "conf": {
                "spark.hadoop.fs.s3a.secret.key": planted("spark"),
                "spark.ui.enabled": "true",
                "spark.ui.port": str(spark_port),
            }
        },
    )


def refused(url: str, write: dict[str, str], servers: str) -> Iterator[tuple[str, str]]:
    """Answers to what is wrong, each with a secret in what was asked, or in what it refers to."""
    good = {"src.kafka.bootstrap.servers": servers, "topics": "nix"}
    for name, more in (
        ("literal", {"src.kafka.sasl.jaas.config": login(planted("literal"))["sasl.jaas.config"]}),
        ("password", {"src.kafka.ssl.key.password": planted("literal")}),
        (
            "no login",
            {
                "src.kafka.security.protocol": "SASL_PLAINTEXT",
                "src.kafka.sasl.mechanism": "PLAIN",
                "src.kafka.sasl.jaas.config": "${env:PLANTED}",
            },
        ),
        ("protocol", {"src.kafka.security.protocol": "${env:PLANTED}"}),
        (
            "store",
            {
                "src.kafka.ssl.truststore.location": "x",
                "src.kafka.ssl.truststore.type": "${env:PLANTED}",
            },
        ),
        ("servers", {"src.kafka.bootstrap.servers": "${env:PLANTED}"}),
        ("regex", {"topics": "(${env:PLANTED}"}),
        ("start", {"aggregator.start": "${env:PLANTED}"}),
        ("gap", {"aggregator.on_gap": "${file:KEYS:password}"}),
        ("tasks", {"tasks.max": "${env:PLANTED}"}),
        ("weight", {"aggregator.weight": "${env:PLANTED}"}),
        ("number", {"src.kafka.request.timeout.ms": "${env:PLANTED}"}),
    ):
        config = {**good, **more}
        check = f"{url}/connector-plugins/{CLASSES[0]}/config/validate"
        yield f"validate {name}", answer_of(check, write, "PUT", config)
        yield f"put {name}", answer_of(f"{url}/connectors/nix/config", write, "PUT", config)
        yield (
            f"post {name}",
            answer_of(f"{url}/connectors", write, "POST", {"name": "nix", "config": config}),
        )
        yield f"patch {name}", answer_of(f"{url}/connectors/africa/config", write, "PATCH", more)
        yield (
            f"source {name}",
            answer_of(f"{url}/api/sources/nix", write, "PUT", {"config": config}),
        )
    yield "no token", answer_of(f"{url}/api/status", bearer(planted("nobody")))
    yield "read", answer_of(f"{url}/api/reload", bearer(planted("read")), "POST")
    yield "reload", answer_of(f"{url}/api/reload", write, "POST")
    yield (
        "positions",
        answer_of(f"{url}/api/positions", write, "POST", {"to": "latest", "source": "us"}),
    )


def commanded(file: Path) -> Iterator[tuple[str, str]]:
    """What the commands print, also when they fail."""
    for words in COMMANDS:
        done = CliRunner().invoke(commands, ["--debug", *words, "-c", str(file)])
        yield " ".join(words), done.output


def reasons(url: str, read: dict[str, str]) -> dict[str, str]:
    """The sources that do not answer, and why."""
    code, status = ask("GET", f"{url}/api/status", headers=read)
    assert code == 200, status
    return {it["alias"]: it["reason"] for it in status["sources"] if it["state"] == "UNREACHABLE"}


def added(source_b: EmbeddedCluster, password: str) -> dict[str, str]:
    """A connector that logs in where no login is expected, which gets no answer."""
    settings = login(password)
    own = {f"src.kafka.{name}": value for name, value in settings.items()}
    return {"src.kafka.bootstrap.servers": source_b.bootstrap_servers, "topics": "nix", **own}


@pytest.mark.timeout(900)
def test_no_secret_is_in_any_output(
    source_a: EmbeddedCluster,
    source_b: EmbeddedCluster,
    hub: EmbeddedCluster,
    cluster_factory: ClusterFactory,
    tmp_path: Path,
    unique: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One run meets a login that is refused all at once, clusters that cannot be reached, and
    people who give secrets where none belongs.
    """
    monkeypatch.setenv("PLANTED", planted("env"))
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "KEYS").write_text(f"password={planted('file')}\n")
    locked = cluster_factory("locked-secrets", sasl_users={USER: planted("login")})
    client = locked.client_config(USER)
    for cluster, who in ((source_a, None), (locked, client)):
        create_topic(cluster.bootstrap_servers, unique, client=who)
        produce(cluster.bootstrap_servers, unique, records(RECORDS), client=who)
    config = secretive(hub, source_a, locked, tmp_path / "state", unique)
    url = f"http://{config.api.listen}"
    read, write = bearer(planted("read")), bearer(planted("write"))
    outputs: dict[str, str] = {}
    with application(config, tmp_path / "app") as app:
        app.until_logged("running")
        for topic in (unique, f"{unique}.us"):
            wait_until_topic_has(hub.bootstrap_servers, topic, RECORDS)
        for name, password in (("africa", "${env:PLANTED}"), ("arctic", "${file:KEYS:password}")):
            body = {"name": name, "config": added(source_b, password)}
            code, answer = ask("POST", f"{url}/connectors", body, write)
            assert code == 201, answer
            outputs[f"added {name}"] = json.dumps(answer)
        change_password(locked, planted("login"), "another")
        wait_for(
            lambda: reasons(url, read).keys() == {"us", "asia", "africa", "arctic"},
            "those that cannot be read are known",
        )
        # Its broker restarts with the other password: for a moment no one answers there.
        wait_for(lambda: "uthentication" in reasons(url, read)["us"], "the login is refused")
        outputs |= refused(url, write, source_b.bootstrap_servers)
        outputs |= everything(app, config, url, read)
        assert "uthentication" in outputs["/api/status"]
        outputs |= commanded(tmp_path / "app" / "aggregator.yaml")
        app.terminate()
        app.until(lambda: not app.alive, "it has ended")
        assert app.exit_code == 0, app.text
        outputs["log"] = app.text
    outputs |= {
        f"stopped: {words}": text for words, text in commanded(tmp_path / "app" / "aggregator.yaml")
    }
    outputs |= tables(tmp_path / "state")
    check_that_there_was_something_to_find(outputs)
    shown = [f"{where}: {around(text)}" for where, text in outputs.items() if MARK in text]
    assert not shown, "\n".join(shown)


def everything(app: Application, config: Config, url: str, read: dict[str, str]) -> dict[str, str]:
    """What a running instance answers, and the command lines of its processes."""
    aliases = ["eu", "us", "asia", "africa", "arctic", "nix"]
    values = {
        "name": aliases,
        "alias": aliases,
        "number": ["0", "7"],
        "plugin": [CLASSES[0]],
        "logger": ["root"],
        "topic": [str(config.sources["eu"].topics.include), "nix"],
    }
    found = documents(url, read, values)
    for path in ("/connectors?expand=info&expand=status", "/api/history?topic=nix", "/nix"):
        found[path] = answer_of(url + path, read)
    _, events = ask("GET", f"{url}/api/events", headers=read)
    found["stream"] = stream(url, read, events["events"][-1]["id"])
    found["live"] = live(url, read)
    found |= pages(url)
    found |= spark_pages(f"http://127.0.0.1:{config.spark.conf['spark.ui.port']}")
    found["processes"] = "\n".join(app.members().values())
    return found


def check_that_there_was_something_to_find(outputs: dict[str, str]) -> None:
    """Each kind of output is there, and covers the places where secrets are."""
    assert MASK in outputs["/api/config"] and MASK in outputs["config"]
    for where in outputs:
        if where.split()[0] in ("put", "post", "patch", "source"):
            assert outputs[where].startswith("400\n"), (where, outputs[where])
    for where in ("/connectors/us/config", "/connectors/eu", "spark environment"):
        assert "200" in outputs[where].splitlines()[0], outputs[where]
    assert "event: " in outputs["stream"] and "source us is UNREACHABLE" in outputs["log"]
    assert "${env:PLANTED}" in outputs["added africa"]
    kinds = {Path(where).parts[0] for where in outputs if where.endswith(".parquet")}
    assert kinds >= {"checkpoints", "connectors", "events", "history"}, kinds
    assert any(where.startswith("spark SQL/execution") for where in outputs)
    assert sum(where.endswith(".json") and "_delta_log" in where for where in outputs) > 4


def around(text: str) -> str:
    """The text around a secret that was found."""
    at = text.index(MARK)
    return repr(text[max(0, at - 120) : at + 40])
