"""Kafka settings as the Java clients and librdkafka want them."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from aggregator.config.jaas import parse_jaas
from aggregator.config.kafka_settings import jvm_settings, librdkafka_settings
from aggregator.config.librdkafka import NUMBERS, SAME
from aggregator.config.schema import ClusterConfig, HubConfig, SourceConfig
from aggregator.config.stores import java_stores, with_pem
from aggregator.config.topics import TopicSelection
from aggregator.model.errors import ConfigError

# A self-signed certificate and its key, made for these tests and used nowhere else.
KEY = """-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgFYi3jKJQflyqjFj4
8MlQj90ELuXQl13MuO7Nzpg1+TKhRANCAAQAn19odNUtf0O0Q6AHk5UKgK5IHu7D
4sydS5udgr3/Oe9vIzBu+cCq/2Gil8u1AtFynQF06UiiQvW1FoI92Lvm
-----END PRIVATE KEY-----
"""
CERTIFICATE = """-----BEGIN CERTIFICATE-----
MIIBdDCCARugAwIBAgIURqSAtv3h0THIKPjmr9QPtmIZUSwwCgYIKoZIzj0EAwIw
DzENMAsGA1UEAwwEdGVzdDAgFw0yNjExMjEwOTQyNTBaGA8yMTI2MTAyODA5NDI1
MFowDzENMAsGA1UEAwwEdGVzdDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABACf
X2h01S1/Q7RDoAeTlQqArkge7sPizJ1Lm52Cvf85728jMG75wKr/YaKXy7UC0XKd
AXTpSKJC9bUWgj3Yu+ajUzBRMB0GA1UdDgQWBBTlI5N5aqWdkH7T1otizmnqhXjj
QTAfBgNVHSMEGDAWgBTlI5N5aqWdkH7T1otizmnqhXjjQTAPBgNVHRMBAf8EBTAD
AQH/MAoGCCqGSM49BAMCA0cAMEQCIBTyQ8KpI33P1m7/0PBWyD2D5D8+fZ1FXJcy
cnN/X4GKAiAxYLn+LNrYlDo7Jp8ZqpdAa7oZXF5wEJyDTvLLXiKg4w==
-----END CERTIFICATE-----
"""
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
TLS = {"security.protocol": "SSL"}


def cluster(**settings: str) -> ClusterConfig:
    return ClusterConfig(bootstrap_servers="127.0.0.1:1", kafka=settings)


def translated(settings: dict[str, str]) -> dict[str, str]:
    """The settings in librdkafka's words, after librdkafka itself has taken them."""
    found = librdkafka_settings(cluster(**settings))
    quiet = logging.getLogger("tests.quiet")
    quiet.setLevel(logging.CRITICAL)
    AdminClient({**found}, logger=quiet)
    assert found.pop("bootstrap.servers") == "127.0.0.1:1"
    return found


def refused(settings: dict[str, str]) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        librdkafka_settings(cluster(**settings))
    return [str(problem) for problem in caught.value.problems]


def test_consumers_read_committed_and_create_nothing() -> None:
    assert jvm_settings(cluster(), "consumer") == {
        "allow.auto.create.topics": "false",
        "bootstrap.servers": "127.0.0.1:1",
        "isolation.level": "read_committed",
        "receive.buffer.bytes": "-1",
    }


def test_admin_clients_have_none_of_our_settings() -> None:
    assert jvm_settings(cluster(), "admin") == {"bootstrap.servers": "127.0.0.1:1"}


def test_how_much_may_be_under_way_is_left_to_the_system_unless_a_user_says() -> None:
    hub = HubConfig(bootstrap_servers="h:1", kafka={"receive.buffer.bytes": "7"})
    assert jvm_settings(hub, "producer")["send.buffer.bytes"] == "-1"
    assert jvm_settings(hub, "consumer")["receive.buffer.bytes"] == "7"


def test_producers_are_safe_whatever_is_asked() -> None:
    hub = HubConfig(
        bootstrap_servers="h:1",
        kafka={"acks": "1", "linger.ms": "1", "batch.size": "2"},
        producer={"enable.idempotence": "false", "linger.ms": "9"},
    )
    found = jvm_settings(hub, "producer")
    assert (found["acks"], found["enable.idempotence"]) == ("all", "true")
    assert (found["linger.ms"], found["batch.size"]) == ("9", "2")
    assert found["compression.type"] == "lz4"
    assert int(found["buffer.memory"]) >= int(found["max.request.size"])


