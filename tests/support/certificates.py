"""Certificates of a CA of our own, in every kind of store, made by openssl and keytool."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from aggregator.datapath.jars import java_home

STORE_PASSWORD = "st0re-of-ours"
KEY_PASSWORD = "k3y-of-ours"
CA_CONFIG = """\
[ca]
default_ca = it
[it]
database = index.txt
new_certs_dir = .
rand_serial = yes
default_md = sha256
policy = any
unique_subject = no
[any]
commonName = supplied
[issuer]
basicConstraints = critical, CA:true
keyUsage = critical, keyCertSign
[broker]
subjectAltName = IP:127.0.0.1, DNS:localhost
[client]
basicConstraints = CA:false
"""
NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
LATER = "20401231235959Z"
LONG_AGO = ("20200101000000Z", "20200201000000Z")


@dataclass(frozen=True)
class Issued:
    """A key and its certificate with those above it, but for the root."""

    folder: Path
    name: str

    @property
    def key(self) -> Path:
        return self.folder / f"{self.name}.key"

    @property
    def chain(self) -> Path:
        return self.folder / f"{self.name}.pem"

    @property
    def pem(self) -> Path:
        """Key and chain in one file, as Java reads PEM."""
        target = self.folder / f"{self.name}.both.pem"
        target.write_text(self.key.read_text() + self.chain.read_text())
        return target

    def pkcs12(self) -> Path:
        """As a PKCS12 key store with the store's password."""
        target = self.folder / f"{self.name}.p12"
        words = ("pkcs12", "-export", "-inkey", self.key, "-in", self.chain, "-name", self.name)
        _openssl(self.folder, *words, "-out", target, "-passout", f"pass:{STORE_PASSWORD}")
        return target

    def jks(self) -> Path:
        """As a JKS key store, whose key has a password of its own."""
        target = self.folder / f"{self.name}.jks"
        target.unlink(missing_ok=True)
        _keytool(
            self.folder,
            "-importkeystore",
            "-srckeystore",
            self.pkcs12(),
            "-srcstorepass",
            STORE_PASSWORD,
            "-destkeystore",
            target,
            "-deststoretype",
            "JKS",
            "-deststorepass",
            STORE_PASSWORD,
            "-srcalias",
            self.name,
            "-srckeypass",
            STORE_PASSWORD,
            "-destkeypass",
            KEY_PASSWORD,
        )
        return target


class Authority:
    """A root, and below it the CA that issues: so every chain has two certificates."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        (folder / "ca.cnf").write_text(CA_CONFIG)
        (folder / "index.txt").write_text("")
        self.root = self._self_signed("root")
        self._sign("issuing", "root", "issuer", LONG_AGO[0], LATER)

    def issue(self, name: str, kind: str = "client", *, expired: bool = False) -> Issued:
        """A certificate for `CN=name`; for a `broker` with its address."""
        begins, ends = LONG_AGO if expired else (LONG_AGO[0], LATER)
        issued = self._sign(name, "issuing", kind, begins, ends)
        issuing = (self.folder / "issuing.pem").read_text()
        issued.chain.write_text(issued.chain.read_text() + issuing)
        return issued

    def trust_pkcs12(self) -> Path:
        """The root as a PKCS12 trust store, as keytool writes it."""
        return self._trust("trust.p12", "PKCS12")

    def trust_jks(self) -> Path:
        """The root as a JKS trust store."""
        return self._trust("trust.jks", "JKS")

    def _trust(self, name: str, kind: str) -> Path:
        target = self.folder / name
        target.unlink(missing_ok=True)
        words = ("-importcert", "-noprompt", "-alias", "root", "-file", self.root)
        store = ("-keystore", target, "-storetype", kind, "-storepass", STORE_PASSWORD)
        _keytool(self.folder, *words, *store)
        return target

    def _self_signed(self, name: str) -> Path:
        target = self.folder / f"{name}.pem"
        _openssl(
            self.folder,
            "req",
            "-x509",
            *NEW_KEY,
            "-keyout",
            f"{name}.key",
            "-out",
            target,
            "-subj",
            f"/CN={name}",
            "-days",
            "4000",
        )
        return target

    def _sign(self, name: str, by: str, kind: str, begins: str, ends: str) -> Issued:
        _openssl(
            self.folder,
            "req",
            *NEW_KEY,
            "-keyout",
            f"{name}.key",
            "-out",
            f"{name}.csr",
            "-subj",
            f"/CN={name}",
        )
        _openssl(
            self.folder,
            "ca",
            "-batch",
            "-notext",
            "-config",
            "ca.cnf",
            "-in",
            f"{name}.csr",
            "-cert",
            f"{by}.pem",
            "-keyfile",
            f"{by}.key",
            "-out",
            f"{name}.pem",
            "-extensions",
            kind,
            "-startdate",
            begins,
            "-enddate",
            ends,
        )
        return Issued(self.folder, name)


def _openssl(folder: Path, *words: object) -> None:
    _run(folder, str(shutil.which("openssl")), *words)


def _keytool(folder: Path, *words: object) -> None:
    _run(folder, str(java_home() / "bin" / "keytool"), *words)


def _run(folder: Path, *command: object) -> None:
    done = subprocess.run(
        [str(word) for word in command], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, (command[1], done.stdout, done.stderr)
