"""Opens Java's key stores and trust stores (JKS, PKCS12, ...) by Java itself, in memory.

So whatever the Java clients can read, librdkafka can. A short Java process reads requests on stdin;
nothing secret is in a command line or a file. What was opened is kept by its content and password,
so the process runs again only for what has changed.
"""

import base64
import hashlib
import subprocess
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from aggregator.config.files import read_file
from aggregator.config.stores import Kind, Store
from aggregator.datapath.connector.build import SHORT_LIVED, connector_jar
from aggregator.datapath.jars import java_command
from aggregator.model.errors import ClusterError, JarsError

PROGRAM = "aggregator.connector.Stores"
JAVA_OPTIONS = ("-Xmx64m", *SHORT_LIVED)
SECONDS = 60
KEPT = 1000

_PARTS = {"type": "type", "content": "location", "store": "password", "key": "key"}
_HINTS = {
    "type": "one of JKS, PKCS12, PEM",
    "content": "check the file, {type} and {password}",
    "store": "give the password of the store, such as ${{file:PATH}}",
    "key": "give the password of the key; without one that of the store is taken",
}


class CredentialsError(ClusterError):
    """What a cluster wants to see of us cannot be had; `setting` is the Kafka setting."""

    def __init__(self, setting: str, reason: str, hint: str = "") -> None:
        self.setting, self.reason, self.hint = setting, reason, hint
        super().__init__(f"kafka.{setting}: {reason}" + (f" ({hint})" if hint else ""))


@dataclass(frozen=True, slots=True)
class Opened:
    """What was in a store, as PEM text, and until when it is valid."""

    certificates: str
    key: str = field(repr=False)
    until_ms: int
    subject: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a store cannot be opened, and the setting to mend: a part of it."""

    part: str
    reason: str


_lock = threading.Lock()
_opened: dict[str, Opened | Refusal] = {}


def opened(stores: Sequence[Store]) -> list[Opened]:
    """The contents of stores, in this order; CredentialsError for the first that cannot be had."""
    contents = [_content(store) for store in stores]
    requests = [
        _request(it.kind, it, content) for it, content in zip(stores, contents, strict=True)
    ]
    answers = ask(requests)
    found = []
    for store, request in zip(stores, requests, strict=True):
        answer = answers[request]
        if isinstance(answer, Refusal):
            hint = _HINTS[answer.part].format(
                type=store.setting("type"), password=store.setting("password")
            )
            setting = store.setting(_PARTS[answer.part])
            raise CredentialsError(setting, f"{store.location}: {answer.reason}", hint)
        found.append(answer)
    return found


def requests_of(stores: Sequence[Store]) -> list[str]:
    """What would be asked about these stores; those that cannot be read are left out."""
    found = []
    for store in stores:
        try:
            found.append(_request(store.kind, store, _content(store)))
        except CredentialsError:
            continue
    return found


def pem_request(kind: Kind, text: str) -> str:
    """What to ask about certificates that are PEM text already."""
    word = "chain" if kind == "key" else "roots"
    return " ".join((word, "-", _encoded(text.encode()), "-", "-"))


def ask(requests: Sequence[str]) -> Mapping[str, Opened | Refusal]:
    """The answer to each request; all that are not known yet are put to one Java process.

    Raises CredentialsError when there is no Java, or it does not answer.
    """
    keys = {request: hashlib.sha256(request.encode()).hexdigest() for request in requests}
    with _lock:
        wanted = [request for request, key in keys.items() if key not in _opened]
        if wanted:
            if len(_opened) > KEPT:
                _opened.clear()
            for request, answer in zip(wanted, _run(wanted), strict=True):
                _opened[keys[request]] = answer
        return {request: _opened[key] for request, key in keys.items()}


def _run(requests: Sequence[str]) -> list[Opened | Refusal]:
    store = "truststore" if requests[0].startswith(("trust", "roots")) else "keystore"
    setting = f"ssl.{store}.location"
    try:
        command = [java_command(), *JAVA_OPTIONS, "-cp", str(connector_jar()), PROGRAM]
        done = subprocess.run(
            command,
            input="".join(f"{request}\n" for request in requests),
            capture_output=True,
            encoding="ascii",
            errors="replace",
            timeout=SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        # Not chained: the error of a timeout holds what was sent.
        raise CredentialsError(setting, f"Java does not open it: {type(error).__name__}") from None
    except JarsError as error:
        raise CredentialsError(setting, f"Java is needed to open it: {error}") from error
    answers = done.stdout.splitlines()
    if done.returncode != 0 or len(answers) != len(requests):
        reason = f"Java ended with {done.returncode} instead of opening it"
        raise CredentialsError(setting, reason, "try `java -version`")
    return [_answer(line) for line in answers]


def _answer(line: str) -> Opened | Refusal:
    word, *fields = line.split(" ")
    if word == "ok":
        certificates, key, until, subject = map(_decoded, fields)
        return Opened(certificates, key, int(until), subject)
    return Refusal(fields[0], _decoded(fields[1]))


def _content(store: Store) -> bytes:
    try:
        return read_file(store.location)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no path"
        reason = f"cannot read {store.location}: {why}"
        raise CredentialsError(store.setting("location"), reason, "check the path") from error


def _request(kind: str, store: Store, content: bytes) -> str:
    secrets = (store.password, store.key_password)
    passwords = (_encoded(it.encode()) if it is not None else "-" for it in secrets)
    return " ".join((kind, _encoded(store.type.encode()), _encoded(content), *passwords))


def _encoded(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii") or "-"


def _decoded(field_: str) -> str:
    return "" if field_ == "-" else base64.b64decode(field_).decode("utf-8")