def test_the_nearer_map_wins_and_each_client_gets_its_own() -> None:
    source = SourceConfig(
        bootstrap_servers="s:1",
        topics=TopicSelection(include="x"),
        kafka={"client.rack": "a", "linger.ms": "3", "my.plugin": "x", "fetch.min.bytes": "1"},
        consumer={"fetch.min.bytes": "2"},
    )
    assert jvm_settings(source, "consumer") == {
        "allow.auto.create.topics": "false",
        "bootstrap.servers": "s:1",
        "client.rack": "a",
        "fetch.min.bytes": "2",
        "isolation.level": "read_committed",
        "my.plugin": "x",
        "receive.buffer.bytes": "-1",
    }
    assert jvm_settings(source, "admin") == {"bootstrap.servers": "s:1", "my.plugin": "x"}


def test_names_that_are_the_same() -> None:
    settings = {
        "client.id": "c",
        "client.rack": "r",
        "client.dns.lookup": "use_all_dns_ips",
        "metadata.recovery.strategy": "rebootstrap",
        "sasl.kerberos.kinit.cmd": "kinit",
        "sasl.kerberos.service.name": "kafka",
        "ssl.key.password": "p",
        "sasl.oauthbearer.token.endpoint.url": "http://127.0.0.1:1",
    }
    assert set(settings) == set(SAME)
    assert translated(settings) == settings


@pytest.mark.parametrize("value", ["1", "20000", "2147483647"])
def test_numbers_are_moved_into_the_range_that_is_taken(value: str) -> None:
    for name, (theirs, low, high) in NUMBERS.items():
        expected = str(min(max(int(value), low), high))
        assert translated({name: value})[theirs] == expected


@pytest.mark.parametrize(
    ("given", "first", "longest"),
    [
        ({"reconnect.backoff.ms": "20000"}, "20000", "20000"),
        ({"reconnect.backoff.ms": "20"}, "20", "1000"),
        ({"reconnect.backoff.max.ms": "1"}, "1", "1"),
        ({"reconnect.backoff.max.ms": "70"}, "50", "70"),
        ({"reconnect.backoff.ms": "9", "reconnect.backoff.max.ms": "7"}, "7", "7"),
    ],
)
def test_backoffs_are_in_order(given: dict[str, str], first: str, longest: str) -> None:
    assert translated(given) == {
        "reconnect.backoff.ms": first,
        "reconnect.backoff.max.ms": longest,
    }


def test_minus_one_is_the_default_of_the_system() -> None:
    assert translated({"send.buffer.bytes": "-1", "receive.buffer.bytes": "-1"}) == {}


def test_a_number_that_is_none() -> None:
    assert refused({"request.timeout.ms": "1s"}) == [
        "kafka.request.timeout.ms: '1s' is not a whole number"
    ]


def test_what_only_java_knows_is_left_out() -> None:
    settings = {
        "linger.ms": "5",
        "fetch.min.bytes": "1",
        "metric.reporters": "x",
        "ssl.protocol": "TLSv1.3",
        "sasl.login.callback.handler.class": "x",
        "my.plugin": "x",
    }
    assert translated(settings) == {}


@pytest.mark.parametrize(
    ("algorithm", "theirs"), [("", "none"), ("https", "https"), ("HTTPS", "https")]
)
def test_host_names_are_checked_as_in_java(algorithm: str, theirs: str) -> None:
    name = "ssl.endpoint.identification.algorithm"
    assert translated({**TLS, name: algorithm}) == {"security.protocol": "ssl", name: theirs}


def test_pem_text() -> None:
    found = translated(
        {
            **TLS,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": CERTIFICATE,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": CERTIFICATE,
            "ssl.keystore.key": KEY,
        }
    )
    assert found == {
        "security.protocol": "ssl",
        "ssl.ca.pem": CERTIFICATE,
        "ssl.certificate.pem": CERTIFICATE,
        "ssl.key.pem": KEY,
    }


