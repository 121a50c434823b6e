"""What librdkafka needs to log in: Java's stores, tokens of AWS, and who we are by them."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from aggregator.config.schema import ClusterConfig
from aggregator.kafka.credentials import CredentialsError, certificates, client_settings, principal
from aggregator.kafka.credentials.rendered_settings import SIGNER, msk_tokens
from aggregator.model.errors import JarsError
from support.certificates import KEY_PASSWORD, STORE_PASSWORD, Authority, Issued

IAM = "software.amazon.msk.auth.iam.IAMLoginModule required"
MSK = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "AWS_MSK_IAM",
    "sasl.jaas.config": f"{IAM};",
}
BROKERS = "b-1.it.x1.c2.kafka.eu-central-1.amazonaws.com:9098"


@pytest.fixture(scope="module")
def ca(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def issued(ca: Authority) -> Issued:
    return ca.issue("me")


def cluster(servers: str = "127.0.0.1:1", /, **settings: str) -> ClusterConfig:
    return ClusterConfig(bootstrap_servers=servers, kafka=settings)


def keystore(location: Path, password: str = STORE_PASSWORD, **more: str) -> dict[str, str]:
    own = {"ssl.keystore.location": str(location), "ssl.keystore.password": password}
    return {"security.protocol": "SSL", **own, **more}


@pytest.mark.slow
def test_each_kind_of_key_store_gives_its_key_and_its_whole_chain(issued: Issued) -> None:
    jks = client_settings(cluster(**keystore(issued.jks(), **{"ssl.key.password": KEY_PASSWORD})))
    p12 = client_settings(cluster(**keystore(issued.pkcs12(), **{"ssl.keystore.type": "PKCS12"})))
    # As in Java, which takes the one for the other.
    untold = client_settings(cluster(**keystore(issued.pkcs12())))
    assert jks == p12 == untold
    assert jks["ssl.certificate.pem"] == issued.chain.read_text()
    assert jks["ssl.certificate.pem"].count("BEGIN CERTIFICATE") == 2
    assert jks["ssl.key.pem"].split() == issued.key.read_text().split()
    assert set(jks) == {
        *("bootstrap.servers", "security.protocol", "ssl.certificate.pem", "ssl.key.pem")
    }


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
def test_each_kind_of_trust_store_gives_its_certificates(ca: Authority, kind: str) -> None:
    store = ca.trust_jks() if kind == "JKS" else ca.trust_pkcs12()
    settings = {
        "security.protocol": "SSL",
        "ssl.truststore.type": kind,
        "ssl.truststore.location": str(store),
        "ssl.truststore.password": STORE_PASSWORD,
    }
    assert client_settings(cluster(**settings))["ssl.ca.pem"] == ca.root.read_text()


def test_a_store_is_not_looked_at_where_there_is_no_tls() -> None:
    found = client_settings(
        cluster(**keystore(Path("/nowhere"), **{"security.protocol": "PLAINTEXT"}))
    )
    assert set(found) == {"bootstrap.servers", "security.protocol"}


@pytest.mark.slow
def test_a_store_that_cannot_be_opened_names_the_setting_and_no_secret(
    issued: Issued, tmp_path: Path
) -> None:
    def error(settings: dict[str, str]) -> str:
        with pytest.raises(CredentialsError) as caught:
            client_settings(cluster(**settings))
        return str(caught.value)

    jks = issued.jks()
    (tmp_path / "none.jks").write_text("s3cret-text")
    wrong = error(keystore(jks, "n0t-it"))
    assert wrong.startswith(f"kafka.ssl.keystore.password: {jks}: the password is wrong")
    assert "kafka.ssl.key.password" in error(keystore(jks, **{"ssl.key.password": "n0t-it"}))
    assert "No such file" in error(keystore(tmp_path / "gone"))
    assert "it is no store of type JKS" in error(keystore(tmp_path / "none.jks"))
    assert "n0t-it" not in wrong and "s3cret" not in error(keystore(tmp_path / "none.jks"))


def test_without_java_a_store_cannot_be_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_java() -> str:
        raise JarsError("no Java 17 or newer found")

    monkeypatch.setattr("aggregator.kafka.credentials.key_stores.java_command", no_java)
    (tmp_path / "new").write_text("never opened")
    with pytest.raises(CredentialsError, match="Java is needed to open it: no Java 17") as caught:
        client_settings(cluster(**keystore(tmp_path / "new")))
    assert caught.value.setting == "ssl.keystore.location"


@pytest.mark.slow
def test_a_store_is_read_again_when_it_holds_something_else(ca: Authority, tmp_path: Path) -> None:
    store = tmp_path / "store.p12"
    subjects = []
    for name in ("first", "second"):
        ca.issue(name).pkcs12().replace(store)
        (shown,) = certificates(keystore(store))
        subjects.append(shown.subject)
    assert subjects == ["CN=first", "CN=second"]


@pytest.mark.slow
def test_certificates_are_shown_with_their_ends(ca: Authority) -> None:
    old = ca.issue("old", expired=True)
    settings = {
        "security.protocol": "SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": old.chain.read_text().replace("\n", " "),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(ca.root),
    }
    own, trusted = certificates(settings)
    assert (own.subject, own.until_ms) == ("CN=old", 1_580_515_200_000)
    assert (trusted.subject, trusted.until_ms > own.until_ms) == ("CN=root", True)
    assert principal(settings, [own, trusted]) == "User:CN=old"
    assert certificates({**settings, "security.protocol": "PLAINTEXT"}) == []


@pytest.mark.parametrize(
    ("mechanism", "options", "expected"),
    [
        ("PLAIN", 'username="me" password="x"', "User:me"),
        ("SCRAM-SHA-512", 'username="me" password="x"', "User:me"),
        ("GSSAPI", 'principal="me/host.example@REALM"', "User:me"),
        ("OAUTHBEARER", 'clientId="me"', ""),
        ("AWS_MSK_IAM", "", ""),
    ],
)
def test_who_we_are(mechanism: str, options: str, expected: str) -> None:
    settings = {"security.protocol": "SASL_SSL", "sasl.mechanism": mechanism}
    settings["sasl.jaas.config"] = f"a.B required {options};"
    assert principal(settings, ()) == expected
    assert principal({}, ()) == "User:ANONYMOUS"


def test_msk_without_its_library_names_the_extra() -> None:
    with pytest.raises(CredentialsError) as caught:
        client_settings(cluster(BROKERS, **MSK))
    assert str(caught.value) == (
        "kafka.sasl.mechanism: AWS_MSK_IAM needs a library that is not installed"
        " (pip install 'kafka-aggregator[msk]')"
    )


@pytest.mark.parametrize(
    ("options", "servers", "asked"),
    [
        ({}, BROKERS, ("generate_auth_token", "eu-central-1")),
        (
            {"awsProfileName": "p"},
            "boot-x.c1.kafka-serverless.us-east-1.amazonaws.com:9098",
            ("generate_auth_token_from_profile", "us-east-1", "p"),
        ),
        (
            {"awsRoleArn": "arn", "awsRoleSessionName": "s"},
            BROKERS,
            ("generate_auth_token_from_role_arn", "eu-central-1", "arn", "s"),
        ),
        ({}, "my.name:9098", ("generate_auth_token", "ap-south-1")),
    ],
)
def test_msk_asks_for_tokens_as_the_login_line_says(
    options: dict[str, str],
    servers: str,
    asked: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[tuple[str, ...]] = []

    def signer(name: str) -> object:
        def sign(*words: str) -> tuple[str, int]:
            calls.append((name, *words))
            return "t0ken", 1_700_000_000_500

        return sign

    names = ("", "_from_profile", "_from_role_arn")
    made = {f"generate_auth_token{it}": signer(f"generate_auth_token{it}") for it in names}
    module = ModuleType(SIGNER)
    module.__dict__["MSKAuthTokenProvider"] = SimpleNamespace(**made)
    monkeypatch.setitem(sys.modules, SIGNER, module)
    monkeypatch.setenv("AWS_REGION", "ap-south-1")
    assert msk_tokens(servers, options)(None) == ("t0ken", 1_700_000_000.5)
    assert calls == [asked]
    found = client_settings(cluster(servers, **MSK))
    assert (found["sasl.mechanisms"], callable(found["oauth_cb"])) == ("OAUTHBEARER", True)
    monkeypatch.delenv("AWS_REGION")
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    with pytest.raises(CredentialsError, match="set AWS_REGION"):
        msk_tokens("my.name:9098", {})
