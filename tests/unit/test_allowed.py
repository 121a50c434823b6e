"""What a source that comes over REST may refer to: nothing, but what the operator has named."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from aggregator.config import load_text
from aggregator.config.allowed import Allowed
from aggregator.config.kafka_names import READERS
from aggregator.features.connectors.connector_table import ConnectorTable, load_effective
from aggregator.model.errors import ConfigError
from aggregator.store.state_store import StateStore
from support.rest import SETS

GOOD: dict[str, Any] = {"bootstrap_servers": "us:1", "topics": {"include": "a"}}
KRB5 = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
CANARY = "canary-7f3a"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder that is allowed, beside what is not, and ways from the one to the other."""
    (tmp_path / "open" / "..data").mkdir(parents=True)
    (tmp_path / "open-not").mkdir()
    (tmp_path / "open" / "..data" / "password").write_text(f"{CANARY}-fine\n")
    (tmp_path / "open" / "password").symlink_to(Path("..data", "password"))
    (tmp_path / "open" / "keys.properties").write_text(f"a={CANARY}-fine\n")
    for secret in (tmp_path / "secret", tmp_path / "open-not" / "secret"):
        secret.write_text(f"{CANARY}\n")
    (tmp_path / "open" / "link").symlink_to(tmp_path / "secret")
    (tmp_path / "open" / "up").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "open" / "pipe")
    (tmp_path / "open" / "zero").symlink_to("/dev/zero")
    return tmp_path


def problems(place: Path, source: dict[str, Any], *sets: str) -> str:
    """What is wrong with a source that is added; "" when it is taken. No secret is shown."""
    allowed = (f"api.references.files=[{place / 'open'}]", "api.references.env=[FINE]")
    urls = "api.references.urls=[https://registry:8081/apis, 'http://tokens']"
    env = {"FINE": f"{CANARY}-fine", "HUB_PASSWORD": CANARY}
    try:
        load_text(
            "",
            [*SETS, *allowed, urls, *sets],
            env,
            folder=place,
            added={"us": {**GOOD, **source}},
        )
    except ConfigError as error:
        assert CANARY not in str(error)
        return str(error)
    return ""


@pytest.mark.parametrize(
    "text",
    [
        "${env:HUB_PASSWORD}",
        "${HUB_PASSWORD}",
        "${HUB_PASSWORD:-x}",
        "a${FINE}b${env:HUB_PASSWORD}c",
        "${env:fine}",
        "${env:NOT_THERE:-x}",
        "${file:secret}",
        "${file:@/secret}",
        "${file:open/../secret}",
        "${file:@/open/../secret}",
        "${file:@/open/link}",
        "${file:@/open/up/secret}",
        "${file:@/open-not/secret}",
        "${file:@/secret:a}",
        "${file:/proc/self/environ}",
        "${file:/dev/zero}",
        "${file:@/open/zero}",
        "${dir:@:secret}",
        "${dir:@/open/up:secret}",
        "${dir:@/open:link}",
        "$${${file:@/secret}}",
    ],
)
def test_a_reference_that_is_not_named_is_refused_and_nothing_looked_at(
    place: Path, text: str
) -> None:
    found = problems(place, {"title": text.replace("@", str(place))})
    assert "sources.us.title: " in found and "api.references" in found


@pytest.mark.parametrize(
    "text",
    [
        "${env:FINE}",
        "${FINE}",
        "${FINE:-x}",
        "${file:open/password}",
        "${file:@/open/..data/password}",
        "${file:@/open/keys.properties:a}",
        "${dir:@/open:password}",
        "$${file:@/secret}",
    ],
)
def test_what_is_named_may_be_referred_to(place: Path, text: str) -> None:
    assert problems(place, {"title": text.replace("@", str(place))}) == ""


def test_a_link_with_a_key_behind_it_is_followed_no_more_than_without(place: Path) -> None:
    assert "cannot read" in problems(place, {"title": f"${{file:{place}/open/link:a}}"})


def test_a_pipe_in_a_folder_that_is_allowed_is_not_waited_for(place: Path) -> None:
    found = problems(place, {"title": f"${{file:{place}/open/pipe}}"})
    assert "it is no regular file" in found


def test_by_default_nothing_is_allowed_and_the_config_file_is_free(place: Path) -> None:
    source = {**GOOD, "title": f"${{file:{place}/open/password}}"}
    with pytest.raises(ConfigError, match=r"api\.references\.files"):
        load_text("", SETS, {}, added={"us": source})
    own = ["sources.us.bootstrap_servers=us:1", "sources.us.topics.include=a"]
    config = load_text("", [*SETS, *own, f"sources.us.title={source['title']}"], {})
    assert config.sources["us"].title == f"{CANARY}-fine"


