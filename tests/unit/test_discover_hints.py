"""What to do about a login that is refused, by what librdkafka, OpenSSL or the broker says."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from aggregator.kafka.admin.client_errors import explain, not_trusted, with_reason
from aggregator.kafka.credentials import why_not_trusted
from aggregator.model.values import FailureKind

SSL, SASL = KafkaError._SSL, KafkaError._AUTHENTICATION
FAILED = "ssl://eu:9093/bootstrap: SSL handshake failed: error:0A000086:SSL routines::"


@pytest.mark.parametrize(
    ("code", "text", "hint"),
    [
        (SSL, f"{FAILED}certificate verify failed: x", "ssl.truststore.location"),
        (SSL, f"{FAILED}tlsv13 alert certificate required", "ssl.keystore.location"),
        (
            SSL,
            "eu:9093: Receive failed: error:0A000416:SSL routines::ssl/tls alert certificate"
            " unknown: SSL alert number 46",
            "has expired (aggregator check)",
        ),
        (
            SASL,
            "eu:9093: SASL authentication error: Authentication failed during authentication due"
            " to invalid credentials with SASL mechanism SCRAM-SHA-512",
            "sasl.jaas.config",
        ),
        (
            SASL,
            "SASL PLAIN mechanism handshake failed: Broker: Unsupported SASL mechanism: broker's"
            " supported mechanisms: SCRAM-SHA-512",
            "check sasl.mechanism of",
        ),
        (SASL, "Failed to acquire SASL OAUTHBEARER token: 401", "token.endpoint.url"),
    ],
)
def test_a_refusal_names_the_setting(code: int, text: str, hint: str) -> None:
    failure = explain("eu", "sources.eu", None, [KafkaError(code, text)], 1)
    assert failure.kind is FailureKind.REFUSED
    assert hint in failure.hint and "sources.eu.kafka" in failure.hint


@pytest.mark.parametrize(
    ("why", "hint"),
    [
        ("certificate has expired", "the broker's own certificate"),
        ("Hostname mismatch, certificate is not valid for 'eu'.", "identification.algorithm"),
        ("IP address mismatch, certificate is not valid for '1.2.3.4'.", "sources.eu.bootstrap"),
        ("unable to get local issuer certificate", "ssl.truststore.location"),
    ],
)
def test_a_certificate_that_is_not_trusted_says_why(why: str, hint: str) -> None:
    text = f"{FAILED}certificate verify failed: broker certificate could not be verified"
    failure = explain("eu", "sources.eu", None, [KafkaError(SSL, text)], 1)
    assert not_trusted(failure)
    explained = with_reason(failure, "sources.eu", why)
    assert (explained.kind, why in explained.reason, hint in explained.hint) == (
        FailureKind.REFUSED,
        True,
        True,
    )


def test_what_a_client_counts_is_left_out() -> None:
    text = (
        "eu:9093/1: Connect to ipv4#10.1.2.3:9093 failed: Connection refused "
        "(after 0ms in state CONNECT, 1 identical error(s) suppressed)"
    )
    failure = explain("eu", "sources.eu", None, [KafkaError(KafkaError._TRANSPORT, text)], 1)
    assert failure.reason == "connection refused 10.1.2.3:9093"


def test_nothing_is_said_of_a_broker_that_does_not_answer() -> None:
    assert why_not_trusted({"bootstrap.servers": "127.0.0.1:1"}) == ""
    assert why_not_trusted({"bootstrap.servers": "127.0.0.1:1", "ssl.ca.location": "/no"}) == ""
    assert why_not_trusted({}) == ""


def test_a_client_without_kerberos_says_how_to_get_one() -> None:
    text = "Failed to create admin client: No provider for SASL mechanism GSSAPI: recompile"
    error = KafkaError(KafkaError._INVALID_ARG, text)
    assert "built with Kerberos" in explain("eu", "sources.eu", error, (), 0).hint