def test_pem_text_in_one_line_gets_its_line_breaks() -> None:
    one_line = " ".join(CERTIFICATE.split("\n")) + " " + " ".join(CERTIFICATE.split("\n"))
    found = translated({**TLS, "ssl.truststore.certificates": one_line})
    assert found["ssl.ca.pem"] == CERTIFICATE * 2


def test_pem_files(tmp_path: Path) -> None:
    store = tmp_path / "store.pem"
    store.write_text(KEY + CERTIFICATE, encoding="ascii")
    trust = tmp_path / "ca.pem"
    trust.write_text(CERTIFICATE, encoding="ascii")
    found = translated(
        {
            **TLS,
            "ssl.truststore.type": "pem",
            "ssl.truststore.location": str(trust),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(store),
        }
    )
    assert found == {
        "security.protocol": "ssl",
        "ssl.ca.location": str(trust),
        "ssl.certificate.location": str(store),
        "ssl.key.location": str(store),
    }


def test_stores_of_java_are_for_the_credentials_to_open() -> None:
    stores = {"ssl.truststore.location": "/t.jks", "ssl.keystore.location": "/k.p12"}
    assert refused({**TLS, **stores, "ssl.keystore.password": "p"}) == [
        "kafka.ssl.keystore.location: was not opened",
        "kafka.ssl.truststore.location: was not opened",
    ]
    assert refused({**TLS, **stores})[0] == (
        "kafka.ssl.keystore.password: is required for a keystore of type JKS"
    )
    assert refused({**TLS, "ssl.truststore.type": "unseen", "ssl.truststore.location": "x"})[0] == (
        "kafka.ssl.truststore.type: is no type of a store (one of JKS, PKCS12, PEM, JCEKS)"
    )


def test_what_was_in_a_store_takes_its_place() -> None:
    settings = {
        **TLS,
        "ssl.keystore.location": "/k.jks",
        "ssl.keystore.password": "p",
        "ssl.key.password": "q",
        "ssl.truststore.type": "PKCS12",
        "ssl.truststore.location": "/t.p12",
        "ssl.truststore.password": "r",
    }
    key, trust = java_stores(settings)
    assert (key.type, key.password, key.key_password) == ("JKS", "p", "q")
    assert (trust.type, trust.password, trust.key_password) == ("PKCS12", "r", None)
    assert "q" not in repr(key).replace("Store", "")
    opened = with_pem(with_pem(settings, key, CERTIFICATE * 2, KEY), trust, CERTIFICATE, "")
    assert translated(opened) == {
        "security.protocol": "ssl",
        "ssl.ca.pem": CERTIFICATE,
        "ssl.certificate.pem": CERTIFICATE * 2,
        "ssl.key.pem": KEY,
    }


@pytest.mark.parametrize(
    ("mechanism", "module"),
    [("PLAIN", PLAIN), ("SCRAM-SHA-256", SCRAM), ("SCRAM-SHA-512", SCRAM)],
)
def test_passwords(mechanism: str, module: str) -> None:
    found = translated(
        {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": f'{module} username="a b" password="q\\"u;o=te\\\\";',
        }
    )
    assert found == {
        "security.protocol": "sasl_ssl",
        "sasl.mechanisms": mechanism,
        "sasl.username": "a b",
        "sasl.password": 'q"u;o=te\\',
    }


def test_tokens() -> None:
    found = translated(
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": "http://127.0.0.1:1/token",
            "sasl.jaas.config": f'{OAUTH} clientId="i" clientSecret="s" scope="k"'
            ' extension_cluster="lkc" extension_pool="p";',
        }
    )
    assert found == {
        "security.protocol": "sasl_plaintext",
        "sasl.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": "http://127.0.0.1:1/token",
        "sasl.oauthbearer.client.id": "i",
        "sasl.oauthbearer.client.secret": "s",
        "sasl.oauthbearer.scope": "k",
        "sasl.oauthbearer.extensions": "cluster=lkc,pool=p",
    }


def test_a_token_endpoint_with_a_ca_of_its_own() -> None:
    def of(options: str) -> dict[str, str]:
        return {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": "https://127.0.0.1:1/token",
            "sasl.jaas.config": f'{OAUTH} clientId="i" clientSecret="s" {options};',
        }

    pem = of('ssl.truststore.type="PEM" ssl.truststore.location="/ca.pem"')
    assert librdkafka_settings(cluster(**pem))["https.ca.location"] == "/ca.pem"
    assert "token endpoint is not PEM" in refused(of('ssl.truststore.location="/ca.jks"'))[0]