def settings(**named: str) -> dict[str, Any]:
    return {"kafka": {name.replace("__", "."): value for name, value in named.items()}}


REFUSED: dict[str, dict[str, Any]] = {
    "a truststore": settings(ssl__truststore__location="@/secret"),
    "a keystore of consumers": {"consumer": {"ssl.keystore.location": "@/open/link"}},
    "blanks that Java drops": settings(ssl__truststore__location="  @/secret"),
    "a way up": settings(ssl__truststore__location="@/open/../secret"),
    "a keytab": settings(sasl__jaas__config=f'{KRB5} keyTab="@/secret" principal="x";'),
    "a keytab in octal": settings(
        sasl__jaas__config=f'{KRB5} keyTab="@/open/\\056\\056/secret" principal="x";'
    ),
    "a keytab behind the end of a line": settings(
        sasl__jaas__config=f'{KRB5} principal="x\nkeyTab="@/secret";'
    ),
    "a keytab in a comment to one and not to the other": settings(
        sasl__jaas__config=f'{KRB5} a=/ keyTab="@/open/password" ;'
    ),
    "two logins": settings(
        sasl__jaas__config=f'{PLAIN} username="a" password="b"; {KRB5} keyTab="@/secret";'
    ),
    "the tickets of this process": settings(
        sasl__jaas__config=f'{KRB5} keyTab="@/open/password" useTicketCache=true;'
    ),
    "its default keytab": settings(sasl__jaas__config=f'{KRB5} principal="x";'),
    "its credentials at AWS": settings(
        sasl__jaas__config="software.amazon.msk.auth.iam.IAMLoginModule required;"
    ),
    "a login of Java's that reads a store": settings(
        sasl__jaas__config='com.sun.security.auth.module.KeyStoreLoginModule required a="b";'
    ),
    "a truststore of the token endpoint": settings(
        sasl__jaas__config=f'{OAUTH} clientId="a" ssl.truststore.location="@/secret";'
    ),
    "a class in a login": settings(
        sasl__jaas__config=f'{OAUTH} clientId="a" ssl.engine.factory.class="a.B";'
    ),
    "a token in a file": settings(sasl__oauthbearer__token__endpoint__url="file://@/open/password"),
    "a URL as Java also reads it": settings(
        sasl__oauthbearer__token__endpoint__url="url:file:@/secret"
    ),
    "another token endpoint": settings(
        sasl__oauthbearer__token__endpoint__url="http://169.254.169.254/latest"
    ),
    "another port": settings(sasl__oauthbearer__token__endpoint__url="http://tokens:81/"),
    "a user in front": settings(
        sasl__oauthbearer__token__endpoint__url="http://tokens@169.254.169.254/"
    ),
    "a longer name": settings(sasl__oauthbearer__token__endpoint__url="http://tokens.evil/"),
    "a registry": {"schemas": {"registry": "http://169.254.169.254"}},
    "a registry beside the path": {"schemas": {"registry": "https://registry:8081/apis2"}},
    "a registry above the path": {"schemas": {"registry": "https://registry:8081/apis/../x"}},
    "a CA": {"schemas": {"registry": "https://registry:8081/apis", "ca": "@/secret"}},
    "a program": settings(sasl__kerberos__kinit__cmd="touch /tmp/x"),
    "Java's own references": settings(config__providers="file"),
    "their class": settings(config__providers__file__class="org.apache.kafka.common.config.X"),
    "a class": settings(sasl__login__callback__handler__class="com.acme.Handler"),
    "one class of several": settings(metric__reporters="org.apache.kafka.a.B, com.acme.C"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_leads_out_by_itself_is_refused(place: Path, what: str) -> None:
    source = filled(REFUSED[what], str(place))
    assert "sources.us." in problems(place, source)


@pytest.mark.parametrize("what", REFUSED)
def test_the_config_file_may_say_all_of_it(place: Path, what: str) -> None:
    """As far as it did; what is no setting of anybody is refused there as well."""
    source = filled(REFUSED[what], str(place))
    written = {"hub": {"bootstrap_servers": "h:1"}, "sources": {"us": {**GOOD, **source}}}
    try:
        load_text(str(written), env={})
    except ConfigError as error:
        assert "added at run time" not in str(error) and "api.references" not in str(error)


TAKEN: dict[str, dict[str, Any]] = {
    "a truststore": settings(ssl__truststore__location="@/open/password"),
    "a file that is not there yet": settings(ssl__truststore__location="@/open/later"),
    "a keytab": settings(
        sasl__jaas__config=f'{KRB5} keyTab="@/open/password" principal="x";',
        sasl__mechanism="GSSAPI",
    ),
    "a login": settings(sasl__jaas__config=f'{PLAIN} username="a\\"b" password="${{FINE}}";'),
    "a token endpoint": settings(sasl__oauthbearer__token__endpoint__url="http://tokens:80/a/b"),
    "a registry": {
        "schemas": {"registry": "https://REGISTRY:8081/apis/ccompat/v7", "ca": "@/open/ca"}
    },
    "a class of Kafka's": settings(
        metric__reporters="org.apache.kafka.common.metrics.JmxReporter",
        metadata__recovery__strategy="rebootstrap",
    ),
}


@pytest.mark.parametrize("what", TAKEN)
def test_what_is_named_may_lead_there(place: Path, what: str) -> None:
    assert problems(place, filled(TAKEN[what], str(place))) == ""


def filled(source: Any, place: str) -> Any:
    if isinstance(source, dict):
        return {key: filled(value, place) for key, value in source.items()}
    return source.replace("@/", f"{place}/")


def test_what_the_config_file_names_itself_may_be_named_again(place: Path) -> None:
    path = str(place / "secret")
    sets = (
        f"hub.kafka.ssl.truststore.location={path}",
        "sources.eu.schemas.registry=https://other:1",
    )
    wanted = {
        **settings(ssl__truststore__location=path),
        "schemas": {"registry": "https://other:1"},
    }
    assert problems(place, wanted, *sets) == ""
    assert "api.references" in problems(place, wanted, sets[0])
    # It is a path there: the content of that file may not be shown.
    assert problems(place, {"title": f"${{file:{path}}}"}, *sets) != ""


def test_a_source_of_the_file_may_be_changed_and_keep_what_it_names(place: Path) -> None:
    path = str(place / "secret")
    text = f"""
hub: {{bootstrap_servers: "h:1"}}
sources:
  us:
    bootstrap_servers: us:1
    topics: {{include: a}}
    kafka: {{ssl.truststore.location: {path}}}
"""
    source = {**GOOD, **settings(ssl__truststore__location=path), "weight": "7"}
    assert load_text(text, env={}, added={"us": source}).sources["us"].weight == 7


def test_what_is_kept_is_held_to_it_at_each_start(tmp_path: Path) -> None:
    """The rule also holds for what an older version took; the error says how to continue."""
    state = tmp_path / "state"
    connector = {
        "src.kafka.bootstrap.servers": "us:1",
        "topics": "a",
        "src.kafka.ssl.key.password": "${env:KEY}",
    }
    ConnectorTable(StateStore(str(state))).put("us", connector, "REST from 127.0.0.1")
    sets = [*SETS, f"checkpoint.path={state}"]
    with pytest.raises(ConfigError) as refused:
        load_effective(None, sets, {"KEY": CANARY})
    (problem,) = refused.value.problems
    assert problem.path == "sources.us.kafka.ssl.key.password"
    assert problem.hint == (
        "add KEY to api.references.env, or write the source into the config file"
    )
    config = load_effective(None, [*sets, "api.references.env=[KEY]"], {"KEY": CANARY})
    assert config.sources["us"].kafka["ssl.key.password"] == CANARY


def test_every_setting_of_kafka_that_leads_somewhere_is_known_here() -> None:
    """A newer client may have new ones: they are looked at here when its names come in."""
    from aggregator.config.allowed import CLASSES, COMMANDS, URLS
    from aggregator.config.checks import REFUSED as NEVER
    from aggregator.config.files import LOCATIONS

    words = ("class", "url", "location", "file", "path", "cmd", "provider", "reporters", "strategy")
    found = {name for name in READERS if any(word in name for word in words)}
    found -= {it for it in found if it in (*URLS, *LOCATIONS) or it in NEVER}
    found -= {it for it in found if CLASSES.fullmatch(it) or COMMANDS.fullmatch(it)}
    harmless = ("metadata.recovery.strategy", "ssl.provider", "sasl.oauthbearer.header.urlencode")
    assert found == {*harmless}


def test_a_folder_that_is_called_alike_is_another_one(tmp_path: Path) -> None:
    allowed = Allowed(files=(tmp_path / "a",))
    assert allowed.place(tmp_path / "a" / "b") and allowed.place(tmp_path / "a")
    assert not allowed.place(tmp_path / "ab") and not allowed.place(tmp_path)
