"""The key stores and trust stores in a cluster's settings, and their types.

Java reads all of them. librdkafka reads PEM; the others are opened for it, and stand in the
settings as PEM text from then on (`with_pem`). Pure: no file is looked at here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["key", "trust"]

PEM = "PEM"
NAMES: Mapping[Kind, str] = {"key": "keystore", "trust": "truststore"}


@dataclass(frozen=True, slots=True)
class Store:
    """A store in a file: its type, where it is, its password, and that of the key in it."""

    kind: Kind
    type: str
    location: str
    password: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)

    def setting(self, part: str) -> str:
        """The name of a setting of this store: `location`, `type`, `password`, or of its `key`."""
        return "ssl.key.password" if part == "key" else f"ssl.{NAMES[self.kind]}.{part}"


def store_of(settings: Mapping[str, str], kind: Kind) -> Store | None:
    """The store of this kind that is a file; None when there is none."""
    prefix = f"ssl.{NAMES[kind]}"
    location = settings.get(f"{prefix}.location")
    if not location:
        return None
    # Without a type Java reads JKS, and PKCS12 in its place.
    given = settings.get(f"{prefix}.type", "").strip().upper()
    return Store(
        kind,
        given or "JKS",
        location,
        settings.get(f"{prefix}.password"),
        settings.get("ssl.key.password") if kind == "key" else None,
    )


def uses_tls(settings: Mapping[str, str]) -> bool:
    """Whether the stores of a cluster are used at all."""
    return settings.get("security.protocol", "").strip().upper() in ("SSL", "SASL_SSL")


def java_stores(settings: Mapping[str, str]) -> list[Store]:
    """The stores that have to be opened for librdkafka."""
    found = (store_of(settings, kind) for kind in NAMES) if uses_tls(settings) else ()
    return [it for it in found if it is not None and it.type != PEM]


def with_pem(
    settings: Mapping[str, str], store: Store, certificates: str, key: str
) -> dict[str, str]:
    """The settings with what was in a store as text in place of the file."""
    prefix = f"ssl.{NAMES[store.kind]}"
    gone = {store.setting("location"), store.setting("password")}
    if store.kind == "key":
        own = {f"{prefix}.certificate.chain": certificates, f"{prefix}.key": key}
        gone.add("ssl.key.password")
    else:
        own = {f"{prefix}.certificates": certificates}
    kept = {name: value for name, value in settings.items() if name not in gone}
    return {**kept, f"{prefix}.type": PEM, **own}