def test_java_needs_no_class_name_for_tokens() -> None:
    url = {"sasl.oauthbearer.token.endpoint.url": "https://127.0.0.1:1/token"}
    name = "sasl.login.callback.handler.class"
    tokens = cluster(**{"sasl.mechanism": "OAUTHBEARER", **url})
    assert jvm_settings(tokens, "consumer")[name] == (
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
    )
    own = cluster(**{"sasl.mechanism": "OAUTHBEARER", **url, name: "my.Handler"})
    assert jvm_settings(own, "consumer")[name] == "my.Handler"
    assert name not in jvm_settings(cluster(**{"sasl.mechanism": "PLAIN"}), "consumer")
    iam = jvm_settings(cluster(**{"sasl.mechanism": "AWS_MSK_IAM"}), "producer")
    assert iam["sasl.client.callback.handler.class"] == (
        "software.amazon.msk.auth.iam.IAMClientCallbackHandler"
    )


def test_kerberos() -> None:
    settings = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.kerberos.service.name": "kafka",
        "sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule required"
        ' useKeyTab=true keyTab="/k.tab" principal="me@REALM";',
    }
    # Whether librdkafka was built with Kerberos is its own matter, so no client is made here.
    assert librdkafka_settings(cluster(**settings)) == {
        "bootstrap.servers": "127.0.0.1:1",
        "security.protocol": "sasl_plaintext",
        "sasl.kerberos.keytab": "/k.tab",
        "sasl.kerberos.principal": "me@REALM",
        "sasl.kerberos.service.name": "kafka",
        "sasl.mechanisms": "GSSAPI",
    }


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (
            {"sasl.mechanism": "NTLM"},
            "sasl.mechanism: librdkafka has no mechanism NTLM"
            " (one of GSSAPI, PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, AWS_MSK_IAM)",
        ),
        (
            {"sasl.mechanism": "PLAIN"},
            "sasl.jaas.config: is required for SASL PLAIN"
            " (write sasl.jaas.config: ...LoginModule required ...;)",
        ),
        (
            {"sasl.mechanism": "PLAIN", "sasl.jaas.config": f'{PLAIN} username="u" password="p"'},
            "sasl.jaas.config: does not end with ';'"
            ' (write MODULE required username="..." password="...";)',
        ),
        (
            {"sasl.mechanism": "PLAIN", "sasl.jaas.config": "hunter2"},
            "sasl.jaas.config: does not begin with a login module and 'required'"
            ' (write MODULE required username="..." password="...";)',
        ),
        (
            {"sasl.mechanism": "PLAIN", "sasl.jaas.config": f'{PLAIN} username="u";'},
            'sasl.jaas.config: has no password="..."',
        ),
        (
            {
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.jaas.config": f'{OAUTH} clientId="i" clientSecret="s";',
            },
            "sasl.oauthbearer.token.endpoint.url: is required"
            " (librdkafka takes tokens from an OpenID Connect endpoint only)",
        ),
    ],
)
def test_logins_that_cannot_work(settings: dict[str, str], expected: str) -> None:
    assert refused({"security.protocol": "SASL_SSL", **settings}) == [f"kafka.{expected}"]


def test_a_protocol_that_does_not_exist_is_refused_and_not_shown() -> None:
    expected = (
        "kafka.security.protocol: is no protocol of Kafka "
        "(one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL)"
    )
    assert refused({"security.protocol": "unseen"}) == [expected]


def test_a_login_is_not_read_where_it_is_not_used() -> None:
    settings = {"security.protocol": "SSL", "sasl.mechanism": "PLAIN", "sasl.jaas.config": "x"}
    assert translated(settings) == {"security.protocol": "ssl"}


def test_login_lines() -> None:
    login = parse_jaas('a.b.Module REQUIRED\n x=1\n y=\'a \\\' b\' z="\\n" e.f-g="" ; ')
    assert login.module == "Module"
    assert login.options == {"x": "1", "y": "a ' b", "z": "\n", "e.f-g": ""}
    assert "secret" not in repr(parse_jaas('a.B required password="secret";'))
    with pytest.raises(ValueError, match="after 1 options"):
        parse_jaas('a.B required x="1" y;')
