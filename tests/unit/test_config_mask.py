"""No secret of a config is ever shown."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from aggregator.config import load_text
from aggregator.config.mask import MASK, hide_passwords, is_secret, mask_text, masked
from aggregator.config.render import masked_yaml

JAAS = (
    "org.apache.kafka.common.security.scram.ScramLoginModule required "
    'username="alice" password="hun\\"ter/2";'
)
KEY_LINE = "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0"
TEXT = """
hub:
  bootstrap_servers: "hub:1"
  kafka:
    security.protocol: SASL_SSL
    sasl.mechanism: SCRAM-SHA-256
    sasl.jaas.config: ${JAAS}
    ssl.keystore.key: ${file:key.pem}
    sasl.oauthbearer.token.endpoint.url: https://user:urlpass@login/token
sources:
  eu: {bootstrap_servers: "eu:1", topics: {include: x}, kafka: {ssl.key.password: ab}}
checkpoint:
  path: s3://bucket/state
  storage_options: {AWS_REGION: eu-1, AWS_SECRET_ACCESS_KEY: s3cr3t+/key}
"""
KEY = f"-----BEGIN PRIVATE KEY-----\n{KEY_LINE}\n-----END PRIVATE KEY-----\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "key.pem").write_text(KEY, encoding="utf-8")
    return tmp_path


def test_masked_hides_values_and_keeps_the_rest(folder: Path) -> None:
    config = load_text(TEXT, env={"JAAS": JAAS}, folder=folder)
    tree = masked(config)
    assert tree["hub"]["kafka"] == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.jaas.config": MASK,
        "ssl.keystore.key": MASK,
        "sasl.oauthbearer.token.endpoint.url": f"https://user:{MASK}@login/token",
    }
    assert tree["sources"]["eu"]["kafka"] == {"ssl.key.password": MASK}
    assert tree["checkpoint"]["storage_options"] == {
        "AWS_REGION": "eu-1",
        "AWS_SECRET_ACCESS_KEY": MASK,
    }
    assert tree["checkpoint"]["path"] == "s3://bucket/state"
    shown = masked_yaml(config) + json.dumps(tree)
    for secret in ("hun", KEY_LINE, "urlpass", "s3cr3t"):
        assert secret not in shown


@pytest.mark.parametrize(
    "quoted",
    [
        JAAS,
        f"Invalid login: {JAAS!r}",
        json.dumps({"sasl.jaas.config": JAAS}),
        'password is hun"ter/2',
        "hun%22ter%2F2 in a query",
        f"line {KEY_LINE} of a key",
        KEY,
        "https://x:hunger@host/ and urlpass",
        "AWS s3cr3t+/key, s3cr3t%2B%2Fkey",
        "other password=\"hunted\" clientSecret = 'hunting'",
    ],
)
def test_mask_text_finds_secrets_however_quoted(quoted: str, folder: Path) -> None:
    config = load_text(TEXT, env={"JAAS": JAAS}, folder=folder)
    shown = mask_text(quoted, config)
    assert MASK in shown
    for secret in ("hun", "ter/2", KEY_LINE, "urlpass", "s3cr3t"):
        assert secret not in shown


def test_the_password_of_a_user_info_is_masked_on_its_own_too() -> None:
    text = TEXT.replace("sasl.jaas.config: ${JAAS}", "basic.auth.user.info: sr-key:hunter2")
    text = text.replace("${file:key.pem}", "x").replace("SASL_SSL", "SSL")
    config = load_text(text, env={})
    assert "hunter2" not in masked_yaml(config)
    assert mask_text("401 for sr-key: hunter2", config) == f"401 for sr-key: {MASK}"


def test_a_short_secret_is_only_masked_as_a_word(folder: Path) -> None:
    config = load_text(TEXT, env={"JAAS": JAAS}, folder=folder)
    assert mask_text("ab: table of 5 tabs, 'ab'", config) == f"{MASK}: table of 5 tabs, '{MASK}'"


def test_text_without_secrets_stays(folder: Path) -> None:
    config = load_text(TEXT, env={"JAAS": JAAS}, folder=folder)
    text = "eu: timeout at kafka://eu:1, true or false, required alice, SCRAM-SHA-256, eu-1"
    assert mask_text(text, config) == text


def test_however_long_a_text_is_it_is_masked_at_once() -> None:
    """A caller may send two megabytes, and nothing else runs in Python meanwhile."""
    began = time.monotonic()
    for text in ("a" * 200_000, "a://" * 50_000, "a://b:" * 30_000, "a://b@" * 30_000):
        assert hide_passwords(text) == text
    long = "a" * 200_000
    assert hide_passwords(f"{long}://u:p@h") == f"{long}://u:{MASK}@h"
    assert time.monotonic() - began < 5


def test_a_password_is_masked_whatever_precedes_the_scheme() -> None:
    text = "1http://u:p@h jdbc:x://v:q@h"
    assert hide_passwords(text) == f"1http://u:{MASK}@h jdbc:x://v:{MASK}@h"


def test_a_login_line_of_another_form_is_masked_too(folder: Path) -> None:
    config = load_text(
        TEXT.replace("sasl.mechanism", "x.mechanism").replace("SASL_SSL", "SSL"),
        env={"JAAS": "my.Login needed password=hunt secret='hunk'"},
        folder=folder,
    )
    assert mask_text("got hunt and hunk", config) == f"got {MASK} and {MASK}"


@pytest.mark.parametrize(
    "name",
    [
        "ssl.key.password",
        "sasl.jaas.config",
        "ssl.keystore.key",
        "ssl.key.pem",
        "my.secret",
        "api_key",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "AZURE_STORAGE_ACCOUNT_KEY",
        "azure_storage_sas_key",
        "fs.s3a.access.key",
        "google_service_account_credentials",
        "sasl.oauthbearer.client.secret",
        "spark.hadoop.fs.azure.account.key.x.net",
        "basic.auth.user.info",
        "schema.registry.basic.auth.user.info",
        "confluent.license",
        "proxy.authorization.header",
        "ldap.bind.pwd",
    ],
)
def test_secret_names(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize(
    "name",
    [
        "partition_by",
        "ssl.keystore.location",
        "ssl.keystore.type",
        "key.serializer",
        "client.id",
        "sasl.oauthbearer.token.endpoint.url",
        "ssl.truststore.certificates",
        "bootstrap_servers",
        "ssl.keystore.certificate.chain",
        "spark.sql.shuffle.partitions",
        "partition.assignment.x",
        "basic.auth.credentials.source",
        "confluent.license.topic",
        "sasl.kerberos.service.name",
    ],
)
def test_harmless_names(name: str) -> None:
    assert not is_secret(name)
